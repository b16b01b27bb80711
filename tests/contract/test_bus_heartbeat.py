"""The pulse: it keeps a lease alive without the event loop's help, and tells the loop what it hears."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from typing import Any

import pytest

from gateway.bus.bus import RedisBus
from gateway.bus.heartbeat import Heartbeat, HeartbeatTimes
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import Cancel, CancelKind, Claim
from tests.parts.bus_samples import ANNA, control, message
from tests.parts.claiming import claim_now
from tests.parts.leases import beat, reap
from tests.parts.waiting import PATIENCE_S

CLAIM_AND_HANG = """
import asyncio, sys
from gateway.bus.bus import open_bus

async def main():
    bus = await open_bus(sys.argv[1])
    await bus.lanes.register("doomed", lease_ttl_s=1)
    async with bus.heartbeat("doomed", on_cancel=print, on_lost=print):
        await bus.lanes.claim("doomed", lanes_max=10, messages_max=20, attempts_max=4)
        print("claimed", flush=True)
        await asyncio.sleep(3600)

asyncio.run(main())
"""


CLAIM_AND_COMMIT_WHEN_TOLD = """
import asyncio, sys, time
from gateway.bus.bus import open_bus

async def main():
    bus = await open_bus(sys.argv[1])
    await bus.lanes.register("paused", lease_ttl_s=1)
    async with bus.heartbeat("paused", on_cancel=lambda cancel: None, on_lost=lambda: None) as pulse:
        (claim,) = (await bus.lanes.claim("paused", lanes_max=10, messages_max=20, attempts_max=4)).claims
        print(pulse.lease_end_s > time.monotonic(), flush=True)
        sys.stdin.readline()
        print(pulse.lease_end_s > time.monotonic(), flush=True)
        print(await bus.lanes.commit(claim, handled=1), flush=True)

asyncio.run(main())
"""


class Worker:
    """A worker that only listens to its pulse."""

    def __init__(self) -> None:
        self.cancelled: list[Cancel] = []
        self.is_cancelled = asyncio.Event()
        self.is_lost = asyncio.Event()

    def cancel(self, cancel: Cancel) -> None:
        self.cancelled.append(cancel)
        self.is_cancelled.set()

    def pulse(self, bus: RedisBus, *, lease_ttl_s: float = 60, loop_dead_after_s: float = 20) -> Heartbeat:
        times = HeartbeatTimes(lease_ttl_s, 0.01, loop_dead_after_s)
        return bus.heartbeat("w1", on_cancel=self.cancel, on_lost=self.is_lost.set, times=times)


async def test_a_blocked_event_loop_keeps_its_lease(bus: RedisBus, valkey_url: str, raw_redis: Any) -> None:
    """The loop is blocked until the lease has moved by three times its length: the thread alone can do that."""
    await bus.lanes.register("w1", lease_ttl_s=0.1)
    worker = Worker()
    async with worker.pulse(bus, lease_ttl_s=0.1):
        began = raw_redis.zscore("{q0}:wk", "w1")
        while raw_redis.zscore("{q0}:wk", "w1") < began + 300:
            pass
    assert not worker.is_lost.is_set()


async def test_a_dead_event_loop_loses_its_lease(bus: RedisBus, valkey_url: str, raw_redis: Any) -> None:
    """Whoever does not tick does not work: the beat ends while the loop is dead, and its lanes go to others."""
    await bus.lanes.register("w1", lease_ttl_s=0.1)
    async with Worker().pulse(bus, lease_ttl_s=0.1, loop_dead_after_s=0.05):
        while not may_be_reaped(raw_redis):
            pass


def may_be_reaped(raw_redis: Any) -> bool:
    """True once the worker's lease lies in the past: anybody may reap it."""
    seconds, micros = raw_redis.time()
    return bool(raw_redis.zscore("{q0}:wk", "w1") < seconds * 1000 + micros / 1000)


@pytest.mark.one_shard
async def test_a_lost_lease_is_reported_to_the_loop(bus: RedisBus, valkey_url: str) -> None:
    worker = Worker()
    async with worker.pulse(bus):
        await asyncio.wait_for(worker.is_lost.wait(), PATIENCE_S)


async def test_a_stop_arrives_with_the_next_beat(bus: RedisBus, valkey_url: str) -> None:
    await bus.lanes.register("w1", lease_ttl_s=60)
    await bus.intake.enqueue(message(1))
    await bus.lanes.claim("w1", lanes_max=1, messages_max=1, attempts_max=4)
    worker = Worker()
    async with worker.pulse(bus):
        await bus.intake.request_control(control(1))
        await asyncio.wait_for(worker.is_cancelled.wait(), PATIENCE_S)
    assert worker.cancelled == [Cancel(str(ANNA), CancelKind.STOP)]


async def test_the_pulse_reaps_the_dead(bus: RedisBus, valkey_url: str) -> None:
    await bus.lanes.register("w1", lease_ttl_s=60)
    await bus.lanes.register("doomed", lease_ttl_s=60)
    await bus.intake.enqueue(message(1))
    await bus.lanes.claim("doomed", lanes_max=1, messages_max=1, attempts_max=4)
    await beat(bus.lanes, "doomed", lease_ttl_s=-1)
    async with Worker().pulse(bus):
        while not (claims := await claim_now(bus, wait_s=1.0)):
            pass
    assert claims[0].attempts == 1


async def test_the_lanes_of_a_killed_worker_go_to_a_living_one(bus: RedisBus, valkey_url: str) -> None:
    """A real process, a real kill -9: nothing is lost, and the failed run is counted."""
    for user in range(3):
        await bus.intake.enqueue(message(1, SessionKey("telegram", str(user))))
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLAIM_AND_HANG, valkey_url, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    assert await child.stdout.readline() == b"claimed\n"
    child.kill()
    await child.wait()
    await bus.lanes.register("w1", lease_ttl_s=60)
    taken: list[Claim] = []
    async with Worker().pulse(bus):
        while len(taken) < 3:
            taken += await claim_now(bus, wait_s=1.0)
    assert sorted(str(claim.key) for claim in taken) == ["telegram:0", "telegram:1", "telegram:2"]
    assert {claim.attempts for claim in taken} == {1}


async def test_a_worker_that_was_paused_beyond_its_lease_can_commit_nothing(bus: RedisBus, valkey_url: str) -> None:
    """SIGSTOP until somebody else has the lane, then SIGCONT: it sees for itself that its lease is over,
    and the bus refuses what it does all the same."""
    await bus.intake.enqueue(message(1))
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CLAIM_AND_COMMIT_WHEN_TOLD, valkey_url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdin is not None
    assert await child.stdout.readline() == b"True\n"
    child.send_signal(signal.SIGSTOP)
    await bus.lanes.register("w1", lease_ttl_s=60)
    async with Worker().pulse(bus):
        while not (claims := await claim_now(bus, wait_s=1.0)):
            pass
    child.send_signal(signal.SIGCONT)
    child.stdin.write(b"go on\n")
    assert await child.stdout.readline() == b"False\n"
    assert await child.stdout.readline() == b"False\n"
    assert await child.wait() == 0
    assert await bus.lanes.commit(claims[0], handled=1)


@pytest.mark.one_shard
async def test_a_lease_is_known_from_its_registration_to_its_loss(bus: RedisBus, valkey_url: str) -> None:
    """Never longer than it lasts: what counts is when the beat was sent."""
    pulse = Worker().pulse(bus)
    assert pulse.lease_end_s == 0
    before_s = time.monotonic()
    await bus.lanes.register("w1", lease_ttl_s=60)
    assert before_s + 60 <= pulse.lease_end_s <= time.monotonic() + 60
    await beat(bus.lanes, "w1", lease_ttl_s=90)
    assert before_s + 90 <= pulse.lease_end_s <= time.monotonic() + 90
    await beat(bus.lanes, "w1", lease_ttl_s=-1)
    assert pulse.lease_end_s < time.monotonic()
    await reap(bus.lanes)
    await beat(bus.lanes, "w1", lease_ttl_s=60)
    assert pulse.lease_end_s == 0


async def test_the_pulse_moves_the_end_of_the_lease_while_the_loop_is_busy(bus: RedisBus, valkey_url: str) -> None:
    """The loop is blocked until the end has moved three times: the thread alone can do that."""
    await bus.lanes.register("w1", lease_ttl_s=60)
    async with Worker().pulse(bus) as pulse:
        ends_s = {pulse.lease_end_s}
        while len(ends_s) < 4:
            ends_s.add(pulse.lease_end_s)


async def test_after_an_outage_the_others_get_time_to_say_that_they_live(bus: RedisBus, raw_redis: Any) -> None:
    """When Redis was away every lease ran out. Whoever is back first must not take everybody's lanes: it
    knows by its own lease that it was not the others' fault."""
    for worker in ("w1", "w2"):
        await bus.lanes.register(worker, lease_ttl_s=60)
    await bus.intake.enqueue(message(1))
    (claim,) = (await bus.lanes.claim("w2", lanes_max=1, messages_max=1, attempts_max=4)).claims
    for worker in ("w1", "w2"):
        await beat(bus.lanes, worker, lease_ttl_s=-1)
    ends: set[float] = set()
    async with Worker().pulse(bus):
        while len(ends) < 4:  # the first beat, and three more with a valid lease
            ends.add(raw_redis.zscore("{q0}:wk", "w1"))
            await asyncio.sleep(0)
    assert await beat(bus.lanes, "w2", lease_ttl_s=60) == ()
    assert await bus.lanes.commit(claim, handled=1)
