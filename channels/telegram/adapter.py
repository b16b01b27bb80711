"""Our side of Telegram: what the rest of the channels role may ask of one bot, and the SDK's client that it owns.

How we listen stands in `connection`, how we speak in `sending` and `drafts`, how text looks in `render`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec

from telegram.error import TelegramError

from channels.adapter import AdapterParts, Budget, Cadence, Door, Nameable, OutgoingFile
from channels.calls import Call, CallAnswer
from channels.telegram import limits
from channels.telegram.address import parse_target, relocated
from channels.telegram.client import Client, Endpoint
from channels.telegram.connection import Connection
from channels.telegram.drafts import TelegramDrafts
from channels.telegram.errors import delivery_error, fetch_error
from channels.telegram.files import TelegramFiles
from channels.telegram.menus import menus_for, publish
from channels.telegram.naming import name_topic
from channels.telegram.polling import PATIENCE, Patience
from channels.telegram.render import TelegramChunk, TelegramFile, TelegramPart, render, under
from channels.telegram.sending import TelegramSender
from gateway.config import Settings, hook_url, table_of
from gateway.config.channels import SOCKS_SCHEMES
from gateway.contracts.errors import ConfigError
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import Choice, CleanText
from gateway.contracts.ports import FetchedFile


class TelegramAdapter:
    """One bot. `ChannelAdapter`, `SupportsCalls`, `SupportsFiles`, `SupportsPlaceholders`, `SupportsChoices`,
    `SupportsSilence`, `SupportsMoves`, `SupportsDeletion`, `SupportsWithdrawal`, `SupportsDownloads`, `SupportsMenus`,
    `SupportsStreaming`, `SupportsTyping`."""

    typing_period_s = limits.TYPING_PERIOD_S
    call_timeout_s = limits.CALL_ANSWERED_WITHIN_S

    def __init__(
        self,
        endpoint: Endpoint,
        parts: AdapterParts,
        *,
        name: str = "telegram",
        patience: Patience = PATIENCE,
        admins: Sequence[int] = (),
    ) -> None:
        """`admins` are users with commands of their own."""
        self.name = name
        self.account = endpoint.account
        self._client = Client(endpoint)
        self._bot = self._client.bot
        self._sender = TelegramSender(self._bot)
        self._drafts = TelegramDrafts(self._bot)
        self._files = TelegramFiles(self._bot, endpoint)
        self._admins = tuple(admins)
        self._connection = Connection(endpoint, parts, self._bot, name=name, patience=patience)

    @property
    def state(self) -> str:
        return self._connection.state

    async def run(self, door: Door) -> None:
        """Listen until cancelled. Raises `CredentialsRejected`."""
        async with self._client.open():
            await self._connection.run(door)

    async def until_ready(self) -> None:
        await self._connection.until_ready()

    @property
    def is_called(self) -> bool:
        return self._connection.is_called

    async def called(self, call: Call) -> CallAnswer:
        return await self._connection.called(call)

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
        if not target.is_nameable:
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
    endpoint = Endpoint(
        chosen.token.get_secret_value(),
        chosen.api_base,
        hook_url=hook_url(settings, name) if chosen.mode == "webhook" else "",
        proxy=chosen.proxy,
        local_files=chosen.local_files,
        bots=frozenset(chosen.bots),
    )
    return TelegramAdapter(
        endpoint,
        parts,
        name=name,
        admins=[int(key.user) for key in settings.access.admins if key.channel == name and key.user.isdecimal()],
    )
