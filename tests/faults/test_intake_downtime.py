"""What people say while something of ours is away is answered once, in order: the bus, the connection, we.

On the emulated platforms, with the real client libraries and a real server that is stopped and started.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from channels.emulators.discord import DiscordEmulator
from channels.emulators.stage import Person, Place
from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import EmbeddedValkey
from tests.parts.answering import EchoAgent
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
    bus = await open_bus(await server.start())
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
