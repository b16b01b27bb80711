"""A lane never stays with a worker that does not run it: whatever ended the run, somebody goes on."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agent.models.demo import ScriptedClient
from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import EmbeddedValkey
from gateway.clock import SystemClock
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ports import Claim
from gateway.store import Store
from gateway.store.store import open_store
from tests.parts.agents import message as spoken
from tests.parts.agents import running_agent
from tests.parts.bus_samples import ANNA, message, reply
from tests.parts.databases import INSTALLATION


async def claims(bus: RedisBus) -> tuple[Claim, ...]:
    return (await bus.lanes.claim("w1", lanes_max=10, messages_max=20, attempts_max=4)).claims


ENDS: dict[str, Callable[[RedisBus, Claim], Awaitable[bool]]] = {
    "commit": lambda bus, claim: bus.lanes.commit(claim, handled=1, replies=[reply(1)]),
    "retry_later": lambda bus, claim: bus.lanes.retry_later(claim, delay_s=0, error="it broke"),
    "restart": lambda bus, claim: bus.lanes.restart(claim),
}


@pytest.mark.parametrize("end", ENDS)
async def test_a_run_that_ended_while_redis_was_away_is_claimed_again(tmp_path: Path, end: str) -> None:
    """Nobody knows whether the end of the run arrived. The worker lives on, so no lease runs out: its next
    claim gives the lane back, unless the end did arrive."""
    server = EmbeddedValkey(tmp_path)
    bus = await open_bus(await server.start(), installation=INSTALLATION)
    await bus.lanes.register("w1", lease_ttl_s=600)
    await bus.intake.enqueue(message(1))
    (claim,) = await claims(bus)
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    await server.wait()
    with pytest.raises(BusUnavailable):
        await ENDS[end](bus, claim)
    await server.start()
    (again,) = await claims(bus)
    assert (again.messages, again.attempts) == (claim.messages, 0)
    assert again.lease.fence > claim.lease.fence
    assert await bus.lanes.commit(again, handled=1, replies=[reply(1)])
    assert await claims(bus) == ()
    await bus.close()
    await server.stop()


@pytest.mark.parametrize("turns_later", [0, 1, 2, 3, 5, 8])
async def test_a_worker_that_stops_while_a_message_arrives_keeps_no_lane(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, turns_later: int
) -> None:
    """It waits with a claim that cannot be taken back. What that brings is answered, or is there for the next worker as
    if nobody had had it."""
    async with running_agent(bus, sqlite_store, ScriptedClient(), tmp_path) as agent:
        await agent.ask("hello", "telegram:2")
        arriving = asyncio.create_task(bus.intake.enqueue(spoken("late")))
        for _ in range(turns_later):
            await asyncio.sleep(0)
    await arriving
    await bus.lanes.close()
    await bus.lanes.register("w1", lease_ttl_s=60)
    left = await claims(bus)
    figures = await bus.operator.figures()
    assert (figures.running, figures.queued) == (len(left), sum(len(claim.messages) for claim in left))
    assert [claim.attempts for claim in left] == [0] * len(left)


async def test_a_turn_that_sql_refuses_is_given_back(bus: RedisBus, sqlite_url: str, tmp_path: Path) -> None:
    """Redis failed over and lost a claim, so SQL knows a newer fence than the bus. The message is answered
    when the bus's fences, which are times, have caught up; until then no failed run is counted."""
    clock = SystemClock()
    store = open_store(sqlite_url, clock)
    ahead = (clock.now_ms() + 1_500) * 1_000
    await store.turns.begin(turn_id="t_newer", key=ANNA, fence=ahead, messages=[spoken("lost")], now_ms=1, is_said=True)
    async with running_agent(bus, store, ScriptedClient(), tmp_path) as agent:
        assert "You said: hello" in await agent.ask("hello")
        assert await agent.transcript() == ["hello", agent.replies[0].text]
    await store.close()
