"""Two channels processes on two machines: one listens, the other takes over, and never both at once.

The machines are two buses with names of their own, each on a wire to the one server. A machine that dies
falls silent: its tasks end, and the lease that it held is not given back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from channels.core.adapter import CONNECTED
from channels.core.lease import BUS_AWAY, SOMEBODY_ELSE
from channels.core.runtime import ChannelRuntime
from channels.emulators.discord import DiscordEmulator
from channels.emulators.slack import SlackEmulator
from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import EmbeddedValkey
from gateway.bus.heartbeat import ProcessName
from tests.parts.answering import EchoAgent, until_delivered
from tests.parts.databases import INSTALLATION
from tests.parts.towns import Town, town
from tests.parts.waiting import POLL_S, until
from tests.parts.wires import Wire, wire_to

__all__ = ["town"]

LEASE_TTL_S = 2.0


@dataclass
class Machine:
    """One channels process, far away from every other."""

    wire: Wire
    line: ChannelRuntime
    life: AsyncExitStack
    is_dead: bool = False

    async def kill(self) -> None:
        """Nothing of it moves any more, and nobody is told."""
        self.is_dead = True
        await self.wire.cut()
        await self.life.aclose()


@pytest.fixture
async def machines(
    town: Town, valkey_server: EmbeddedValkey, valkey_url: str
) -> AsyncIterator[tuple[Machine, Machine]]:
    async with AsyncExitStack() as all_lives:
        started = [await all_lives.enter_async_context(machine(town, valkey_server, name)) for name in ("east", "west")]
        yield started[0], started[1]


@contextlib.asynccontextmanager
async def machine(town: Town, server: EmbeddedValkey, name: str) -> AsyncIterator[Machine]:
    at = urlsplit(server.url)
    async with AsyncExitStack() as life, wire_to(Path(at.path)) as wire:
        url = f"redis://:{at.password}@127.0.0.1:{wire.port}"
        bus = await open_bus(url, installation=INSTALLATION, process=ProcessName(name, 1, 1))
        life.push_async_callback(bus.close)
        adapter = town.adapter(bus, name, LEASE_TTL_S)
        line = await life.enter_async_context(town.starting(bus, adapter=adapter, consumer=name))
        await until(lambda: line.state in (CONNECTED, SOMEBODY_ELSE))
        yield Machine(wire, line, life)
        await wire.mend()


@contextlib.asynccontextmanager
async def never_two_at_once(town: Town, machines: tuple[Machine, Machine]) -> AsyncIterator[None]:
    """Look all the time how many listen."""

    async def look() -> None:
        while True:
            states = [each.line.state for each in machines if not each.is_dead]
            assert states.count(CONNECTED) < 2
            assert not any("or a webhook" in state for state in states)  # what Telegram tells two pollers
            if isinstance(town.stage, SlackEmulator):
                assert town.stage.sockets.connections <= 2  # of one process
            await asyncio.sleep(POLL_S)

    looking = asyncio.create_task(look())
    try:
        yield
        if looking.done():
            looking.result()
        if isinstance(town.stage, DiscordEmulator):
            assert town.stage.gateway.identified == 2  # each of them once
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


@pytest.mark.long
async def test_the_standby_takes_over_from_a_dead_machine(
    town: Town, machines: tuple[Machine, Machine], bus: RedisBus
) -> None:
    """What was said while nobody listened is answered, once."""
    east, west = machines
    dm = town.dm(town.ann)
    async with EchoAgent(bus).at_work() as agent, never_two_at_once(town, machines):
        await town.stage.say(town.ann.id, dm.id, "one")
        await town.until_answers(1, dm)
        await until_delivered(bus, town.platform)
        await east.kill()
        await town.stage.say(town.ann.id, dm.id, "two")
        await until(lambda: west.line.state == CONNECTED)
        await town.stage.say(town.ann.id, dm.id, "three")
        assert sorted(await town.until_answers(3, dm)) == ["echo: one", "echo: three", "echo: two"]
        assert [message.text for message in agent.heard] == ["one", "two", "three"]
        await town.stays_silent(3)


@pytest.mark.long
async def test_a_machine_that_cannot_reach_the_bus_stops_before_the_standby_begins(
    town: Town, machines: tuple[Machine, Machine], bus: RedisBus
) -> None:
    """It cannot know whether its lease is still its own. When it is back it waits for its turn."""
    east, west = machines
    dm = town.dm(town.ann)
    async with EchoAgent(bus).at_work() as agent, never_two_at_once(town, machines):
        await town.stage.say(town.ann.id, dm.id, "one")
        await town.until_answers(1, dm)
        await until_delivered(bus, town.platform)
        east.wire.stop()
        await town.stage.say(town.ann.id, dm.id, "two")
        await until(lambda: east.line.state == BUS_AWAY)
        await until(lambda: west.line.state == CONNECTED)
        await town.stage.say(town.ann.id, dm.id, "three")
        assert sorted(await town.until_answers(3, dm)) == ["echo: one", "echo: three", "echo: two"]
        assert [message.text for message in agent.heard] == ["one", "two", "three"]
        await east.wire.mend()
        await until(lambda: east.line.state == SOMEBODY_ELSE)
        await town.stage.say(town.ann.id, dm.id, "four")
        assert (await town.until_answers(4, dm))[3] == "echo: four"
        await town.stays_silent(4)
