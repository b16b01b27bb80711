"""What intake may know about people, and what the operator may know about the bus."""

from __future__ import annotations

import asyncio

import pytest

from gateway.bus.bus import RedisBus
from gateway.contracts.entries import Grant, GrantRole
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import QueueFigures
from tests.parts.bus_samples import ANNA, BORIS, message, reply

CARLA = SessionKey.parse("telegram:3")


def grant(owner: SessionKey, role: GrantRole) -> Grant:
    return Grant(owner, role, "operator", 0)


async def test_a_projection_replaces_the_one_before(bus: RedisBus) -> None:
    await bus.access.project_grants([grant(ANNA, GrantRole.MEMBER), grant(BORIS, GrantRole.BLOCKED)])
    await bus.access.project_grants([grant(ANNA, GrantRole.ADMIN)])
    assert await bus.access.role_of(ANNA) == "admin"
    assert await bus.access.role_of(BORIS) is None
    await bus.access.project_grants([])
    assert await bus.access.role_of(ANNA) is None


async def test_a_large_projection_arrives_whole(bus: RedisBus) -> None:
    owners = [SessionKey("telegram", str(number)) for number in range(2500)]
    await bus.access.project_grants([grant(owner, GrantRole.GUEST) for owner in owners])
    assert await asyncio.gather(*(bus.access.role_of(owner) for owner in owners)) == ["guest"] * 2500


async def test_a_stranger_keeps_one_code_and_it_opens_once(bus: RedisBus) -> None:
    ask = bus.access.pairing_code
    assert await ask(ANNA, new_code="AAAA", ttl_s=60, pending_max=3) == "AAAA"
    assert await ask(ANNA, new_code="BBBB", ttl_s=60, pending_max=3) == "AAAA"
    assert await bus.access.redeem_pairing("BBBB") is None
    assert await bus.access.redeem_pairing("AAAA") == ANNA
    assert await bus.access.redeem_pairing("AAAA") is None


async def test_only_so_many_strangers_of_a_channel_are_pending(bus: RedisBus) -> None:
    ask = bus.access.pairing_code
    assert await ask(ANNA, new_code="AAAA", ttl_s=60, pending_max=2) == "AAAA"
    assert await ask(BORIS, new_code="BBBB", ttl_s=60, pending_max=2) == "BBBB"
    assert await ask(CARLA, new_code="CCCC", ttl_s=60, pending_max=2) is None
    assert await ask(SessionKey("discord", "9"), new_code="DDDD", ttl_s=60, pending_max=2) == "DDDD"
    await bus.access.redeem_pairing("AAAA")
    assert await ask(CARLA, new_code="CCCC", ttl_s=60, pending_max=2) == "CCCC"


async def test_two_strangers_never_share_a_code(bus: RedisBus) -> None:
    await bus.access.pairing_code(ANNA, new_code="AAAA", ttl_s=60, pending_max=3)
    assert await bus.access.pairing_code(BORIS, new_code="AAAA", ttl_s=60, pending_max=3) is None


async def test_positions_are_kept(bus: RedisBus) -> None:
    assert await bus.intake.position("telegram:offset") is None
    await bus.intake.set_position("telegram:offset", "17")
    await bus.intake.set_position("telegram:offset", "18")
    assert await bus.intake.position("telegram:offset") == "18"


async def test_figures_show_every_state_of_a_lane(bus: RedisBus) -> None:
    await bus.lanes.register("w1", lease_ttl_s=60)
    await bus.intake.enqueue(message(1, ANNA))
    await bus.lanes.claim("w1", lanes_max=1, messages_max=20, attempts_max=4)
    await bus.intake.enqueue(message(2, ANNA))
    await bus.intake.enqueue(message(1, BORIS))
    await bus.intake.enqueue(message(1, CARLA), settle_ms=60_000)
    await bus.lanes.republish([reply(1)])
    await bus.operator.report_channel("telegram", "connected", ttl_s=60)
    await bus.operator.report_channel("slack", "token refused | twice", ttl_s=60)
    assert await bus.operator.figures() == QueueFigures(
        queued=4,
        ready=1,
        running=1,
        delayed=1,
        dead_letters=0,
        workers_alive=1,
        outbound_pending={"telegram": 1},
        channels_connected={"telegram": "connected", "slack": "token refused | twice"},
    )
    assert await bus.operator.lane_depth(ANNA) == (1, True)
    assert await bus.operator.lane_depth(CARLA) == (1, False)
    assert await bus.operator.lane_depth(SessionKey("telegram", "4")) == (0, False)


async def test_a_channel_that_falls_silent_is_forgotten(bus: RedisBus) -> None:
    await bus.operator.report_channel("telegram", "connected", ttl_s=0.001)
    await bus.operator.report_channel("slack", "connected", ttl_s=60)
    figures = await bus.operator.figures()
    while "telegram" in figures.channels_connected:
        figures = await bus.operator.figures()
    assert figures.channels_connected == {"slack": "connected"}


async def test_a_dead_worker_is_not_counted_as_alive(bus: RedisBus) -> None:
    await bus.lanes.register("w1", lease_ttl_s=0)
    assert (await bus.operator.figures()).workers_alive == 0


@pytest.mark.parametrize("worker", ["", "a b", "a|b", "x" * 200])
async def test_a_worker_id_that_would_break_a_key_is_refused(bus: RedisBus, worker: str) -> None:
    with pytest.raises(Exception, match="not a worker id"):
        await bus.lanes.register(worker, lease_ttl_s=60)


async def test_ping_answers(bus: RedisBus) -> None:
    await bus.operator.ping()
