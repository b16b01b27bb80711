"""Our connection to Telegram: a `Bot` of python-telegram-bot, a long poll of our own or a webhook, sends with entities.

One process polls for one bot, or keeps its webhook set, by a lease on the bus. The token never appears in a message
of ours; the HTTP client, which would log it with every address, is silenced.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from telegram import Bot
from telegram.error import Conflict, InvalidToken, TelegramError
from telegram.request import HTTPXRequest
from telegram.warnings import PTBUserWarning

from channels.adapter import CONNECTED, AdapterParts, Budget, Cadence, Door, Nameable, OutgoingFile, QueueFull
from channels.backoff import Backoff
from channels.calls import Call, CallAnswer, come_again
from channels.errands import Errands
from channels.leases import while_holding
from channels.proxies import goes_direct
from channels.telegram import limits
from channels.telegram.address import parse_target, relocated
from channels.telegram.answering import Presses
from channels.telegram.drafts import TelegramDrafts
from channels.telegram.errors import REJECTED, delivery_error, fetch_error, wait_s
from channels.telegram.files import TelegramFiles
from channels.telegram.menus import menus_for, publish
from channels.telegram.naming import name_topic
from channels.telegram.normalize import TelegramIdentity
from channels.telegram.polling import PATIENCE, Patience, Poller
from channels.telegram.render import TelegramChunk, TelegramFile, TelegramPart, render, under
from channels.telegram.sending import TelegramSender
from channels.telegram.updates import Updates
from channels.telegram.webhook import Webhook
from gateway.config import Settings, hook_url, table_of
from gateway.config.channels import SOCKS_SCHEMES
from gateway.contracts.errors import BusUnavailable, ConfigError, CredentialsRejected
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import Choice, CleanText
from gateway.contracts.ports import Clock, DeliveryBus, FetchedFile, IntakeBus, PlaceBus

log = logging.getLogger(__name__)


class TelegramAdapter:
    """One bot. `ChannelAdapter`, `SupportsCalls`, `SupportsFiles`, `SupportsPlaceholders`, `SupportsChoices`,
    `SupportsSilence`, `SupportsMoves`, `SupportsDeletion`, `SupportsWithdrawal`, `SupportsDownloads`, `SupportsMenus`,
    `SupportsStreaming`, `SupportsTyping`."""

    typing_period_s = limits.TYPING_PERIOD_S
    call_timeout_s = limits.CALL_ANSWERED_WITHIN_S

    def __init__(
        self,
        *,
        token: str,
        api_base: str,
        positions: IntakeBus,
        leases: DeliveryBus,
        places: PlaceBus,
        clock: Clock,
        holder: str,
        name: str = "telegram",
        hook_url: str = "",
        proxy: str = "",
        local_files: Path | None = None,
        patience: Patience = PATIENCE,
        admins: Sequence[int] = (),
        bots: Sequence[str] = (),
    ) -> None:
        """`api_base` is the Bot API's address without `/bot`; `holder` names this process in the lease. With `hook_url`
        Telegram calls us there, else we poll. `admins` are users with commands of their own; `local_files` is where
        a Bot API server of ours keeps what people sent; `bots` are other bots that are heard."""
        _silence_the_sdk()
        self.name = name
        self._calls = _http(limits.CONNECTIONS_MAX, api_base, proxy)
        self._polls = _http(1, api_base, proxy)
        self._bot = Bot(
            token,
            base_url=f"{api_base}/bot",
            base_file_url=f"{api_base}/file/bot",
            request=self._calls,
            get_updates_request=self._polls,
        )
        self._bot_id = token.partition(":")[0]
        self._sender = TelegramSender(self._bot)
        self._drafts = TelegramDrafts(self._bot)
        self._files = TelegramFiles(
            self._bot, files_base=f"{api_base}/file/bot{token}", folder=local_files, proxy=proxy
        )
        self.account = f"telegram:{self._bot_id}"
        self._webhook = Webhook(self._bot, token, hook_url, positions, self.account, clock) if hook_url else None
        self._positions = positions
        self._places = places
        self._leases = leases
        self._clock = clock
        self._holder = holder
        self._patience = patience
        self._admins = tuple(admins)
        self._bots = frozenset(bots)
        self._errands = Errands(self.name)
        self._ready = asyncio.Event()
        self.state = "connecting"

    async def run(self, door: Door) -> None:
        """Poll, or be called, until cancelled. Raises `CredentialsRejected`."""
        await self._polls.initialize()
        await self._calls.initialize()
        try:
            if self._webhook is None:
                await self._while_holding(lambda: self._keep_polling(door))
            else:
                await self._be_called(self._webhook, door)
        finally:
            self._ready.clear()
            await self._errands.end()
            await self._polls.shutdown()
            await self._calls.shutdown()

    async def until_ready(self) -> None:
        await self._ready.wait()

    @property
    def is_called(self) -> bool:
        return self._webhook is not None

    async def called(self, call: Call) -> CallAnswer:
        return come_again() if self._webhook is None else await self._webhook.called(call)

    def chunks(self, text: CleanText) -> Sequence[TelegramChunk]:
        return render(text)

    def file_chunk(self, file: OutgoingFile) -> TelegramFile:
        return TelegramFile(file.name, file.content, file.caption)

    def marked(self, chunk: TelegramPart, mark: CleanText) -> TelegramPart:
        return under(mark, chunk)

    def offering(self, chunk: TelegramChunk, choices: Sequence[Choice]) -> TelegramChunk:
        return replace(chunk, choices=tuple(choices))

    def silent(self, chunk: TelegramChunk) -> TelegramChunk:
        return replace(chunk, is_silent=True)

    def budgets(self, address: ReplyAddress) -> Sequence[Budget]:
        chat_id = parse_target(address.target).chat_id
        chat = Budget(f"chat:{chat_id}", limits.CHAT_PER_S, limits.CHAT_BURST)
        group = Budget(f"group:{chat_id}", limits.GROUP_PER_S, limits.GROUP_BURST)
        bot = Budget("bot", limits.BOT_PER_S, limits.BOT_BURST)
        return (chat, group, bot) if chat_id < 0 else (chat, bot)

    async def send(self, address: ReplyAddress, chunk: TelegramPart, *, send_id: str, plain: bool) -> tuple[str, ...]:
        target = parse_target(address.target)
        with self._calling(address):
            if isinstance(chunk, TelegramFile):
                return (await self._sender.send_file(target, chunk),)
            return (await self._sender.send(target, chunk, plain=plain),)

    def nameable(self, address: ReplyAddress) -> Nameable | None:
        target = parse_target(address.target)
        if target.message_thread_id is None:
            return None
        names = Budget(f"names:{target.lane}", limits.TOPIC_NAMES_PER_S, limits.TOPIC_NAMES_BURST)
        return Nameable(target.lane, is_first=target.is_unnamed, budgets=(names,))

    async def lacks_name(self, address: ReplyAddress, title: CleanText) -> bool:
        return True  # nobody can ask for the name of a topic; the same one again changes nothing

    async def name_place(self, address: ReplyAddress, title: CleanText) -> None:
        with self._calling(address):
            await name_topic(self._bot, parse_target(address.target), title)

    def place(self, address: ReplyAddress) -> str:
        return f"{self.account}:{parse_target(address.target).chat_id}"

    async def put_placeholder(self, address: ReplyAddress) -> str:
        with self._calling(address):
            return await self._sender.put_placeholder(parse_target(address.target))

    async def complete(self, address: ReplyAddress, chunk: TelegramPart, *, message_id: str, plain: bool) -> bool:
        target = parse_target(address.target)
        with self._calling(address):
            if isinstance(chunk, TelegramFile):
                return await self._sender.complete_with_file(target, chunk, message_id=message_id)
            return await self._sender.complete(target, chunk, message_id=message_id, plain=plain)

    async def amend(self, address: ReplyAddress, chunk: TelegramChunk, *, message_id: str, plain: bool) -> bool:
        return await self.complete(address, chunk, message_id=message_id, plain=plain)

    async def delete_inbound(self, address: ReplyAddress, *, message_id: str) -> bool:
        with self._calling(address):
            return await self._sender.delete(parse_target(address.target), message_id=message_id)

    async def withdraw(self, address: ReplyAddress, *, message_id: str) -> bool:
        return await self.delete_inbound(address, message_id=message_id)

    def cadence(self, address: ReplyAddress) -> Cadence:
        if self.is_draft(address):
            return limits.DRAFT_CADENCE
        return limits.GROUP_CADENCE if parse_target(address.target).chat_id < 0 else limits.EDIT_CADENCE

    def is_draft(self, address: ReplyAddress) -> bool:
        return self._drafts.are_for(parse_target(address.target))

    async def begin_stream(self, address: ReplyAddress, chunk: TelegramChunk, *, send_id: str) -> str:
        if self.is_draft(address):
            await self._show_draft(address, chunk, send_id=send_id)
            return ""
        with self._calling(address):
            return await self._sender.begin(parse_target(address.target), chunk)

    async def go_on(self, address: ReplyAddress, chunk: TelegramChunk, *, message_id: str, send_id: str) -> bool:
        if message_id:
            return await self.complete(address, chunk, message_id=message_id, plain=False)
        await self._show_draft(address, chunk, send_id=send_id)
        return True

    async def end_stream(self, address: ReplyAddress, *, message_id: str) -> None:
        """A message that is edited is one like any other all the time."""

    async def _show_draft(self, address: ReplyAddress, chunk: TelegramChunk, *, send_id: str) -> None:
        with self._calling(address):
            await self._drafts.show(parse_target(address.target), chunk, send_id=send_id)

    async def find_lost(
        self, address: ReplyAddress, chunk: TelegramPart, *, after: str, known: frozenset[str]
    ) -> str | None:
        target = parse_target(address.target)
        answered = target.answered_message_id or target.reply_to_message_id
        if answered is None:
            return None
        with self._calling(address):
            return await self._sender.find_lost(target, chunk, after=max(answered, int(after or 0)), known=known)

    def chat_of(self, address: ReplyAddress) -> str:
        """Empty for a private chat, which never moves."""
        chat_id = parse_target(address.target).chat_id
        return str(chat_id) if chat_id < 0 else ""

    def relocated(self, address: ReplyAddress, chat: str) -> ReplyAddress:
        return relocated(address, int(chat))

    async def fetch(self, reference: str, *, bytes_max: int) -> FetchedFile:
        try:
            return await self._files.fetch(reference, bytes_max=bytes_max)
        except TelegramError as error:
            raise fetch_error(error) from None

    async def show_typing(self, address: ReplyAddress, status: str) -> None:
        if not status:
            return
        with self._calling(address):
            await self._sender.show_typing(parse_target(address.target))

    async def publish_menu(self) -> None:
        with self._calling(ReplyAddress(self.name, "", "")):
            await publish(self._bot, menus_for(self._admins))

    @contextlib.contextmanager
    def _calling(self, address: ReplyAddress) -> Iterator[None]:
        """Gives the failure of a call its place in our tree."""
        try:
            yield
        except TelegramError as error:
            raise delivery_error(error, lambda chat_id: relocated(address, chat_id)) from error

    def _tell(self, state: str) -> None:
        self.state = state

    async def _while_holding(self, work: Callable[[], Awaitable[None]]) -> None:
        """What one process does for the bot: poll, or keep the webhook set. So neither undoes the other."""
        await while_holding(
            self._leases,
            f"poller:telegram:{self._bot_id}",
            self._holder,
            work,
            waiting=self._tell,
            ttl_s=self._patience.lease_ttl_s,
        )

    async def _be_called(self, webhook: Webhook, door: Door) -> None:
        """Whoever has the lease: every process takes calls."""
        updates = await self._get_to_know()
        with webhook.open(updates, door):
            self._ready.set()
            await self._while_holding(lambda: self._keep_webhook(webhook))

    async def _get_to_know(self) -> Updates:
        backoff = Backoff(limits.POLL_RETRY_FIRST_S, limits.POLL_RETRY_CAP_S)
        while True:
            try:
                return await self._identify()
            except TelegramError as error:
                self.state = f"Telegram does not answer ({type(error).__name__})"
                log.warning("%s: %s", self.name, self.state)
                await asyncio.sleep(wait_s(error, backoff))
            except BusUnavailable as error:
                self.state = "waiting for the bus"
                log.warning("%s: nobody knows yet that this bot is ours: %s", self.name, error)
                await asyncio.sleep(backoff.next_s())

    async def _keep_webhook(self, webhook: Webhook) -> None:
        while True:
            try:
                await webhook.keep(self._tell)
            except InvalidToken:
                await self._get_to_know()  # a proxy's 404 looks like this too; getMe decides

    async def _keep_polling(self, door: Door) -> None:
        try:
            await self._poll_on(door)
        finally:
            self._ready.clear()

    async def _poll_on(self, door: Door) -> None:
        backoff = Backoff(limits.POLL_RETRY_FIRST_S, limits.POLL_RETRY_CAP_S)
        quarrel = Backoff(limits.CONFLICT_FIRST_S, limits.CONFLICT_CAP_S)
        poller: Poller | None = None
        while True:
            try:
                poller = poller or await self._connect()
                # After any trouble a poll that does not wait shows at once that all is well again.
                await poller.next_batch(door, wait_s=self._patience.poll_s if self.state == CONNECTED else 0)
                self.state = CONNECTED
                backoff.reset()
                quarrel.reset()
            except InvalidToken:
                poller = None  # a proxy's 404 looks like this too; getMe decides
                await asyncio.sleep(backoff.next_s())
            except Conflict:
                self.state = "another process polls with this bot token, or a webhook is set"
                poller = None
                await asyncio.sleep(quarrel.next_s())
            except (TelegramError, TimeoutError) as error:
                self.state = f"Telegram does not answer ({type(error).__name__})"
                log.warning("%s: %s", self.name, self.state)
                await asyncio.sleep(wait_s(error, backoff))
            except BusUnavailable as error:
                self.state = "the queue is full" if isinstance(error, QueueFull) else "waiting for the bus"
                log.warning("%s: updates stay with Telegram: %s", self.name, error)
                await asyncio.sleep(backoff.next_s())

    async def _connect(self) -> Poller:
        updates = await self._identify()
        await self._remove_webhook()
        self._ready.set()
        return Poller(
            self._bot, updates, self._positions, self.account, self._clock, silence_s=self._patience.silence_s
        )

    async def _identify(self) -> Updates:
        try:
            user = await self._bot.get_me()
        except InvalidToken:
            raise CredentialsRejected(f"{table_of(self.name)}.token: {REJECTED}") from None
        if not user.can_read_all_group_messages:
            log.warning(
                "%s: privacy mode is on, so groups show the bot only commands and replies; switch it off with "
                "/setprivacy at @BotFather and add the bot to its groups again",
                self.name,
            )
        log.info("%s: connected as @%s", self.name, user.username)
        await self._places.introduce("telegram", [str(user.id)])
        me = TelegramIdentity(user.id, user.username or "", channel=self.name, bots=self._bots)
        return Updates(me, Presses(self._bot, me, self._errands), self._places)

    async def _remove_webhook(self) -> None:
        """A webhook that somebody once set would end every poll with 409."""
        if (await self._bot.get_webhook_info()).url:
            log.warning(
                "%s: a webhook was set for this bot; it is removed because %s.mode is polling",
                self.name,
                table_of(self.name),
            )
            await self._bot.delete_webhook(drop_pending_updates=False)


def _http(connections_max: int, api_base: str, proxy: str) -> HTTPXRequest:
    return HTTPXRequest(
        connection_pool_size=connections_max,
        read_timeout=limits.CALL_TIMEOUT_S,
        write_timeout=limits.CALL_TIMEOUT_S,
        connect_timeout=limits.CONNECT_TIMEOUT_S,
        pool_timeout=limits.CALL_TIMEOUT_S,
        proxy=proxy or None,
        httpx_kwargs={"trust_env": not proxy and not goes_direct(api_base)},
    )


def _silence_the_sdk() -> None:
    """httpx logs every address, and with it the token; two warnings of the SDK concern its other users."""
    for name in ("httpx", "httpcore", "telegram"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", "Please use 'Bot.getUpdates'", PTBUserWarning)
    warnings.filterwarnings("ignore", ".*attribute `retry_after`", PTBUserWarning)


def open_adapter(name: str, settings: Settings, parts: AdapterParts) -> TelegramAdapter:
    """The adapter that the settings of this channel ask for. Raises `ConfigError`."""
    chosen = settings.channels.telegrams()[name]
    if chosen.token is None:
        raise ConfigError(f"{table_of(name)}.token is empty: set the token that @BotFather gave")
    if chosen.proxy.startswith(SOCKS_SCHEMES) and find_spec("socksio") is None:
        raise ConfigError(
            f"{table_of(name)}.proxy is a SOCKS proxy, which needs the package socksio: install it beside Trivet, or "
            "name an HTTP proxy"
        )
    return TelegramAdapter(
        name=name,
        hook_url=hook_url(settings, name) if chosen.mode == "webhook" else "",
        proxy=chosen.proxy,
        local_files=chosen.local_files,
        token=chosen.token.get_secret_value(),
        api_base=chosen.api_base,
        positions=parts.positions,
        leases=parts.leases,
        places=parts.places,
        clock=parts.clock,
        holder=parts.holder,
        bots=chosen.bots,
        admins=[int(key.user) for key in settings.access.admins if key.channel == name and key.user.isdecimal()],
    )
