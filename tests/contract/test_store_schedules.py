"""Schedules and calendars, on SQLite and PostgreSQL: counted per owner, claimed once, moved on once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Schedule, ScheduleKind, ScheduleState
from gateway.store import Store
from tests.contract.store_samples import ANN, ANN_IN_GROUP, BOB

NOON = 1_000_000


def schedule(id_: str = "s1", key: SessionKey = ANN, *, due_ms: int = NOON, recurrence: str = "") -> Schedule:
    return Schedule(
        id=id_,
        key=key,
        address=ReplyAddress(key.platform, str(key), '{"chat":1}'),
        author_id=key.user,
        author_name=CleanText("Ann"),
        is_private=key.is_private,
        kind=ScheduleKind.REMINDER,
        text=CleanText(f"text of {id_}"),
        recurrence=recurrence,
        zone="Europe/Berlin",
        next_due_ms=due_ms,
        created_at_ms=1,
    )


async def add(store: Store, *wanted: Schedule) -> list[Schedule]:
    added = [await store.schedules.add(one, active_max=100) for one in wanted]
    assert None not in added
    return [one for one in added if one is not None]


async def claimed(store: Store, now_ms: int = NOON, *, limit: int = 10) -> list[str]:
    found = await store.schedules.claim_due(now_ms=now_ms, until_ms=now_ms + 100, limit=limit)
    return [one.id for one in found]


# --- an owner's own


async def test_a_schedule_comes_back_as_it_was_stored(store: Store) -> None:
    wanted = replace(schedule(recurrence="cron 30 9 * * *"), place=("-100", "7"))
    (added,) = await add(store, wanted)
    assert added == replace(wanted, number=1)
    assert await store.schedules.active(ANN) == [added]


async def test_the_same_order_twice_is_one_schedule(store: Store) -> None:
    """A turn that runs again orders again: the first due time stands."""
    (first,) = await add(store, schedule())
    assert await add(store, schedule(due_ms=NOON + 5)) == [first]
    await store.schedules.cancel(ANN, 1)
    (again,) = await add(store, schedule())
    assert again.state is ScheduleState.CANCELLED
    assert await store.schedules.active(ANN) == []


async def test_numbers_count_per_owner_and_are_never_used_twice(store: Store) -> None:
    await add(store, schedule("a"), schedule("b", ANN_IN_GROUP), schedule("c", BOB))
    assert [(one.id, one.number) for one in await store.schedules.active(ANN)] == [("a", 1), ("b", 2)]
    assert [(one.id, one.number) for one in await store.schedules.active(BOB)] == [("c", 1)]
    await store.schedules.cancel(ANN, 2)
    (third,) = await add(store, schedule("d"))
    assert third.number == 3


async def test_nobody_sees_or_cancels_what_is_anothers(store: Store) -> None:
    await add(store, schedule("a"), schedule("b", BOB))
    await store.schedules.set_zone(ANN, "Asia/Tokyo")
    assert await store.schedules.cancel(BOB, 1) is not None
    assert await store.schedules.cancel(BOB, 1) is None
    assert [one.id for one in await store.schedules.active(ANN)] == ["a"]
    assert await store.schedules.zone(BOB) is None


async def test_an_owner_has_no_more_than_allowed_however_many_ask_at_once(store: Store) -> None:
    wanted = [store.schedules.add(schedule(f"s{number}"), active_max=3) for number in range(10)]
    added = [one for one in await asyncio.gather(*wanted) if one is not None]
    assert sorted(one.number for one in added) == [1, 2, 3]
    await store.schedules.cancel(ANN, 2)
    assert await store.schedules.add(schedule("one more"), active_max=3) is not None


async def test_a_time_zone_is_kept_and_the_newest_word_counts(store: Store) -> None:
    assert await store.schedules.zone(ANN) is None
    await add(store, schedule())
    assert await store.schedules.zone(ANN) is None
    for zone in ("Europe/Berlin", "America/New_York"):
        await store.schedules.set_zone(ANN, zone)
        assert await store.schedules.zone(ANN) == zone
    (second,) = await add(store, schedule("b"))
    assert second.number == 2


# --- firing


async def test_what_is_due_is_claimed_once_oldest_first(store: Store) -> None:
    await add(store, schedule("later", due_ms=NOON + 1), schedule("b", due_ms=NOON), schedule("a", due_ms=5))
    assert await store.schedules.next_due_ms() == 5
    assert await claimed(store, 4) == []
    assert await claimed(store) == ["a", "b"]
    assert await claimed(store) == []
    assert await store.schedules.next_due_ms() == NOON + 1


async def test_a_claim_ends_by_itself(store: Store) -> None:
    """Its worker died: after a while another one has it."""
    await add(store, schedule())
    assert await claimed(store) == ["s1"]
    assert await claimed(store, NOON + 99) == []
    assert await claimed(store, NOON + 100) == ["s1"]


async def test_of_many_claims_at_once_each_schedule_is_in_one(store: Store) -> None:
    await add(store, *(schedule(f"s{number:02}") for number in range(40)))
    found = await asyncio.gather(*(claimed(store, limit=7) for _ in range(10)))
    assert sorted(id_ for ids in found for id_ in ids) == [f"s{number:02}" for number in range(40)]


async def test_few_are_claimed_at_a_time_however_postgresql_looks_for_them(poorly_planned_store: Store) -> None:
    await add(poorly_planned_store, *(schedule(f"s{number}") for number in range(5)))
    assert [len(await claimed(poorly_planned_store, limit=2)) for _ in range(3)] == [2, 2, 1]


async def test_of_all_who_fired_it_one_moves_it_on(store: Store) -> None:
    (one,) = await add(store, schedule(recurrence="every 3600"))
    moves = [store.schedules.move(one, next_due_ms=NOON + 500, now_ms=NOON) for _ in range(5)]
    assert sorted(await asyncio.gather(*moves)) == [False, False, False, False, True]
    assert await store.schedules.next_due_ms() == NOON + 500
    assert await claimed(store, NOON + 500) == ["s1"]


async def test_what_happens_once_is_done(store: Store) -> None:
    (one,) = await add(store, schedule())
    assert await store.schedules.move(one, next_due_ms=None, now_ms=NOON)
    assert await store.schedules.active(ANN) == []
    assert await store.schedules.next_due_ms() is None
    assert await claimed(store, NOON * 2) == []


async def test_what_its_owner_cancelled_is_neither_claimed_nor_moved(store: Store) -> None:
    (one,) = await add(store, schedule(recurrence="every 3600"))
    assert await claimed(store) == ["s1"]
    await store.schedules.cancel(ANN, one.number)
    assert not await store.schedules.move(one, next_due_ms=NOON + 500, now_ms=NOON)
    assert await claimed(store, NOON * 2) == []


async def test_a_firing_that_nobody_could_take_comes_again_with_its_due_time(store: Store) -> None:
    (one,) = await add(store, schedule())
    await claimed(store)
    await store.schedules.put_off(one, until_ms=NOON + 30_000)
    assert await claimed(store, NOON + 29_999) == []
    (again,) = await store.schedules.claim_due(now_ms=NOON + 30_000, until_ms=NOON + 40_000, limit=1)
    assert again.firing_id == one.firing_id == f"schedule:s1:{NOON}"
