"""Edits, deletions and interruptions: of what waits, of what is being answered, of what is past."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.bus.bus import RedisBus, open_bus
from gateway.contracts.messages import InboundMessage
from gateway.contracts.ports import Amendment, Cancel, CancelKind, Verdict
from tests.parts.bus_samples import ANNA, BORIS, control, message
from tests.parts.claiming import claim_one
from tests.parts.leases import beat, reap

RESTART = Cancel(str(ANNA), CancelKind.RESTART)
STOP = Cancel(str(ANNA), CancelKind.STOP)


@pytest.fixture(autouse=True)
async def registered_workers(bus: RedisBus) -> None:
    for worker in ("w1", "w2"):
        await bus.lanes.register(worker, lease_ttl_s=600)


async def cancels(bus: RedisBus, worker: str = "w1") -> tuple[Cancel, ...]:
    heard = await beat(bus.lanes, worker, lease_ttl_s=600)
    assert heard is not None
    return heard


def texts(messages: tuple[InboundMessage, ...]) -> list[str]:
    return [str(item.text) for item in messages]


# --- what waits


@pytest.mark.parametrize("wait", ["ready", "settling", "backing off", "parked"])
async def test_an_edit_of_a_waiting_message_changes_it_in_its_place(bus: RedisBus, raw_redis: Any, wait: str) -> None:
    """Wherever its lane waits, and nothing else about the lane changes."""
    others = [type(ANNA)("telegram", "1", (f"-{place}",)) for place in range(2)] if wait == "parked" else []
    for other in others:
        await bus.intake.enqueue(message(1, other))
    for number in range(3):
        await bus.intake.enqueue(message(number), settle_ms=60_000 if wait == "settling" else 0)
    if wait == "backing off":
        await bus.lanes.retry_later(await claim_one(bus), delay_s=60, error="the model was away")
    before = raw_redis.zrange("{q0}:delay", 0, -1, withscores=True), raw_redis.hgetall("{q0}:past")
    assert await bus.intake.amend(message(1, text="better")) is Amendment.CHANGED
    assert (raw_redis.zrange("{q0}:delay", 0, -1, withscores=True), raw_redis.hgetall("{q0}:past")) == before
    if wait in ("settling", "backing off"):
        raw_redis.zadd("{q0}:delay", {"telegram:1\x1ftelegram:1": 1})
    for other in others:
        await bus.intake.request_control(control("away", other))
    assert texts((await claim_one(bus)).messages) == ["hello", "better", "hello"]
    assert await cancels(bus) == ()


async def test_a_deleted_message_is_gone_and_the_others_go_on(bus: RedisBus) -> None:
    for number in range(3):
        await bus.intake.enqueue(message(number))
    assert await bus.intake.withdraw(ANNA, message(1).id) is Amendment.CHANGED
    claim = await claim_one(bus)
    assert claim.messages == (message(0), message(2))
    await bus.lanes.commit(claim, handled=2)
    assert (await bus.operator.figures()).queued == 0


@pytest.mark.parametrize("settle_ms", [0, 60_000])
async def test_a_lane_whose_only_message_is_deleted_is_gone(bus: RedisBus, settle_ms: int) -> None:
    await bus.intake.enqueue(message(1), settle_ms=settle_ms)
    assert await bus.intake.withdraw(ANNA, message(1).id) is Amendment.CHANGED
    assert await bus.lanes.depth(ANNA) == (0, False)
    assert (await bus.intake.enqueue(message(1))).verdict is Verdict.DUPLICATE, "a redelivery does not revive it"
    assert (await bus.lanes.claim("w1", lanes_max=1, messages_max=1, attempts_max=4)).claims == ()


async def test_what_stood_behind_a_deleted_poison_message_starts_afresh(bus: RedisBus) -> None:
    for number in range(2):
        await bus.intake.enqueue(message(number))
    await bus.lanes.retry_later(await claim_one(bus), delay_s=0, error="it broke")
    await bus.intake.withdraw(ANNA, message(0).id)
    claim = await claim_one(bus)
    assert (claim.messages, claim.attempts) == ((message(1),), 0)


async def tried_again(bus: RedisBus, number: int) -> None:
    """Give a message up, and queue it once more."""
    await bus.intake.enqueue(message(number))
    await bus.lanes.retry_later(await claim_one(bus), delay_s=0, error="it broke")
    (dead,) = (await bus.lanes.claim("w1", lanes_max=1, messages_max=1, attempts_max=1)).dead
    (letter,) = await bus.operator.dead_letters(10)
    assert (dead.letter_id, dead.message) == (letter.entry_id, message(number))
    assert await bus.operator.retry_dead(letter.entry_id)


async def test_an_edit_reaches_what_is_tried_again_and_leaves_it_the_id_of_its_try(bus: RedisBus) -> None:
    await tried_again(bus, 1)
    await bus.intake.enqueue(message(11))
    assert await bus.intake.amend(message(1, text="better")) is Amendment.CHANGED
    claim = await claim_one(bus)
    assert claim.messages == (replace(message(1, text="better"), id=f"{message(1).id}~1"), message(11))
    assert await bus.intake.amend(message(1, text="best")) is Amendment.RESTARTED


async def test_a_deletion_reaches_what_is_tried_again(bus: RedisBus) -> None:
    await tried_again(bus, 1)
    await bus.intake.enqueue(message(11))
    assert await bus.intake.withdraw(ANNA, message(1).id) is Amendment.CHANGED
    assert await bus.intake.withdraw(ANNA, message(1).id) is Amendment.TOO_LATE
    assert (await claim_one(bus)).messages == (message(11),)


async def test_changes_behind_a_running_turn_do_not_disturb_it(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    claim = await claim_one(bus)
    for number in (2, 3):
        await bus.intake.enqueue(message(number))
    assert await bus.intake.amend(message(2, text="better")) is Amendment.CHANGED
    assert await bus.intake.withdraw(ANNA, message(3).id) is Amendment.CHANGED
    assert await cancels(bus) == ()
    await bus.lanes.commit(claim, handled=1)
    assert texts((await claim_one(bus)).messages) == ["better"]


# --- what is being answered


async def test_an_edit_restarts_the_turn_that_answers_the_message_once(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    first = await claim_one(bus)
    assert await bus.intake.amend(message(1, text="better")) is Amendment.RESTARTED
    assert await bus.intake.amend(message(1, text="better")) is Amendment.RESTARTED, "a redelivery of the same edit"
    assert await cancels(bus) == (RESTART,)
    assert await bus.lanes.restart(first)
    second = await claim_one(bus)
    assert (texts(second.messages), second.attempts) == (["better"], 0)
    assert await bus.intake.amend(message(1, text="best")) is Amendment.TOO_LATE
    assert await cancels(bus) == ()
    await bus.lanes.commit(second, handled=1)


async def test_an_edit_that_changes_nothing_disturbs_nobody(bus: RedisBus) -> None:
    """Platforms send one when they add a preview."""
    await bus.intake.enqueue(message(1))
    await claim_one(bus)
    assert await bus.intake.amend(message(1)) is Amendment.CHANGED
    assert await cancels(bus) == ()


async def test_each_message_of_a_turn_may_restart_it(bus: RedisBus) -> None:
    for number in range(2):
        await bus.intake.enqueue(message(number))
    for number in range(2):
        claim = await claim_one(bus)
        assert await bus.intake.amend(message(number, text=f"better {number}")) is Amendment.RESTARTED
        await bus.lanes.restart(claim)
    assert texts((await claim_one(bus)).messages) == ["better 0", "better 1"]


async def test_a_deletion_restarts_the_turn_without_the_message(bus: RedisBus) -> None:
    for number in range(3):
        await bus.intake.enqueue(message(number))
    claim = await claim_one(bus)
    assert await bus.intake.withdraw(ANNA, message(1).id) is Amendment.RESTARTED
    assert await bus.intake.withdraw(ANNA, message(1).id) is Amendment.TOO_LATE
    assert await cancels(bus) == (RESTART,)
    assert await bus.lanes.restart(claim)
    assert (await claim_one(bus)).messages == (message(0), message(2))


async def test_a_deletion_that_comes_while_the_turn_commits_costs_no_other_message(bus: RedisBus) -> None:
    """The worker acknowledges by number: what was withdrawn keeps its place until the run is over."""
    for number in range(4):
        await bus.intake.enqueue(message(number))
    claim = await claim_one(bus)
    await bus.intake.withdraw(ANNA, message(0).id)
    await bus.intake.withdraw(ANNA, message(2).id)
    assert await bus.lanes.commit(claim, handled=2)
    again = await claim_one(bus)
    assert again.messages == (message(3),)
    await bus.lanes.commit(again, handled=1)
    assert (await bus.operator.figures()).queued == 0


async def test_a_turn_from_which_everything_was_deleted_is_over(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    claim = await claim_one(bus)
    await bus.intake.withdraw(ANNA, message(1).id)
    assert await bus.lanes.restart(claim)
    assert await bus.lanes.depth(ANNA) == (0, False)
    assert (await bus.lanes.claim("w1", lanes_max=1, messages_max=1, attempts_max=4)).claims == ()


async def test_the_edit_of_a_dying_workers_message_reaches_the_next_one(bus: RedisBus) -> None:
    """The cancel finds nobody; the changed text is there for whoever takes over."""
    for number in range(2):
        await bus.intake.enqueue(message(number))
    await claim_one(bus, "w1")
    await bus.intake.amend(message(0, text="better"))
    await bus.intake.withdraw(ANNA, message(1).id)
    await beat(bus.lanes, "w1", lease_ttl_s=-1)
    await reap(bus.lanes)
    assert texts((await claim_one(bus, "w2")).messages) == ["better"]


async def test_a_deletion_before_the_worker_heard_of_its_claim(bus: RedisBus, valkey_url: str) -> None:
    """The answer of the claim was lost with the connection; asked again, it holds a withdrawn message."""
    for number in range(2):
        await bus.intake.enqueue(message(number))
    await claim_one(bus, "w1")
    forgetful = await open_bus(valkey_url)
    await bus.intake.withdraw(ANNA, message(0).id)
    assert (await forgetful.lanes.claim("w1", lanes_max=1, messages_max=20, attempts_max=4)).claims == ()
    assert (await claim_one(forgetful, "w1")).messages == (message(1),)
    await forgetful.close()


# --- what is past


async def test_what_is_answered_or_unknown_cannot_be_changed(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    await bus.lanes.commit(await claim_one(bus), handled=1)
    for number in (1, 99):
        assert await bus.intake.amend(message(number, text="better")) is Amendment.TOO_LATE
        assert await bus.intake.withdraw(ANNA, message(number).id) is Amendment.TOO_LATE
    assert (await bus.operator.figures()).queued == 0


async def test_a_stopped_turn_is_not_restarted_by_an_edit(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    await claim_one(bus)
    await bus.intake.request_control(control(1))
    assert await bus.intake.amend(message(1, text="better")) is Amendment.TOO_LATE
    assert await bus.intake.withdraw(ANNA, message(1).id) is Amendment.TOO_LATE
    await bus.intake.enqueue(message(2), interrupts=True)
    assert await cancels(bus) == (STOP,)


async def test_a_message_that_quotes_an_envelope_is_not_taken_for_it(bus: RedisBus) -> None:
    """Messages are found by the beginning of their envelope; what a person writes cannot imitate it."""
    victim, trap = message(1), message(2, text='{"v":1,"t":"inbound","id":"telegram:bot:1:1","key":"telegram:1"')
    await bus.intake.enqueue(trap)
    await bus.intake.enqueue(victim)
    assert await bus.intake.withdraw(ANNA, victim.id) is Amendment.CHANGED
    assert (await claim_one(bus)).messages == (trap,)


# --- interruptions


@pytest.mark.one_shard
async def test_an_interrupting_message_restarts_the_running_turn_with_both(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1), interrupts=True)
    claim = await claim_one(bus)
    await bus.intake.enqueue(message(1, BORIS), interrupts=True)
    assert (await bus.intake.enqueue(message(2), interrupts=True)).is_running
    assert await cancels(bus) == (RESTART,)
    assert await bus.lanes.restart(claim)
    batch = await bus.lanes.claim("w1", lanes_max=10, messages_max=20, attempts_max=4)
    assert [claim.messages for claim in batch.claims] == [(message(1), message(2)), (message(1, BORIS),)]
    assert batch.claims[0].attempts == 0


async def test_a_refused_or_repeated_message_interrupts_nothing(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(0))
    await claim_one(bus)
    for number in range(1, 21):
        await bus.intake.enqueue(message(number))
    assert (await bus.intake.enqueue(message(5), interrupts=True)).verdict is Verdict.DUPLICATE
    assert (await bus.intake.enqueue(message(99), interrupts=True)).verdict is Verdict.LANE_FULL
    assert await cancels(bus) == ()


async def test_a_late_restart_does_not_hit_the_next_turn(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    claim = await claim_one(bus)
    await bus.intake.enqueue(message(2), interrupts=True)
    await bus.lanes.commit(claim, handled=1)
    await claim_one(bus)
    assert await cancels(bus) == ()


async def test_a_cancel_is_kept_until_a_beat_says_that_it_was_heard(bus: RedisBus, raw_redis: Any) -> None:
    """The answer of a beat may be lost with its connection, and nobody may be subscribed."""
    await bus.intake.enqueue(message(1))
    await claim_one(bus)
    await bus.intake.request_control(control(1))
    assert await cancels(bus) == (STOP,)
    assert raw_redis.scard("{q0}:ctl:w1") == 1
    assert await cancels(bus) == ()
    assert raw_redis.scard("{q0}:ctl:w1") == 0
