"""How the status lines of a turn read, and which line tells of which sub-agent."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.limits import STATUS_LINES_MAX
from agent.subagents.texts import status_text
from channels.discord.render import render as render_for_discord
from channels.telegram.render import render
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.subagents import SubTask, TaskMode, TaskState
from gateway.i18n import ENGLISH, Language, Words

TASK = SubTask(
    id="k1",
    session_id="s1",
    parent_session_id="s0",
    key=SessionKey("telegram", "1"),
    turn_id="t1",
    sub_type="explore",
    label=CleanText("where the tests are"),
    prompt=CleanText("find them"),
    mode=TaskMode.INLINE,
    depth=1,
    created_at_ms=1_000,
)
RUNNING = replace(TASK, state=TaskState.RUNNING, started_at_ms=2_000)


def over(state: TaskState, *, reason: str = "", tokens: int = 3_141, took_ms: int = 12_345) -> SubTask:
    """One that has ended."""
    return replace(
        RUNNING, state=state, reason=CleanText(reason), tokens_in=tokens, finished_at_ms=RUNNING.started_at_ms + took_ms
    )


def lines_of(*tasks: SubTask, own_max: int = 9) -> list[str]:
    """As Telegram shows them."""
    told = status_text(tasks, ENGLISH, now_ms=9_000, waits_after_ms=2_000, own_max=own_max)
    return [line for chunk in render(CleanText(told.text)) for line in chunk.plain.split("\n")]


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (TASK, "⏳ explore: where the tests are (waits)"),
        (RUNNING, "⏳ explore: where the tests are"),
        (over(TaskState.COMPLETED), "✓ explore: where the tests are (12 s, 3.1k tokens)"),
        (
            over(TaskState.COMPLETED, tokens=99, took_ms=150_000),
            "✓ explore: where the tests are (2 min 30 s, 99 tokens)",
        ),
        (
            over(TaskState.FAILED, reason="killed_by_signal_9"),
            "✗ explore: where the tests are: killed by signal 9 (12 s, 3.1k tokens)",
        ),
        (
            over(TaskState.FAILED, reason="worker_lost", tokens=0),
            "✗ explore: where the tests are: its process was lost (12 s, 0 tokens)",
        ),
        (
            over(TaskState.TIMED_OUT, reason="limit_300_s"),
            "✗ explore: where the tests are: limit 300 s (12 s, 3.1k tokens)",
        ),
        (over(TaskState.CANCELLED, reason="turn_ended"), "✗ explore: where the tests are: stopped (12 s, 3.1k tokens)"),
        (over(TaskState.FAILED), "✗ explore: where the tests are: failed (12 s, 3.1k tokens)"),
    ],
)
def test_a_line_says_who_does_what_and_how_it_ended(task: SubTask, said: str) -> None:
    assert lines_of(task) == [said]


def test_each_has_a_line_of_its_own() -> None:
    """In the order in which they were asked for, on lines of their own on every platform."""
    tasks = [replace(RUNNING, id=f"k{number}", label=CleanText(f"part {number}")) for number in range(9)]
    assert lines_of(*tasks) == [f"⏳ explore: part {number}" for number in range(9)]


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("threads_over_64", "er startete mehr als 64 Threads"),
        ("model_failed", "das Modell hat nicht geantwortet"),
        ("worker_lost", "sein Prozess ging verloren"),
        ("eaten_by_mice", "eaten by mice"),
    ],
)
def test_why_it_did_not_complete_is_said_in_the_readers_language(reason: str, said: str) -> None:
    """Only a code that this release does not know reads as it is."""
    task, german = over(TaskState.FAILED, reason=reason), Words(Language.DE)
    told = status_text([task], german, now_ms=9_000, waits_after_ms=2_000, own_max=9).text
    assert told.startswith(f"✗ explore: where the tests are: {said} (12 s")


def test_of_too_many_those_that_are_over_share_a_line_that_counts() -> None:
    tasks = [replace(RUNNING, id=f"k{number}", label=CleanText(str(number))) for number in range(9)]
    done = over(TaskState.COMPLETED)
    tasks[1] = replace(done, id="k1")
    tasks[3] = replace(over(TaskState.FAILED), id="k3")
    *own, last = lines_of(*tasks, own_max=7)
    assert own == [f"⏳ explore: {number}" for number in (0, 2, 4, 5, 6, 7, 8)]
    assert last == "✗ 2 more: 2 of them done, 1 not completed"
    assert lines_of(*tasks, own_max=3)[-1] == "⏳ 6 more: 2 of them done, 1 not completed"
    all_done = [replace(done, id=task.id) for task in tasks]
    assert lines_of(*all_done, own_max=3)[-1] == "✓ 6 more: 6 of them done"
    assert lines_of(*tasks[:4], own_max=3)[-1].startswith("✓ explore: where the tests are (")


def test_one_that_waits_for_a_moment_is_not_shown() -> None:
    """Nor is one that was cancelled by then; whoever has waited for longer is."""
    told = status_text([TASK], ENGLISH, now_ms=TASK.created_at_ms + 1_999, waits_after_ms=2_000, own_max=9)
    assert (told.text, told.grows_at_ms) == ("", TASK.created_at_ms + 2_000)
    gone = replace(TASK, state=TaskState.CANCELLED, finished_at_ms=TASK.created_at_ms + 1_999)
    assert lines_of(gone) == []
    assert lines_of(replace(gone, finished_at_ms=gone.created_at_ms + 2_000)) == [
        "✗ explore: where the tests are: stopped (0 s, 0 tokens)"
    ]


@given(st.lists(st.sampled_from(list(TaskState)), min_size=1, max_size=40))
def test_all_lines_fit_in_one_message_of_every_platform(states: list[TaskState]) -> None:
    """Whatever a model and a failing process say. Discord takes 2,000 characters, as they are written."""
    words = CleanText("*long* " * 40)
    tasks = [
        replace(over(state) if state.is_over else replace(RUNNING, state=state), id=f"k{n}", label=words, reason=words)
        for n, state in enumerate(states)
    ]
    text = status_text(tasks, ENGLISH, now_ms=99_000, waits_after_ms=2_000, own_max=STATUS_LINES_MAX).text
    assert len(render_for_discord(CleanText(text))) == 1


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=40))
def test_nothing_in_a_label_formats_anything(label: str) -> None:
    """A model chose it. What Telegram shows is what it wrote, on one line."""
    text = status_text(
        [replace(RUNNING, label=CleanText(f"a {label} z"))], ENGLISH, now_ms=9_000, waits_after_ms=2_000, own_max=1
    ).text
    (chunk,) = render(CleanText(text))
    assert chunk.plain == f"⏳ explore: a {label} z"
    assert chunk.entities == ()
