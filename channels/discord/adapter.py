"""The adapter for Discord: `channels.discord.connection` hears the messages, and sends carry a nonce."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import discord

from channels.core import adapter
from channels.core.downloads import ELSEWHERE, GONE, NOT_FOR_US, belongs_to, download, is_on
from channels.core.message import target_fields, text
from channels.discord import limits, sending
from channels.discord.client import DiscordEndpoint
from channels.discord.connection import GATEWAY_TIMEOUTS, DiscordConnection, GatewayTimeouts
from channels.discord.errors import delivery_error
from channels.discord.interactions import InteractionTokens, view_of
from channels.discord.normalize import DiscordTarget, parse_target
from channels.discord.render import DiscordChunk, DiscordFile, DiscordPart, file_part, render, under
from gateway.bounded_dict import BoundedDict
from gateway.config import Settings, table_of
from gateway.contracts.commands import CommandSpec, Suggests, offered
from gateway.contracts.errors import AddressDead, ConfigError, FileRefused, SendFailed, Untraceable
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import FetchedFile
from gateway.contracts.sessions import GrantRole
from gateway.i18n import Language, about_in, argument_in

# The application commands of a bot: what is to be registered, and whether what is registered says the same. Pure.

Json: TypeAlias = dict[str, Any]

LOCALES: Final[Mapping[Language, tuple[str, ...]]] = {
    Language.RU: ("ru",),
    Language.ZH: ("zh-CN", "zh-TW"),
    Language.ES: ("es-ES", "es-419"),
    Language.DE: ("de",),
}
"""Discord's locales that are shown the words of a language; English is for all the others."""

CHAT_INPUT: Final = 1
STRING: Final = 3
_IN_A_GUILD, _WITH_THE_BOT = 0, 1  # contexts
_INSTALLED_BY_A_GUILD: Final = 0
_MANAGE_GUILD: Final = str(1 << 5)  # Discord cannot know our admins: the command itself looks who they are


def commands() -> list[Json]:
    """List the commands to be registered, in the order of the table. In direct chats everybody is offered the same:
    admins type their further commands there."""
    return [_command(spec) for spec in offered(is_admin=True) if not (_is_admins(spec) and spec.only_private)]


def say_the_same(known: Iterable[Mapping[str, Any]], wanted: Iterable[Mapping[str, Any]]) -> bool:
    """Tell whether the registered commands are the wanted ones, in any order."""
    return _comparable_all(known) == _comparable_all(wanted)


def option_name(argument: str) -> str:
    """Name an argument as Discord takes it: lower case, without spaces."""
    return argument.lower().replace(" ", "_")


def _command(spec: CommandSpec) -> Json:
    return {
        "type": CHAT_INPUT,
        "name": spec.name,
        "description": about_in(spec, Language.EN),
        "description_localizations": _localized(lambda language: about_in(spec, language)),
        "options": [_option(spec)] if spec.argument else [],
        "default_member_permissions": _MANAGE_GUILD if _is_admins(spec) else None,
        "contexts": _contexts(spec),
        "integration_types": [_INSTALLED_BY_A_GUILD],
    }


def _is_admins(spec: CommandSpec) -> bool:
    return spec.role is GrantRole.ADMIN


def _contexts(spec: CommandSpec) -> list[int]:
    if spec.only_private:
        return [_WITH_THE_BOT]
    return [_IN_A_GUILD] if _is_admins(spec) else [_IN_A_GUILD, _WITH_THE_BOT]


def _option(spec: CommandSpec) -> Json:
    return {
        "type": STRING,
        "name": option_name(spec.argument),
        "name_localizations": _localized(lambda language: option_name(argument_in(spec, language))),
        "description": argument_in(spec, Language.EN),
        "description_localizations": _localized(lambda language: argument_in(spec, language)),
        "required": spec.needs_argument,
        "autocomplete": spec.suggests is not Suggests.NOTHING,
    }


def _localized(say: Callable[[Language], str]) -> dict[str, str]:
    return {locale: say(language) for language, locales in LOCALES.items() for locale in locales}


def _comparable_all(commands: Iterable[Mapping[str, Any]]) -> Sequence[Json]:
    return sorted((_comparable(command) for command in commands), key=lambda kept: str(kept["name"]))


def _comparable(command: Mapping[str, Any]) -> Json:
    """Keep the fields of a command that we chose. An absent field gets the value that its absence means."""
    options = command.get("options") or []
    return {
        "type": command.get("type") or CHAT_INPUT,
        **{name: command.get(name) for name in ("name", "description", "default_member_permissions")},
        **{name: command.get(name) or {} for name in ("name_localizations", "description_localizations")},
        "contexts": sorted(command.get("contexts") or [_IN_A_GUILD, _WITH_THE_BOT]),
        "integration_types": sorted(command.get("integration_types") or [_INSTALLED_BY_A_GUILD]),
        "options": [_option_essence(option) for option in options],
    }


def _option_essence(option: Mapping[str, Any]) -> Json:
    return {
        **{name: option.get(name) for name in ("type", "name", "description")},
        **{name: option.get(name) or {} for name in ("name_localizations", "description_localizations")},
        **{name: bool(option.get(name)) for name in ("required", "autocomplete")},
    }


# Files that people sent on Discord. Their addresses are signed and expire within a day: so the message is read once
# more for each wish, which gives a fresh address.

_CDN: Final = ("discordapp.com", "discordapp.net", "discord.com")


@dataclass(frozen=True, slots=True)
class _Reference:
    """A reference to a file that `channels.discord.normalize` wrote."""

    channel_id: int
    message_id: int
    file_id: int


class DiscordFiles:
    """The way from a reference to bytes. With another API than Discord's own, files may be on the API's machine,
    too. A message is read once for all of its files."""

    def __init__(self, api_base: str, proxy: str = "") -> None:
        self._api_base = api_base
        self._proxy = proxy
        self._read: BoundedDict[int, tuple[float, discord.Message]] = BoundedDict(limits.READ_LATELY_MAX)

    async def fetch(self, client: discord.Client, reference: str, *, bytes_max: int) -> FetchedFile:
        """Fetch the file. Raises `FileRefused`, `SendFailed`, and what the SDK raises."""
        fields = target_fields(reference)
        wanted = _Reference(*(int(text(fields.get(name))) for name in ("channel_id", "message_id", "id")))
        known = self._read_lately(wanted.message_id)
        if known is not None:
            try:
                return await self._downloaded(known, wanted, bytes_max)
            except FileRefused:
                del self._read[wanted.message_id]  # as it was: whatever is wrong, it is seen in what it is now
        message = await _message(client, wanted)
        self._read[message.id] = asyncio.get_running_loop().time(), message
        return await self._downloaded(message, wanted, bytes_max)

    async def _downloaded(self, message: discord.Message, wanted: _Reference, bytes_max: int) -> FetchedFile:
        name, url = _found(message, wanted.file_id)
        if not (is_on(url, *_CDN) or belongs_to(url, self._api_base)):
            raise FileRefused(ELSEWHERE)
        found = await download(url, bytes_max=bytes_max, proxy=self._proxy)
        return FetchedFile(name, found.media_type, found.content)

    def _read_lately(self, message_id: int) -> discord.Message | None:
        at_s, message = self._read.get(message_id, (0.0, None))
        return message if asyncio.get_running_loop().time() - at_s < limits.READ_AGAIN_AFTER_S else None


async def _message(client: discord.Client, wanted: _Reference) -> discord.Message:
    try:
        return await client.get_partial_messageable(wanted.channel_id).fetch_message(wanted.message_id)
    except discord.Forbidden:
        raise FileRefused(NOT_FOR_US) from None
    except discord.NotFound:
        raise FileRefused(GONE) from None


def _found(message: discord.Message, file_id: int) -> tuple[str, str]:
    """Name and address of one file of a message, of what it passes on, or of its stickers."""
    attached = [*message.attachments, *(file for shot in message.message_snapshots for file in shot.attachments)]
    for attachment in attached:
        if attachment.id == file_id:
            return attachment.filename, attachment.url
    for sticker in [*message.stickers, *(item for shot in message.message_snapshots for item in shot.stickers)]:
        if sticker.id == file_id:
            return sticker.name, sticker.url
    raise FileRefused(GONE)


class DiscordAdapter(adapter.ConnectedAdapter):
    """One bot. `ChannelAdapter`, `SupportsWebhooks`, `SupportsFiles`, `SupportsLookup`, `SupportsChoices`,
    `SupportsSilence`, `SupportsDeletion`, `SupportsRemoval`, `SupportsDownloads`, `SupportsMenus`,
    `SupportsNames`, `SupportsDeferredReplies`, `SupportsStreaming`, `SupportsTyping`."""

    typing_period_s = limits.TYPING_PERIOD_S
    call_timeout_s = limits.CALL_ANSWERED_WITHIN_S
    _connection: DiscordConnection

    def __init__(
        self,
        endpoint: DiscordEndpoint,
        parts: adapter.AdapterDeps,
        *,
        name: str = "discord",
        timeouts: GatewayTimeouts = GATEWAY_TIMEOUTS,
    ) -> None:
        self._in_flight: set[asyncio.Timeout] = set()
        self._clock = parts.clock
        self._files = DiscordFiles(endpoint.api_base, endpoint.proxy)
        interaction_tokens = InteractionTokens(parts.places, parts.leases, lambda: self.account)
        self._ephemeral_replies = sending.EphemeralReplies(interaction_tokens)
        self._thread_opener = sending.ThreadOpener(parts.clock, is_wanted=endpoint.begins_threads)
        opener, ended = self._thread_opener, self._cut_calls
        connection = DiscordConnection(
            endpoint, parts, interaction_tokens, opener, name=name, timeouts=timeouts, ended=ended
        )
        super().__init__(name, connection)

    @property
    def account(self) -> str:
        return f"discord:{self._connection.user_id}"

    def chunks(self, text: CleanText) -> Sequence[DiscordChunk]:
        return render(text)

    def file_chunk(self, file: adapter.OutgoingFile) -> DiscordFile:
        return file_part(file.name, file.content, file.caption)

    def marked(self, chunk: DiscordPart, mark: CleanText) -> DiscordPart:
        return under(mark, chunk)

    def silent(self, chunk: DiscordChunk) -> DiscordChunk:
        return replace(chunk, is_silent=True)

    def budgets(self, address: ReplyAddress) -> Sequence[adapter.SendBudget]:
        return (
            adapter.SendBudget(
                f"channel:{parse_target(address.target).channel_id}", limits.CHANNEL_PER_S, limits.CHANNEL_BURST
            ),
            adapter.SendBudget("bot", limits.BOT_PER_S, limits.BOT_BURST),
        )

    async def send(self, address: ReplyAddress, chunk: DiscordPart, *, send_id: str, plain: bool) -> tuple[str, ...]:
        async with self._calling():
            target = await self._thread_opener.where(self._client(), parse_target(address.target), send_id=send_id)
            if not sending.is_silent(chunk):
                shown = await self._ephemeral_replies.send(self._client(), target, chunk, send_id=send_id, plain=plain)
                if shown is not None:
                    return shown
            return await sending.post(self._client(), target, chunk, send_id=send_id, plain=plain)

    async def amend(self, address: ReplyAddress, chunk: DiscordChunk, *, message_id: str, plain: bool) -> bool:
        async with self._calling():
            target = await self._thread_opener.where(self._client(), parse_target(address.target))
            message = self._place(target).get_partial_message(int(message_id))
            try:
                await message.edit(
                    content=chunk.plain if plain else chunk.content,
                    view=view_of(chunk.choices),
                    allowed_mentions=discord.AllowedMentions.none(),
                )
            except discord.NotFound as error:
                if error.code != limits.UNKNOWN_MESSAGE:
                    raise
                return await self._ephemeral_replies.amend(
                    self._client(), target, chunk, message_id=message_id, plain=plain
                )
        return True

    def nameable(self, address: ReplyAddress) -> adapter.Nameable | None:
        target = parse_target(address.target)
        rate = limits.THREAD_NAMES_MAX / limits.THREAD_NAMES_WITHIN_S
        names = adapter.SendBudget(f"names:{target.channel_id}", rate, limits.THREAD_NAMES_MAX)
        return adapter.Nameable(target.channel_id, is_first=target.begun_in is not None, budgets=(names,))

    async def lacks_name(self, address: ReplyAddress, title: CleanText) -> bool:
        target = parse_target(address.target)
        try:
            async with self._calling():
                return await sending.lacks_name(self._client(), target.channel_id, title)
        except AddressDead:
            if target.begun_in is not None and self._thread_opener.may_begin(target.begun_in):
                raise SendFailed("the thread has not begun yet, or is gone") from None
            raise

    async def name_place(self, address: ReplyAddress, title: CleanText) -> None:
        async with self._calling():
            await sending.rename(self._client(), parse_target(address.target).channel_id, title)

    async def release(self, address: ReplyAddress) -> None:
        async with self._calling():
            await self._ephemeral_replies.release(self._client(), parse_target(address.target))

    async def delete_inbound(self, address: ReplyAddress, *, message_id: str) -> bool:
        """Delete a message of somebody else. In a guild that takes the permission "Manage Messages"; in a direct chat
        nobody has it."""
        return await self._delete(sending.in_place(parse_target(address.target)), message_id)

    async def _delete(self, target: DiscordTarget, message_id: str) -> bool:
        message = self._place(target).get_partial_message(int(message_id))
        async with self._calling():
            try:
                await message.delete()
            except discord.Forbidden:
                return False
            except discord.NotFound as error:
                if error.code != limits.UNKNOWN_MESSAGE:
                    raise
        return True

    async def withdraw(self, address: ReplyAddress, *, message_id: str) -> bool:
        """Delete a message of our own, which takes no permission."""
        async with self._calling():
            target = await self._thread_opener.where(self._client(), parse_target(address.target))
        return await self._delete(target, message_id)

    def cadence(self, address: ReplyAddress) -> adapter.StreamCadence:
        return limits.CADENCE

    async def begin_stream(self, address: ReplyAddress, chunk: DiscordChunk, *, send_id: str) -> str:
        (message_id,) = await self.send(address, chunk, send_id=send_id, plain=False)
        return message_id

    async def go_on(self, address: ReplyAddress, chunk: DiscordChunk, *, message_id: str, send_id: str) -> bool:
        return await self.amend(address, chunk, message_id=message_id, plain=False)

    async def find_sent(
        self, address: ReplyAddress, chunk: DiscordPart, *, send_id: str, since_ms: int
    ) -> tuple[str, ...] | None:
        target = parse_target(address.target)
        async with self._calling():
            if await self._ephemeral_replies.may_repeat(target, send_id=send_id):
                return None
            if target.begun_in is not None:  # perhaps where no thread could be begun, which has changed since
                shown = await self._found(sending.in_place(target), chunk, send_id=send_id, since_ms=since_ms)
                if shown is not None:
                    return shown
        is_ordinary = not sending.is_private_reply(target, send_id)
        if is_ordinary and self._clock.now_ms() - since_ms < limits.NONCE_HOLDS_S * 1000:
            return None  # sent again with its nonce, it is not shown again
        async with self._calling():
            target = await self._thread_opener.where(self._client(), target, send_id=send_id)
            found = await self._found(target, chunk, send_id=send_id, since_ms=since_ms)
            if found is None and target.is_aside and not is_ordinary:
                raise Untraceable("what only one person sees is in no history")
            return found

    async def _found(
        self, target: DiscordTarget, chunk: DiscordPart, *, send_id: str, since_ms: int
    ) -> tuple[str, ...] | None:
        user = self._client().user
        if user is None:
            raise SendFailed("not connected to Discord")
        me, nonce = user.id, sending.nonce_of(send_id)
        return await sending.find_message(self._place(target), target, chunk, me=me, nonce=nonce, since_ms=since_ms)

    async def fetch(self, reference: str, *, bytes_max: int) -> FetchedFile:
        async with self._calling():
            return await self._files.fetch(self._client(), reference, bytes_max=bytes_max)

    async def show_typing(self, address: ReplyAddress, status: str) -> None:
        target = parse_target(address.target)
        if not status or target.is_aside:
            return
        async with self._calling():
            await self._place(await self._thread_opener.where(self._client(), target)).typing()

    async def publish_menu(self) -> None:
        client = self._client()
        if client.application_id is None:
            raise SendFailed("not connected to Discord")
        application_id, wanted = client.application_id, commands()
        path = discord.http.Route("GET", "/applications/{application_id}/commands", application_id=application_id)
        async with self._calling():
            known = await client.http.request(path, params={"with_localizations": "true"})
            if not say_the_same(known, wanted):
                await client.http.bulk_upsert_global_commands(application_id, wanted)

    @contextlib.asynccontextmanager
    async def _calling(self) -> AsyncIterator[None]:
        """Bound the time of a call and turn its failure into an error of our tree."""
        limit = asyncio.timeout(limits.CALL_TIMEOUT_S)
        try:
            async with limit:
                self._in_flight.add(limit)
                yield
        except Exception as error:
            raise delivery_error(error) from error
        finally:
            self._in_flight.discard(limit)

    def _place(self, target: DiscordTarget) -> discord.PartialMessageable:
        return self._client().get_partial_messageable(int(target.channel_id))

    def _client(self) -> discord.Client:
        client = self._connection.client
        if client is None:
            raise SendFailed("not connected to Discord")
        return client

    def _cut_calls(self) -> None:
        """Cut off the calls over a client that is being closed: they hear no answer any more, so their outcome is
        unknown now."""
        for limit in self._in_flight:
            limit.reschedule(asyncio.get_running_loop().time())


def open_adapter(name: str, settings: Settings, parts: adapter.AdapterDeps) -> DiscordAdapter:
    """Build the adapter that the settings of this channel ask for. Raises `ConfigError`."""
    chosen = settings.channels.discords()[name]
    if chosen.token is None:
        raise ConfigError(f"{table_of(name)}.token is empty: set the bot token of the application")
    endpoint = DiscordEndpoint(
        chosen.token.get_secret_value(),
        chosen.api_base,
        chosen.gateway_url,
        shards=chosen.shards,
        public_key=chosen.public_key if chosen.interactions == "http" else "",
        bots=frozenset(chosen.bots),
        begins_threads=chosen.threads == "mention",
        proxy=chosen.proxy,
    )
    return DiscordAdapter(endpoint, parts, name=name)
