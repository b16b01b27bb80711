"""Usage on the operator's side: per user and day, and as counters with few and clean labels."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client.core import Metric

from gateway.bus.bus import RedisBus
from gateway.contracts.budgets import DAY_MS, UsageSum
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import Usage, UsagePurpose
from gateway.ops.admin.health import MODELS_SHOWN_MAX, OTHERS, usage_families
from gateway.scrub import Scrubber
from gateway.store import Store
from tests.contract.store_samples import ANN, ANN_IN_GROUP, BOB, talk
from tests.parts.operator_api import CLOCK, app_of, client_of

KEY = "sk-proj-" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z"


@pytest.fixture
async def spent(sqlite_store: Store) -> Store:
    """Ann: a turn today and one two days ago, another in a group; Bob: a title today."""
    now_ms = CLOCK.now_ms()

    def usage(key: SessionKey, purpose: UsagePurpose, turn_id: str, *, days_ago: int = 0) -> Usage:
        return Usage(key, purpose, "openai/m", 100, 20, 50, 0.25, turn_id, now_ms - days_ago * DAY_MS)

    for number, call in enumerate(
        (
            usage(ANN, UsagePurpose.TURN, "t1"),
            usage(ANN, UsagePurpose.TURN, "t0", days_ago=2),
            usage(ANN_IN_GROUP, UsagePurpose.TURN, "t2"),
            usage(BOB, UsagePurpose.TITLE, ""),
        ),
        1,
    ):
        session = await talk(sqlite_store, call.key, "hello", number=number)
        await sqlite_store.sessions.charge([call], session_id=session.id)
    return sqlite_store


async def test_usage_is_shown_per_user_and_day(spent: Store, bus: RedisBus) -> None:
    async with client_of(app_of(spent, bus)) as client:
        rows = (await client.get("/api/v1/usage")).json()
        today = datetime.now(UTC).date()
        assert [(row["key"], row["day"], row["turns"], row["cost"]) for row in rows] == [
            (str(ANN), str(today), 2, 0.5),
            (str(BOB), str(today), 0, 0.25),
            (str(ANN), str(today - timedelta(days=2)), 1, 0.25),
        ]
        assert (rows[0]["prompt_tokens"], rows[0]["completion_tokens"], rows[0]["cached_tokens"]) == (200, 40, 100)
        assert (await client.get("/api/v1/usage", params={"key": str(ANN_IN_GROUP), "days": 1})).json() == rows[:1]
        assert (await client.get("/api/v1/usage", params={"limit": 1, "offset": 1})).json() == rows[1:2]
        assert (await client.get("/api/v1/usage", params={"key": "nobody"})).status_code == 422


async def test_metrics_count_what_was_spent_today(spent: Store, bus: RedisBus) -> None:
    async with client_of(app_of(spent, bus)) as client:
        text = (await client.get("/metrics")).text
    assert 'trivet_model_prompt_tokens_total{model="openai/m",purpose="turn"} 200.0' in text
    assert 'trivet_model_cached_tokens_total{model="openai/m",purpose="title"} 50.0' in text
    assert 'trivet_model_cost_usd_total{model="openai/m",purpose="turn"} 0.5' in text
    assert 'trivet_model_cache_hit_ratio{model="openai/m",purpose="turn"} 0.5' in text


def test_a_model_that_read_nothing_has_no_hit_ratio() -> None:
    sums = {
        (UsagePurpose.TURN, "m"): UsageSum(1),
        (UsagePurpose.TURN, "n"): UsageSum(1, prompt_tokens=80, cached_tokens=20),
    }
    *_, ratio = usage_families(sums, clean=Scrubber().scrub)
    assert [(sample.labels["model"], sample.value) for sample in ratio.samples] == [("n", 0.25)]


def test_labels_are_few_and_hold_no_secret() -> None:
    """A model's name comes from people (/model): it may be anything, and there may be any number of them."""
    sums = {(UsagePurpose.TURN, f"m{number}"): UsageSum(1, prompt_tokens=number) for number in range(500)}
    sums[UsagePurpose.TURN, f"openai/{KEY}"] = UsageSum(1, prompt_tokens=10**6)
    families: list[Metric] = list(usage_families(sums, clean=Scrubber().scrub))
    tokens = {sample.labels["model"]: sample.value for sample in families[1].samples}
    assert len(tokens) == MODELS_SHOWN_MAX + 1
    assert sum(tokens.values()) == 10**6 + sum(range(500))
    assert tokens[OTHERS] == sum(range(500 - MODELS_SHOWN_MAX + 1))
    assert not any(KEY in model for model in tokens)
