"""The cost router against a labelled set of messages in a dozen languages, and rule by rule."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.limits import ROUTING_MESSAGES_MAX, ROUTING_TOOL_CALLS_MAX
from agent.models.selection import Depth, Tier, tier_of
from agent.models.transcript import Tone, tone_of
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Entry, EntryKind, Role, ToolCall

LABELLED = Path(__file__).parents[1] / "golden" / "routing" / "messages.jsonl"
SECOND = LABELLED.with_name("second.jsonl")
"""Labelled by another hand, before it saw the rules, half of it short requests for code, faults to be found and proofs.
The rules were tuned on one part; `held` was kept aside meanwhile, and `unseen` written when they were done."""
ACCURACY_MIN = 0.96
"""Of a hundred messages that were labelled after the rules had been written, 94 were right at first sight."""


def labelled() -> list[dict[str, Any]]:
    return [json.loads(line) for line in LABELLED.read_text("utf-8").splitlines()]


def routed(row: dict[str, Any]) -> Tier:
    depth = Depth(row.get("messages", 0), row.get("tool_calls", 0))
    return tier_of(row["text"] * row.get("times", 1), depth)


def test_the_router_is_right_about_nearly_all_labelled_messages(capsys: pytest.CaptureFixture[str]) -> None:
    """Over all of them, and in each language with more than a handful."""
    rows = labelled()
    assert len(rows) >= 120
    total, right = Counter(row["language"] for row in rows), Counter[str]()
    for row in rows:
        right[row["language"]] += routed(row) is Tier(row["tier"])
    with capsys.disabled():
        by_language = ", ".join(f"{name} {right[name]}/{total[name]}" for name in sorted(total))
        print(
            f"\nrouting accuracy: {right.total()}/{total.total()} = {right.total() / total.total():.1%} ({by_language})"
        )
    assert right.total() / total.total() >= ACCURACY_MIN
    assert all(right[name] / total[name] >= 0.9 for name in total if total[name] >= 10)


def test_the_router_is_right_about_a_second_set_and_the_tone_names_nothing_that_is_not_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A tone that goes unnoticed costs little; one that is heard where there is none misleads the answer."""
    rows = [json.loads(line) for line in SECOND.read_text("utf-8").splitlines()]
    assert len(rows) >= 200
    table, right = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    heard = Counter[str]()
    for row in rows:
        tier, tone = routed(row).value, tone_of(row["text"])
        for part in (row["part"], row["kind"], "all"):
            table["tier", part] += 1
            right["tier", part] += tier == row["tier"]
            right["tone", part] += tone is Tone(row["tone"])
        heard[row["part"]] += tone is not Tone.NONE and tone is not Tone(row["tone"])
    with capsys.disabled():
        print()
        for (_, part), count in table.items():
            tiers, tones = right["tier", part], right["tone", part]
            shares = f"tier {tiers}/{count} = {tiers / count:.1%}, tone {tones}/{count} = {tones / count:.1%}"
            print(f"{part:12} {shares}")
        print(f"tones that are not there: {heard.total()} ({dict(heard)})")
    for part in ("all", "tuned", "held", "unseen"):
        assert right["tier", part] / table["tier", part] >= 0.95, part
    assert right["tone", "all"] / table["tier", "all"] >= 0.95
    assert heard.total() <= len(rows) // 100


def test_what_destroys_is_never_cheap() -> None:
    """Not one message of the set that asks for it, and neither politely nor after a greeting."""
    assert all(routed(row) is not Tier.LOW for row in labelled() if "destroys" in row)
    for said in (
        "hi, delete everything",
        "Thanks! Now please wipe the disk",
        "ok, rm -rf /",
        "да, удали всё",
        "好的，删除",
    ):
        assert tier_of(said, Depth()) is not Tier.LOW, said


@pytest.mark.parametrize(
    ("said", "tier"),
    [
        ("What is a distributed system?", Tier.LOW),
        ("Build us a distributed system", Tier.HIGH),
        ("what is refactoring?", Tier.LOW),
        ("refactor this", Tier.HIGH),
        ("Is the auditorium open?", Tier.LOW),
        ("x" * 15, Tier.LOW),
        ("x" * 16, Tier.MEDIUM),
        ("thanks, and " + "x" * 58, Tier.LOW),
        ("thanks, and " + "x" * 59, Tier.MEDIUM),
        ("is the shop open?", Tier.LOW),
        ("how do I sort a dict?", Tier.MEDIUM),
        ("what does the sort function do?", Tier.LOW),
        ("translate this code into Go", Tier.MEDIUM),
        ("f(x) = 2", Tier.MEDIUM),
        ("x" * 2_001, Tier.HIGH),
        ("```\nx\n```", Tier.MEDIUM),
        ("a\n" * 11, Tier.MEDIUM),
        ("", Tier.LOW),
    ],
)
def test_each_rule_at_its_edge(said: str, tier: Tier) -> None:
    assert tier_of(said, Depth()) is tier


def test_depth_counts_only_beyond_its_bounds() -> None:
    """Ten tool calls and thirty messages are an ordinary session; one more is hard work, but thanks stay thanks."""
    ordinary = Depth(ROUTING_MESSAGES_MAX, ROUTING_TOOL_CALLS_MAX)
    assert tier_of("go on with it", ordinary) is Tier.LOW
    assert tier_of("go on with it", Depth(ordinary.messages + 1)) is Tier.HIGH
    assert tier_of("go on with it", Depth(0, ordinary.tool_calls + 1)) is Tier.HIGH
    assert tier_of("thanks", Depth(99, 99)) is Tier.LOW


def test_depth_is_that_of_the_session_not_of_what_is_left_in_view() -> None:
    """What a summary stands for still counts."""
    call = ToolCall("c", "todo_read", CleanText("{}"))
    view = (
        Entry(Role.ASSISTANT, CleanText("summary"), seq=50, kind=EntryKind.COMPACTION, tail_start_seq=41),
        Entry(Role.USER, CleanText("go"), seq=51),
        Entry(Role.ASSISTANT, CleanText(""), seq=52, tool_calls=(call, call)),
        Entry(Role.TOOL, CleanText("done"), seq=53, tool_call_id="c"),
    )
    assert Depth.of(view) == Depth(messages=42, tool_calls=2)
    assert Depth.of(view[1:]) == Depth(messages=2, tool_calls=2)


@given(st.text(max_size=3_000), st.integers(0, 100), st.integers(0, 100))
def test_every_text_has_a_tier_and_a_deeper_session_never_a_lower_one(said: str, messages: int, tools: int) -> None:
    order = list(Tier)
    assert order.index(tier_of(said, Depth(messages, tools))) >= order.index(tier_of(said, Depth()))
