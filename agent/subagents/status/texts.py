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

REST: Final = "more"
"""The name of the line that several sub-agents share. No task has it for an id."""

_MARKUP: Final = re.compile(r"([!-/:-@\[-`{-~])")
_QUIETLY: Final = frozenset(" ,.?;()'-")
"""What formats nothing inside of a line, and reads better without a backslash in front."""

_REASONS: Final = {
    "turn_ended": "stopped",
    "parent_ended": "stopped",
    "cancelled": "stopped",
    "worker_lost": "its process was lost",
    "budget_spent": "the budget is spent",
}
_OTHERWISE: Final = {
    TaskState.CANCELLED: "stopped",
    TaskState.TIMED_OUT: "took too long",
    TaskState.FAILED: "failed",
}


@dataclass(frozen=True, slots=True)
class StatusLine:
    """`name` is a task's id, or `REST`; `step` tells one wording of the line from the others. `waits_since_ms`: what it
    tells of has not begun since then. `is_moot`: it never will."""

    name: str
    step: str
    text: str
    waits_since_ms: int = 0
    is_moot: bool = False


def status_lines(tasks: Sequence[SubTask], *, own_max: int) -> tuple[StatusLine, ...]:
    """The lines of a turn whose sub-agents are `tasks`, in the order in which they were asked for: the first `own_max`
    have one each. Which line tells of a task never changes."""
    own, others = tasks[:own_max], tasks[own_max:]
    return (*map(_line, own), *((_shared_line(others),) if others else ()))


def _line(task: SubTask) -> StatusLine:
    text = f"{_sign(task)} {_words(task)}"
    return StatusLine(task.id, task.state.value, text, *_not_begun([task]))


def _shared_line(tasks: Sequence[SubTask]) -> StatusLine:
    if len(tasks) == 1:
        line = _line(tasks[0])
        return replace(line, name=REST)
    over = [task for task in tasks if task.state.is_over]
    failed = sum(task.state is not TaskState.COMPLETED for task in over)
    sign = "⏳" if len(over) < len(tasks) else "✗" if failed else "✓"
    trouble = f", {failed} not completed" if failed else ""
    text = f"{sign} {len(tasks)} more: {len(over)} of them done{trouble}"
    return StatusLine(REST, f"{len(tasks)}.{len(over)}.{failed}", text, *_not_begun(tasks))


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


def _words(task: SubTask) -> str:
    named = f"{_plain(task.sub_type)}: {_plain(task.label)}"
    if task.state is TaskState.QUEUED:
        return f"{named} (waits)"
    if not task.state.is_over:
        return named
    why = "" if task.state is TaskState.COMPLETED else f": {_why(task)}"
    return f"{named}{why} ({_seconds(task.duration_ms)}, {_tokens(task.tokens)})"


def _why(task: SubTask) -> str:
    said = _REASONS.get(task.reason) or _plain(task.reason.replace("_", " "))
    return said or _OTHERWISE.get(task.state, task.state.value)


def _seconds(duration_ms: int) -> str:
    seconds = round(duration_ms / 1000)
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min {seconds % 60} s"


def _tokens(count: int) -> str:
    return f"{count} tokens" if count < 1_000 else f"{count / 1_000:.1f}k tokens"


def _plain(text: str) -> str:
    """On one line, and nothing in it formats anything."""
    return _MARKUP.sub(lambda found: _quoted(found[0]), " ".join(text.split()))


def _quoted(mark: str) -> str:
    return mark if mark in _QUIETLY else f"\\{mark}"
