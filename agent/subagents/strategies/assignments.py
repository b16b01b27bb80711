"""What a strategy wants done and what came of it, and the prompt that is made of both. Pure.

A prompt holds what one sub-agent wrote for another to read. Each such piece stands in a frame whose mark its writer
could not know, and all of them share the room that is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agent.limits import (
    ORCHESTRATION_REASON_CHARS_MAX,
    SUBAGENT_LABEL_CHARS_MAX,
    SUBAGENT_PROMPT_CHARS_MAX,
)
from agent.tools.framing import frame_chars, framed
from agent.tools.truncation import abridged
from gateway.contracts.messages import CleanText, own_words
from gateway.contracts.reasons import Shortfall
from gateway.words.reasons import SHORTFALLS

_NO_FORM: Final = own_words("")
_APART: Final = "\n\n"
_MATERIAL: Final = "# Material"
_NOTHING: Final = "[nothing]"
_TITLE_CHARS: Final = 120
_FAILED: Final = "[not done: {problem}]\n"


@dataclass(frozen=True, slots=True)
class Ended:
    """How an assignment ended: what was answered, and why that is no answer ("" if it is one)."""

    text: str
    problem: str = ""

    @property
    def is_done(self) -> bool:
        """True when the assignment was carried out."""
        return not self.problem


@dataclass(frozen=True, slots=True)
class Exhibit:
    """What came of assignment `id`, as others may be shown it. `title` names it; `problem` is "" where it is done."""

    id: str
    title: str
    text: str
    problem: str = ""

    @classmethod
    def of(cls, assignment_id: str, title: str, ended: Ended) -> Exhibit:
        """The end of an assignment under a title."""
        return cls(assignment_id, title, ended.text, ended.problem[:ORCHESTRATION_REASON_CHARS_MAX])


@dataclass(frozen=True, slots=True)
class StepOrder:
    """One sub-agent that is to be run. `label` is for people. `brief` stands in front of the material, `closing` and
    the `form` of the answer behind it; these are never cut."""

    id: str
    sub_type: str
    label: str
    brief: str
    exhibits: tuple[Exhibit, ...] = ()
    closing: str = ""
    form: CleanText = _NO_FORM


@dataclass(frozen=True, slots=True)
class Undone:
    """A step that was never begun, and why."""

    id: str
    sub_type: str
    why: str


@dataclass(frozen=True, slots=True)
class Going:
    """It goes on: these assignments are under way or may begin, in this order. There is at least one."""

    assignments: tuple[StepOrder, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """It is over. `answer` is the final answer where `problem` is "", else what was achieved in spite of it; `instead`
    is what may be done then."""

    answer: tuple[Exhibit, ...]
    problem: str = ""
    instead: str = ""


Move = Going | Outcome


def fallen_short(achieved: tuple[Exhibit, ...], shortfall: Shortfall, **values: str | int) -> Outcome:
    """It is over, and came to nothing; `values` are what the words of that name."""
    told = SHORTFALLS[shortfall]
    return Outcome(achieved, told.happened.format_map(values), told.instead)


def brief_of(told: str, goal: str, task: str = "") -> str:
    """Who the sub-agent is in all this, what all of it is for, and what its own part is."""
    parts = [told, f"# What all of it is for\n{goal}"]
    if task:
        parts.append(f"# Your part\n{task}")
    return _APART.join(parts)


def label_of(place: str, task: str) -> str:
    """A few words for the board and the chat."""
    line = " ".join(f"{place}: {task}".split())
    return line if len(line) <= SUBAGENT_LABEL_CHARS_MAX else f"{line[: SUBAGENT_LABEL_CHARS_MAX - 1]}…"


def line_of(task: str) -> str:
    """The beginning of a task, as the title of what came of it."""
    return " ".join(task.split())[:_TITLE_CHARS]


def prompt_of(assignment: StepOrder, mark: str) -> str:
    """The prompt of an assignment, never longer than a prompt may be. `mark` is new for each prompt."""
    exhibits = assignment.exhibits
    behind = [assignment.closing, assignment.form]
    front = [assignment.brief, *([_MATERIAL] if exhibits else ())]
    fixed = sum(len(text) + len(_APART) for text in (*front, *behind))
    fixed += sum(len(heading(exhibit)) + frame_chars(len(mark)) + len(_APART) + 1 for exhibit in exhibits)
    rooms = shares([size(exhibit) for exhibit in exhibits], SUBAGENT_PROMPT_CHARS_MAX - fixed)
    material = [
        f"{heading(exhibit)}\n{framed(shown(exhibit, room), mark)}"
        for exhibit, room in zip(exhibits, rooms, strict=True)
    ]
    return _APART.join(filter(None, (*front, *material, *behind)))


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """How much of `room` each gets: what it wants, as long as nobody has less for it than somebody else."""
    given = [0] * len(wanted)
    left = max(room, 0)
    for place, index in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        given[index] = min(wanted[index], left // (len(wanted) - place))
        left -= given[index]
    return given


def heading(exhibit: Exhibit) -> str:
    """The line above it."""
    return f"## {exhibit.title}{' (FAILED)' if exhibit.problem else ''}"


def shown(exhibit: Exhibit, room: int, *, handle: str = "") -> str:
    """What goes into its frame, in at most `room` characters. Why something failed may have been worded by the one that
    failed."""
    why = _why(exhibit)[: max(room, 0)]
    return why + abridged(exhibit.text or _NOTHING, room - len(why), handle=handle)


def size(exhibit: Exhibit) -> int:
    """How much room it would take whole."""
    return len(_why(exhibit)) + len(exhibit.text or _NOTHING)


def _why(exhibit: Exhibit) -> str:
    return _FAILED.format(problem=exhibit.problem) if exhibit.problem else ""
