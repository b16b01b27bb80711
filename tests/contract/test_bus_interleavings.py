"""Any interleaving of producers, workers, deaths, stops, edits and deletions, checked against `lane_model`.

What must hold after every step: messages of a lane leave in the order they came, each exactly once; a
lane is in exactly one state; nobody has more places than his share; fences only grow; a lease that was
lost can change nothing; and whatever happened, the lanes can be emptied and leave nothing behind.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.keys import Lifetime, kind_of
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import InboundMessage, Reply
from gateway.contracts.ports import Claim, Verdict
from tests.parts.bus_samples import control, message, reply
from tests.parts.databases import INSTALLATION
from tests.parts.lane_model import Bounds, Lane, LaneModel, State, changed
from tests.parts.leases import beat, reap

KEYS = [SessionKey.parse(key) for key in ("telegram:1", "telegram:1/-1", "telegram:1/-2", "telegram:2")]
WORKERS = ["w1", "w2", "w3"]
LEASE_TTL_S = 600.0
FAR_MS = 3_600_000
NEVER_MS = 2**50
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]  # each step asks a real server

keys = st.sampled_from(KEYS)
workers = st.sampled_from(WORKERS)


class Interleavings(RuleBasedStateMachine):
    """Each rule is one call of one participant; hypothesis looks for the order that breaks a promise."""

    url: ClassVar[str]
    redis: ClassVar[Any]
    bounds: ClassVar[Bounds]

    def __init__(self) -> None:
        super().__init__()
        self.redis.flushall()
        self.runner = asyncio.Runner()
        self.bus: RedisBus = self.runner.run(
            open_bus(
                self.url,
                installation=INSTALLATION,
                lane_messages_max=self.bounds.lane_messages_max,
                user_turns_max=self.bounds.user_turns_max,
                turns_max=self.bounds.turns_max,
            )
        )
        self.model = LaneModel(KEYS, self.bounds)
        self.stale: list[Claim] = []
        self.next_number = 0
        self.sent: list[InboundMessage] = []
        self.published: list[str] = []
        self.last_fence = 0
        for worker in WORKERS:
            self.runner.run(self.bus.lanes.register(worker, lease_ttl_s=LEASE_TTL_S))

    def teardown(self) -> None:
        self.runner.run(self.bus.close())
        self.runner.close()

    # --- people

    @rule(key=keys, settles=st.booleans(), interrupts=st.booleans())
    def enqueue(self, key: SessionKey, settles: bool, interrupts: bool) -> None:
        fresh = message(self.number(), key)
        is_running = self.model.lanes[key].claim is not None
        expected = self.model.enqueue(fresh, settles=settles, interrupts=interrupts)
        admission = self.runner.run(
            self.bus.intake.enqueue(fresh, settle_ms=FAR_MS if settles else 0, interrupts=interrupts)
        )
        assert (admission.verdict, admission.queued) == expected
        assert admission.is_running == is_running
        if admission.verdict is Verdict.ACCEPTED:
            self.sent.append(fresh)
        self.put_off_to(NEVER_MS)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def redeliver(self, data: st.DataObject) -> None:
        again = data.draw(st.sampled_from(self.sent))
        admission = self.runner.run(self.bus.intake.enqueue(again, interrupts=True))
        assert admission.verdict is Verdict.DUPLICATE

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), text=st.sampled_from(["one", "another", 'a "quote"']))
    def amend(self, data: st.DataObject, text: str) -> None:
        edited = changed(self.some_message(data), text)
        assert self.runner.run(self.bus.intake.amend(edited)) is self.model.amend(edited)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        gone = self.some_message(data)
        expected = self.model.withdraw(gone.key, gone.id)
        assert self.runner.run(self.bus.intake.withdraw(gone.key, gone.id)) is expected

    @rule(key=keys)
    def stop(self, key: SessionKey) -> None:
        is_running = self.model.lanes[key].claim is not None
        dropped, fence = self.model.stop(key)
        taken = self.runner.run(self.bus.intake.request_control(control(self.number(), key)))
        assert taken.verdict is Verdict.ACCEPTED
        ((entry, fields),) = self.redis.xrevrange("{q0}:control", count=1)
        assert (int(fields[b"dropped"]), int(fields[b"fence"])) == (dropped, fence)
        assert fields[b"running"] == (b"1" if is_running else b"0")
        self.redis.xdel("{q0}:control", entry)

    @precondition(lambda self: self.model.owned())
    @rule(data=st.data())
    def stop_a_running_turn(self, data: st.DataObject) -> None:
        self.stop(self.some_owned(data).key)

    # --- workers

    @rule(worker=workers, lanes_max=st.integers(1, 6), is_due=st.booleans())
    def claim(self, worker: str, lanes_max: int, is_due: bool) -> None:
        if is_due:
            self.put_off_to(1)
        leased, dead = self.model.claim(lanes_max, is_due=is_due)
        batch = self.runner.run(
            self.bus.lanes.claim(
                worker, lanes_max=lanes_max, messages_max=self.bounds.batch_max, attempts_max=self.bounds.attempts_max
            )
        )
        assert [item.message for item in batch.dead] == dead
        for item in batch.dead:
            self.runner.run(self.bus.lanes.finish_dead(item.message))
        assert [claim.key for claim in batch.claims] == [lane.key for lane in leased]
        for lane, claim in zip(leased, batch.claims, strict=True):
            assert list(claim.messages) == lane.mailbox[: lane.in_work]
            assert (claim.attempts, claim.is_stopped) == (lane.failures, lane.stopped > 0)
            assert claim.lease.fence > self.last_fence, "fences only grow"
            self.last_fence = claim.lease.fence
            lane.claim = claim

    @precondition(lambda self: self.model.owned())
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        lane = self.some_owned(data)
        handled = data.draw(st.integers(0, lane.in_work), label="handled")
        answer = reply(self.number(), lane.key)
        assert self.runner.run(self.bus.lanes.commit(self.ends(lane), handled=handled, replies=[answer]))
        self.published.append(answer.id)
        self.model.commit(lane, handled)

    @precondition(lambda self: self.model.owned())
    @rule(data=st.data())
    def commit_together(self, data: st.DataObject) -> None:
        """Commits that meet travel in one call: one that is too late, or comes twice, is none, and harms no other."""
        stale = data.draw(st.lists(st.sampled_from(self.stale), max_size=2)) if self.stale else []
        late = [(claim, 1) for claim in stale]
        owned = data.draw(st.permutations(self.model.owned(self.some_worker(data))), label="lanes")
        ending = [(self.ends(lane), data.draw(st.integers(0, lane.in_work), label="handled")) for lane in owned]
        commits = [*late, *ending, ending[0]]
        answers = [reply(self.number(), claim.key) for claim, _ in commits]
        verdicts = self.runner.run(self.commit_at_once(commits, answers))
        assert verdicts == [False] * len(late) + [True] * len(ending) + [False]
        for lane, (_, handled), answer in zip(owned, ending, answers[len(late) :], strict=False):
            self.published.append(answer.id)
            self.model.commit(lane, handled)

    @precondition(lambda self: self.model.owned())
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        lane = self.some_owned(data)
        assert self.runner.run(self.bus.lanes.retry_later(self.ends(lane), delay_s=FAR_MS / 1000, error="it broke"))
        self.model.retry_later(lane)

    @precondition(lambda self: self.model.owned())
    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        lane = self.some_owned(data)
        assert self.runner.run(self.bus.lanes.restart(self.ends(lane)))
        self.model.restart(lane)

    @precondition(lambda self: self.model.owned())
    @rule(data=st.data())
    def revoke(self, data: st.DataObject) -> None:
        lane = self.some_owned(data)
        claim = self.ends(lane)
        assert self.runner.run(self.bus.lanes.is_in_work(claim.key, claim.lease.fence))
        assert self.runner.run(self.bus.lanes.revoke(claim.key, claim.lease.fence))
        assert not self.runner.run(self.bus.lanes.is_in_work(claim.key, claim.lease.fence))
        self.model.revoke(lane)

    @precondition(lambda self: self.model.owned())
    @rule(data=st.data(), messages_max=st.integers(0, 3))
    def extend(self, data: st.DataObject, messages_max: int) -> None:
        lane = self.some_owned(data)
        assert lane.claim is not None
        more = self.runner.run(self.bus.lanes.extend(lane.claim, messages_max=messages_max))
        assert list(more) == self.model.extend(lane, messages_max)

    @rule(worker=workers)
    def beat(self, worker: str) -> None:
        cancels = self.runner.run(beat(self.bus.lanes, worker, lease_ttl_s=LEASE_TTL_S))
        assert cancels is not None
        unaware = self.model.unaware(worker)
        news = self.model.cancelled(worker)
        assert news <= set(cancels) <= news | unaware

    @rule(worker=workers)
    def die(self, worker: str) -> None:
        """Its lease runs out, somebody reaps, and it comes back without knowing."""
        self.runner.run(beat(self.bus.lanes, worker, lease_ttl_s=-1))
        lost = [self.ends(lane) for lane in self.model.owned(worker)]
        assert self.runner.run(reap(self.bus.lanes)) == len(lost)
        self.model.leave(worker, is_death=True)
        self.put_off_to(NEVER_MS)
        assert self.runner.run(beat(self.bus.lanes, worker, lease_ttl_s=LEASE_TTL_S)) is None
        self.runner.run(self.bus.lanes.register(worker, lease_ttl_s=LEASE_TTL_S))

    @rule(worker=workers)
    def come_back_under_the_same_name(self, worker: str) -> None:
        """Its process was killed and started again before anybody reaped."""
        for lane in self.model.owned(worker):
            self.ends(lane)
        self.runner.run(self.bus.lanes.register(worker, lease_ttl_s=LEASE_TTL_S))
        self.model.leave(worker, is_death=True)
        self.put_off_to(NEVER_MS)

    @rule(worker=workers)
    def leave_and_return(self, worker: str) -> None:
        self.runner.run(self.bus.lanes.drain(worker))
        self.model.leave(worker, is_death=False)
        self.runner.run(self.bus.lanes.register(worker, lease_ttl_s=LEASE_TTL_S))

    @precondition(lambda self: self.stale)
    @rule(data=st.data())
    def come_too_late(self, data: st.DataObject) -> None:
        """A worker that lost its lease goes on as if nothing had happened."""
        claim = data.draw(st.sampled_from(self.stale))
        answer = reply(f"stale-{claim.lease.fence}", claim.key)
        assert not self.runner.run(self.bus.lanes.commit(claim, handled=1, replies=[answer]))
        assert not self.runner.run(self.bus.lanes.retry_later(claim, delay_s=0, error="late"))
        assert not self.runner.run(self.bus.lanes.restart(claim))
        assert not self.runner.run(self.bus.lanes.revoke(claim.key, claim.lease.fence))
        assert not self.runner.run(self.bus.lanes.is_in_work(claim.key, claim.lease.fence))
        assert self.runner.run(self.bus.lanes.extend(claim, messages_max=100)) == ()

    # --- the operator

    @precondition(lambda self: self.model.dead)
    @rule(data=st.data())
    def retry_dead(self, data: st.DataObject) -> None:
        letters = self.runner.run(self.bus.operator.dead_letters(100))
        assert [letter.message for letter in reversed(letters)] == self.model.dead
        letter = data.draw(st.sampled_from(letters), label="letter")
        assert letter.message is not None
        assert self.runner.run(self.bus.operator.retry_dead(letter.entry_id))
        assert not self.runner.run(self.bus.operator.retry_dead(letter.entry_id))
        self.sent.append(self.model.retry_dead(letter.message))

    @rule()
    def empty_all_lanes(self) -> None:
        """Nothing is ever stuck: workers that only commit come to an end, and no trace of a lane is left."""
        while any(lane.mailbox for lane in self.model.lanes.values()):
            before = len(self.sent) - self.model.ended.total(), len(self.model.owned())
            self.claim("w1", 100, is_due=True)
            for lane in self.model.owned():
                claim = self.ends(lane)
                assert self.runner.run(self.bus.lanes.commit(claim, handled=lane.in_work))
                self.model.commit(lane, lane.in_work)
            assert (len(self.sent) - self.model.ended.total(), len(self.model.owned())) != before
        for worker in WORKERS:
            self.beat(worker)
            self.beat(worker)  # the next one says that the last one was heard
        kinds = {kind_of(key.decode()) for key in self.redis.scan_iter(count=1000)}
        left = {kind.name for kind in kinds if kind is not None and kind.lifetime is Lifetime.DRAINS}
        assert left <= {"wk", "wake"}

    # --- after every step

    @invariant()
    def nothing_is_lost_and_nothing_ends_twice(self) -> None:
        waiting = [item.id for lane in self.model.lanes.values() for item in lane.mailbox if item is not None]
        assert Counter(waiting) + self.model.ended == Counter({item.id: 1 for item in self.sent})

    @invariant()
    def the_server_agrees(self) -> None:
        """Every lane is listed where it should be and holds what it should; every reply was published once."""
        look = self.redis.pipeline(transaction=True)
        look.lrange("{q0}:ready", 0, -1).zrange("{q0}:delay", 0, -1).hkeys("{q0}:own").hgetall("{q0}:ucnt")
        look.get("{q0}:tot").xlen("{q0}:out:telegram")
        for owner in self.model.parks:
            look.lrange(f"{{q0}}:park:{owner}", 0, -1)
        for key in KEYS:
            look.llen(f"{{q0}}:mb:{key}")
        ready, delayed, owned, places, total, published, *lists = look.execute()
        parked, lengths = lists[: len(self.model.parks)], lists[len(self.model.parks) :]
        assert [lane_of(handle) for handle in ready] == [str(lane.key) for lane in self.model.ready]
        for handles, lanes in zip(parked, self.model.parks.values(), strict=True):
            assert [lane_of(handle) for handle in handles] == [str(lane.key) for lane in lanes]
        assert {lane_of(handle) for handle in delayed} == self.listed(State.DELAYED)
        assert {lane.decode() for lane in owned} == self.listed(State.OWNED)
        counted = {owner.decode(): int(count) for owner, count in places.items()}
        assert counted == {str(owner): count for owner, count in self.model.places().items()}
        assert all(count <= self.bounds.user_turns_max for count in counted.values())
        assert lengths == [len(self.model.lanes[key].mailbox) for key in KEYS]
        assert int(total or 0) == sum(lengths)
        assert published == len(self.published)

    @invariant()
    def the_model_keeps_its_own_rules(self) -> None:
        """A lane is absent when it is empty and only then; no place is free while somebody waits for it."""
        for lane in self.model.lanes.values():
            assert (lane.state is State.ABSENT) == (not lane.mailbox)
        for owner, parked in self.model.parks.items():
            assert not parked or self.model.places()[owner] == self.bounds.user_turns_max
        if self.bounds.turns_max:
            assert len(self.model.owned()) <= self.bounds.turns_max

    # --- what the rules share

    def number(self) -> int:
        self.next_number += 1
        return self.next_number

    def listed(self, state: State) -> set[str]:
        return {str(lane.key) for lane in self.model.lanes.values() if lane.state is state}

    def some_owned(self, data: st.DataObject) -> Lane:
        return data.draw(st.sampled_from(self.model.owned()), label="lane")

    def some_worker(self, data: st.DataObject) -> str:
        """One that owns a lane."""
        claim = self.some_owned(data).claim
        assert claim is not None
        return claim.lease.worker

    def some_message(self, data: st.DataObject) -> InboundMessage:
        """One that lies in a lane, or any."""
        lying = [item for lane in self.model.lanes.values() for item in lane.mailbox if item is not None]
        return data.draw(st.sampled_from(lying or self.sent) | st.sampled_from(self.sent), label="message")

    def ends(self, lane: Lane) -> Claim:
        """The claim of a run that is about to end: from now on it is stale."""
        assert lane.claim is not None
        self.stale.append(lane.claim)
        return lane.claim

    async def commit_at_once(self, commits: Sequence[tuple[Claim, int]], answers: Sequence[Reply]) -> list[bool]:
        """Commit each with its answer, none after another."""
        calls = [
            self.bus.lanes.commit(claim, handled=handled, replies=[answer])
            for (claim, handled), answer in zip(commits, answers, strict=True)
        ]
        return await asyncio.gather(*calls)

    def put_off_to(self, due_ms: int) -> None:
        """All delayed lanes are due then: time passes when a rule says so, never by itself."""
        if delayed := self.redis.zrange("{q0}:delay", 0, -1):
            self.redis.zadd("{q0}:delay", dict.fromkeys(delayed, due_ms))


def lane_of(handle: bytes) -> str:
    return handle.partition(b"\x1f")[0].decode()


@pytest.mark.parametrize("turns_max", [0, 3])
@pytest.mark.parametrize("lives", [10, pytest.param(60, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
def test_no_interleaving_breaks_a_promise(valkey_url: str, raw_redis: Any, lives: int, turns_max: int) -> None:
    class OnServer(Interleavings):
        url, redis = valkey_url, raw_redis
        bounds = Bounds(turns_max=turns_max)

    run_state_machine_as_test(
        OnServer, settings=settings(max_examples=lives, stateful_step_count=80, suppress_health_check=SLOW)
    )
