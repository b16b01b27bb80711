"""Our connection to Telegram: a `Bot` of python-telegram-bot, a long poll of our own, sends with entities.

One process polls for one bot, by a lease on the bus. The token never appears in a message of ours; the
HTTP client, which would log it with every address, is silenced.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from telegram import Bot, LinkPreviewOptions, MessageEntity, ReplyParameters
from telegram.error import Conflict, InvalidToken, TelegramError
from telegram.request import HTTPXRequest
from telegram.warnings import PTBUserWarning

from channels.adapter import CONNECTED, AdapterParts, Budget, Door, QueueFull
from channels.backoff import Backoff
from channels.leases import while_holding
from channels.proxies import goes_direct
from channels.telegram import limits
from channels.telegram.address import TelegramTarget, make_target, parse_target
from channels.telegram.errors import REJECTED, delivery_error, seconds
from channels.telegram.normalize import TelegramIdentity
from channels.telegram.polling import PATIENCE, Patience, Poller
from channels.telegram.render import TelegramChunk, render
from gateway.config import Settings
from gateway.contracts.errors import BusUnavailable, ConfigError, CredentialsRejected, DeliveryError
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Clock, DeliveryBus, IntakeBus

log = logging.getLogger(__name__)

_NO_PREVIEW: Final = LinkPreviewOptions(is_disabled=True)


class TelegramAdapter:
    """One bot. `ChannelAdapter` and `SupportsTyping`; Telegram cannot be asked what arrived."""

    name = "telegram"
    typing_period_s = limits.TYPING_PERIOD_S

    def __init__(
        self,
        *,
        token: str,
        api_base: str,
        positions: IntakeBus,
        leases: DeliveryBus,
        clock: Clock,
        holder: str,
        patience: Patience = PATIENCE,
    ) -> None:
        """`api_base` is the Bot API's address without `/bot`; `holder` names this process in the lease."""
        _silence_the_sdk()
        self._calls = _http(limits.CONNECTIONS_MAX, api_base)
        self._polls = _http(1, api_base)
        self._bot = Bot(
            token,
            base_url=f"{api_base}/bot",
            base_file_url=f"{api_base}/file/bot",
            request=self._calls,
            get_updates_request=self._polls,
        )
        self._bot_id = token.partition(":")[0]
        self._positions = positions
        self._leases = leases
        self._clock = clock
        self._holder = holder
        self._patience = patience
        self._ready = asyncio.Event()
        self.state = "connecting"

    async def run(self, door: Door) -> None:
        """Poll until cancelled. Raises `CredentialsRejected`."""
        await self._polls.initialize()
        await self._calls.initialize()
        try:
            await while_holding(
                self._leases,
                f"poller:telegram:{self._bot_id}",
                self._holder,
                lambda: self._connect_and_poll(door),
                waiting=self._wait_for_lease,
                ttl_s=self._patience.lease_ttl_s,
            )
        finally:
            await self._polls.shutdown()
            await self._calls.shutdown()

    async def until_ready(self) -> None:
        await self._ready.wait()

    def chunks(self, text: CleanText) -> Sequence[TelegramChunk]:
        return render(text)

    def budgets(self, address: ReplyAddress) -> Sequence[Budget]:
        chat_id = parse_target(address.target).chat_id
        chat = Budget(f"chat:{chat_id}", limits.CHAT_PER_S, limits.CHAT_BURST)
        group = Budget(f"group:{chat_id}", limits.GROUP_PER_S, limits.GROUP_BURST)
        bot = Budget(f"bot:{self._bot_id}", limits.BOT_PER_S, limits.BOT_BURST)
        return (chat, group, bot) if chat_id < 0 else (chat, bot)

    async def send(self, address: ReplyAddress, chunk: TelegramChunk, *, send_id: str, plain: bool) -> tuple[str, ...]:
        target = parse_target(address.target)
        try:
            sent = await self._bot.send_message(
                target.chat_id,
                chunk.plain if plain else chunk.text,
                entities=None if plain else _entities(chunk),
                message_thread_id=target.message_thread_id,
                direct_messages_topic_id=target.direct_messages_topic_id,
                business_connection_id=target.business_connection_id,
                reply_parameters=_quoting(target),
                link_preview_options=_NO_PREVIEW,
                read_timeout=limits.SEND_READ_TIMEOUT_S,
            )
        except TelegramError as error:
            raise self._refusal(error, address) from error
        return (str(sent.message_id),)

    async def show_typing(self, address: ReplyAddress, status: str) -> None:
        if not status:
            return
        target = parse_target(address.target)
        try:
            await self._bot.send_chat_action(
                target.chat_id,
                "typing",
                message_thread_id=target.message_thread_id,
                business_connection_id=target.business_connection_id,
            )
        except TelegramError as error:
            raise self._refusal(error, address) from error

    def _refusal(self, error: TelegramError, address: ReplyAddress) -> DeliveryError:
        return delivery_error(error, lambda chat_id: _moved(address, chat_id))

    def _wait_for_lease(self, obstacle: str) -> None:
        self.state = obstacle

    async def _connect_and_poll(self, door: Door) -> None:
        try:
            await self._keep_polling(door)
        finally:
            self._ready.clear()

    async def _keep_polling(self, door: Door) -> None:
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
                log.warning("telegram: %s", self.state)
                await asyncio.sleep(_wait_s(error, backoff))
            except BusUnavailable as error:
                self.state = "the queue is full" if isinstance(error, QueueFull) else "waiting for the bus"
                log.warning("telegram: updates stay with Telegram: %s", error)
                await asyncio.sleep(backoff.next_s())

    async def _connect(self) -> Poller:
        try:
            user = await self._bot.get_me()
        except InvalidToken:
            raise CredentialsRejected(REJECTED) from None
        await self._remove_webhook()
        if not user.can_read_all_group_messages:
            log.warning(
                "telegram: privacy mode is on, so groups show the bot only commands and replies; switch it off with "
                "/setprivacy at @BotFather and add the bot to its groups again"
            )
        self._ready.set()
        log.info("telegram: connected as @%s", user.username)
        me = TelegramIdentity(user.id, user.username or "")
        return Poller(self._bot, me, self._positions, self._clock, silence_s=self._patience.silence_s)

    async def _remove_webhook(self) -> None:
        """A webhook that somebody once set would end every poll with 409."""
        if (await self._bot.get_webhook_info()).url:
            log.warning(
                "telegram: a webhook was set for this bot; it is removed because channels.telegram.mode is polling"
            )
            await self._bot.delete_webhook(drop_pending_updates=False)


def _http(connections_max: int, api_base: str) -> HTTPXRequest:
    return HTTPXRequest(
        connection_pool_size=connections_max,
        read_timeout=limits.CALL_TIMEOUT_S,
        write_timeout=limits.CALL_TIMEOUT_S,
        connect_timeout=limits.CONNECT_TIMEOUT_S,
        pool_timeout=limits.CALL_TIMEOUT_S,
        httpx_kwargs={"trust_env": not goes_direct(api_base)},
    )


def _entities(chunk: TelegramChunk) -> list[MessageEntity]:
    return [
        MessageEntity(entity.type, entity.offset, entity.length, url=entity.url, language=entity.language)
        for entity in chunk.entities
    ]


def _quoting(target: TelegramTarget) -> ReplyParameters | None:
    if target.reply_to_message_id is None:
        return None
    return ReplyParameters(target.reply_to_message_id, allow_sending_without_reply=True)


def _moved(address: ReplyAddress, chat_id: int) -> ReplyAddress:
    """The same place under the chat's new id, where the old message to quote has another one."""
    target = replace(parse_target(address.target), chat_id=chat_id, reply_to_message_id=None)
    return replace(address, target=make_target(target))


def _wait_s(error: Exception, backoff: Backoff) -> float:
    asked_s = getattr(error, "retry_after", None)
    return seconds(asked_s) if asked_s is not None else backoff.next_s()


def _silence_the_sdk() -> None:
    """httpx logs every address, and with it the token; two warnings of the SDK concern its other users."""
    for name in ("httpx", "httpcore", "telegram"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", "Please use 'Bot.getUpdates'", PTBUserWarning)
    warnings.filterwarnings("ignore", ".*attribute `retry_after`", PTBUserWarning)


def open_adapter(settings: Settings, parts: AdapterParts) -> TelegramAdapter:
    """The adapter that `channels.telegram` asks for. Raises `ConfigError`."""
    chosen = settings.channels.telegram
    if chosen.token is None:
        raise ConfigError("channels.telegram.token is empty: set the token that @BotFather gave")
    if chosen.mode != "polling":
        raise ConfigError("channels.telegram.mode webhook is not supported yet: set it to polling")
    return TelegramAdapter(
        token=chosen.token.get_secret_value(),
        api_base=chosen.api_base,
        positions=parts.positions,
        leases=parts.leases,
        clock=parts.clock,
        holder=parts.holder,
    )
