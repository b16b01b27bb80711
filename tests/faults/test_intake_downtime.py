"""What people say while something of ours is away is answered once, in order: the bus, the connection, we.

On the emulated platforms, with the real client libraries and a real server that is stopped and started.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from channels.emulators.discord import DiscordEmulator
from channels.emulators.stage import Person, Place
from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import EmbeddedValkey
from tests.parts.answering import EchoAgent, until_delivered
from tests.parts.databases import INSTALLATION
from tests.parts.towns import Town, discord_town, town
from tests.parts.waiting import until

__all__ = ["town"]


@dataclass
class Stopped:
    """A server that can be away, with a bus on it."""

    server: EmbeddedValkey
    bus: RedisBus

    @contextlib.asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """The server is stopped inside the block."""
        await self.server.stop()
        try:
            yield
        finally:
            await self.server.start()


@pytest.fixture
async def stopped(tmp_path: Path) -> AsyncIterator[Stopped]:
    server = EmbeddedValkey(tmp_path)
    bus = await open_bus(await server.start(), installation=INSTALLATION)
    yield Stopped(server, bus)
    await bus.close()
    await server.stop()


def strangers(town: Town, *names: str) -> list[tuple[Person, Place]]:
    """People whom the bot has never met, each with a direct chat."""
    people = [town.stage.add_person(name) for name in names]
    return [(person, town.dm(person)) for person in people]


async def say_hello(town: Town, people: list[tuple[Person, Place]]) -> None:
    for person, dm in people:
        await town.stage.say(person.id, dm.id, f"hello from {person.name}")


async def until_greeted(town: Town, people: list[tuple[Person, Place]]) -> None:
    for person, dm in people:
        await until(lambda dm=dm, person=person: town.texts(dm) == [f"echo: hello from {person.name}"])  # type: ignore[misc]


async def until_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """Wait until the channel has noticed that the bus is away and let go of what it was taking."""
    await until(lambda: any("be read back" in line or "stay with Telegram" in line for line in caplog.messages))


@pytest.mark.long_on("discord", "slack")
async def test_strangers_who_speak_while_the_bus_is_away_are_answered(
    town: Town, stopped: Stopped, caplog: pytest.LogCaptureFixture
) -> None:
    """Several of them at once: while one is being taken, the others only wait."""
    async with EchoAgent(stopped.bus).at_work(), town.line(stopped.bus):
        await town.stage.say(town.ann.id, town.dm(town.ann).id, "before")
        await town.until_answers(1)
        people = strangers(town, "Cleo", "Dan", "Eve")
        async with stopped.away():
            await say_hello(town, people)
            caplog.clear()
            await until_given_up(caplog)
        await until_greeted(town, people)
        await town.stays_silent(4)


@pytest.mark.long
async def test_a_failed_resume_loses_no_group_that_goes_on_talking(bus: RedisBus) -> None:
    """Messages of the new session are heard before the SDK calls itself ready; what was missed comes first."""
    async with discord_town() as town, EchoAgent(bus).at_work(), town.line(bus):
        assert isinstance(town.stage, DiscordEmulator)
        stage = town.stage
        await stage.say(town.ann.id, town.group.id, "one", mention_bot=True)
        await town.until_answers(1, town.group)
        identified = stage.gateway.identified
        stage.gateway.invalidate(resumable=False)
        await until(lambda: not stage.gateway.is_connected)
        await stage.say(town.ann.id, town.group.id, "two", mention_bot=True)
        await until(lambda: stage.gateway.identified > identified)
        await stage.say(town.ann.id, town.group.id, "three", mention_bot=True)
        assert await town.until_answers(3, town.group) == ["echo: one", "echo: two", "echo: three"]


@pytest.mark.long_on("slack")
async def test_strangers_who_speak_while_nobody_listens_are_answered(town: Town, bus: RedisBus) -> None:
    """Discord cannot be asked for its direct chats; its gateway remembers for some minutes who wrote in one."""
    async with EchoAgent(bus).at_work():
        async with town.line(bus):
            await town.stage.say(town.ann.id, town.dm(town.ann).id, "before")
            await town.until_answers(1)
            await until_delivered(bus, town.platform)
        people = strangers(town, "Cleo", "Dan")
        await say_hello(town, people)
        async with town.line(bus):
            await until_greeted(town, people)
            await town.stays_silent(3)


@pytest.mark.long_on("slack")
async def test_a_full_queue_keeps_every_message_and_says_so(town: Town, valkey_url: str) -> None:
    """Who comes when there is no room is told that he waits, and is answered when there is."""
    bus = await open_bus(valkey_url, queue_messages_max=1)
    try:
        agent, thought = EchoAgent(bus), asyncio.Event()
        agent.think_until(thought)
        people = [(town.ann, town.dm(town.ann)), (town.ben, town.dm(town.ben)), *strangers(town, "Cleo")]
        async with agent.at_work(), town.line(bus):
            await say_hello(town, people[:1])
            await until(lambda: bool(agent.heard))
            await say_hello(town, people[1:])
            for _, dm in people[1:]:
                await until(lambda dm=dm: any("not lost" in text for text in town.texts(dm)))  # type: ignore[misc]
            thought.set()
            for person, dm in people:
                await until(lambda dm=dm, person=person: f"echo: hello from {person.name}" in town.texts(dm))  # type: ignore[misc]
            told = [text for _, dm in people for text in town.texts(dm) if "not lost" in text]
            answered = [text for _, dm in people for text in town.texts(dm) if text.startswith("echo")]
            assert (len(told), len(answered)) == (2, 3)
    finally:
        await bus.close()


@pytest.mark.long_on("slack")
async def test_an_emptied_server_brings_back_no_old_talk(town: Town, bus: RedisBus, raw_redis: Any) -> None:
    """Marks and offsets are gone. Telegram still has what nobody confirmed; the others begin anew."""
    dm = town.dm(town.ann)
    async with EchoAgent(bus).at_work() as agent:
        async with town.line(bus):
            for text in ("one", "two"):
                await town.stage.say(town.ann.id, dm.id, text)
            await town.until_answers(2, dm)
            await until_delivered(bus, town.platform)
        raw_redis.flushall()
        await bus.lanes.register(agent.worker, lease_ttl_s=60.0)
        await town.stage.say(town.ann.id, dm.id, "while it was emptied")
        async with town.line(bus):
            await town.stage.say(town.ann.id, dm.id, "after")
            await until(lambda: "echo: after" in town.texts(dm))
            heard = [str(message.text) for message in agent.heard]
            assert heard.count("one") == 1
            assert heard[-1] == "after"
            if town.platform == "telegram":
                assert "while it was emptied" in heard
