"""Lanes: exclusive, ordered, fair, deduplicated, bounded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.client import Refused
from gateway.contracts.errors import BusError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import InboundMessage
from gateway.contracts.ports import Claim, ClaimBatch, Verdict
from gateway.limits import COMMIT_LANES_MAX, ENVELOPE_BYTES_MAX, REPLY_ENVELOPE_BYTES_MAX, USER_TURNS_MAX
from tests.parts.bus_samples import ANNA, BORIS, message, reply
from tests.parts.claiming import claim_now, claim_one, claim_some
from tests.parts.leases import beat, reap
from tests.parts.waiting import PATIENCE_S, until

LEASE_TTL_S = 60.0


async def claim_eventually(bus: RedisBus, worker: str = "w1") -> Claim:
    """The next lane that becomes ready, however long it settles."""
    wait_s = 0.0
    while True:
        batch = await bus.lanes.claim(worker, lanes_max=1, messages_max=20, attempts_max=4, wait_s=wait_s)
        if batch.claims:
            return batch.claims[0]
        wait_s = batch.next_due_s or 1


@pytest.fixture(autouse=True)
async def registered_workers(bus: RedisBus) -> None:
    """Two workers with a lease that outlives the test."""
    await bus.lanes.register("w1", lease_ttl_s=LEASE_TTL_S)
    await bus.lanes.register("w2", lease_ttl_s=LEASE_TTL_S)


def ids(messages: tuple[InboundMessage, ...]) -> list[str]:
    return [item.id.rpartition(":")[2] for item in messages]


async def test_messages_of_a_lane_are_claimed_together_in_order(bus: RedisBus) -> None:
    for number in range(5):
        admission = await bus.intake.enqueue(message(number))
        assert (admission.verdict, admission.queued) == (Verdict.ACCEPTED, number + 1)
    claim = await claim_one(bus)
    assert claim.messages == tuple(message(number) for number in range(5))
    assert claim.attempts == 0


async def test_concurrent_enqueues_keep_the_order_of_their_calls(bus: RedisBus) -> None:
    """One line, one order: even calls that nobody awaited in between."""
    await asyncio.gather(*(bus.intake.enqueue(message(number)) for number in range(20)))
    assert ids((await claim_one(bus)).messages) == [str(number) for number in range(20)]


async def test_a_redelivered_message_is_a_duplicate(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    assert (await bus.intake.enqueue(message(1))).verdict is Verdict.DUPLICATE
    claim = await claim_one(bus)
    await bus.lanes.commit(claim, handled=1)
    assert (await bus.intake.enqueue(message(1))).verdict is Verdict.DUPLICATE
    assert await claim_now(bus) == []


async def test_a_refused_message_is_not_remembered_as_seen(bus: RedisBus, valkey_url: str) -> None:
    """Deduplication is recorded only when the message was accepted, so the platform may deliver it again."""
    small = await open_bus(valkey_url, lane_messages_max=1)
    await small.intake.enqueue(message(1))
    assert (await small.intake.enqueue(message(2))).verdict is Verdict.LANE_FULL
    await bus.lanes.commit(await claim_one(bus), handled=1)
    assert (await small.intake.enqueue(message(2))).verdict is Verdict.ACCEPTED
    await small.close()


async def test_messages_in_work_do_not_count_against_a_full_lane(bus: RedisBus, valkey_url: str) -> None:
    small = await open_bus(valkey_url, lane_messages_max=1)
    await small.intake.enqueue(message(1))
    await claim_one(bus)
    admission = await small.intake.enqueue(message(2))
    assert (admission.verdict, admission.queued, admission.is_running) == (Verdict.ACCEPTED, 1, True)
    assert (await small.intake.enqueue(message(3))).verdict is Verdict.LANE_FULL
    await small.close()


@pytest.mark.one_shard
async def test_a_full_queue_refuses_everybody_and_drains(bus: RedisBus, valkey_url: str) -> None:
    small = await open_bus(valkey_url, queue_messages_max=2)
    await small.intake.enqueue(message(1, ANNA))
    await small.intake.enqueue(message(1, BORIS))
    carla = SessionKey.parse("telegram:3")
    assert (await small.intake.enqueue(message(1, carla))).verdict is Verdict.QUEUE_FULL
    for claim in await claim_now(bus):
        await bus.lanes.commit(claim, handled=1)
    assert (await small.intake.enqueue(message(1, carla))).verdict is Verdict.ACCEPTED
    await small.close()


async def test_an_oversized_message_is_refused_before_anything_is_sent(bus: RedisBus) -> None:
    with pytest.raises(BusError, match="limit"):
        await bus.intake.enqueue(message(1, text="x" * ENVELOPE_BYTES_MAX))
    assert (await bus.operator.figures()).queued == 0


async def test_an_owned_lane_is_nobody_elses(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    await claim_one(bus, "w1")
    await bus.intake.enqueue(message(2))
    assert await claim_now(bus, "w2") == []


async def test_what_arrives_during_a_turn_waits_for_the_next(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    claim = await claim_one(bus)
    await bus.intake.enqueue(message(2))
    assert await bus.lanes.commit(claim, handled=1)
    assert ids((await claim_one(bus, "w2")).messages) == ["2"]


async def test_fences_only_grow(bus: RedisBus) -> None:
    fences = []
    for number in range(5):
        await bus.intake.enqueue(message(number))
        claim = await claim_one(bus, ("w1", "w2")[number % 2])
        fences.append(claim.lease.fence)
        await bus.lanes.commit(claim, handled=1)
    assert fences == sorted(set(fences))


@pytest.mark.one_shard
async def test_a_commit_may_acknowledge_less_than_was_claimed(bus: RedisBus) -> None:
    """The rest is ready again at the tail, in order, with its failed runs forgotten."""
    for number in range(4):
        await bus.intake.enqueue(message(number))
    claim = await claim_one(bus)
    await bus.lanes.retry_later(claim, delay_s=0, error="the model was away")
    claim = await claim_one(bus)
    assert claim.attempts == 1
    await bus.intake.enqueue(message(0, BORIS))
    assert await bus.lanes.commit(claim, handled=1)
    first, second = await claim_some(bus, lanes=2)
    assert (first.key, second.key) == (BORIS, ANNA)
    assert (ids(second.messages), second.attempts) == (["1", "2", "3"], 0)


@pytest.mark.one_shard
async def test_lanes_take_turns(bus: RedisBus) -> None:
    """A busy lane goes to the tail after each turn, so the others are served in between."""
    for number in range(3):
        await bus.intake.enqueue(message(number, ANNA))
    await bus.intake.enqueue(message(0, BORIS))
    served = []
    for _ in range(4):
        batch = await bus.lanes.claim("w1", lanes_max=1, messages_max=1, attempts_max=4)
        (claim,) = batch.claims
        served.append(str(claim.key))
        await bus.lanes.commit(claim, handled=1)
    assert served == [str(ANNA), str(BORIS), str(ANNA), str(ANNA)]


async def test_one_claim_fetches_many_lanes(bus: RedisBus) -> None:
    for user in range(50):
        await bus.intake.enqueue(message(1, SessionKey("telegram", str(user))))
    assert len(await claim_some(bus, lanes_max=30)) == 30
    assert len(await claim_some(bus, "w2", lanes_max=30)) == 20


async def test_commit_publishes_each_reply_once(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    claim = await claim_one(bus)
    assert await bus.lanes.commit(claim, handled=1, replies=[reply(1), reply(2)])
    await bus.deliveries.publish([reply(1), reply(2)])
    await bus.intake.enqueue(message(2))
    assert await bus.lanes.commit(await claim_one(bus), handled=1, replies=[reply(1)])
    pending = await bus.deliveries.replies("telegram", "c1", count=10, wait_s=0)
    assert [item.reply for item in pending] == [reply(1), reply(2)]


@pytest.mark.one_shard
async def test_commits_that_meet_have_a_verdict_and_replies_each(bus: RedisBus) -> None:
    """More of them than one call takes. One is fenced, one comes twice, one is too long to be sent, and the caller of
    one is gone before it is."""
    users = [SessionKey("telegram", str(user)) for user in range(COMMIT_LANES_MAX + 3)]
    for user in users:
        await bus.intake.enqueue(message(1, user))
    claims = await claim_some(bus, lanes=len(users), lanes_max=len(users))
    fenced, twice, gone, *_ = claims
    assert await bus.lanes.revoke(fenced.key, fenced.lease.fence)
    commits = {
        claim.key: asyncio.ensure_future(
            bus.lanes.commit(claim, handled=1, replies=[reply(1, claim.key)], met=[str(claim.key).encode()])
        )
        for claim in claims
    }
    again = asyncio.ensure_future(bus.lanes.commit(twice, handled=1, replies=[reply(2, twice.key)]))
    await asyncio.sleep(0)
    too_long = reply(3, twice.key, text="x" * REPLY_ENVELOPE_BYTES_MAX)
    with pytest.raises(BusError, match="limit"):
        await bus.lanes.commit(twice, handled=1, replies=[too_long])
    commits[gone.key].cancel()
    verdicts = dict(zip(commits, await asyncio.gather(*commits.values(), return_exceptions=True), strict=True))
    assert isinstance(verdicts.pop(gone.key), asyncio.CancelledError)
    assert [key for key, verdict in verdicts.items() if verdict is not True] == [fenced.key]
    assert not await again
    pending = await bus.deliveries.replies("telegram", "c1", count=2 * len(users), wait_s=0)
    assert {item.reply.id for item in pending} == {reply(1, key).id for key in users if key != fenced.key}
    found = [(await bus.lanes.ownership(key, 0)).met for key in users]
    assert found == [(str(key).encode(),) if key != fenced.key else () for key in users]
    assert [claim.key for claim in await claim_some(bus)] == [fenced.key]


@pytest.mark.one_shard
async def test_a_call_that_fails_leaves_every_run_of_its_commits_and_every_reply_to_the_next(
    bus: RedisBus, raw_redis: Any
) -> None:
    keys = {SessionKey("telegram", str(user)) for user in range(5)}
    for key in keys:
        await bus.intake.enqueue(message(1, key))

    async def commit_all(claims: list[Claim]) -> list[Any]:
        commits = [bus.lanes.commit(claim, handled=1, replies=[reply(1, claim.key)]) for claim in claims]
        return await asyncio.gather(*commits, return_exceptions=True)

    claims = await claim_some(bus, lanes=5)
    raw_redis.set("{q0}:out:telegram", "no stream")
    assert [type(verdict) for verdict in await commit_all(claims)] == [Refused] * 5
    raw_redis.delete("{q0}:out:telegram")
    again = await claim_some(bus, lanes=5)
    assert ({claim.key for claim in again}, {claim.attempts for claim in again}) == (keys, {0})
    assert await commit_all(again) == [True] * 5
    pending = await bus.deliveries.replies("telegram", "c1", count=100, wait_s=0)
    assert sorted(item.reply.id for item in pending) == sorted(reply(1, key).id for key in keys)
    assert await claim_now(bus) == []
    assert (await bus.operator.figures()).queued == 0


@pytest.mark.one_shard
async def test_commits_that_meet_are_one_call(bus: RedisBus, raw_redis: Any) -> None:
    for user in range(10):
        await bus.intake.enqueue(message(1, SessionKey("telegram", str(user))))
    claims = await claim_some(bus, lanes=10)
    raw_redis.config_resetstat()
    assert all(await asyncio.gather(*(bus.lanes.commit(claim, handled=1) for claim in claims)))
    assert raw_redis.info("commandstats")["cmdstat_evalsha"]["calls"] == 1


async def test_a_fenced_worker_changes_nothing(bus: RedisBus, raw_redis: Any) -> None:
    """Commit, retry and extend under an old lease leave the server exactly as it is."""
    await bus.intake.enqueue(message(1))
    old = await claim_one(bus, "w1")
    await bus.lanes.register("w1", lease_ttl_s=LEASE_TTL_S)
    new = await claim_one(bus, "w2")
    await bus.intake.enqueue(message(2))
    before = raw_redis.dump("{q0}:mb:telegram:1"), raw_redis.hgetall("{q0}:own"), raw_redis.hgetall("{q0}:past")
    assert not await bus.lanes.commit(old, handled=1, replies=[reply(1)])
    assert not await bus.lanes.retry_later(old, delay_s=1, error="no")
    assert await bus.lanes.extend(old, messages_max=100) == ()
    after = raw_redis.dump("{q0}:mb:telegram:1"), raw_redis.hgetall("{q0}:own"), raw_redis.hgetall("{q0}:past")
    assert after == before
    assert (await bus.operator.figures()).outbound_pending == {}
    assert await bus.lanes.commit(new, handled=1)


async def test_extend_takes_new_messages_into_the_running_turn_once(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    claim = await claim_one(bus)
    assert await bus.lanes.extend(claim, messages_max=100) == ()
    await bus.intake.enqueue(message(2))
    await bus.intake.enqueue(message(3))
    assert ids(await bus.lanes.extend(claim, messages_max=100)) == ["2", "3"]
    assert await bus.lanes.extend(claim, messages_max=100) == ()
    assert await bus.lanes.commit(claim, handled=3)
    assert (await bus.operator.figures()).queued == 0


async def test_extend_takes_no_more_than_it_is_asked_for(bus: RedisBus) -> None:
    for number in range(5):
        await bus.intake.enqueue(message(number))
    batch = await bus.lanes.claim("w1", lanes_max=1, messages_max=1, attempts_max=4)
    (claim,) = batch.claims
    assert ids(await bus.lanes.extend(claim, messages_max=2)) == ["1", "2"]
    assert await bus.lanes.extend(claim, messages_max=0) == ()
    assert await bus.lanes.depth(ANNA) == (2, True)
    assert await bus.lanes.commit(claim, handled=3)
    assert ids((await claim_one(bus)).messages) == ["3", "4"]


async def test_a_failed_lane_waits_and_keeps_its_order(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    assert await bus.lanes.retry_later(await claim_one(bus), delay_s=30, error="the model was away")
    await bus.intake.enqueue(message(2))
    batch = await bus.lanes.claim("w1", lanes_max=10, messages_max=20, attempts_max=4)
    assert batch.claims == ()
    assert batch.next_due_s is not None
    assert 25 < batch.next_due_s <= 30


async def test_a_lane_whose_workers_keep_dying_waits_longer_each_time(bus: RedisBus, raw_redis: Any) -> None:
    """The first time it goes on at once. Else workers that die for some seconds, of whatever, made dead letters of all
    that they had in hand."""
    await bus.intake.enqueue(message(1))
    waits: list[float] = []
    for deaths in range(4):
        if delayed := raw_redis.zrange("{q0}:delay", 0, -1):
            raw_redis.zadd("{q0}:delay", dict.fromkeys(delayed, 1))
        assert (await claim_one(bus)).attempts == deaths
        await beat(bus.lanes, "w1", lease_ttl_s=-1)
        assert await reap(bus.lanes) == 1
        await bus.lanes.register("w1", lease_ttl_s=LEASE_TTL_S)
        if not raw_redis.llen("{q0}:ready"):
            batch = await bus.lanes.claim("w2", lanes_max=1, messages_max=1, attempts_max=4)
            waits.append(batch.next_due_s or 0)
    assert waits[0] <= 2 < waits[1] <= 8 < waits[2] <= 32


async def test_a_message_that_keeps_failing_dies_once_and_the_rest_goes_on(bus: RedisBus, raw_redis: Any) -> None:
    await bus.intake.enqueue(message("poison"))
    await bus.intake.enqueue(message("fine"))
    for _ in range(3):
        claim = await claim_one(bus)
        await bus.lanes.retry_later(claim, delay_s=0, error="it broke")
    last = await claim_one(bus)
    assert ids(last.messages) == ["poison"], "on its last try a message runs alone"
    await bus.lanes.retry_later(last, delay_s=0, error="it broke again")

    batch = await bus.lanes.claim("w1", lanes_max=10, messages_max=20, attempts_max=4)
    assert [dead.message for dead in batch.dead] == [message("poison")]
    assert [(ids(claim.messages), claim.attempts) for claim in batch.claims] == [(["fine"], 0)]
    assert (await bus.lanes.claim("w2", lanes_max=10, messages_max=20, attempts_max=4)).dead == ()
    ((_, letter),) = raw_redis.xrange("{q0}:dlq")
    assert (letter[b"attempts"], letter[b"error"]) == (b"4", b"it broke again")
    await bus.lanes.commit(batch.claims[0], handled=1)
    assert (await bus.operator.figures()).queued == 0


async def kill_by_attempts(bus: RedisBus, poison: InboundMessage) -> None:
    """Let a message fail as often as it may."""
    await bus.intake.enqueue(poison)
    for _ in range(4):
        await bus.lanes.retry_later(await claim_one(bus), delay_s=0, error="it broke")
    assert await claim_now(bus) == []


async def test_the_author_of_a_dead_message_is_told_even_if_the_first_to_hear_of_it_dies(
    bus: RedisBus, raw_redis: Any
) -> None:
    """After a while the claim of another worker finds it again, once per while, until somebody has told him."""

    async def dead(worker: str, *, is_later: bool) -> tuple[InboundMessage, ...]:
        if is_later and (untold := raw_redis.zrange("{q0}:untold", 0, -1)):
            raw_redis.zadd("{q0}:untold", dict.fromkeys(untold, 1))
        batch = await bus.lanes.claim(worker, lanes_max=10, messages_max=20, attempts_max=4)
        letters = {letter.entry_id: letter.message for letter in await bus.operator.dead_letters(10)}
        assert [letters[found.letter_id] for found in batch.dead] == [found.message for found in batch.dead]
        return tuple(found.message for found in batch.dead)

    await kill_by_attempts(bus, message(1))
    assert await dead("w2", is_later=False) == ()
    assert await dead("w2", is_later=True) == (message(1),)
    assert await dead("w1", is_later=False) == ()
    await bus.lanes.finish_dead(message(1))
    assert await dead("w1", is_later=True) == ()
    assert len(await bus.operator.dead_letters(10)) == 1


async def test_a_dead_letter_that_was_dropped_or_retried_is_told_to_nobody(bus: RedisBus, raw_redis: Any) -> None:
    for number in (1, 2):
        await kill_by_attempts(bus, message(number))
    second, first = await bus.operator.dead_letters(10)
    assert await bus.operator.drop_dead(first.entry_id)
    assert await bus.operator.retry_dead(second.entry_id)
    raw_redis.zadd("{q0}:untold", {first.entry_id: 1})
    batch = await bus.lanes.claim("w1", lanes_max=10, messages_max=20, attempts_max=4)
    assert batch.dead == ()
    assert not raw_redis.exists("{q0}:untold")


async def test_dead_letters_are_listed_the_newest_first(bus: RedisBus, raw_redis: Any) -> None:
    await kill_by_attempts(bus, message(1))
    await kill_by_attempts(bus, message(2))
    raw_redis.xadd("{q0}:dlq", {"e": b"?", "reason": "unreadable", "attempts": 0, "error": "malformed"})
    unreadable, second, first = await bus.operator.dead_letters(10)
    assert (first.message, second.message, unreadable.message) == (message(1), message(2), None)
    assert (first.reason, first.attempts, first.error) == ("attempts", 4, "it broke")
    assert first.died_at_ms <= second.died_at_ms <= unreadable.died_at_ms
    assert await bus.operator.dead_letters(1) == [unreadable]


async def test_a_dead_message_is_tried_again_once_from_the_beginning(bus: RedisBus) -> None:
    await kill_by_attempts(bus, message(1))
    (letter,) = await bus.operator.dead_letters(10)
    await bus.intake.enqueue(message(2))
    assert await bus.operator.retry_dead(letter.entry_id)
    assert not await bus.operator.retry_dead(letter.entry_id)
    claim = await claim_one(bus)
    assert (ids(claim.messages), claim.attempts) == (["2", "1~1"], 0)
    assert await bus.operator.dead_letters(10) == []


@pytest.mark.parametrize("wait", ["ready", "settling", "backing off", "parked", "in work", "behind a turn"])
async def test_a_message_is_found_in_its_lane_wherever_that_waits(bus: RedisBus, wait: str) -> None:
    crowd = [SessionKey("telegram", "1", (f"-{place}",)) for place in range(USER_TURNS_MAX if wait == "parked" else 0)]
    for lane in (*crowd, SessionKey("telegram", "9")):
        await bus.intake.enqueue(message(1, lane))
    await bus.intake.enqueue(message(0), settle_ms=60_000 if wait == "settling" else 0)
    if wait != "behind a turn":
        await bus.intake.enqueue(message(1))
    if wait in ("backing off", "in work", "behind a turn"):
        claims = {claim.key: claim for claim in await claim_now(bus)}
        if wait == "backing off":
            await bus.lanes.retry_later(claims[ANNA], delay_s=60, error="the model was away")
    if wait == "behind a turn":
        await bus.intake.enqueue(message(1))
    (found,) = await bus.operator.waiting([message(1).id, message(7).id])
    assert (found.message_id, found.key, found.ahead) == (message(1).id, ANNA, 1)
    assert found.is_in_work == (wait == "in work")
    assert found.arrived_at_ms > 0
    assert await bus.operator.waiting([f"{message(1).id}~1", message("").id, ""]) == []


async def test_what_is_tried_again_is_found_by_the_id_it_came_with(bus: RedisBus) -> None:
    await kill_by_attempts(bus, message(1))
    (letter,) = await bus.operator.dead_letters(10)
    assert await bus.operator.dead_letter(letter.entry_id) == letter
    assert await bus.operator.waiting([message(1).id]) == []
    await bus.operator.retry_dead(letter.entry_id)
    assert await bus.operator.dead_letter(letter.entry_id) is None
    assert [found.message_id for found in await bus.operator.waiting([message(1).id])] == [f"{message(1).id}~1"]


async def test_a_dead_letter_can_be_forgotten(bus: RedisBus) -> None:
    await kill_by_attempts(bus, message(1))
    (letter,) = await bus.operator.dead_letters(10)
    assert await bus.operator.drop_dead(letter.entry_id)
    assert not await bus.operator.drop_dead(letter.entry_id)
    assert await bus.operator.dead_letters(10) == []


@pytest.mark.parametrize("entry_id", ["", "nonsense", "-", "+", "1", "0-0", "99-1", "1-1; FLUSHALL"])
async def test_no_other_word_is_a_dead_letter(bus: RedisBus, entry_id: str) -> None:
    await kill_by_attempts(bus, message(1))
    assert not await bus.operator.retry_dead(entry_id)
    assert not await bus.operator.drop_dead(entry_id)
    assert await bus.operator.dead_letter(entry_id) is None
    assert len(await bus.operator.dead_letters(10)) == 1


async def test_what_nobody_can_read_cannot_be_tried_again(bus: RedisBus, raw_redis: Any) -> None:
    fields = {"e": b"?", "reason": "unreadable", "attempts": 0, "error": "malformed"}
    entry_id = raw_redis.xadd("{q0}:dlq", fields).decode()
    assert not await bus.operator.retry_dead(entry_id)
    assert await bus.operator.drop_dead(entry_id)


@pytest.mark.one_shard
async def test_a_dead_workers_lane_counts_a_failed_run_and_comes_first(bus: RedisBus) -> None:
    await bus.lanes.register("doomed", lease_ttl_s=0.001)
    await bus.intake.enqueue(message(1))
    await bus.lanes.register("doomed", lease_ttl_s=LEASE_TTL_S)
    old = await claim_one(bus, "doomed")
    await bus.intake.enqueue(message(1, BORIS))
    assert await beat(bus.lanes, "doomed", lease_ttl_s=-1) == ()
    assert await reap(bus.lanes) == 1
    assert await beat(bus.lanes, "doomed", lease_ttl_s=LEASE_TTL_S) is None
    first, second = await claim_some(bus, "w2", lanes=2)
    assert (first.key, first.attempts, second.key) == (ANNA, 1, BORIS)
    assert first.lease.fence > old.lease.fence
    assert not await bus.lanes.commit(old, handled=1)


async def test_a_worker_without_a_lease_claims_nothing(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    assert (await bus.lanes.claim("stranger", lanes_max=1, messages_max=1, attempts_max=4)).claims == ()


async def test_draining_hands_lanes_back_without_a_failed_run(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    await claim_some(bus, "w1")
    await bus.lanes.drain("w1")
    claim = await claim_one(bus, "w2")
    assert claim.attempts == 0
    assert await beat(bus.lanes, "w1", lease_ttl_s=LEASE_TTL_S) is None
    assert (await bus.operator.figures()).workers_alive == 1


@pytest.mark.one_shard
async def test_a_claim_whose_answer_was_lost_is_given_again(bus: RedisBus) -> None:
    """A worker that never heard of its lanes asks and gets them: the server knows what it gave."""
    await bus.intake.enqueue(message(1))
    lost = asyncio.create_task(claim_now(bus))
    await asyncio.sleep(0)
    lost.cancel()
    with pytest.raises(asyncio.CancelledError):
        await lost
    assert ids((await claim_one(bus)).messages) == ["1"]
    assert await claim_now(bus) == []


def waiting_claim(bus: RedisBus) -> asyncio.Task[ClaimBatch]:
    return asyncio.create_task(bus.lanes.claim("w1", lanes_max=9, messages_max=9, attempts_max=9, wait_s=60))


async def test_a_claim_that_waits_has_what_arrives(bus: RedisBus) -> None:
    claiming = waiting_claim(bus)
    await asyncio.sleep(0)
    await bus.intake.enqueue(message(1))
    (claim,) = (await asyncio.wait_for(claiming, PATIENCE_S)).claims
    assert await bus.lanes.commit(claim, handled=1)


@pytest.mark.one_shard
async def test_a_claim_that_waited_asks_anew_where_the_server_forgot_the_scripts(bus: RedisBus, raw_redis: Any) -> None:
    await bus.intake.enqueue(message(1))
    raw_redis.script_flush()
    assert len((await asyncio.wait_for(waiting_claim(bus), PATIENCE_S)).claims) == 1


@pytest.mark.one_shard
async def test_who_stops_waiting_gives_back_what_the_wait_brings_after_all(bus: RedisBus, raw_redis: Any) -> None:
    """The claim is under way and cannot be taken back; no failed run is counted, and nobody waits for its lease."""
    claiming = waiting_claim(bus)
    await until(lambda: raw_redis.info("clients")["blocked_clients"] == 1)
    raw_redis.client_pause(60_000, all=False)  # what writes waits: the claim and the message meet when it is over
    arriving = asyncio.create_task(bus.intake.enqueue(message(1)))
    await until(lambda: raw_redis.info("clients")["paused_actions"] != b"none")
    claiming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claiming
    raw_redis.client_unpause()
    assert (await arriving).verdict is Verdict.ACCEPTED
    await bus.lanes.close()
    claim = await claim_one(bus, worker="w2")
    assert (ids(claim.messages), claim.attempts) == (["1"], 0)


@pytest.mark.one_shard
async def test_who_stops_waiting_for_nothing_is_done_at_once(bus: RedisBus, raw_redis: Any) -> None:
    """The wait ends with it, not seconds later."""
    claiming = waiting_claim(bus)
    await until(lambda: raw_redis.info("clients")["blocked_clients"] == 1)
    claiming.cancel()
    await asyncio.wait({claiming})
    await until(lambda: raw_redis.info("clients")["blocked_clients"] == 0)
    await bus.lanes.close()
    assert await claim_now(bus) == []


async def test_one_token_wakes_the_next_worker_while_lanes_are_left(bus: RedisBus, raw_redis: Any) -> None:
    for user in range(5):
        await bus.intake.enqueue(message(1, SessionKey("telegram", str(user))))
    assert raw_redis.llen("{q0}:wake") == 1
    raw_redis.delete("{q0}:wake")
    await claim_now(bus, lanes_max=2)
    assert raw_redis.llen("{q0}:wake") == 1


async def test_settling_makes_one_turn_of_several_fragments(bus: RedisBus) -> None:
    for number in range(3):
        await bus.intake.enqueue(message(number), settle_ms=1_000)
    batch = await bus.lanes.claim("w1", lanes_max=10, messages_max=20, attempts_max=4)
    assert batch.claims == ()
    assert batch.next_due_s is not None
    assert batch.next_due_s <= 1.0
    assert ids((await claim_eventually(bus)).messages) == ["0", "1", "2"]


async def test_settling_does_not_shorten_a_retry(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    await bus.lanes.retry_later(await claim_one(bus), delay_s=60, error="the model was away")
    await bus.intake.enqueue(message(2), settle_ms=1)
    batch = await bus.lanes.claim("w1", lanes_max=10, messages_max=20, attempts_max=4)
    assert batch.next_due_s is not None
    assert batch.next_due_s > 50


async def test_an_unreadable_message_waits_aside_and_ends_in_the_dead_letters(bus: RedisBus, raw_redis: Any) -> None:
    """An envelope that is none holds up its own lane only, and is never thrown away."""
    await bus.intake.enqueue(message("odd"))
    raw_redis.lset("{q0}:mb:telegram:1", 0, b'1700000000000{"v":0}')
    await bus.intake.enqueue(message(1, BORIS))
    assert [claim.key for claim in await claim_now(bus, attempts_max=1)] == [BORIS]
    raw_redis.zadd("{q0}:delay", {"telegram:1\x1ftelegram:1": 1})
    assert await claim_now(bus, attempts_max=1) == []
    ((_, letter),) = raw_redis.xrange("{q0}:dlq")
    assert letter[b"e"] == b'{"v":0}'


async def test_an_idle_lane_leaves_no_trace(bus: RedisBus, raw_redis: Any) -> None:
    await bus.intake.enqueue(message(1))
    await bus.lanes.commit(await claim_one(bus), handled=1)
    names = {key.decode().removeprefix("{q0}:").partition(":")[0] for key in raw_redis.scan_iter()}
    assert names <= {"meta", "wk", "tot", "fence", "dd", "wake", "access"}
