"""The control lane: never behind work, a stop that really stops, each command to one worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.bus.bus import RedisBus
from gateway.contracts.access import Rate
from gateway.contracts.messages import ControlKind, ControlRequest
from gateway.contracts.ports import Admission, Cancel, CancelKind, Claim, Verdict
from gateway.limits import STOPS_KEPT
from tests.parts.bus_samples import ANNA, BORIS, control, message, reply
from tests.parts.claiming import claim_one
from tests.parts.leases import beat, reap
from tests.parts.waiting import PATIENCE_S


@pytest.fixture(autouse=True)
async def registered_workers(bus: RedisBus) -> None:
    await bus.lanes.register("w1", lease_ttl_s=60)
    await bus.lanes.register("w2", lease_ttl_s=60)


async def next_request(requests: AsyncIterator[tuple[str, ControlRequest]]) -> tuple[str, ControlRequest]:
    return await asyncio.wait_for(anext(requests), PATIENCE_S)


async def test_a_command_reaches_one_worker_and_its_answer_the_channel(bus: RedisBus, raw_redis: Any) -> None:
    assert await bus.intake.request_control(control(1, kind=ControlKind.STATUS)) == Admission(Verdict.ACCEPTED)
    again = await bus.intake.request_control(control(1, kind=ControlKind.STATUS))
    assert again == Admission(Verdict.DUPLICATE), "a redelivery"
    requests = bus.control.requests("w1")
    entry, request = await next_request(requests)
    assert request == control(1, kind=ControlKind.STATUS)
    await bus.control.finish(entry, reply(1))
    (pending,) = await bus.deliveries.replies("telegram", "c1", count=10, wait_s=0)
    assert pending.reply == reply(1)
    assert raw_redis.xlen("{q0}:control") == 0


async def test_commands_are_shared_out_among_workers(bus: RedisBus) -> None:
    for number in range(2):
        await bus.intake.request_control(control(number, kind=ControlKind.STATUS))
    first, second = bus.control.requests("w1"), bus.control.requests("w2")
    _, one = await next_request(first)
    await bus.intake.request_control(control(2, kind=ControlKind.STATUS))
    _, other = await next_request(second)
    assert {one, other} == {control(0, kind=ControlKind.STATUS), control(2, kind=ControlKind.STATUS)}


async def test_a_dead_workers_command_goes_to_a_living_one(bus: RedisBus) -> None:
    await bus.intake.request_control(control(1))
    _, request = await next_request(bus.control.requests("w1"))
    await bus.lanes.drain("w1")
    _, again = await next_request(bus.control.requests("w2"))
    assert again == request


async def test_a_status_request_leaves_the_lane_alone(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    await bus.intake.request_control(control(1, kind=ControlKind.STATUS))
    assert await bus.lanes.depth(ANNA) == (1, False)


async def test_stop_cancels_the_turn_and_drops_what_waits(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    claim = await claim_one(bus)
    await bus.intake.enqueue(message(2))
    await bus.intake.enqueue(message(3))
    assert (await bus.intake.request_control(control(1))).verdict is Verdict.ACCEPTED
    _, request = await next_request(bus.control.requests("w2"))
    assert (request.dropped, request.was_running, request.stopped_fence) == (2, True, claim.lease.fence)
    assert await beat(bus.lanes, "w1", lease_ttl_s=60) == (Cancel(str(ANNA), CancelKind.STOP),)
    assert await beat(bus.lanes, "w1", lease_ttl_s=60) == ()
    assert await bus.lanes.commit(claim, handled=1)
    assert (await bus.operator.figures()).queued == 0


@pytest.mark.parametrize("settle_ms", [0, 60_000])
async def test_stop_empties_a_lane_that_nobody_runs(bus: RedisBus, settle_ms: int, raw_redis: Any) -> None:
    """Ready or still settling, the lane is gone, and the next message starts afresh."""
    await bus.intake.enqueue(message(1), settle_ms=settle_ms)
    await bus.intake.request_control(control(1))
    _, request = await next_request(bus.control.requests("w1"))
    assert (request.dropped, request.was_running, request.stopped_fence) == (1, False, 0)
    assert not raw_redis.exists("{q0}:mb:telegram:1", "{q0}:ready", "{q0}:delay")
    assert (await bus.intake.enqueue(message(2))).verdict is Verdict.ACCEPTED
    assert (await claim_one(bus)).messages == (message(2),)


async def test_an_operators_stop_does_the_same_without_a_word(bus: RedisBus, raw_redis: Any) -> None:
    await bus.intake.enqueue(message(1))
    claim = await claim_one(bus)
    await bus.intake.enqueue(message(2))
    await bus.intake.enqueue(message(3, BORIS))
    await bus.lanes.stop(ANNA)
    assert await bus.lanes.depth(ANNA) == (0, True)
    assert await beat(bus.lanes, "w1", lease_ttl_s=60) == (Cancel(str(ANNA), CancelKind.STOP),)
    assert await bus.lanes.commit(claim, handled=1)
    assert await bus.lanes.depth(BORIS) == (1, False), "nobody else's"
    await bus.lanes.stop(BORIS)
    assert (await bus.operator.figures()).queued == 0
    assert raw_redis.xlen("{q0}:control") == 0


async def test_stop_touches_no_other_lane(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1, BORIS))
    await bus.intake.request_control(control(1, ANNA))
    assert await bus.lanes.depth(BORIS) == (1, False)


async def test_a_cancel_is_published_as_it_happens_and_told_once(bus: RedisBus) -> None:
    cancels = bus.lanes.cancellations("w1")
    listening = asyncio.ensure_future(anext(cancels))
    number = 0
    while not listening.done():  # pub/sub keeps nothing: stop turns until the subscription stands
        number += 1
        await bus.intake.enqueue(message(number))
        claim = await claim_one(bus)
        await bus.intake.request_control(control(number))
        await asyncio.wait({listening}, timeout=0.05)
        if not listening.done():
            await bus.lanes.commit(claim, handled=1)
    assert listening.result() == Cancel(str(ANNA), CancelKind.STOP)
    assert await beat(bus.lanes, "w1", lease_ttl_s=60) == ()


async def test_a_late_cancel_does_not_hit_the_next_turn(bus: RedisBus) -> None:
    """The cancel names the fence of the turn it meant."""
    await bus.intake.enqueue(message(1))
    stopped = await claim_one(bus)
    await bus.intake.request_control(control(1))
    await bus.lanes.commit(stopped, handled=1)
    await bus.intake.enqueue(message(2))
    await claim_one(bus)
    assert await beat(bus.lanes, "w1", lease_ttl_s=60) == ()


async def test_an_unfinished_command_is_handed_out_again_to_a_worker_that_asks_anew(bus: RedisBus) -> None:
    await bus.intake.request_control(control(1))
    first = await next_request(bus.control.requests("w1"))
    assert await next_request(bus.control.requests("w1")) == first


# --- a stopped turn never runs again


async def take_over(bus: RedisBus, how: str, claim: Claim) -> None:
    """The lane of `claim` leaves worker w1 without its doing."""
    if how == "reaped":
        await beat(bus.lanes, "w1", lease_ttl_s=-1)
        assert await reap(bus.lanes) == 1
    elif how == "started again":
        await bus.lanes.register("w1", lease_ttl_s=60)
    elif how == "drained":
        await bus.lanes.drain("w1")
    else:
        assert await bus.lanes.revoke(claim.key, claim.lease.fence)


@pytest.mark.parametrize("how", ["reaped", "started again", "drained", "revoked"])
async def test_whoever_takes_a_stopped_turn_over_is_told_not_to_run_it(bus: RedisBus, how: str) -> None:
    """What was said after the stop is another turn, which runs."""
    for number in range(2):
        await bus.intake.enqueue(message(number))
    claim = await claim_one(bus, "w1")
    await bus.intake.request_control(control(1))
    await bus.intake.enqueue(message("later"))
    await take_over(bus, how, claim)
    stopped = await claim_one(bus, "w2")
    assert (stopped.messages, stopped.is_stopped) == (claim.messages, True)
    assert not await bus.lanes.commit(claim, handled=2), "the old owner is fenced"
    assert await bus.lanes.extend(stopped, messages_max=10) == (), "nothing joins a stopped turn"
    assert await bus.lanes.commit(stopped, handled=2)
    following = await claim_one(bus, "w2")
    assert (following.messages, following.is_stopped) == ((message("later"),), False)


async def test_a_stop_of_a_worker_that_is_dead_but_not_reaped_yet_counts(bus: RedisBus) -> None:
    """Nobody hears the cancel; the mark in the lane does its work."""
    await bus.intake.enqueue(message(1))
    claim = await claim_one(bus, "w1")
    await beat(bus.lanes, "w1", lease_ttl_s=-1)
    await bus.intake.request_control(control(1))
    assert await reap(bus.lanes) == 1
    stopped = await claim_one(bus, "w2")
    assert (stopped.messages, stopped.is_stopped) == (claim.messages, True)


async def test_everything_that_was_claimed_is_stopped_even_what_its_turn_left_over(bus: RedisBus) -> None:
    """A turn may take less than its claim; the rest was said before the stop, too."""
    for number in range(3):
        await bus.intake.enqueue(message(number))
    claim = await claim_one(bus)
    await bus.intake.request_control(control(1))
    await bus.lanes.commit(claim, handled=1)
    rest = await claim_one(bus)
    assert (rest.messages, rest.is_stopped) == ((message(1), message(2)), True)


async def test_a_second_stop_leaves_the_stopped_turn_to_its_new_worker(bus: RedisBus) -> None:
    """It was begun, so it has to be ended in the books; what waits behind it is dropped again."""
    await bus.intake.enqueue(message(1))
    claim = await claim_one(bus)
    await bus.intake.request_control(control(1))
    await bus.lanes.revoke(claim.key, claim.lease.fence)
    await bus.intake.enqueue(message(2))
    await bus.intake.request_control(control(2))
    stopped = await claim_one(bus)
    assert (stopped.messages, stopped.is_stopped) == ((message(1),), True)
    await bus.lanes.commit(stopped, handled=1)
    assert await bus.lanes.depth(ANNA) == (0, False)


async def test_a_revoke_hits_only_the_turn_it_means(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    claim = await claim_one(bus)
    assert not await bus.lanes.revoke(ANNA, claim.lease.fence - 1)
    assert not await bus.lanes.revoke(BORIS, claim.lease.fence)
    assert await bus.lanes.is_in_work(ANNA, claim.lease.fence)
    assert not await bus.lanes.is_in_work(ANNA, claim.lease.fence - 1)
    await bus.lanes.commit(claim, handled=1)
    assert not await bus.lanes.is_in_work(ANNA, claim.lease.fence)


async def test_the_next_message_after_a_stop_is_always_processed(bus: RedisBus) -> None:
    """Stopped while running, while the run gives back, while nobody runs: the mark never outlives its turn."""
    for number in range(3):
        await bus.intake.enqueue(message(number))
        claim = await claim_one(bus)
        await bus.intake.request_control(control(number))
        await bus.lanes.restart(claim)
        stopped = await claim_one(bus)
        assert stopped.is_stopped
        await bus.lanes.retry_later(stopped, delay_s=0, error="the database was away")
        stopped = await claim_one(bus)
        assert (stopped.is_stopped, stopped.attempts) == (True, 1)
        await bus.lanes.commit(stopped, handled=1)
    await bus.intake.enqueue(message("next"))
    following = await claim_one(bus)
    assert (following.is_stopped, following.attempts) == (False, 0)


async def test_asking_where_a_message_is_leaves_the_lane_alone(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    await bus.intake.request_control(control(1, kind=ControlKind.WHERE))
    _, request = await next_request(bus.control.requests("w1"))
    assert (request.kind, request.stopped_fence) == (ControlKind.WHERE, 0)
    assert await bus.lanes.depth(ANNA) == (1, False)


# --- how fast people may give commands

SLOW = Rate(per_minute=1, burst=STOPS_KEPT + 1)  # seven at once, of which five are for /stop


async def verdicts(bus: RedisBus, kind: ControlKind, *numbers: int) -> list[Verdict]:
    """Of as many commands of Anna."""
    answers = [await bus.intake.request_control(control(f"{kind}{number}", kind=kind), rate=SLOW) for number in numbers]
    return [answer.verdict for answer in answers]


async def test_a_flood_of_commands_is_cut_off_and_anothers_stop_is_the_next_one_heard(bus: RedisBus) -> None:
    kinds = [kind for kind in ControlKind if kind is not ControlKind.STOP]
    answers = [
        await bus.intake.request_control(control(number, kind=kinds[number % len(kinds)]), rate=SLOW)
        for number in range(20)
    ]
    assert [answer.verdict for answer in answers] == [Verdict.ACCEPTED] * 2 + [Verdict.TOO_FAST] * 18
    assert 0 < answers[-1].wait_s <= 60
    assert (await bus.intake.request_control(control(1, BORIS), rate=SLOW)).verdict is Verdict.ACCEPTED
    requests = bus.control.requests("w1")
    heard = [(await next_request(requests))[1].message.key for _ in range(3)]
    assert sorted(map(str, heard)) == sorted(map(str, [ANNA, ANNA, BORIS]))


async def test_a_command_that_was_refused_may_be_given_again_and_one_that_comes_again_counts_once(
    bus: RedisBus, raw_redis: Any
) -> None:
    assert await verdicts(bus, ControlKind.STATUS, 1, 1, 1, 2) == [
        *(Verdict.ACCEPTED, Verdict.DUPLICATE, Verdict.DUPLICATE),
        Verdict.ACCEPTED,
    ]
    assert await verdicts(bus, ControlKind.STATUS, 3, 2) == [Verdict.TOO_FAST, Verdict.DUPLICATE]
    (bucket,) = raw_redis.keys("*pace:*")
    raw_redis.delete(bucket)  # as when it is full again
    assert await verdicts(bus, ControlKind.STATUS, 3) == [Verdict.ACCEPTED]


async def test_whoever_has_used_up_his_commands_may_still_stop_and_not_for_ever(bus: RedisBus) -> None:
    await verdicts(bus, ControlKind.STATUS, 1, 2, 3)
    heard = [Verdict.ACCEPTED] * STOPS_KEPT
    assert await verdicts(bus, ControlKind.STOP, *range(9)) == [*heard, *[Verdict.TOO_FAST] * (9 - STOPS_KEPT)]


@pytest.mark.parametrize("state", ["waiting", "running", "running, with more behind it"])
async def test_a_stop_that_finds_what_to_stop_is_always_taken_and_once(bus: RedisBus, state: str) -> None:
    await verdicts(bus, ControlKind.STOP, *range(9))
    await bus.intake.enqueue(message(1))
    if state != "waiting":
        await claim_one(bus)
        assert await verdicts(bus, ControlKind.STOP, 21, 22) == [Verdict.ACCEPTED, Verdict.TOO_FAST]
    if state != "running":
        await bus.intake.enqueue(message(2))
        assert await verdicts(bus, ControlKind.STOP, 31, 32) == [Verdict.ACCEPTED, Verdict.TOO_FAST]


async def test_where_few_commands_are_allowed_one_of_them_is_no_stop(bus: RedisBus) -> None:
    rate = Rate(per_minute=1)
    answer = await bus.intake.request_control(control(1, kind=ControlKind.STATUS), rate=rate)
    assert answer.verdict is Verdict.ACCEPTED
    answer = await bus.intake.request_control(control(2, kind=ControlKind.STATUS), rate=rate)
    assert answer.verdict is Verdict.TOO_FAST
