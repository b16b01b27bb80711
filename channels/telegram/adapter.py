"""The adapter for Telegram: all that the rest of the channels role may ask of one bot, and the SDK's client that it
owns.

`connection` listens, `sending` speaks, and `render` writes the text."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import quote

from telegram import Bot, BotCommandScope, BotCommandScopeAllGroupChats, BotCommandScopeChat, BotCommandScopeDefault
from telegram.error import BadRequest, Forbidden, TelegramError

from channels.core import adapter
from channels.core.downloads import ELSEWHERE, GONE, NOT_FOR_US, download, too_large
from channels.core.message import mapping, text
from channels.telegram import limits
from channels.telegram.client import TelegramClient, TelegramEndpoint, call
from channels.telegram.connection import POLL_TIMEOUTS, PollTimeouts, TelegramConnection
from channels.telegram.errors import delivery_error, fetch_error
from channels.telegram.normalize import parse_target, relocated
from channels.telegram.render import VOICE_TYPE, TelegramChunk, TelegramFile, TelegramPart, render, under
from channels.telegram.sending import TelegramDrafts, TelegramSender, name_topic
from gateway.config import Settings, hook_url, table_of
from gateway.config.channels import SOCKS_SCHEMES
from gateway.contracts.commands import CommandSpec, offered
from gateway.contracts.errors import ConfigError, FileRefused, SendFailed
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import FetchedFile
from gateway.i18n import Language, about_in

# The menus of commands at Telegram: a client chooses first by the chat, then by the language of the person. A menu for
# a narrower scope hides all of the wider ones.

_Rows = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TelegramMenu:
    """A menu that the clients show in `scope` to people of a language; with an empty one, to those of all others."""

    scope: BotCommandScope
    language_code: str
    rows: _Rows


def menus_for(admins: Iterable[int]) -> Iterator[TelegramMenu]:
    """Yield the menus of one bot. `admins` are users with commands of their own in their direct chats."""
    yield from _in_all_languages(BotCommandScopeDefault(), offered())
    yield from _in_all_languages(BotCommandScopeAllGroupChats(), offered(is_private=False))
    admins_commands = offered(is_admin=True)
    if admins_commands != offered():
        for user_id in admins:
            yield from _in_all_languages(BotCommandScopeChat(user_id), admins_commands)


async def publish(bot: Bot, menus: Iterable[TelegramMenu]) -> None:
    """Set those that differ from what is there. A chat that the bot does not know yet has none. Raises the SDK's
    `TelegramError`."""
    for menu in menus:
        try:
            known = await bot.get_my_commands(scope=menu.scope, language_code=menu.language_code or None)
            if tuple((command.command, command.description) for command in known) != menu.rows:
                await bot.set_my_commands(menu.rows, scope=menu.scope, language_code=menu.language_code or None)
        except BadRequest:
            if menu.scope.type != BotCommandScope.CHAT:
                raise


def _in_all_languages(scope: BotCommandScope, specs: Sequence[CommandSpec]) -> Iterator[TelegramMenu]:
    for language in Language:
        code = "" if language is Language.EN else language.value
        yield TelegramMenu(scope, code, tuple((spec.name, about_in(spec, language)) for spec in specs))


# Files that people sent, from the Bot API: `getFile` names a path, valid for an hour, at which the bytes are.

_TOO_BIG: Final = "file is too big"
_NOT_YET: Final = "temporarily unavailable"


class TelegramFiles:
    """The files of one bot. If a server of our own, running with `--local`, keeps files on this machine, only those
    inside the endpoint's folder are read."""

    def __init__(self, bot: Bot, endpoint: TelegramEndpoint) -> None:
        self._bot = bot
        self._files_base = endpoint.files_base
        self._folder = endpoint.local_files
        self._proxy = endpoint.proxy

    async def fetch(self, file_id: str, *, bytes_max: int) -> FetchedFile:
        """Fetch the file. Raises `FileRefused`, `SendFailed`, and the SDK's `TelegramError`."""
        path = await self._path(file_id)
        name = path.rpartition("/")[2]
        if path.startswith("/"):
            return FetchedFile(name, "", await asyncio.to_thread(self._read, Path(path), bytes_max))
        found = await download(f"{self._files_base}/{quote(path)}", bytes_max=bytes_max, proxy=self._proxy)
        return FetchedFile(name, found.media_type, found.content)

    async def _path(self, file_id: str) -> str:
        try:
            found = await call(self._bot, "getFile", {"file_id": file_id}, read_timeout_s=limits.FILE_READ_TIMEOUT_S)
        except Forbidden:
            raise FileRefused(NOT_FOR_US) from None
        except BadRequest as error:
            said = error.message.lower()
            if _TOO_BIG in said:
                raise FileRefused(too_large(limits.DOWNLOAD_BYTES_MAX)) from None
            if _NOT_YET in said:
                raise SendFailed("the file is not there yet") from None
            raise FileRefused(GONE) from None
        path = text(mapping(found).get("file_path"))
        if not path:
            raise FileRefused(GONE)
        return path

    def _read(self, path: Path, bytes_max: int) -> bytes:
        """Read a file of a server on this machine. Links and steps upwards are followed first and judged then."""
        try:
            real = path.resolve(strict=True)
            if self._folder is None or not real.is_relative_to(self._folder.resolve()):
                raise FileRefused(ELSEWHERE)
            with real.open("rb") as file:
                content = file.read(bytes_max + 1)
        except OSError:
            raise FileRefused(GONE) from None
        if len(content) > bytes_max:
            raise FileRefused(too_large(bytes_max))
        return content


class TelegramAdapter(adapter.ConnectedAdapter):
    """One bot. `ChannelAdapter`, `SupportsWebhooks`, `SupportsFiles`, `SupportsPlaceholders`, `SupportsChoices`,
    `SupportsSilence`, `SupportsMoves`, `SupportsDeletion`, `SupportsRemoval`, `SupportsDownloads`, `SupportsMenus`,
    `SupportsStreaming`, `SupportsTyping`."""

    typing_period_s = limits.TYPING_PERIOD_S
    call_timeout_s = limits.CALL_ANSWERED_WITHIN_S

    def __init__(
        self,
        endpoint: TelegramEndpoint,
        parts: adapter.AdapterDeps,
        *,
        name: str = "telegram",
        timeouts: PollTimeouts = POLL_TIMEOUTS,
        admins: Sequence[int] = (),
    ) -> None:
        """Offer the users `admins` commands of their own."""
        self.account = endpoint.account
        self._client = TelegramClient(endpoint)
        self._bot = self._client.bot
        self._sender = TelegramSender(self._bot)
        self._drafts = TelegramDrafts(self._bot)
        self._files = TelegramFiles(self._bot, endpoint)
        self._admins = tuple(admins)
        super().__init__(name, TelegramConnection(endpoint, parts, self._bot, name=name, timeouts=timeouts))

    async def run(self, handler: adapter.InboundHandler) -> None:
        """Listen until cancelled. Raises `CredentialsRejected`."""
        async with self._client.open():
            await self._connection.run(handler)

    def chunks(self, text: CleanText) -> Sequence[TelegramChunk]:
        return render(text)

    def file_chunk(self, file: adapter.OutgoingFile) -> TelegramFile:
        return TelegramFile(file.name, file.content, file.caption, file.media_type == VOICE_TYPE)

    def marked(self, chunk: TelegramPart, mark: CleanText) -> TelegramPart:
        return under(mark, chunk)

    def silent(self, chunk: TelegramChunk) -> TelegramChunk:
        return replace(chunk, is_silent=True)

    def budgets(self, address: ReplyAddress) -> Sequence[adapter.SendBudget]:
        chat_id = parse_target(address.target).chat_id
        chat = adapter.SendBudget(f"chat:{chat_id}", limits.CHAT_PER_S, limits.CHAT_BURST)
        group = adapter.SendBudget(f"group:{chat_id}", limits.GROUP_PER_S, limits.GROUP_BURST)
        bot = adapter.SendBudget("bot", limits.BOT_PER_S, limits.BOT_BURST)
        return (chat, group, bot) if chat_id < 0 else (chat, bot)

    async def send(self, address: ReplyAddress, chunk: TelegramPart, *, send_id: str, plain: bool) -> tuple[str, ...]:
        target = parse_target(address.target)
        with self._calling(address):
            if isinstance(chunk, TelegramFile):
                return (await self._sender.send_file(target, chunk),)
            return (await self._sender.send(target, chunk, plain=plain),)

    def nameable(self, address: ReplyAddress) -> adapter.Nameable | None:
        target = parse_target(address.target)
        if not target.is_nameable:
            return None
        names = adapter.SendBudget(f"names:{target.lane}", limits.TOPIC_NAMES_PER_S, limits.TOPIC_NAMES_BURST)
        return adapter.Nameable(target.lane, is_first=target.is_unnamed, budgets=(names,))

    async def lacks_name(self, address: ReplyAddress, title: CleanText) -> bool:
        return True  # nobody can ask for the name of a topic; the same one again changes nothing

    async def name_place(self, address: ReplyAddress, title: CleanText) -> None:
        with self._calling(address):
            await name_topic(self._bot, parse_target(address.target), title)

    def place_id(self, address: ReplyAddress) -> str:
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

    def cadence(self, address: ReplyAddress) -> adapter.StreamCadence | None:
        if self.is_draft(address):
            return limits.DRAFT_CADENCE
        if not self._sender.can_edit:
            return None
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

    async def _show_draft(self, address: ReplyAddress, chunk: TelegramChunk, *, send_id: str) -> None:
        with self._calling(address):
            await self._drafts.show(parse_target(address.target), chunk, send_id=send_id)

    async def find_lost(
        self, address: ReplyAddress, chunk: TelegramPart, *, after: Collection[str], known: frozenset[str]
    ) -> str | None:
        target = parse_target(address.target)
        answered = target.answered_message_id or target.reply_to_message_id
        if answered is None:
            return None
        with self._calling(address):
            newest = max(answered, *map(int, after), 0)
            return await self._sender.find_lost(target, chunk, after=newest, known=known)

    def chat_of(self, address: ReplyAddress) -> str:
        """Return the chat's id; empty for a private chat, which never moves."""
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
        """Turn the failure of a call into an error of our tree."""
        try:
            yield
        except TelegramError as error:
            raise delivery_error(error, lambda chat_id: relocated(address, chat_id)) from error


def open_adapter(name: str, settings: Settings, parts: adapter.AdapterDeps) -> TelegramAdapter:
    """Build the adapter that the settings of this channel ask for. Raises `ConfigError`."""
    chosen = settings.channels.telegrams()[name]
    if chosen.token is None:
        raise ConfigError(f"{table_of(name)}.token is empty: set the token that @BotFather gave")
    if chosen.proxy.startswith(SOCKS_SCHEMES) and find_spec("socksio") is None:
        raise ConfigError(
            f"{table_of(name)}.proxy is a SOCKS proxy, which needs the package socksio: install it beside Trivet, or "
            "name an HTTP proxy"
        )
    endpoint = TelegramEndpoint(
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
