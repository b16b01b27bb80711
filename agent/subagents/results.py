"""What a sub-agent did, as the model that asked for it reads it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from agent.limits import SUBAGENT_RESULT_CHARS_MAX
from agent.tools.framing import frame_chars, framed
from agent.tools.truncation import abridged, grapheme_start
from gateway.contracts.messages import own_code
from gateway.contracts.reasons import Reason
from gateway.contracts.subagents import SubTask, TaskState
from gateway.words import ENGLISH
from gateway.words.reasons import in_words, instead_of, what_now

_NO_ANSWER: Final = "It left no answer."
_SO_FAR: Final = "What it had said by then:"
_ATTEMPT: Final = (
    "An earlier attempt to answer this was broken off. These sub-agents belong to it; read_more with an id as handle "
    "gives what one of them said, and what was lost has to be done again if it still matters:"
)
_APART: Final = "\n\n"

_STATES: Final = {
    TaskState.QUEUED: "waits for its turn",
    TaskState.RUNNING: "is at work",
    TaskState.COMPLETED: "completed",
    TaskState.FAILED: "failed",
    TaskState.CANCELLED: "was cancelled",
    TaskState.TIMED_OUT: "ran out of time",
}


def result_text(task: SubTask, chars_max: int) -> str:
    """One task in at most `chars_max` characters: which it is, how it stands, and its answer with head and tail kept.

    A cut brings together what was apart, so whoever shows this scrubs it; the task's id is the handle to the rest.
    """
    if not task.state.is_over:
        return _short(result_line(task), chars_max)
    line = result_line(task) + what_now(instead_of(task.reason))
    said = task.result.strip()
    head = f"{line}\n\n{_SO_FAR}\n" if said and task.state is not TaskState.COMPLETED else f"{line}\n\n"
    return _short(head + _answer(task, chars_max - len(head)), chars_max)


def result_line(task: SubTask) -> str:
    """Which task it is and how it stands, on one line."""
    label = " ".join(task.label.split())
    named = f' "{label}"' if label else ""
    seconds = f" after {ENGLISH.lasting(task.duration_ms)}" if task.duration_ms else ""
    tokens = f", {task.tokens:,} tokens" if task.tokens else ""
    reason = f": {in_words(task.reason)}" if task.reason else ""
    return f"Sub-agent {task.id} ({task.sub_type}){named} {_STATES[task.state]}{seconds}{tokens}{reason}."


def attempt_text(tasks: Sequence[SubTask]) -> str:
    """What a turn that is taken again is told of the sub-agents that its earlier attempts had. Their answers are read
    by their ids."""
    return "\n".join((_ATTEMPT, *(f"- {result_line(_as_left(task))}" for task in tasks)))


def _as_left(task: SubTask) -> SubTask:
    """It has ended with its attempt, whether or not that is written down yet."""
    return task if task.state.is_over else replace(task, state=TaskState.FAILED, reason=own_code(Reason.WORKER_LOST))


def results_text(tasks: Sequence[SubTask], mark: str, chars_max: int) -> str:
    """All of them in at most `chars_max` characters, each in an equal share, as material that others wrote: framed by
    `mark`."""
    room = chars_max - frame_chars(len(mark)) - len(_APART) * len(tasks)
    share = min(SUBAGENT_RESULT_CHARS_MAX, room // max(len(tasks), 1))
    return framed(_APART.join(result_text(task, share) for task in tasks), mark)


def _answer(task: SubTask, room: int) -> str:
    """Offsets count in the whole answer, as `read_more` does."""
    return abridged(task.result, room, handle=task.id) if task.result.strip() else _NO_ANSWER


def _short(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else text[: grapheme_start(text, chars_max)]
