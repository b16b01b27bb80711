"""What intake may know about people, and what the operator may know about the bus."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from gateway.bus.bus import RedisBus
from gateway.bus.keys import CLUSTER_SHARDS, shard_number
from gateway.bus.scripts import Word
from gateway.bus.shards import Shard
from gateway.contracts.access import Audience, PairingOffer, PlaceRule, Projection, Rate, ShownAccess
from gateway.contracts.budgets import LimitRule, said_of
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import Ownership, Position, QueueFigures, Verdict
from gateway.contracts.sessions import Grant, GrantRole
from gateway.limits import PAIRING_LOCKED_S, QUEUE_PAST_S
from tests.parts.bus_samples import ANNA, BORIS, message, reply
from tests.parts.claiming import claim_one
from tests.parts.keepers import pairing
from tests.parts.valkey import BusServers

CARLA = SessionKey.parse("telegram:3")


def grant(owner: SessionKey, role: GrantRole) -> Grant:
    return Grant(owner, role, "operator", 0)


# --- the projection


async def granted(bus: RedisBus, owner: SessionKey) -> str | None:
    return (await bus.access.view(owner)).granted


async def test_a_projection_replaces_the_one_before(bus: RedisBus) -> None:
    await bus.access.project(Projection(1, [grant(ANNA, GrantRole.MEMBER), grant(BORIS, GrantRole.BLOCKED)]))
    await bus.access.project(Projection(2, [grant(ANNA, GrantRole.ADMIN)]))
    assert await granted(bus, ANNA) == "admin"
    assert await granted(bus, BORIS) is None
    assert await bus.access.project(Projection(3))
    assert await granted(bus, ANNA) is None
    assert await bus.access.projected() == 3


async def test_a_large_projection_arrives_whole(bus: RedisBus) -> None:
    owners = [SessionKey("telegram", str(number)) for number in range(2500)]
    await bus.access.project(Projection(1, [grant(owner, GrantRole.GUEST) for owner in owners]))
    assert await asyncio.gather(*(granted(bus, owner) for owner in owners)) == ["guest"] * 2500


async def test_what_was_read_earlier_does_not_replace_what_is_newer(bus: RedisBus) -> None:
    """Two processes show what they read; the slower one read first."""
    await bus.access.project(Projection(7, [grant(ANNA, GrantRole.BLOCKED)]))
    assert not await bus.access.project(Projection(6, [grant(ANNA, GrantRole.MEMBER)]))
    assert await granted(bus, ANNA) == "blocked"
    assert await bus.access.project(Projection(6, [grant(ANNA, GrantRole.MEMBER)]), is_forced=True)
    assert await granted(bus, ANNA) == "member"


async def test_a_reader_never_sees_half_a_projection(bus: RedisBus) -> None:
    """Role and rule are of one moment, however often they change together."""
    place = SessionKey("telegram", "", ("-100",))
    states = [("member", PlaceRule(Audience.MEMBERS)), ("guest", PlaceRule(Audience.ADMINS))]

    async def change() -> None:
        for revision in range(1, 41):
            role, rule = states[revision % 2]
            await bus.access.project(Projection(revision, [grant(ANNA, GrantRole(role))], {place: rule}))

    changing = asyncio.create_task(change())
    seen = set()
    while not changing.done():
        view = await bus.access.view(ANNA, (place,))
        if view.granted is not None:
            seen.add((view.granted, view.places[place]))
    await changing
    assert seen <= set(states)


async def test_rules_of_places_are_shown_for_people_of_every_shard(bus: RedisBus) -> None:
    guild, channel = SessionKey("discord", "", ("1",)), SessionKey("discord", "", ("2",))
    rules = {
        guild: PlaceRule(Audience.NOBODY),
        channel: PlaceRule(lets_guests=True, tools=("recall",), profile="writer"),
    }
    await bus.access.project(Projection(1, places=rules))
    for number in range(40):
        view = await bus.access.view(
            SessionKey("discord", str(number)), (guild, SessionKey("discord", "", ("3",)), channel)
        )
        assert view.places == {guild: PlaceRule(Audience.NOBODY), channel: PlaceRule(lets_guests=True)}


async def test_limits_are_shown_to_those_they_are_for(bus: RedisBus) -> None:
    own, role = LimitRule(tokens=5, per_minute=0), LimitRule(nano_usd=10**15, turns=3)
    limits: dict[SessionKey | GrantRole, LimitRule] = {SessionKey("telegram", str(number)): own for number in range(40)}
    limits[GrantRole.GUEST] = role
    await bus.access.project(Projection(1, limits=limits))
    for number in range(41):
        owner = SessionKey("telegram", str(number))
        view = await bus.access.view(owner, (SessionKey("telegram", "", ("-100",)),))
        assert said_of(owner, GrantRole.GUEST, view.limits) == (own.over(role) if number < 40 else role)
        assert said_of(owner, GrantRole.MEMBER, view.limits) == (own if number < 40 else LimitRule())
    await bus.access.project(Projection(2))
    assert (await bus.access.view(ANNA)).limits == {}


async def test_without_a_projection_nobody_is_looked_up(bus: RedisBus, bus_servers: BusServers) -> None:
    """A bus that lost its memory does not know whom it must not let in."""
    await bus.access.project(Projection(4, [grant(ANNA, GrantRole.BLOCKED)]))
    for client in bus_servers.clients:
        client.flushall()
    with pytest.raises(BusUnavailable, match="agent process"):
        await bus.access.view(ANNA)
    assert await bus.access.projected() is None
    await bus.access.project(Projection(4, [grant(ANNA, GrantRole.BLOCKED)]))
    assert await granted(bus, ANNA) == "blocked"


async def test_an_exchange_that_is_repeated_changes_nothing(bus: RedisBus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer may be lost with a connection, and by then nothing is staged any more."""
    run_script = Shard.run_script

    async def twice(self: Shard, name: str, keys: Sequence[str] = (), arguments: Sequence[Word] = ()) -> Any:
        if name == "swap_access":
            await run_script(self, name, keys, arguments)
        return await run_script(self, name, keys, arguments)

    monkeypatch.setattr(Shard, "run_script", twice)
    assert await bus.access.project(Projection(1, [grant(ANNA, GrantRole.BLOCKED)]))
    assert await granted(bus, ANNA) == "blocked"


# --- views that are kept


async def shown_to(bus: RedisBus, owner: SessionKey) -> ShownAccess:
    shown = (await bus.access.view(owner)).shown
    assert shown is not None
    return shown


async def test_who_was_judged_by_an_old_projection_is_not_taken_in(bus: RedisBus) -> None:
    await bus.access.project(Projection(1, [grant(ANNA, GrantRole.MEMBER)]))
    judged_by = await shown_to(bus, ANNA)
    assert (await bus.intake.enqueue(message(1, ANNA), judged_by=judged_by)).verdict is Verdict.ACCEPTED
    await bus.access.project(Projection(2, [grant(ANNA, GrantRole.BLOCKED)]))
    for number in (1, 2):
        assert (await bus.intake.enqueue(message(number, ANNA), judged_by=judged_by)).verdict is Verdict.STALE
    assert (await bus.lanes.depth(ANNA))[0] == 1
    now = await shown_to(bus, ANNA)
    assert (await bus.intake.enqueue(message(2, ANNA), judged_by=now)).verdict is Verdict.ACCEPTED


async def test_a_bus_that_shows_nothing_takes_nobody_in_by_what_it_showed(
    bus: RedisBus, bus_servers: BusServers
) -> None:
    await bus.access.project(Projection(1, [grant(ANNA, GrantRole.MEMBER)]))
    judged_by = await shown_to(bus, ANNA)
    for client in bus_servers.clients:
        client.flushall()
    assert (await bus.intake.enqueue(message(1, ANNA), judged_by=judged_by)).verdict is Verdict.STALE


async def test_the_same_revision_shown_anew_is_another_projection(bus: RedisBus) -> None:
    """A database that was put back to an earlier day comes to its old revisions once more, by other decisions."""
    await bus.access.project(Projection(7, [grant(ANNA, GrantRole.MEMBER)]))
    before = await shown_to(bus, ANNA)
    await bus.access.project(Projection(6), is_forced=True)
    await bus.access.project(Projection(7, [grant(ANNA, GrantRole.BLOCKED)]))
    assert (await bus.intake.enqueue(message(1, ANNA), judged_by=before)).verdict is Verdict.STALE
    assert (await bus.access.view(ANNA, shown=before)).granted == "member", "it is kept, and nothing shows it any more"
    assert await granted(bus, ANNA) == "blocked"


async def test_a_kept_view_serves_while_its_projection_is_shown(bus: RedisBus, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim and a look at the lane tell which one that is: the bus is asked once for each."""
    looks: Counter[str] = Counter()
    run_script = Shard.run_script

    async def counting(self: Shard, name: str, keys: Sequence[str] = (), arguments: Sequence[Word] = ()) -> Any:
        looks[name] += 1
        return await run_script(self, name, keys, arguments)

    monkeypatch.setattr(Shard, "run_script", counting)
    await bus.access.project(Projection(1, [grant(ANNA, GrantRole.MEMBER)]))
    await bus.intake.enqueue(message(1, ANNA))
    await bus.lanes.register("w1", lease_ttl_s=60)
    claim = await claim_one(bus)
    for _ in range(3):
        assert (await bus.access.view(ANNA, shown=claim.access)).granted == "member"
        owned = await bus.lanes.ownership(ANNA, claim.lease.fence)
        assert owned == Ownership(True, claim.access or owned.access)
    assert looks["view_access"] == 1
    await bus.access.project(Projection(2, [grant(ANNA, GrantRole.BLOCKED)]))
    owned = await bus.lanes.ownership(ANNA, claim.lease.fence)
    assert (await bus.access.view(ANNA, shown=owned.access)).granted == "blocked"
    assert looks["view_access"] == 2


async def test_only_where_the_lane_can_tell_is_a_kept_view_given(bus: RedisBus, bus_servers: BusServers) -> None:
    """On a Cluster a person may speak on a lane of another shard."""
    places = (SessionKey("telegram", "", ("-100",)),)
    lanes = [SessionKey("telegram", "", (f"-{number}",)) for number in range(40)]
    await bus.access.project(Projection(1, [grant(ANNA, GrantRole.MEMBER)]))
    assert bus.access.kept(ANNA, places, lane=ANNA) is None
    seen = await bus.access.view(ANNA, places)
    assert bus.access.kept(ANNA, places, lane=ANNA) == seen
    assert bus.access.kept(ANNA, (), lane=ANNA) is None
    shards = CLUSTER_SHARDS if len(bus_servers.clients) > 1 else 1
    for lane in lanes:
        is_told = shard_number(lane, shards) == shard_number(ANNA, shards)
        assert bus.access.kept(ANNA, places, lane=lane) == (seen if is_told else None)


async def test_a_word_of_a_later_release_closes_its_place(bus: RedisBus, raw_redis: Any) -> None:
    place = SessionKey("telegram", "", ("-100",))
    await bus.access.project(Projection(1, places={place: PlaceRule(Audience.MEMBERS)}))
    raw_redis.hset("{q0}:places", str(place), '{"audience":"friends"}')
    assert (await bus.access.view(ANNA, (place,))).places == {place: PlaceRule(Audience.NOBODY)}


# --- strangers


async def test_a_stranger_keeps_one_code_and_it_opens_once(bus: RedisBus) -> None:
    ask, take = partial(bus.access.ask_pairing, ttl_s=60, pending_max=3), partial(bus.access.take_pairing, by="cli")
    assert await ask(pairing(ANNA, "AAAA")) == PairingOffer("AAAA")
    assert await ask(pairing(ANNA, "BBBB")) == PairingOffer("AAAA")
    assert (await take("BBBB", taker="1")).pairing is None
    assert (await take("AAAA", taker="1")).pairing == pairing(ANNA, "AAAA")
    assert (await take("AAAA", taker="2")).pairing is None
    assert await ask(pairing(ANNA, "BBBB")) == PairingOffer("BBBB"), "one who was not let in after all asks again"


async def test_who_took_a_code_may_repeat_himself(bus: RedisBus) -> None:
    """A turn that died between the code and its commit is run once more."""
    await bus.access.ask_pairing(pairing(ANNA, "AAAA"), ttl_s=60, pending_max=3)
    for _ in range(2):
        taken = await bus.access.take_pairing("AAAA", by="telegram:9", taker="turn 1")
        assert taken.pairing == pairing(ANNA, "AAAA")


async def test_only_so_many_strangers_of_a_channel_are_pending(bus: RedisBus) -> None:
    ask = partial(bus.access.ask_pairing, ttl_s=60, pending_max=2)
    assert await ask(pairing(ANNA, "AAAA")) == PairingOffer("AAAA")
    assert await ask(pairing(BORIS, "BBBB")) == PairingOffer("BBBB")
    assert await ask(pairing(CARLA, "CCCC")) == PairingOffer()
    assert await ask(pairing(SessionKey("discord", "9"), "DDDD")) == PairingOffer("DDDD")
    waiting = Counter(each.owner for each in await bus.access.pairings())
    assert waiting == Counter((ANNA, BORIS, SessionKey("discord", "9"))), (
        "who ask within one millisecond stand in any order"
    )
    await bus.access.take_pairing("AAAA", by="cli", taker="1")
    assert await ask(pairing(CARLA, "CCCC")) == PairingOffer("CCCC")


async def test_two_strangers_never_share_a_code(bus: RedisBus) -> None:
    await bus.access.ask_pairing(pairing(ANNA, "AAAA"), ttl_s=60, pending_max=3)
    assert await bus.access.ask_pairing(pairing(BORIS, "AAAA"), ttl_s=60, pending_max=3) == PairingOffer()


async def test_who_errs_five_times_is_not_listened_to(bus: RedisBus) -> None:
    """Not even with the right code; another one is."""
    await bus.access.ask_pairing(pairing(ANNA, "AAAA"), ttl_s=60, pending_max=3)
    tries = [await bus.access.take_pairing("WRONG", by="telegram:9", taker=str(number)) for number in range(5)]
    assert [taken.tries_left for taken in tries] == [4, 3, 2, 1, 0]
    locked = await bus.access.take_pairing("AAAA", by="telegram:9", taker="6")
    assert locked.is_locked
    assert locked.pairing is None
    assert PAIRING_LOCKED_S - 60 < locked.wait_s <= PAIRING_LOCKED_S
    assert (await bus.access.take_pairing("AAAA", by="cli", taker="7")).pairing == pairing(ANNA, "AAAA")


async def test_a_right_code_makes_up_for_the_wrong_ones(bus: RedisBus) -> None:
    await bus.access.ask_pairing(pairing(ANNA, "AAAA"), ttl_s=60, pending_max=3)
    for number in range(4):
        await bus.access.take_pairing("WRONG", by="cli", taker=str(number))
    await bus.access.take_pairing("AAAA", by="cli", taker="5")
    assert (await bus.access.take_pairing("WRONG", by="cli", taker="6")).tries_left == 4


async def test_who_was_turned_down_gets_no_other_code(bus: RedisBus) -> None:
    await bus.access.ask_pairing(pairing(ANNA, "AAAA"), ttl_s=60, pending_max=3)
    assert await bus.access.deny_pairing("AAAA") == ANNA
    assert await bus.access.deny_pairing("AAAA") is None
    assert await bus.access.ask_pairing(pairing(ANNA, "BBBB"), ttl_s=60, pending_max=3) == PairingOffer(is_denied=True)
    assert await bus.access.pairings() == []
    assert (await bus.access.take_pairing("AAAA", by="cli", taker="1")).pairing is None


# --- how fast people may write


async def test_a_flood_is_cut_off_and_nobody_else_notices(bus: RedisBus) -> None:
    rate = Rate(per_minute=3, burst=2)
    verdicts = [(await bus.intake.enqueue(message(n, ANNA), rate=rate)).verdict for n in range(8)]
    assert verdicts == [Verdict.ACCEPTED] * 5 + [Verdict.TOO_FAST] * 3
    refused = await bus.intake.enqueue(message(9, ANNA), rate=rate)
    assert 0 < refused.wait_s <= 20
    assert (await bus.intake.enqueue(message(1, BORIS), rate=rate)).verdict is Verdict.ACCEPTED


async def test_what_comes_again_counts_once(bus: RedisBus) -> None:
    rate = Rate(per_minute=1, burst=1)
    for _ in range(5):
        await bus.intake.enqueue(message(1, ANNA), rate=rate)
    assert (await bus.intake.enqueue(message(2, ANNA), rate=rate)).verdict is Verdict.ACCEPTED
    assert (await bus.intake.enqueue(message(1, ANNA), rate=rate)).verdict is Verdict.DUPLICATE
    assert (await bus.intake.enqueue(message(3, ANNA), rate=rate)).verdict is Verdict.TOO_FAST


async def test_who_is_not_limited_writes_as_fast_as_he_likes(bus: RedisBus) -> None:
    assert {(await bus.intake.enqueue(message(n, ANNA))).verdict for n in range(15)} == {Verdict.ACCEPTED}


# --- positions and figures


async def test_positions_are_kept(bus: RedisBus) -> None:
    assert await bus.intake.position("telegram:offset") is None
    await bus.intake.set_position("telegram:offset", "17")
    await bus.intake.set_position("telegram:offset", "18")
    assert await bus.intake.position("telegram:offset") == "18"


async def test_a_position_comes_along_with_a_message_that_is_on_the_bus(bus: RedisBus) -> None:
    """In one step where one server has both; in any case it is kept when that is asked for."""
    name = "telegram:offset"
    await bus.intake.enqueue(message(1, ANNA), position=Position(name, "17"))
    await bus.intake.set_position(name, "17")
    assert await bus.intake.position(name) == "17"
    assert (await bus.intake.enqueue(message(1, ANNA), position=Position(name, "18"))).verdict is Verdict.DUPLICATE
    await bus.intake.set_position(name, "18")
    assert await bus.intake.position(name) == "18"
    await bus.intake.set_position(name, "19")
    assert await bus.intake.position(name) == "19"
    await bus.intake.enqueue(message(2, ANNA))
    assert await bus.intake.position(name) == "19"


@pytest.mark.one_shard
async def test_a_position_in_one_step_is_written_by_the_message_alone(bus: RedisBus) -> None:
    """A message that is refused moves nothing."""
    rate, name = Rate(per_minute=1, burst=0), "telegram:offset"
    await bus.intake.enqueue(message(1, ANNA), rate=rate, position=Position(name, "17"))
    assert await bus.intake.position(name) == "17"
    refused = await bus.intake.enqueue(message(2, ANNA), rate=rate, position=Position(name, "18"))
    assert refused.verdict is Verdict.TOO_FAST
    assert await bus.intake.position(name) == "17"


async def test_figures_show_every_state_of_a_lane(bus: RedisBus) -> None:
    await bus.lanes.register("w1", lease_ttl_s=60)
    await bus.intake.enqueue(message(1, ANNA))
    await bus.lanes.claim("w1", lanes_max=1, messages_max=20, attempts_max=4)
    await bus.intake.enqueue(message(2, ANNA))
    await bus.intake.enqueue(message(1, BORIS))
    await bus.intake.enqueue(message(1, CARLA), settle_ms=60_000)
    await bus.deliveries.publish([reply(1)])
    await bus.operator.report_channel("telegram", "connected", ttl_s=60)
    await bus.operator.report_channel("slack", "token refused | twice", ttl_s=60)
    figures = await bus.operator.figures()
    assert figures.oldest_wait_ms >= 0
    assert replace(figures, oldest_wait_ms=0) == QueueFigures(
        queued=4,
        ready=1,
        running=1,
        delayed=1,
        dead_letters=0,
        workers_alive=1,
        outbound_pending={"telegram": 1},
        channels_connected={"telegram": "connected", "slack": "token refused | twice"},
    )
    assert await bus.lanes.depth(ANNA) == (1, True)
    assert await bus.lanes.depth(CARLA) == (1, False)
    assert await bus.lanes.depth(SessionKey("telegram", "4")) == (0, False)


async def test_how_much_waited_is_kept_for_whoever_looks_later(bus: RedisBus) -> None:
    assert list(await bus.operator.queue_past()) == []
    await bus.intake.enqueue(message(1, ANNA))
    figures = await bus.operator.figures()
    await bus.operator.note_queue(figures)
    [kept] = await bus.operator.queue_past()
    assert (kept.queued, kept.oldest_wait_ms) == (1, figures.oldest_wait_ms)


async def test_the_past_of_the_queue_is_bounded_whoever_keeps_it(bus: RedisBus, raw_redis: Any) -> None:
    """What is too old is forgotten, and of processes that look at the same time one is enough."""
    seconds, _ = raw_redis.time()
    figures = await bus.operator.figures()
    for age_s, queued in ((QUEUE_PAST_S + 60, 9), (QUEUE_PAST_S // 2, 8)):
        raw_redis.xadd("{q0}:queued", {"queued": queued, "oldest_ms": 1}, id=f"{(seconds - age_s) * 1000}-0")
    await bus.operator.note_queue(figures)
    assert [kept.queued for kept in await bus.operator.queue_past()] == [8, 0]
    assert 0 < raw_redis.ttl("{q0}:queued") <= QUEUE_PAST_S
    raw_redis.xadd("{q0}:queued", {"queued": 7, "oldest_ms": 1}, id=f"{(seconds + 3600) * 1000}-0")
    await bus.operator.note_queue(figures)
    assert [kept.queued for kept in await bus.operator.queue_past()] == [8, 0, 7]


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
