"""A town per platform: an emulated platform on loopback with people, places and our real adapter in front.

Tests of the channels role are written once, against `Town`, and run in all three.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol
from urllib.parse import quote

import pytest

from channels.core.adapter import CONNECTED, AdapterDeps, ChannelAdapter, InboundHandler
from channels.core.intake import IntakeDeps
from channels.core.runtime import ChannelConfig, ChannelRuntime
from channels.discord import client as discord_gateway
from channels.discord import connection as discord_connection
from channels.discord import limits as discord_limits
from channels.discord.adapter import DiscordAdapter
from channels.emulators.discord import DiscordEmulator
from channels.emulators.serving import Emulator, serve
from channels.emulators.slack import SlackEmulator
from channels.emulators.stage import EventKind, Person, Place, PlaceKind, Said, StageEvent
from channels.emulators.telegram import TelegramEmulator
from channels.slack import client as slack_socket
from channels.slack import connection as slack_connection
from channels.slack.adapter import SlackAdapter
from channels.telegram import connection as telegram_polling
from channels.telegram.adapter import TelegramAdapter
from channels.telegram.client import TelegramEndpoint
from channels.telegram.sending import PLACEHOLDER
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.contracts.access import AccessPolicy, StrangerRule
from gateway.contracts.ids import SessionScope
from gateway.limits import POLLER_LEASE_TTL_S
from gateway.scrub import Scrubber
from tests.parts.emulated_discord import TOKEN as DISCORD_TOKEN
from tests.parts.emulated_slack import APP_TOKEN as SLACK_APP_TOKEN
from tests.parts.emulated_slack import BOT_TOKEN as SLACK_BOT_TOKEN
from tests.parts.platforms import TELEGRAM_TOKEN
from tests.parts.slack_manifest import as_installed
from tests.parts.waiting import until

OPEN = ChannelConfig(AccessPolicy(StrangerRule.OPEN), SessionScope.PLACE)
GUILDS_WITHIN_S = 0.2  # there is one guild, and it comes at once
QUIET_S = 0.3  # nothing comes in a test that waits for nothing; long enough for what would come by mistake


def parts_on(bus: RedisBus, holder: str = "test") -> AdapterDeps:
    """What an adapter of the process `holder` needs beside its own settings."""
    return AdapterDeps(bus.intake, bus.deliveries, bus.places, bus.answers, bus.access, SystemClock(), holder)


def discord_endpoint(address: str, token: str = DISCORD_TOKEN) -> discord_gateway.DiscordEndpoint:
    """The bot's, on an emulator at `address`."""
    return discord_gateway.DiscordEndpoint(token, f"{address}/api/v10", f"{address}/gateway".replace("http", "ws"))


@contextlib.asynccontextmanager
async def connected(adapter: ChannelAdapter, door: InboundHandler) -> AsyncIterator[None]:
    """The adapter listens for this door inside the context."""
    running = asyncio.create_task(adapter.run(door))
    try:
        await until(lambda: adapter.state == CONNECTED)
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class BotHome(Emulator, Protocol):
    """An emulated platform to which other bots may be added."""

    def add_bot(self, name: str) -> Person: ...


class AdapterMaker(Protocol):
    def __call__(
        self, bus: RedisBus, holder: str = "test", lease_ttl_s: float = POLLER_LEASE_TTL_S, bots: Sequence[str] = ()
    ) -> ChannelAdapter:
        """Our adapter in front of the platform; `holder` names the machine it runs on, `bots` are those it hears."""
        ...


@dataclass
class Town:
    """One platform with Ann, Ben, a group and a thread in it. `letters_max` is the platform's limit of one message."""

    platform: str
    stage: BotHome
    api_base: str
    letters_max: int
    adapter: AdapterMaker
    ann: Person
    ben: Person
    group: Place
    thread: Place
    lines: list[ChannelRuntime] = field(default_factory=list)

    def dm(self, person: Person) -> Place:
        """The direct chat of a person and the bot."""
        return next(place for place in self.stage.places() if place.person_id == person.id)

    def user_of(self, person: Person) -> str:
        """A person as he stands in a session key, where neither a colon nor a slash is part of an id."""
        return quote(person.id, safe="@!$")

    def answers(self, place: Place | None = None) -> list[Said]:
        """What our bot said, oldest first, in one place or everywhere. A placeholder is nothing said yet."""
        places = [place] if place else self.stage.places()
        said = [each for where in places for each in self.stage.said(where.id) if self._is_ours(each)]
        return sorted(said, key=lambda each: each.at_ms)

    def texts(self, place: Place | None = None) -> list[str]:
        return [said.text for said in self.answers(place)]

    async def until_answers(self, count: int, place: Place | None = None) -> list[str]:
        """Wait until our bot has said `count` things; what they are."""
        await until(lambda: len(self.answers(place)) >= count)
        return self.texts(place)

    async def stays_silent(self, count: int) -> None:
        """Nothing more is said than `count` things."""
        await asyncio.sleep(QUIET_S)
        assert len(self.answers()) == count, self.texts()

    @contextlib.asynccontextmanager
    async def line(
        self, bus: RedisBus, rules: ChannelConfig = OPEN, *, adapter: ChannelAdapter | None = None
    ) -> AsyncIterator[ChannelRuntime]:
        """Our channel, connected; killed without ceremony at the end of the block."""
        async with self.starting(bus, rules, adapter=adapter) as line:
            await until(lambda: line.state == CONNECTED)
            yield line

    @contextlib.asynccontextmanager
    async def starting(
        self,
        bus: RedisBus,
        rules: ChannelConfig = OPEN,
        *,
        adapter: ChannelAdapter | None = None,
        consumer: str = "test",
    ) -> AsyncIterator[ChannelRuntime]:
        """Our channel on its way to being connected. Several at once have names of their own, as processes do."""
        rooms = IntakeDeps.of(bus, Scrubber(), SystemClock())
        line = ChannelRuntime(adapter or self.adapter(bus), bus, rooms, rules, consumer=consumer)
        running = asyncio.create_task(line.run())
        try:
            yield line
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[list[StageEvent]]:
        """Everything visible inside the block, as it happens."""
        seen: list[StageEvent] = []
        events = self.stage.events()

        async def watch() -> None:
            async for event in events:
                seen.append(event)  # noqa: PERF401 - the list is read while it grows

        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)
        try:
            yield seen
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    def _is_ours(self, said: Said) -> bool:
        return said.author.is_bot and said.author.name == "Trivet" and said.text != PLACEHOLDER


def typing_in(events: list[StageEvent]) -> list[str]:
    """The places in which the bot showed that it works, in order."""
    return [event.place_id for event in events if event.kind is EventKind.TYPING]


@contextlib.asynccontextmanager
async def telegram_town() -> AsyncIterator[Town]:
    stage = TelegramEmulator(token=TELEGRAM_TOKEN)
    async with serve({stage.platform: stage}) as where:
        address = where.url_of(stage.platform)

        def adapter(
            bus: RedisBus, holder: str = "test", lease_ttl_s: float = POLLER_LEASE_TTL_S, bots: Sequence[str] = ()
        ) -> ChannelAdapter:
            return TelegramAdapter(
                TelegramEndpoint(TELEGRAM_TOKEN, address, bots=frozenset(bots)),
                parts_on(bus, holder),
                timeouts=telegram_polling.PollTimeouts(lease_ttl_s=lease_ttl_s),
            )

        yield settled("telegram", stage, address, 4096, adapter)


@contextlib.asynccontextmanager
async def discord_town() -> AsyncIterator[Town]:
    stage = DiscordEmulator(token=DISCORD_TOKEN)
    with pytest.MonkeyPatch.context() as quick:
        quick.setattr(discord_limits, "GUILDS_WITHIN_S", GUILDS_WITHIN_S)
        async with _served_discord(stage) as built:
            yield built


@contextlib.asynccontextmanager
async def _served_discord(stage: DiscordEmulator) -> AsyncIterator[Town]:
    async with serve({stage.platform: stage}) as where:
        address = where.url_of(stage.platform)

        def adapter(
            bus: RedisBus, holder: str = "test", lease_ttl_s: float = POLLER_LEASE_TTL_S, bots: Sequence[str] = ()
        ) -> ChannelAdapter:
            return DiscordAdapter(
                replace(discord_endpoint(address), bots=frozenset(bots)),
                parts_on(bus, holder),
                timeouts=discord_connection.GatewayTimeouts(lease_ttl_s=lease_ttl_s),
            )

        yield settled("discord", stage, address, 2000, adapter)


@contextlib.asynccontextmanager
async def slack_town() -> AsyncIterator[Town]:
    stage = SlackEmulator(bot_token=SLACK_BOT_TOKEN, app_token=SLACK_APP_TOKEN, switches=as_installed())
    async with serve({stage.platform: stage}) as where:
        address = where.url_of(stage.platform)

        def adapter(
            bus: RedisBus, holder: str = "test", lease_ttl_s: float = POLLER_LEASE_TTL_S, bots: Sequence[str] = ()
        ) -> ChannelAdapter:
            return SlackAdapter(
                slack_connection.SlackEndpoint(
                    SLACK_BOT_TOKEN, SLACK_APP_TOKEN, f"{address}/api/", connections=2, bots=frozenset(bots)
                ),
                parts_on(bus, holder),
                timeouts=slack_socket.SocketTimeouts(ping_every_s=0.5, lease_ttl_s=lease_ttl_s),
            )

        yield settled("slack", stage, address, 4000, adapter)


TOWNS = {"telegram": telegram_town, "discord": discord_town, "slack": slack_town}


@pytest.fixture(params=sorted(TOWNS))
async def town(request: pytest.FixtureRequest) -> AsyncIterator[Town]:
    """Each of the three platforms in turn."""
    async with TOWNS[request.param]() as built:
        yield built


def settled(platform: str, stage: BotHome, api_base: str, letters_max: int, adapter: AdapterMaker) -> Town:
    """The same people and places on every platform."""
    ann, ben = stage.add_person("Ann"), stage.add_person("Ben")
    group = stage.add_place(PlaceKind.GROUP, "kitchen")
    thread = stage.add_place(PlaceKind.THREAD, "recipes", parent_id=group.id)
    return Town(platform, stage, api_base, letters_max, adapter, ann, ben, group, thread)
