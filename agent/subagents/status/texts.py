"""The status lines of a turn, as its sub-agents stand: one for each of the first few, one for all others. Pure.

⏳ explore: where the tests are
✓ explore: where the tests are (12 s, 3.1k tokens)
✗ code: mend the parser: killed by signal 9 (4 s, 800 tokens)
⏳ 6 more: 2 of them done
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gateway.contracts.subagents import SubTask, TaskState
from gateway.words import Sentence, Words, sentence

REST: Final = "more"
"""The name of the line that several sub-agents share. No task has it for an id."""

_MARKUP: Final = re.compile(r"([!-/:-@\[-`{-~])")
_QUIETLY: Final = frozenset(" ,.?;()'-")
"""What formats nothing inside of a line, and reads better without a backslash in front."""

_STOPPED: Final = sentence("stopped")
_REASONS: Final = {
    "turn_ended": _STOPPED,
    "parent_ended": _STOPPED,
    "cancelled": _STOPPED,
    "worker_lost": sentence("its process was lost"),
    "budget_spent": sentence("the budget is spent"),
}
_OTHERWISE: Final = {
    TaskState.CANCELLED: _STOPPED,
    TaskState.TIMED_OUT: sentence("took too long"),
    TaskState.FAILED: sentence("failed"),
}
_PATTERNS: Final = (
    (re.compile(r"killed_by_signal_(\d+)"), sentence("killed by signal {number}")),
    (re.compile(r"limit_([\d.]+)_s"), sentence("limit {number} s")),
)


@dataclass(frozen=True, slots=True)
class StatusLine:
    """`name` is a task's id, or `REST`; `step` tells one wording of the line from the others. `waits_since_ms`: what it
    tells of has not begun since then. `is_moot`: it never will."""

    name: str
    step: str
    text: str
    waits_since_ms: int = 0
    is_moot: bool = False


def status_lines(tasks: Sequence[SubTask], words: Words, *, own_max: int) -> tuple[StatusLine, ...]:
    """The lines of a turn whose sub-agents are `tasks`, in the order in which they were asked for: the first `own_max`
    have one each. Which line tells of a task never changes."""
    own, others = tasks[:own_max], tasks[own_max:]
    lines = tuple(_line(task, words) for task in own)
    return (*lines, _shared_line(others, words)) if others else lines


def _line(task: SubTask, words: Words) -> StatusLine:
    text = f"{_sign(task)} {_wording(task, words)}"
    return StatusLine(task.id, task.state.value, text, *_not_begun([task]))


def _shared_line(tasks: Sequence[SubTask], words: Words) -> StatusLine:
    if len(tasks) == 1:
        line = _line(tasks[0], words)
        return replace(line, name=REST)
    over = [task for task in tasks if task.state.is_over]
    failed = sum(task.state is not TaskState.COMPLETED for task in over)
    sign = "⏳" if len(over) < len(tasks) else "✗" if failed else "✓"
    many = words.number(len(tasks))
    text = (
        words.say("{many} more: {done} of them done, {failed} not completed", many=many, done=len(over), failed=failed)
        if failed
        else words.say("{many} more: {done} of them done", many=many, done=len(over))
    )
    return StatusLine(REST, f"{len(tasks)}.{len(over)}.{failed}", f"{sign} {text}", *_not_begun(tasks))


def _not_begun(tasks: Sequence[SubTask]) -> tuple[int, bool]:
    """Since when the first of them waits, unless one has begun; and whether none ever will."""
    waiting = [task.created_at_ms for task in tasks if task.state is TaskState.QUEUED]
    moot = [task for task in tasks if task.state is TaskState.CANCELLED and not task.started_at_ms]
    if len(waiting) + len(moot) < len(tasks):
        return 0, False
    return min(waiting, default=0), not waiting


def _sign(task: SubTask) -> str:
    if not task.state.is_over:
        return "⏳"
    return "✓" if task.state is TaskState.COMPLETED else "✗"


def _wording(task: SubTask, words: Words) -> str:
    named = f"{_plain(task.sub_type)}: {_plain(task.label)}"
    if task.state is TaskState.QUEUED:
        return words.say("{named} (waits)", named=named)
    if not task.state.is_over:
        return named
    why = "" if task.state is TaskState.COMPLETED else f": {_why(task, words)}"
    return f"{named}{why} ({_seconds(task.duration_ms, words)}, {_tokens(task.tokens, words)})"


def _why(task: SubTask, words: Words) -> str:
    if task.reason in _REASONS:
        return words.say(_REASONS[task.reason])
    for pattern, clause in _PATTERNS:
        if found := pattern.fullmatch(task.reason):
            return _clause(clause, found[1], words)
    if said := _plain(task.reason.replace("_", " ")):
        return said
    return words.say(_OTHERWISE[task.state]) if task.state in _OTHERWISE else task.state.value


def _clause(clause: Sentence, number: str, words: Words) -> str:
    return words.say(clause, number=number)


def _seconds(duration_ms: int, words: Words) -> str:
    seconds = round(duration_ms / 1000)
    if seconds < 120:
        return words.say("{seconds} s", seconds=seconds)
    return words.say("{minutes} min {seconds} s", minutes=seconds // 60, seconds=seconds % 60)


def _tokens(count: int, words: Words) -> str:
    if count < 1_000:
        return words.count("{count} token", "{count} tokens", count)
    return words.say("{thousands}k tokens", thousands=words.number(count / 1_000, 1))


def _plain(text: str) -> str:
    """On one line, and nothing in it formats anything."""
    return _MARKUP.sub(lambda found: _quoted(found[0]), " ".join(text.split()))


def _quoted(mark: str) -> str:
    return mark if mark in _QUIETLY else f"\\{mark}"
