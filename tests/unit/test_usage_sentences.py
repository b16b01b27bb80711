"""What people read about limits and sums."""

from __future__ import annotations

import pytest

from agent.features.usage import Day, everybodys_usage_text, little_left_note, reset_text, spent_sentence, usage_text
from gateway.contracts.budgets import DAY_MS, Amounts, Caps, Measure, UsageSum
from gateway.contracts.errors import BudgetSpent
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import UsagePurpose
from gateway.i18n import ENGLISH

NOW_MS = 20_000 * DAY_MS + 20 * 3_600_000 + 39 * 60_000 + 1
RESET_MS = 20_001 * DAY_MS


@pytest.mark.parametrize(
    ("now_ms", "text"),
    [
        (NOW_MS, "00:00 UTC (in 3 h 21 min)"),
        (RESET_MS - 1, "00:00 UTC (in 1 min)"),
        (RESET_MS - 3_600_000, "00:00 UTC (in 1 h 0 min)"),
        (RESET_MS + 5, "00:00 UTC (in 0 min)"),
    ],
)
def test_the_reset_is_told_for_all_time_zones(now_ms: int, text: str) -> None:
    assert reset_text(RESET_MS, ENGLISH, now_ms=now_ms) == text


def test_the_refusal_says_what_is_spent_and_whose() -> None:
    own = spent_sentence(BudgetSpent(Measure.MONEY, reset_at_ms=RESET_MS), ENGLISH, now_ms=NOW_MS)
    assert (
        own
        == "That would take more budget than you have left for today. I cannot answer until 00:00 UTC (in 3 h 21 min)."
    )
    pot = spent_sentence(BudgetSpent(Measure.TURNS, reset_at_ms=RESET_MS, is_everybodys=True), ENGLISH, now_ms=NOW_MS)
    assert "everybody" in pot


def test_the_note_names_each_measure_once_and_is_empty_without_one() -> None:
    note = little_left_note({Measure.TURNS, Measure.TOKENS}, ENGLISH, reset_at_ms=RESET_MS, now_ms=NOW_MS)
    assert note.startswith("> Little is left of your tokens and turns for today.")
    assert "\n" not in note
    assert little_left_note((), ENGLISH, reset_at_ms=RESET_MS, now_ms=NOW_MS) == ""


def test_usage_shows_limits_where_there_are_some() -> None:
    month = {
        UsagePurpose.TITLE: UsageSum(1, 0, 10, 2, 0, 0.0002),
        UsagePurpose.TURN: UsageSum(3, 2, 2_000, 345, 100, 1.5),
    }
    text = usage_text(Day(Amounts(1_234, 10**9, 1), Caps(tokens=5_000), RESET_MS), month, ENGLISH, now_ms=NOW_MS)
    assert "- tokens: 1,234 of 5,000\n- cost: $1.00\n- turns: 1" in text
    assert "limits are renewed at 00:00 UTC" in text
    assert "**This month**: 2,357 tokens (100 of them cached), $1.50, 2 turns" in text
    assert text.index("- turn: 2,345 tokens") < text.index("- title: 12 tokens, $0.0002")
    unlimited = usage_text(Day(Amounts(), Caps(), RESET_MS), {}, ENGLISH, now_ms=NOW_MS)
    assert "- cost: $0.00\n" in unlimited
    assert "limits" not in unlimited
    assert " of " not in unlimited


def test_everybodys_usage_ranks_people() -> None:
    top = [(SessionKey("slack", "U2"), UsageSum(1, 1, 9, 1, 0, 2.0)), (SessionKey("telegram", "1"), UsageSum())]
    text = everybodys_usage_text(Day(Amounts(), Caps(), RESET_MS), {}, top, ENGLISH, now_ms=NOW_MS)
    assert "1. slack:U2: 10 tokens, $2.00, 1 turn\n2. telegram:1: 0 tokens" in text
