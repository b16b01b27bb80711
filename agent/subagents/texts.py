"""Sub-agents in words: their results for the model that asked for them, their lines for people in a chat. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from agent.limits import STATUS_LABEL_CHARS_MAX, SUBAGENT_RESULT_CHARS_MAX
from agent.tools.results import abridged, frame_chars, framed, grapheme_start
from gateway.contracts.errors import Reason
from gateway.contracts.messages import literal_code
from gateway.contracts.subagents import SubTask, TaskState
from gateway.i18n import ENGLISH, Words
from gateway.i18n.reasons import in_brief, in_words, instead_of, what_now, without_reason

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
    """Write one task in at most `chars_max` characters: which it is, its state, and its answer with head and tail kept.

    A cut joins what was apart, so the caller scrubs the text again; the task's id is the handle to the rest."""
    if not task.state.is_over:
        return _short(result_line(task), chars_max)
    line = result_line(task) + what_now(instead_of(task.reason))
    said = task.result.strip()
    head = f"{line}\n\n{_SO_FAR}\n" if said and task.state is not TaskState.COMPLETED else f"{line}\n\n"
    return _short(head + _answer(task, chars_max - len(head)), chars_max)


def result_line(task: SubTask) -> str:
    """Name the task and its state, on one line."""
    label = " ".join(task.label.split())
    named = f' "{label}"' if label else ""
    seconds = f" after {ENGLISH.lasting(task.duration_ms)}" if task.duration_ms else ""
    tokens = f", {task.tokens:,} tokens" if task.tokens else ""
    reason = f": {in_words(task.reason)}" if task.reason else ""
    return f"Sub-agent {task.id} ({task.sub_type}){named} {_STATES[task.state]}{seconds}{tokens}{reason}."


def attempt_text(tasks: Sequence[SubTask]) -> str:
    """Write what a repeated turn is told about the sub-agents of its earlier attempts. Their answers can be read by
    their ids."""
    return "\n".join((_ATTEMPT, *(f"- {result_line(_as_left(task))}" for task in tasks)))


def _as_left(task: SubTask) -> SubTask:
    """Return the task as ended with its attempt, whether or not that is recorded yet."""
    return (
        task if task.state.is_over else replace(task, state=TaskState.FAILED, reason=literal_code(Reason.WORKER_LOST))
    )


def results_text(tasks: Sequence[SubTask], mark: str, chars_max: int) -> str:
    """Write all tasks in at most `chars_max` characters, each in an equal share, as material that others wrote: framed
    by `mark`."""
    room = chars_max - frame_chars(len(mark)) - len(_APART) * len(tasks)
    share = min(SUBAGENT_RESULT_CHARS_MAX, room // max(len(tasks), 1))
    return framed(_APART.join(result_text(task, share) for task in tasks), mark)


def _answer(task: SubTask, room: int) -> str:
    """Cut the answer. Offsets count in the whole answer, as those of `read_more` do."""
    return abridged(task.result, room, handle=task.id) if task.result.strip() else _NO_ANSWER


def _short(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else text[: grapheme_start(text, chars_max)]


_LIVE: Final = "⏳"
_DONE: Final = "✓"
_NOT_DONE: Final = "✗"
_SIGNS: Final = (_LIVE, _DONE, _NOT_DONE)

_MARKUP: Final = re.compile(r"([!-/:-@\[-`{-~])")
_QUIETLY: Final = frozenset(" ,.?;()'-")
"""Characters that format nothing inside of a line, and read better without a backslash in front."""


@dataclass(frozen=True, slots=True)
class StatusText:
    """A line for each sub-agent that has something to show for itself; "" while none has. `is_live`: one of them is
    not over. `grows_at_ms`: when one that waits is going to be shown so; 0: none waits unseen."""

    text: str
    is_live: bool
    grows_at_ms: int


def status_text(
    tasks: Sequence[SubTask], words: Words, *, now_ms: int, waits_after_ms: int, own_max: int
) -> StatusText:
    """Write the status of `tasks`, in the order in which they were ordered. Of more than `own_max` the oldest that are
    over share a line. One that has waited only for a moment is not shown as waiting."""
    unseen = [task for task in tasks if not _is_seen(task, now_ms=now_ms, waits_after_ms=waits_after_ms)]
    shown = [task for task in tasks if task not in unseen]
    own = _own(shown, own_max)
    lines = [_line(task, words) for task in own]
    if others := [task for task in shown if task not in own]:
        lines.append(_shared_line(others, words))
    coming = [task.created_at_ms + waits_after_ms for task in unseen if not task.state.is_over]
    is_live = any(not task.state.is_over for task in shown)
    return StatusText("\n".join(lines), is_live, min(coming, default=0))


def heading(person: str, words: Words) -> str:
    """Write the line above the lines of one person, where others read them too; "" for nobody."""
    return words.say("{person}'s sub-agents:", person=_plain(_short_line(person))) if person.strip() else ""


def heading_of(text: str) -> str:
    """Return the heading line of a message that was sent; "" where it has none."""
    line = text.partition("\n")[0]
    return "" if line.startswith(_SIGNS) else line


def _is_seen(task: SubTask, *, now_ms: int, waits_after_ms: int) -> bool:
    """Tell whether a task is shown: not while it has waited only for a moment, nor if it was cancelled within that."""
    if task.started_at_ms:
        return True
    match task.state:
        case TaskState.QUEUED:
            return now_ms - task.created_at_ms >= waits_after_ms
        case TaskState.CANCELLED:
            return task.finished_at_ms - task.created_at_ms >= waits_after_ms
        case _:
            return True


def _own(tasks: Sequence[SubTask], own_max: int) -> list[SubTask]:
    """Select the tasks that have lines of their own: the live ones, and the last that are over."""
    live = [task for task in tasks if not task.state.is_over][:own_max]
    over = [task for task in tasks if task.state.is_over]
    last = over[max(len(over) - (own_max - len(live)), 0) :]
    return [task for task in tasks if task in live or task in last]


def _line(task: SubTask, words: Words) -> str:
    return f"{_sign(task)} {_wording(task, words)}"


def _shared_line(tasks: Sequence[SubTask], words: Words) -> str:
    if len(tasks) == 1:
        return _line(tasks[0], words)
    over = [task for task in tasks if task.state.is_over]
    failed = sum(task.state is not TaskState.COMPLETED for task in over)
    sign = _LIVE if len(over) < len(tasks) else _NOT_DONE if failed else _DONE
    many = words.number(len(tasks))
    text = (
        words.say("{many} more: {done} of them done, {failed} not completed", many=many, done=len(over), failed=failed)
        if failed
        else words.say("{many} more: {done} of them done", many=many, done=len(over))
    )
    return f"{sign} {text}"


def _sign(task: SubTask) -> str:
    if not task.state.is_over:
        return _LIVE
    return _DONE if task.state is TaskState.COMPLETED else _NOT_DONE


def _wording(task: SubTask, words: Words) -> str:
    named = f"{_plain(task.sub_type)}: {_plain(_short_line(task.label))}"
    if task.state is TaskState.QUEUED:
        return words.say("{named} (waits)", named=named)
    if not task.state.is_over:
        return named
    why = "" if task.state is TaskState.COMPLETED else f": {_why(task, words)}"
    return f"{named}{why} ({words.lasting(task.duration_ms)}, {_tokens(task.tokens, words)})"


def _why(task: SubTask, words: Words) -> str:
    own = _plain(_short_line(task.reason.replace("_", " ")))
    return in_brief(task.reason, words) or own or without_reason(task.state, words)


def _tokens(count: int, words: Words) -> str:
    if count < 1_000:
        return words.count("{count} token", "{count} tokens", count)
    return words.say("{thousands}k tokens", thousands=words.number(count / 1_000, 1))


def _short_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= STATUS_LABEL_CHARS_MAX else f"{line[: STATUS_LABEL_CHARS_MAX - 1]}…"


def _plain(text: str) -> str:
    """Put the text on one line and escape what would format it."""
    return _MARKUP.sub(lambda found: found[0] if found[0] in _QUIETLY else f"\\{found[0]}", " ".join(text.split()))
