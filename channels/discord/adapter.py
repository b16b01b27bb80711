"""Our adapter for Discord: what is heard comes from `channels.discord.connection`, sends carry a nonce."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import discord

from channels.adapter import AdapterParts, Budget, Cadence, Door, Nameable, OutgoingFile
from channels.calls import Call, CallAnswer
from channels.discord import limits
from channels.discord.address import DiscordTarget, parse_target
from channels.discord.asides import Asides, goes_by_link
from channels.discord.buttons import view_of
from channels.discord.connection import PATIENCE, Connection, Patience
from channels.discord.errors import delivery_error
from channels.discord.files import DiscordFiles
from channels.discord.gateway import Endpoint
from channels.discord.links import Links
from channels.discord.lookup import find_message, nonce_of
from channels.discord.menus import commands, say_the_same
from channels.discord.naming import lacks_name, rename
from channels.discord.openings import Openings, in_place
from channels.discord.posting import is_silent, post
from channels.discord.render import DiscordChunk, DiscordFile, DiscordPart, file_part, render, under
from gateway.config import Settings, table_of
from gateway.contracts.errors import AddressDead, ConfigError, SendFailed, Untraceable
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import Choice, CleanText
from gateway.contracts.ports import FetchedFile


class DiscordAdapter:
    """One bot. `ChannelAdapter`, `SupportsCalls`, `SupportsFiles`, `SupportsLookup`, `SupportsChoices`,
    `SupportsSilence`, `SupportsDeletion`, `SupportsWithdrawal`, `SupportsDownloads`, `SupportsMenus`,
    `SupportsNames`, `SupportsPromises`, `SupportsStreaming`, `SupportsTyping`."""

    typing_period_s = limits.TYPING_PERIOD_S
    call_timeout_s = limits.CALL_ANSWERED_WITHIN_S

    def __init__(
        self, endpoint: Endpoint, parts: AdapterParts, *, name: str = "discord", patience: Patience = PATIENCE
    ) -> None:
        self.name = name
        self._in_flight: set[asyncio.Timeout] = set()
        self._clock = parts.clock
        self._files = DiscordFiles(endpoint.api_base, endpoint.proxy)
        links = Links(parts.places, parts.leases, lambda: self.account)
        self._asides = Asides(links)
        self._openings = Openings(parts.clock, is_wanted=endpoint.begins_threads)
        self._connection = Connection(
            endpoint,
            parts,
            links,
            self._openings,
            name=name,
            patience=patience,
            ended=self._cut_calls,
        )

    @property
    def account(self) -> str:
        return f"discord:{self._connection.user_id}"

    @property
    def state(self) -> str:
        return self._connection.state

    async def run(self, door: Door) -> None:
        """Listen until cancelled. Raises `CredentialsRejected`."""
        await self._connection.run(door)

    @property
    def is_called(self) -> bool:
        return self._connection.is_called

    async def called(self, call: Call) -> CallAnswer:
        return await self._connection.called(call)

    async def until_ready(self) -> None:
        await self._connection.until_ready()

    def chunks(self, text: CleanText) -> Sequence[DiscordChunk]:
        return render(text)

    def file_chunk(self, file: OutgoingFile) -> DiscordFile:
        return file_part(file.name, file.content, file.caption)

    def marked(self, chunk: DiscordPart, mark: CleanText) -> DiscordPart:
        return under(mark, chunk)

    def offering(self, chunk: DiscordChunk, choices: Sequence[Choice]) -> DiscordChunk:
        return replace(chunk, choices=tuple(choices))

    def silent(self, chunk: DiscordChunk) -> DiscordChunk:
        return replace(chunk, is_silent=True)

    def budgets(self, address: ReplyAddress) -> Sequence[Budget]:
        return (
            Budget(f"channel:{parse_target(address.target).channel_id}", limits.CHANNEL_PER_S, limits.CHANNEL_BURST),
            Budget("bot", limits.BOT_PER_S, limits.BOT_BURST),
        )

    async def send(self, address: ReplyAddress, chunk: DiscordPart, *, send_id: str, plain: bool) -> tuple[str, ...]:
        async with self._calling():
            target = await self._openings.where(self._client(), parse_target(address.target), send_id=send_id)
            if not is_silent(chunk):
                shown = await self._asides.send(self._client(), target, chunk, send_id=send_id, plain=plain)
                if shown is not None:
                    return shown
            return await post(self._client(), target, chunk, send_id=send_id, plain=plain)

    async def amend(self, address: ReplyAddress, chunk: DiscordChunk, *, message_id: str, plain: bool) -> bool:
        async with self._calling():
            target = await self._openings.where(self._client(), parse_target(address.target))
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
                return await self._asides.amend(self._client(), target, chunk, message_id=message_id, plain=plain)
        return True

    def nameable(self, address: ReplyAddress) -> Nameable | None:
        target = parse_target(address.target)
        rate = limits.THREAD_NAMES_MAX / limits.THREAD_NAMES_WITHIN_S
        names = Budget(f"names:{target.channel_id}", rate, limits.THREAD_NAMES_MAX)
        return Nameable(target.channel_id, is_first=target.begun_in is not None, budgets=(names,))

    async def lacks_name(self, address: ReplyAddress, title: CleanText) -> bool:
        target = parse_target(address.target)
        try:
            async with self._calling():
                return await lacks_name(self._client(), target.channel_id, title)
        except AddressDead:
            if target.begun_in is not None and self._openings.may_begin(target.begun_in):
                raise SendFailed("the thread has not begun yet, or is gone") from None
            raise

    async def name_place(self, address: ReplyAddress, title: CleanText) -> None:
        async with self._calling():
            await rename(self._client(), parse_target(address.target).channel_id, title)

    async def release(self, address: ReplyAddress) -> None:
        async with self._calling():
            await self._asides.release(self._client(), parse_target(address.target))

    async def delete_inbound(self, address: ReplyAddress, *, message_id: str) -> bool:
        """In a guild that takes the permission "Manage Messages"; in a direct chat nobody has it."""
        return await self._delete(in_place(parse_target(address.target)), message_id)

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
        """Our own messages take no permission."""
        async with self._calling():
            target = await self._openings.where(self._client(), parse_target(address.target))
        return await self._delete(target, message_id)

    def cadence(self, address: ReplyAddress) -> Cadence:
        return limits.CADENCE

    def is_draft(self, address: ReplyAddress) -> bool:
        return False

    async def begin_stream(self, address: ReplyAddress, chunk: DiscordChunk, *, send_id: str) -> str:
        (message_id,) = await self.send(address, chunk, send_id=send_id, plain=False)
        return message_id

    async def go_on(self, address: ReplyAddress, chunk: DiscordChunk, *, message_id: str, send_id: str) -> bool:
        return await self.amend(address, chunk, message_id=message_id, plain=False)

    async def end_stream(self, address: ReplyAddress, *, message_id: str) -> None:
        """A message that is edited is one like any other all the time."""

    async def find_sent(
        self, address: ReplyAddress, chunk: DiscordPart, *, send_id: str, since_ms: int
    ) -> tuple[str, ...] | None:
        target = parse_target(address.target)
        async with self._calling():
            if await self._asides.may_repeat(target, send_id=send_id):
                return None
            if target.begun_in is not None:  # perhaps where no thread could be begun, which has changed since
                shown = await self._found(in_place(target), chunk, send_id=send_id, since_ms=since_ms)
                if shown is not None:
                    return shown
        is_ordinary = not goes_by_link(target, send_id)
        if is_ordinary and self._clock.now_ms() - since_ms < limits.NONCE_HOLDS_S * 1000:
            return None  # sent again with its nonce, it is not shown again
        async with self._calling():
            target = await self._openings.where(self._client(), target, send_id=send_id)
            found = await self._found(target, chunk, send_id=send_id, since_ms=since_ms)
            if found is None and target.is_aside and not is_ordinary:
                raise Untraceable("what only one person sees stands in no history")
            return found

    async def _found(
        self, target: DiscordTarget, chunk: DiscordPart, *, send_id: str, since_ms: int
    ) -> tuple[str, ...] | None:
        me, nonce = self._my_id(), nonce_of(send_id)
        return await find_message(self._place(target), target, chunk, me=me, nonce=nonce, since_ms=since_ms)

    async def fetch(self, reference: str, *, bytes_max: int) -> FetchedFile:
        async with self._calling():
            return await self._files.fetch(self._client(), reference, bytes_max=bytes_max)

    async def show_typing(self, address: ReplyAddress, status: str) -> None:
        target = parse_target(address.target)
        if not status or target.is_aside:
            return
        async with self._calling():
            await self._place(await self._openings.where(self._client(), target)).typing()

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
        """Bounds a call and gives its failure its place in our tree."""
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

    def _my_id(self) -> int:
        user = self._client().user
        if user is None:
            raise SendFailed("not connected to Discord")
        return user.id

    def _cut_calls(self) -> None:
        """A call over a client that is being closed hears no answer any more: its outcome is unknown now."""
        for limit in self._in_flight:
            limit.reschedule(asyncio.get_running_loop().time())


def open_adapter(name: str, settings: Settings, parts: AdapterParts) -> DiscordAdapter:
    """The adapter that the settings of this channel ask for. Raises `ConfigError`."""
    chosen = settings.channels.discords()[name]
    if chosen.token is None:
        raise ConfigError(f"{table_of(name)}.token is empty: set the bot token of the application")
    endpoint = Endpoint(
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
