"""What a model is told of a sub-agent, for any answer."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from agent.subagents.texts import result_line, result_text
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.subagents import SubTask, TaskMode, TaskState

over = st.sampled_from([state for state in TaskState if state.is_over])


def task(result: str = "", state: TaskState = TaskState.COMPLETED, *, label: str = "", reason: str = "") -> SubTask:
    """A sub-agent that stands so."""
    return SubTask(
        id="t1",
        session_id="s2",
        parent_session_id="s1",
        key=SessionKey("telegram", "1"),
        turn_id="turn",
        sub_type="explore",
        label=CleanText(label),
        prompt=CleanText("look around"),
        mode=TaskMode.BACKGROUND,
        depth=1,
        created_at_ms=1_000,
        state=state,
        reason=CleanText(reason),
        result=CleanText(result),
        started_at_ms=1_000,
        finished_at_ms=3_500 if state.is_over else 0,
    )


@given(st.text(max_size=400), over, st.text(max_size=90), st.integers(0, 500))
def test_a_result_is_never_longer_than_allowed(result: str, state: TaskState, label: str, chars_max: int) -> None:
    assert len(result_text(task(result, state, label=label), chars_max)) <= chars_max


@given(st.text(min_size=1, max_size=400).filter(str.strip))
def test_a_result_that_fits_is_told_whole(result: str) -> None:
    assert result in result_text(task(result), 1_000)


@given(st.text("abc \n", min_size=801, max_size=2_000).filter(str.strip))
def test_a_long_result_keeps_its_ends_and_says_where_to_read_on(result: str) -> None:
    """The offset is where the head ends: a page from there on continues it."""
    told = result_text(task(result), 800)
    cut = re.search(
        r'\n\[… (\d+) characters left out; read_more with handle "t1" and offset (\d+) reads on …\]\n', told
    )
    assert cut is not None
    head, tail = told[: cut.start()], told[cut.end() :]
    left_out, start = int(cut[1]), int(cut[2])
    assert head.endswith("\n\n" + result[:start])
    assert tail == result[start + left_out :]


@given(st.text(max_size=90))
def test_whatever_a_label_holds_stays_on_one_line(label: str) -> None:
    assert len(result_line(task(label=label)).splitlines()) == 1


def test_a_failure_says_why_and_what_was_said_by_then() -> None:
    told = result_text(
        task("I have read two files", TaskState.TIMED_OUT, label="read all", reason="limit_300_s"), 4_000
    )
    assert told == (
        'Sub-agent t1 (explore) "read all" ran out of time after 2 s: it took longer than 300 s. '
        "What now: split the task into smaller ones, or raise `limit_s` if you had set one.\n\n"
        "What it had said by then:\nI have read two files"
    )


def test_a_lost_worker_is_told_in_words() -> None:
    told = result_text(task("", TaskState.FAILED, reason="worker_lost"), 4_000)
    assert told == (
        "Sub-agent t1 (explore) failed after 2 s: its process was lost with the worker that ran it. "
        "What now: have it done again if it still matters.\n\nIt left no answer."
    )


def test_a_live_one_has_no_result_yet() -> None:
    assert result_text(task("half", TaskState.RUNNING), 4_000) == "Sub-agent t1 (explore) is at work."
