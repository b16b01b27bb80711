"""Who is next: nobody's turns stand in front of everybody else's, and no more run than may run."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

import pytest

from gateway.bus.bus import RedisBus, open_bus
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import Claim
from tests.parts.bus_samples import ANNA, BORIS, control, message
from tests.parts.claiming import claim_now, claim_some
from tests.parts.leases import beat, reap

PLACES = [SessionKey("telegram", "1", (f"-{place}",)) for place in range(100)]


@pytest.fixture(autouse=True)
async def registered_workers(bus: RedisBus) -> None:
    for worker in ("w1", "w2"):
        await bus.lanes.register(worker, lease_ttl_s=600)


async def next_turn(bus: RedisBus) -> Claim:
    """What a worker with one slot runs next, one message a turn."""
    (claim,) = await claim_some(bus, lanes_max=1, messages_max=1)
    return claim


@pytest.mark.parametrize("already_served", range(5))
@pytest.mark.parametrize("is_running", [False, True])
async def test_a_hundred_busy_places_of_one_user_delay_nobody_by_more_than_two_turns(
    bus: RedisBus, already_served: int, is_running: bool
) -> None:
    """With a single slot: turns of the busy user that end between a stranger's message and its turn."""
    for place in PLACES:
        await bus.intake.enqueue(message(1, place))
    for _ in range(already_served):
        await bus.lanes.commit(await next_turn(bus), handled=1)
    running = await next_turn(bus) if is_running else None
    await bus.intake.enqueue(message(1, BORIS))
    in_front = 0
    while True:
        claim = running or await next_turn(bus)
        running = None
        if claim.key == BORIS:
            break
        await bus.lanes.commit(claim, handled=1)
        in_front += 1
    assert in_front <= 2


@pytest.mark.one_shard
async def test_many_busy_users_delay_a_stranger_by_two_turns_each(bus: RedisBus) -> None:
    for user in range(5):
        for place in range(20):
            await bus.intake.enqueue(message(1, SessionKey("telegram", f"9{user}", (f"-{place}",))))
    await bus.intake.enqueue(message(1, BORIS))
    in_front: Counter[str] = Counter()
    while (claim := await next_turn(bus)).key != BORIS:
        in_front[claim.key.user] += 1
        await bus.lanes.commit(claim, handled=1)
    assert max(in_front.values()) <= 2


async def test_a_user_runs_two_turns_at_a_time(bus: RedisBus) -> None:
    """However many workers are free; the next one begins when one of them ends."""
    for place in PLACES[:5]:
        await bus.intake.enqueue(message(1, place))
    first, second = await claim_some(bus, lanes=2)
    assert await claim_now(bus, "w2") == []
    await bus.lanes.commit(first, handled=1)
    (third,) = await claim_some(bus, "w2")
    assert [claim.key for claim in (first, second, third)] == PLACES[:3]


async def test_the_places_of_a_user_take_turns(bus: RedisBus) -> None:
    """A place with more to say goes behind the places of its user that wait."""
    for number in range(2):
        for place in PLACES[:4]:
            await bus.intake.enqueue(message(number, place))
    served = []
    for _ in range(8):
        claim = await next_turn(bus)
        served.append(claim.key)
        await bus.lanes.commit(claim, handled=1)
    assert served == [*PLACES[:4], *PLACES[:4]]


@pytest.mark.one_shard
async def test_shared_places_are_users_of_their_own(bus: RedisBus) -> None:
    """A lane without a user belongs to its place: busy groups do not wait for each other."""
    groups = [SessionKey("telegram", "", (f"-{place}",)) for place in range(10)]
    for group in groups:
        await bus.intake.enqueue(message(1, group))
    assert [claim.key for claim in await claim_some(bus, lanes=10)] == groups


async def test_a_lane_that_waits_for_its_time_takes_no_place(bus: RedisBus) -> None:
    """Settling and backing off block nobody, not even their own user."""
    await bus.intake.enqueue(message(1, PLACES[0]), settle_ms=60_000)
    for place in PLACES[1:4]:
        await bus.intake.enqueue(message(1, place))
    first, second = await claim_some(bus, lanes=2)
    await bus.lanes.retry_later(first, delay_s=60, error="the model was away")
    (third,) = await claim_some(bus)
    assert [claim.key for claim in (first, second, third)] == PLACES[1:4]


async def test_a_lane_whose_time_has_come_waits_for_a_place(bus: RedisBus, raw_redis: Any) -> None:
    await bus.intake.enqueue(message(1, PLACES[0]), settle_ms=60_000)
    for place in PLACES[1:3]:
        await bus.intake.enqueue(message(1, place))
    first, _ = await claim_some(bus, lanes=2)
    raw_redis.zadd("{q0}:delay", dict.fromkeys(raw_redis.zrange("{q0}:delay", 0, -1), 1))
    assert await claim_now(bus) == []
    await bus.lanes.commit(first, handled=1)
    assert [claim.key for claim in await claim_some(bus)] == PLACES[:1]


async def test_the_lanes_of_a_dead_worker_keep_their_places(bus: RedisBus) -> None:
    for place in PLACES[:4]:
        await bus.intake.enqueue(message(1, place))
    await claim_some(bus, "w1", lanes=2)
    await beat(bus.lanes, "w1", lease_ttl_s=-1)
    assert await reap(bus.lanes) == 2
    assert [claim.key for claim in await claim_some(bus, "w2", lanes=2)] == PLACES[:2]


@pytest.mark.parametrize("state", ["ready", "parked", "delayed"])
async def test_a_stop_frees_the_place_of_a_lane_wherever_it_waits(bus: RedisBus, state: str) -> None:
    for place in PLACES[:2]:
        await bus.intake.enqueue(message(1, place), settle_ms=60_000 if state == "delayed" else 0)
    await bus.intake.enqueue(message(1, PLACES[2]))
    await bus.intake.request_control(control(1, PLACES[2] if state == "parked" else PLACES[0]))
    await bus.intake.enqueue(message(1, PLACES[3]))
    expected = {"ready": PLACES[1:3], "parked": PLACES[:2], "delayed": PLACES[2:4]}[state]
    assert [claim.key for claim in await claim_some(bus, lanes=2)] == expected


@pytest.mark.one_shard
async def test_a_person_who_keeps_changing_his_mind_does_not_keep_the_worker(bus: RedisBus) -> None:
    """The first restart of a turn comes at once; after the next ones the lane stands in line."""
    await bus.intake.enqueue(message(1, ANNA))
    claim = await next_turn(bus)
    await bus.intake.enqueue(message(1, BORIS))
    await bus.lanes.restart(claim)
    claim = await next_turn(bus)
    assert claim.key == ANNA
    await bus.lanes.restart(claim)
    claim = await next_turn(bus)
    assert claim.key == BORIS


async def test_turns_max_holds_over_all_workers(bus: RedisBus, valkey_url: str, raw_redis: Any) -> None:
    """At the limit nothing is claimed and nobody is woken; the end of a turn wakes one worker."""
    capped = await open_bus(valkey_url, turns_max=3)
    for user in range(5):
        await bus.intake.enqueue(message(1, SessionKey("telegram", str(user))))
    first = await claim_some(capped, "w1", lanes=2, lanes_max=2)
    second = await claim_some(capped, "w2")
    assert (len(first), len(second)) == (2, 1)
    raw_redis.delete("{q0}:wake")
    assert await claim_now(capped, "w2") == []
    assert not raw_redis.exists("{q0}:wake"), "whoever waits would be woken for nothing"
    await capped.lanes.commit(first[0], handled=1)
    assert raw_redis.exists("{q0}:wake"), "nobody would hear that there is room"
    assert len(await claim_some(capped, "w2")) == 1
    await capped.close()


async def test_a_cap_that_was_lowered_holds_when_the_running_turns_have_ended(bus: RedisBus, valkey_url: str) -> None:
    """Another configuration than that under which lanes became ready: no place is lost, none is left over."""
    wide, narrow = await open_bus(valkey_url, user_turns_max=4), await open_bus(valkey_url, user_turns_max=1)
    for place in PLACES[:8]:
        await wide.intake.enqueue(message(1, place))
    running = deque(await claim_some(wide, lanes=4))
    assert len(running) == 4
    served = []
    while running:
        claim = running.popleft()
        served.append(claim.key)
        await narrow.lanes.commit(claim, handled=1)
        is_one_due = not running and len(served) < 8
        running.extend(await claim_some(narrow, "w2") if is_one_due else await claim_now(narrow, "w2"))
        assert len(running) <= max(1, 4 - len(served))
    assert served == PLACES[:8]
    await wide.close()
    await narrow.close()
