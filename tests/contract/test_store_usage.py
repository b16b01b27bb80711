"""Sums over the usage ledger, on SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from gateway.contracts.budgets import DAY_MS, DailyUsage, Period, UsageSum
from gateway.contracts.sessions import Usage, UsagePurpose
from gateway.store import Store
from tests.contract.store_samples import ANN, ANN_IN_GROUP, BOB, talk

DAY: Final = 20_000
DAWN_MS: Final = DAY * DAY_MS
TODAY: Final = Period(DAWN_MS, DAWN_MS + DAY_MS)
TURN: Final = Usage(ANN, UsagePurpose.TURN, "big", 100, 20, 60, 0.5, "t1", DAWN_MS)


@pytest.fixture
async def spent(store: Store) -> Store:
    """Ann: a turn of two calls and a title today, in two places; a turn yesterday. Bob: one turn today."""
    mine = await talk(store, ANN, "hello", number=1)
    elsewhere = await talk(store, ANN_IN_GROUP, "hello", number=2)
    his = await talk(store, BOB, "hello", number=3)
    title = Usage(ANN, UsagePurpose.TITLE, "small", 10, 2, 0, 0.25, "", DAWN_MS + 5)
    yesterday = replace(TURN, turn_id="t0", created_at_ms=DAWN_MS - 1)
    await store.sessions.charge([TURN, replace(TURN, model="small"), yesterday], session_id=mine.id)
    await store.sessions.charge([replace(title, key=ANN_IN_GROUP)], session_id=elsewhere.id)
    await store.sessions.charge([replace(TURN, key=BOB, turn_id="t2", cost_usd=4.0)], session_id=his.id)
    await store.sessions.charge([replace(TURN, key=BOB, turn_id="t3", created_at_ms=TODAY.to_ms)], session_id=his.id)
    return store


async def test_an_owner_sees_his_own_by_purpose_wherever_he_spoke(spent: Store) -> None:
    assert await spent.usage.by_purpose(ANN, TODAY) == {
        UsagePurpose.TURN: UsageSum(2, 1, 200, 40, 120, 1.0),
        UsagePurpose.TITLE: UsageSum(1, 0, 10, 2, 0, 0.25),
    }
    assert await spent.usage.by_purpose(ANN_IN_GROUP, TODAY) == {}


async def test_all_together(spent: Store) -> None:
    assert (await spent.usage.by_purpose(None, TODAY))[UsagePurpose.TURN] == UsageSum(3, 2, 300, 60, 180, 5.0)
    by_model = await spent.usage.by_model(TODAY)
    assert {key: found.calls for key, found in by_model.items()} == {
        (UsagePurpose.TURN, "big"): 2,
        (UsagePurpose.TURN, "small"): 1,
        (UsagePurpose.TITLE, "small"): 1,
    }


async def test_those_who_spent_most_come_first(spent: Store) -> None:
    assert [(owner, found.cost_usd) for owner, found in await spent.usage.top(TODAY, limit=9)] == [
        (BOB, 4.0),
        (ANN, 1.25),
    ]
    assert [owner for owner, _ in await spent.usage.top(TODAY, limit=1)] == [BOB]


async def test_day_by_day_newest_first(spent: Store) -> None:
    always = Period(0, DAWN_MS + 9 * DAY_MS)
    found = await spent.usage.by_day(None, always, limit=9, offset=0)
    assert [(each.day - DAY, each.owner) for each in found] == [(1, BOB), (0, BOB), (0, ANN), (-1, ANN)]
    assert await spent.usage.by_day(None, always, limit=1, offset=2) == [found[2]]
    mine = await spent.usage.by_day(ANN, always, limit=9, offset=0)
    assert mine == [DailyUsage(ANN, DAY, UsageSum(3, 1, 210, 42, 120, 1.25)), found[3]]
