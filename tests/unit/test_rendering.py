"""Values as the operator's pages show them."""

from __future__ import annotations

import pytest

from gateway.ops.admin.rendering import (
    cost,
    duration,
    hour_bars,
    initials,
    markdown,
    number,
    short,
    span_bars,
    span_line,
    usage_by,
    waiting_line,
    when,
)

NOW_MS = 1_795_784_400_000  # 2026-11-27 13:00 UTC


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (None, "–"),
        (0, "0 s"),
        (420, "420 ms"),
        (3_000, "3 s"),
        (3_400, "3.4 s"),
        (59_000, "59 s"),
        (60_000, "1 min"),
        (3_700_000, "1 h 1 min"),
        (86_400_000, "1 day"),
        (200_000_000, "2 days"),
    ],
)
def test_durations_have_the_units_that_say_enough(ms: float | None, words: str) -> None:
    assert duration(ms) == words


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("2026-11-27T12:59:00+00:00", "1 min ago"),
        ("2026-11-27T13:59:00Z", "in 59 min"),
        ("2026-11-27T13:00:00Z", "just now"),
        ("2026-11-01T13:00:00Z", "01 Nov 2026"),
        (None, "never"),
    ],
)
def test_times_are_told_as_people_tell_them(at: str | None, words: str) -> None:
    assert f">{words}<" in when(at, NOW_MS)


def test_numbers_and_money_are_short() -> None:
    assert [number(count) for count in (0, 1_234, 4.25)] == ["0", "1,234", "4.2"]
    assert [short(count) for count in (950, 3_100, 2_000_000)] == ["950", "3.1k", "2M"]
    assert [cost(usd) for usd in (0, 0.0123, 0.05, 0.5, 1_234.5)] == ["$0", "$0.0123", "$0.05", "$0.50", "$1,234.50"]


def test_a_person_has_initials_with_or_without_a_name() -> None:
    assert [initials(name) for name in ("Ann Lee", "bob", "telegram:123", "…", "")] == ["AL", "B", "T1", "?", "?"]


def test_what_people_wrote_is_never_markup_and_loads_nothing() -> None:
    shown = markdown(
        "**b** <script>x</script> ![p](http://evil/p.png) [x](javascript:alert(1)) [y](https://ok.example)"
    )
    assert "<strong>b</strong>" in shown
    assert "<script" not in shown
    assert "<img" not in shown
    assert 'href="javascript' not in shown
    assert '<a href="https://ok.example">' in shown


def test_a_line_has_gaps_where_nothing_is_known_and_ends_at_the_right_edge() -> None:
    spans = [
        {"at": f"2026-11-27T{hour:02}:00:00Z", "p50_ms": value} for hour, value in ((1, 5.0), (2, None), (13, 9.0))
    ]
    drawn = span_line(spans, "p50_ms")
    assert drawn.count("<polyline") == 2
    assert 'points="1000.0,' in drawn
    assert waiting_line([]) == ""


def test_hours_without_cost_have_their_place() -> None:
    drawn = hour_bars([{"at": "2026-11-27T13:00:00Z", "cost": 0.5}], NOW_MS)
    assert drawn.count("<g>") == 24
    assert drawn.count("<rect") == 1
    assert "<title>13:00 UTC: $0.50</title>" in drawn


def test_no_scale_of_what_is_counted_has_halves() -> None:
    spans = [{"at": "2026-11-27T13:00:00Z", "answers": 1, "failures": 0}]
    assert "<span>1</span><span></span><span>0</span>" in span_bars(spans, "answers", "failures")
    assert "<span>$0.50</span>" in hour_bars([{"at": "2026-11-27T13:00:00Z", "cost": 1.0}], NOW_MS)


def test_usage_is_summed_by_user_and_by_day() -> None:
    row = {"prompt_tokens": 10, "completion_tokens": 5, "calls": 1, "turns": 1}
    rows = [
        row | {"key": "a", "day": "2026-11-26", "cost": 1.0},
        row | {"key": "b", "day": "2026-11-27", "cost": 3.0},
        row | {"key": "a", "day": "2026-11-27", "cost": 0.5},
    ]
    assert [(key, sums["cost"]) for key, sums in usage_by(rows, "key")] == [("b", 3.0), ("a", 1.5)]
    assert [(day, sums["tokens"]) for day, sums in usage_by(rows, "day")] == [("2026-11-27", 30), ("2026-11-26", 15)]
