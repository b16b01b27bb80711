"""What a strategy is, and what all of them share. Pure.

A strategy is a value, and `move` is a function: of what has ended so far it makes what is to be done next, or the
outcome. Whoever runs it keeps no other state, asks again whenever something has ended, and starts what it has not
started yet. What failed is handed on as failed, and a strategy succeeds only if the step that makes its answer did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from agent.subagents.strategies.assignments import (
    Ended,
    Exhibit,
    Going,
    Move,
    Outcome,
    StepOrder,
    Undone,
    fallen_short,
)
from gateway.contracts.reasons import Shortfall

Endings = Mapping[str, Ended]
"""What has ended so far, by the id of its assignment."""


class Strategy(Protocol):
    """One orchestration as it was asked for, valid."""

    @property
    def name(self) -> str: ...

    @property
    def children_max(self) -> int:
        """It never wants more sub-agents than this."""
        ...

    def move(self, ended: Endings) -> Move:
        """What now. An assignment is wanted until it has ended, and there is no outcome before."""
        ...

    def achieved(self, ended: Endings) -> tuple[Exhibit, ...]:
        """What there is to show if it ends here."""
        ...

    def undone(self, ended: Endings) -> tuple[Undone, ...]:
        """What is known to be missing if it ends here, and why."""
        ...


@dataclass(frozen=True, slots=True)
class Role:
    """Who does what the strategy itself asks for, and what is to be heeded in it ("": nothing in particular)."""

    sub_type: str
    task: str = ""


def exhibit(assignment_id: str, title: str, ended: Endings) -> tuple[Exhibit, ...]:
    """What came of one assignment, if it has ended."""
    return (Exhibit.of(assignment_id, title, ended[assignment_id]),) if assignment_id in ended else ()


def concluded(last: StepOrder, who: str, ended: Endings, achieved: tuple[Exhibit, ...]) -> Move:
    """The move of a strategy whose answer `last` makes, once nothing else is left to be done."""
    if last.id not in ended:
        return Going((last,))
    if not ended[last.id].is_done:
        return fallen_short(achieved, Shortfall.LAST_FAILED, who=who, problem=ended[last.id].problem)
    return Outcome(exhibit(last.id, last.id, ended))


def missing(last: str, role: Role, ended: Endings) -> tuple[Undone, ...]:
    """The step that makes the answer, if it was not reached."""
    return () if last in ended else (Undone(last, role.sub_type, "not reached"),)
