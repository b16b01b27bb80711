"""How the status lines of a turn read, and which line tells of which sub-agent."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.subagents.status.texts import REST, status_lines
from channels.telegram.render import render
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.subagents import SubTask, TaskMode, TaskState
from gateway.words import ENGLISH

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
    (line,) = status_lines([task], ENGLISH, own_max=3)
    (chunk,) = render(CleanText(line.text))
    assert chunk.plain == said


def test_all_beyond_the_first_few_share_a_line_that_counts() -> None:
    tasks = [replace(RUNNING, id=f"k{number}") for number in range(9)]
    lines = status_lines(tasks, ENGLISH, own_max=3)
    assert [line.name for line in lines] == ["k0", "k1", "k2", REST]
    assert lines[-1].text == "⏳ 6 more: 0 of them done"
    done = replace(over(TaskState.COMPLETED), id="")
    tasks[3:5] = [replace(done, id="k3"), replace(over(TaskState.FAILED), id="k4")]
    assert status_lines(tasks, ENGLISH, own_max=3)[-1].text == "⏳ 6 more: 2 of them done, 1 not completed"
    tasks[3:] = [replace(done, id=task.id) for task in tasks[3:]]
    assert status_lines(tasks, ENGLISH, own_max=3)[-1].text == "✓ 6 more: 6 of them done"


def test_one_alone_in_the_shared_line_is_told_of_by_name() -> None:
    last = status_lines([replace(RUNNING, id=f"k{number}") for number in range(4)], ENGLISH, own_max=3)[-1]
    assert (last.name, last.text) == (REST, "⏳ explore: where the tests are")


@given(st.lists(st.sampled_from(list(TaskState)), min_size=1, max_size=6), st.integers(0, 4))
def test_another_wording_is_another_step(states: list[TaskState], own_max: int) -> None:
    """So that it gets an id of its own: an id is published once."""
    before = [replace(RUNNING, id=f"k{number}") for number in range(len(states))]
    after = [over(state) if state.is_over else replace(TASK, state=state) for state in states]
    after = [replace(task, id=f"k{number}") for number, task in enumerate(after)]
    for old, new in zip(
        status_lines(before, ENGLISH, own_max=own_max), status_lines(after, ENGLISH, own_max=own_max), strict=True
    ):
        assert old.name == new.name
        assert (old.step == new.step) == (old.text == new.text)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=40))
def test_nothing_in_a_label_formats_anything(label: str) -> None:
    """A model chose it. What Telegram shows is what it wrote, on one line."""
    (line,) = status_lines([replace(RUNNING, label=CleanText(f"a {label} z"))], ENGLISH, own_max=1)
    (chunk,) = render(CleanText(line.text))
    assert chunk.plain == f"⏳ explore: a {label} z"
    assert chunk.entities == ()
