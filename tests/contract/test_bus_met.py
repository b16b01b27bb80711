"""What was found in a lane, on the bus: in the steps that are taken anyway, bounded, expiring, of that lane alone."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.bus.bus import RedisBus, open_bus
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import Amendment, Verdict
from gateway.limits import MET_SECRETS_MAX, MET_SECRETS_TTL_S
from tests.parts.bus_samples import ANNA, BORIS, message, reply
from tests.parts.claiming import claim_one, claim_some

KEY = f"{{q0}}:met:{ANNA}"
TTL_MS = int(MET_SECRETS_TTL_S * 1000)


@pytest.fixture(autouse=True)
async def registered_worker(bus: RedisBus) -> None:
    await bus.lanes.register("w1", lease_ttl_s=60)


def row(number: int) -> bytes:
    return number.to_bytes(18) + b"named"


async def test_what_came_with_a_message_is_told_to_whoever_claims_or_asks(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1), met=[row(1), row(2)])
    await bus.intake.enqueue(message(1, BORIS))
    claims = {claim.key: claim for claim in await claim_some(bus, lanes=2)}
    assert [set(claims[key].met) for key in (ANNA, BORIS)] == [{row(1), row(2)}, set()]
    assert set(await bus.intake.met(ANNA)) == {row(1), row(2)}
    assert await bus.intake.met(SessionKey("telegram", "1", ("-1",))) == []


async def test_a_running_turn_hears_of_it_when_it_asks_for_its_lane(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    claim = await claim_one(bus)
    assert (await bus.lanes.ownership(ANNA, claim.lease.fence)).met == ()
    await bus.intake.enqueue(message(2), met=[row(1)])
    assert (await bus.lanes.ownership(ANNA, claim.lease.fence)).met == (row(1),)


async def test_a_claim_that_is_given_again_says_it_again(bus: RedisBus, valkey_url: str) -> None:
    """The answer to the first was lost: the same worker asks anew from another connection."""
    await bus.intake.enqueue(message(1), met=[row(1)])
    assert (await claim_one(bus)).met == (row(1),)
    async with await open_bus(valkey_url) as again:
        assert (await claim_one(again)).met == (row(1),)


async def test_a_commit_and_an_edit_bring_it_too(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1))
    assert await bus.intake.amend(message(1, text="better"), met=[row(1)]) is Amendment.CHANGED
    claim = await claim_one(bus)
    assert await bus.lanes.commit(claim, handled=1, replies=[reply(1), reply(2)], met=[row(2)])
    assert set(await bus.intake.met(ANNA)) == {row(1), row(2)}
    assert not await bus.lanes.commit(claim, handled=1, met=[row(3)])
    assert await bus.intake.amend(message(1, text="too late"), met=[row(3)]) is Amendment.TOO_LATE
    assert set(await bus.intake.met(ANNA)) == {row(1), row(2)}


@pytest.mark.parametrize("lane_messages_max", [1])
async def test_what_is_not_taken_brings_nothing_and_what_comes_again_does(
    valkey_url: str, lane_messages_max: int
) -> None:
    async with await open_bus(valkey_url, lane_messages_max=lane_messages_max) as bus:
        await bus.intake.enqueue(message(1))
        assert (await bus.intake.enqueue(message(2), met=[row(2)])).verdict is Verdict.LANE_FULL
        assert await bus.intake.met(ANNA) == []
        assert (await bus.intake.enqueue(message(1), met=[row(1)])).verdict is Verdict.DUPLICATE
        assert await bus.intake.met(ANNA) == [row(1)]


async def test_it_takes_no_step_more(bus: RedisBus, raw_redis: Any) -> None:
    def steps() -> int:
        return int(raw_redis.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"])

    before = steps()
    await bus.intake.enqueue(message(1), met=[row(1)])
    assert steps() == before + 1


async def test_nothing_found_leaves_nothing(bus: RedisBus, raw_redis: Any) -> None:
    await bus.intake.enqueue(message(1))
    await bus.lanes.commit(await claim_one(bus), handled=1)
    assert not raw_redis.exists(KEY)


async def test_the_newest_are_kept_and_all_of_them_expire(bus: RedisBus, raw_redis: Any) -> None:
    await bus.intake.enqueue(message(1), met=[row(1)])
    raw_redis.zadd(KEY, {row(1): 1})  # long ago
    await bus.intake.enqueue(message(2), met=[row(2)])
    assert raw_redis.zrange(KEY, 0, -1) == [row(2)]
    raw_redis.pexpire(KEY, 1_000)
    raw_redis.zincrby(KEY, -1_000, row(2))
    await bus.intake.enqueue(message(3), met=[row(number) for number in range(3, MET_SECRETS_MAX + 3)])
    assert raw_redis.zcard(KEY) == MET_SECRETS_MAX
    assert raw_redis.zscore(KEY, row(2)) is None
    assert TTL_MS - 60_000 < raw_redis.pttl(KEY) <= TTL_MS


async def test_it_can_be_forgotten(bus: RedisBus) -> None:
    await bus.intake.enqueue(message(1), met=[row(1)])
    await bus.lanes.forget_met(ANNA)
    assert await bus.intake.met(ANNA) == []
