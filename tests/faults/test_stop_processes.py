"""/stop against real agent processes: one whose event loop is drowned in work, one that is paused in mid-turn."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import EmbeddedValkey
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import (
    ControlKind,
    ControlRequest,
    DeliveryRecord,
    DeliveryState,
    Receipt,
    Reply,
    ReplyKind,
)
from gateway.contracts.sessions import UNTITLED
from gateway.store import open_store
from tests.parts.agents import message
from tests.parts.waiting import until

ROOT = Path(__file__).parents[2]
BUSY = 64
pytestmark = pytest.mark.timeout(300)  # processes start slowly on a busy machine


class Fleet:
    """A bus, and agent processes on it that share one database; the test is the channel."""

    def __init__(self, bus: RedisBus, environment: dict[str, str]) -> None:
        self.bus = bus
        self.replies: list[Reply] = []
        self._environment = environment

    @contextlib.asynccontextmanager
    async def agent(self) -> AsyncIterator[asyncio.subprocess.Process]:
        """One more agent process, once the bus knows it."""
        before = (await self.bus.operator.figures()).workers_alive
        process = await run(self._environment, "agent")
        try:
            while (await self.bus.operator.figures()).workers_alive == before:
                assert process.returncode is None
                await asyncio.sleep(0.05)
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def until_alive(self, workers: int) -> None:
        """Wait until the bus counts so many workers."""
        while (await self.bus.operator.figures()).workers_alive != workers:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)

    async def until_titled(self, key: str) -> None:
        """Wait until the running turn of `key` only thinks: whoever is paused while he writes to an SQLite file
        keeps all others from it."""
        store = open_store(self._environment["TRIVET_DATABASE__URL"])
        try:
            while (found := await store.sessions.current(SessionKey.parse(key))) is None or found.title == UNTITLED:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.01)
        finally:
            await store.close()

    async def say(self, text: str, key: str) -> None:
        await self.bus.intake.enqueue(message(text, key))

    async def stop(self, key: str) -> float:
        """Say /stop; how long the acknowledgement took."""
        said = message("/stop", key)
        began_s = time.monotonic()
        await self.bus.intake.request_control(ControlRequest(ControlKind.STOP, said))
        await until(lambda: any(reply.turn_id == f"control:{said.id}" for reply in self.replies))
        return time.monotonic() - began_s

    def answers(self, key: str) -> list[str]:
        """The first line of everything that was said to `key`."""
        return [reply.text.split("\n")[0] for reply in self.replies if str(reply.key) == key]

    async def hear(self) -> None:
        """Deliver until cancelled, all but titles: whoever gets their receipt writes, and may be paused at that."""
        while True:
            for pending in await self.bus.deliveries.replies("telegram", "test", count=200, wait_s=0.2):
                if pending.reply.kind is ReplyKind.TITLE:
                    continue
                record = DeliveryRecord(pending.reply.id, DeliveryState.SENT, attempt=1)
                receipt = Receipt(record, pending.reply.key, "telegram")
                await self.bus.deliveries.finish("telegram", pending.entry_id, receipt)
                self.replies.append(pending.reply)


async def run(environment: Mapping[str, str], *module: str) -> asyncio.subprocess.Process:
    """Start a module of ours."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", *module, env=environment, cwd=ROOT, stderr=asyncio.subprocess.DEVNULL
    )


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    server = EmbeddedValkey(tmp_path)
    url = await server.start()
    environment = dict(
        os.environ,
        TRIVET_DATA_DIR=str(tmp_path),
        TRIVET_REDIS__URL=url,
        TRIVET_DATABASE__URL=f"sqlite+aiosqlite:///{tmp_path}/trivet.db",
        TRIVET_AGENT__MODEL="demo/scripted",
        TRIVET_AGENT__CONCURRENCY=str(BUSY),
    )
    assert await (await run(environment, "gateway", "migrate", "--quiet")).wait() == 0
    bus = await open_bus(url)
    made = Fleet(bus, environment)
    hearing = asyncio.create_task(made.hear())
    try:
        yield made
    finally:
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)
        await bus.close()
        await server.stop()


@pytest.mark.long
async def test_a_process_that_drowns_in_work_acknowledges_stops(fleet: Fleet) -> None:
    """Every place is taken by a turn that does nothing but compute, twice as many wait, and the event loop of
    the worker is hardly ever free. Stops are answered all the same, and who stopped is answered next."""
    people = [f"telegram:{number}" for number in range(1, 3 * BUSY + 1)]
    async with fleet.agent():
        for person in people:
            await fleet.say("long 50000", person)
        while (await fleet.bus.operator.figures()).running < BUSY:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)
        took_s = sorted([await fleet.stop(person) for person in people[:10]])
        still_at_work = (await fleet.bus.operator.figures()).queued
        print(f"10 stops of a drowning process: median {took_s[5]:.2f} s, slowest {took_s[-1]:.2f} s")
        assert still_at_work
        await fleet.say("hello again", people[0])
        await until(lambda: "You said: hello again" in fleet.answers(people[0]))


@pytest.mark.long
async def test_a_paused_process_does_nothing_more_after_the_acknowledgement(fleet: Fleet) -> None:
    """Stopped by the kernel in mid-turn, woken long after its lease: what it brings then is refused."""
    async with fleet.agent() as paused:
        await fleet.say("slow 2", "telegram:1")
        await fleet.until_titled("telegram:1")
        paused.send_signal(signal.SIGSTOP)
        async with fleet.agent():
            await fleet.stop("telegram:1")
            await fleet.say("hello again", "telegram:1")
            await until(lambda: "You said: hello again" in fleet.answers("telegram:1"))
            await fleet.until_alive(1)
            paused.send_signal(signal.SIGCONT)
            await fleet.until_alive(2)
            await fleet.say("and again", "telegram:1")
            await until(lambda: "You said: and again" in fleet.answers("telegram:1"))
    assert fleet.answers("telegram:1") == ["Stopped.", "You said: hello again", "You said: and again"]
