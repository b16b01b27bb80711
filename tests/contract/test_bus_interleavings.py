"""Any interleaving of producers, workers, deaths and stops, checked against a model in plain Python.

What must hold after every step: messages of a lane leave in the order they came, each exactly once; a
lane is in exactly one state; a lease that was lost can change nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from gateway.bus.bus import RedisBus, open_bus
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import InboundMessage
from gateway.contracts.ports import Claim, Verdict
from tests.parts.bus_samples import control, message, reply

LANES = [SessionKey("telegram", user, place) for user in "12" for place in ((), ("-100",))]
WORKERS = ["w1", "w2", "w3"]
LEASE_TTL_S = 600.0
LANE_MAX = 5
BATCH_MAX = 3
ATTEMPTS_MAX = 3
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]  # a real server answers each step

lanes = st.sampled_from(LANES)
workers = st.sampled_from(WORKERS)


@dataclass
class Lane:
    """What the model knows of one lane."""

    waiting: list[InboundMessage] = field(default_factory=list)
    claim: Claim | None = None
    in_work: int = 0
    failures: int = 0


class Interleavings(RuleBasedStateMachine):
    """Each rule is one call of one participant; hypothesis looks for the order that breaks a promise."""

    url: ClassVar[str]
    redis: ClassVar[Any]

    def __init__(self) -> None:
        super().__init__()
        self.redis.flushall()
        self.runner = asyncio.Runner()
        self.bus: RedisBus = self.runner.run(open_bus(self.url, lane_messages_max=LANE_MAX))
        self.model = {lane: Lane() for lane in LANES}
        self.stale: list[Claim] = []
        self.next_number = 0
        self.sent: list[InboundMessage] = []
        self.published: list[str] = []
        self.answered: Counter[str] = Counter()
        for worker in WORKERS:
            self.runner.run(self.bus.lanes.register(worker, lease_ttl_s=LEASE_TTL_S))

    def teardown(self) -> None:
        self.runner.run(self.bus.close())
        self.runner.close()

    @rule(key=lanes)
    def enqueue(self, key: SessionKey) -> None:
        lane = self.model[key]
        fresh = message(self.next_number, key)
        self.next_number += 1
        admission = self.runner.run(self.bus.intake.enqueue(fresh))
        waiting = len(lane.waiting) - lane.in_work
        assert admission.is_running == (lane.claim is not None)
        if waiting >= LANE_MAX:
            assert admission.verdict is Verdict.LANE_FULL
            return
        assert (admission.verdict, admission.queued) == (Verdict.ACCEPTED, waiting + 1)
        lane.waiting.append(fresh)
        self.sent.append(fresh)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def redeliver(self, data: st.DataObject) -> None:
        again = data.draw(st.sampled_from(self.sent))
        admission = self.runner.run(self.bus.intake.enqueue(again))
        assert admission.verdict is Verdict.DUPLICATE

    @rule(worker=workers, lanes_max=st.integers(1, 4))
    def claim(self, worker: str, lanes_max: int) -> None:
        batch = self.runner.run(
            self.bus.lanes.claim(worker, lanes_max=lanes_max, messages_max=BATCH_MAX, attempts_max=ATTEMPTS_MAX)
        )
        for dead in batch.dead:
            lane = self.model[dead.key]
            assert (lane.claim, lane.failures) == (None, ATTEMPTS_MAX)
            assert lane.waiting.pop(0) == dead
            lane.failures = 0
            self.answered[dead.id] += 1
        for claim in batch.claims:
            lane = self.model[claim.key]
            assert lane.claim is None, "a lane that somebody owns was claimed"
            batch_size = 1 if lane.failures == ATTEMPTS_MAX - 1 else BATCH_MAX
            assert list(claim.messages) == lane.waiting[:batch_size]
            assert claim.attempts == lane.failures
            lane.claim, lane.in_work = claim, len(claim.messages)
        if len(batch.claims) < lanes_max:
            assert all(lane.claim or not lane.waiting for lane in self.model.values()), "a ready lane was left"

    @precondition(lambda self: self.owned())
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        lane = data.draw(st.sampled_from(self.owned()), label="lane")
        claim = self.owner(lane)
        handled = data.draw(st.integers(0, lane.in_work), label="handled")
        answer = reply(self.next_number, claim.key)
        self.next_number += 1
        assert self.runner.run(self.bus.lanes.commit(claim, handled=handled, replies=[answer]))
        self.published.append(answer.id)
        self.answered.update(item.id for item in lane.waiting[:handled])
        del lane.waiting[:handled]
        if handled:
            lane.failures = 0
        self.release(lane)

    @precondition(lambda self: self.owned())
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        lane = data.draw(st.sampled_from(self.owned()), label="lane")
        assert self.runner.run(self.bus.lanes.retry_later(self.owner(lane), delay_s=0, error="it broke"))
        lane.failures += 1
        self.release(lane)

    @precondition(lambda self: self.owned())
    @rule(data=st.data())
    def extend(self, data: st.DataObject) -> None:
        lane = data.draw(st.sampled_from(self.owned()), label="lane")
        more = self.runner.run(self.bus.lanes.extend(self.owner(lane), messages_max=100))
        assert list(more) == lane.waiting[lane.in_work :]
        lane.in_work = len(lane.waiting)

    @rule(worker=workers)
    def die(self, worker: str) -> None:
        """Its lease runs out, somebody reaps, and it comes back without knowing."""
        self.runner.run(self.bus.lanes.beat(worker, lease_ttl_s=-1))
        lost = [lane for lane in self.owned() if self.owner(lane).lease.worker == worker]
        assert self.runner.run(self.bus.lanes.reap()) == len(lost)
        for lane in lost:
            lane.failures += 1
            self.release(lane)
        assert self.runner.run(self.bus.lanes.beat(worker, lease_ttl_s=LEASE_TTL_S)) is None
        self.runner.run(self.bus.lanes.register(worker, lease_ttl_s=LEASE_TTL_S))

    @rule(worker=workers)
    def leave_and_return(self, worker: str) -> None:
        mine = [lane for lane in self.owned() if self.owner(lane).lease.worker == worker]
        self.runner.run(self.bus.lanes.drain(worker, [self.owner(lane) for lane in mine]))
        for lane in mine:
            self.release(lane)
        self.runner.run(self.bus.lanes.register(worker, lease_ttl_s=LEASE_TTL_S))

    @precondition(lambda self: self.stale)
    @rule(data=st.data())
    def come_too_late(self, data: st.DataObject) -> None:
        """A worker that lost its lease goes on as if nothing had happened."""
        claim = data.draw(st.sampled_from(self.stale))
        answer = reply(f"stale-{claim.lease.fence}", claim.key)
        assert not self.runner.run(self.bus.lanes.commit(claim, handled=1, replies=[answer]))
        assert not self.runner.run(self.bus.lanes.retry_later(claim, delay_s=0, error="late"))
        assert self.runner.run(self.bus.lanes.extend(claim, messages_max=100)) == ()

    @rule(key=lanes)
    def stop(self, key: SessionKey) -> None:
        lane = self.model[key]
        assert self.runner.run(self.bus.intake.request_control(control(self.next_number, key)))
        self.next_number += 1
        ((entry, fields),) = self.redis.xrevrange("{q0}:control", count=1)
        assert int(fields[b"dropped"]) == len(lane.waiting) - lane.in_work
        assert fields[b"running"] == (b"1" if lane.claim else b"0")
        self.redis.xdel("{q0}:control", entry)
        self.answered.update(item.id for item in lane.waiting[lane.in_work :])
        del lane.waiting[lane.in_work :]
        if lane.claim is None:
            lane.failures = 0

    @invariant()
    def nothing_is_lost_and_nothing_answered_twice(self) -> None:
        waiting = [item.id for lane in self.model.values() for item in lane.waiting]
        assert Counter(waiting) + self.answered == Counter({item.id: 1 for item in self.sent})

    @invariant()
    def the_server_agrees(self) -> None:
        """Every lane is in exactly one state, holds what it should, and every reply was published once."""
        look = self.redis.pipeline(transaction=True)
        look.lrange("{q0}:ready", 0, -1).zrange("{q0}:delay", 0, -1).hkeys("{q0}:own")
        look.get("{q0}:tot").xlen("{q0}:out:telegram")
        for key in LANES:
            look.llen(f"{{q0}}:mb:{key}")
        ready, delayed, owned, total, published, *lengths = look.execute()
        states = Counter([*map(lane_of, ready), *map(lane_of, delayed), *owned])
        assert states == Counter({str(key).encode(): 1 for key, lane in self.model.items() if lane.waiting})
        assert lengths == [len(self.model[key].waiting) for key in LANES]
        assert int(total or 0) == sum(lengths)
        assert published == len(self.published)

    def owned(self) -> list[Lane]:
        return [lane for lane in self.model.values() if lane.claim is not None]

    def owner(self, lane: Lane) -> Claim:
        assert lane.claim is not None
        return lane.claim

    def release(self, lane: Lane) -> None:
        self.stale.append(self.owner(lane))
        lane.claim, lane.in_work = None, 0


def lane_of(handle: bytes) -> bytes:
    return handle.partition(b"\x1f")[0]


def test_no_interleaving_breaks_a_promise(valkey_url: str, raw_redis: Any) -> None:
    class OnServer(Interleavings):
        url, redis = valkey_url, raw_redis

    run_state_machine_as_test(
        OnServer,
        settings=settings(max_examples=25, stateful_step_count=50, deadline=None, suppress_health_check=SLOW),
    )
