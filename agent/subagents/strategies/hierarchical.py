"""A lead splits the work, others do the parts side by side, the lead makes one answer of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from agent.prompts.library import strategy_prompt
from agent.subagents.strategies.assignments import (
    Ended,
    Exhibit,
    Going,
    Move,
    StepOrder,
    Undone,
    brief_of,
    fallen_short,
    label_of,
    line_of,
)
from agent.subagents.strategies.strategy import Endings, Role, concluded, exhibit, missing
from agent.subagents.strategies.structured import BadParts, Part, read_parts
from gateway.contracts.reasons import Shortfall

_STEP: Final = strategy_prompt("step")
_SPLIT: Final = strategy_prompt("split")
_PARTS: Final = strategy_prompt("parts")
_UNREADABLE: Final = strategy_prompt("unreadable")
_JOIN: Final = strategy_prompt("join")
_SPLITS: Final = ("the split", "the split again")
JOIN: Final = "the joining"


@dataclass(frozen=True, slots=True)
class Hierarchical:
    """The lead splits, workers do the parts, the lead joins what they bring, unless that is nothing.

    A split that cannot be read is asked for once more. A part is done by the type that the lead names, else by the
    worker's; what the worker was told holds for every part. `types` are all that there are.
    """

    goal: str
    lead: Role
    worker: Role
    parts_max: int
    types: tuple[str, ...]
    name: ClassVar[str] = "hierarchical"

    @property
    def children_max(self) -> int:
        return len(_SPLITS) + self.parts_max + 1

    def move(self, ended: Endings) -> Move:
        problem = ""
        for name in _SPLITS:
            if name not in ended:
                return Going((self._splitting(name, problem, ended),))
            if not ended[name].is_done:
                return fallen_short(self.achieved(ended), Shortfall.NOT_SPLIT, problem=ended[name].problem)
            try:
                return self._working(self._parts(ended[name]), ended)
            except BadParts as bad:
                problem = str(bad)
        return fallen_short(self.achieved(ended), Shortfall.NOT_SPLIT, problem=problem)

    def achieved(self, ended: Endings) -> tuple[Exhibit, ...]:
        parts = tuple(
            found
            for number in range(1, self.parts_max + 1)
            for found in exhibit(_part(number), _part(number).capitalize(), ended)
        )
        return (
            (*parts, *exhibit(JOIN, "The answer of all", ended))
            if parts
            else tuple(found for name in _SPLITS for found in exhibit(name, name.capitalize(), ended))
        )

    def undone(self, ended: Endings) -> tuple[Undone, ...]:
        return missing(JOIN, self.lead, ended)

    def _parts(self, split: Ended) -> tuple[Part, ...]:
        return read_parts(split.text, types=self.types, otherwise=self.worker.sub_type, parts_max=self.parts_max)

    def _working(self, parts: tuple[Part, ...], ended: Endings) -> Move:
        numbered = tuple(enumerate(parts, 1))
        waiting = tuple(
            StepOrder(
                _part(number),
                part.sub_type,
                label_of(f"part {number}/{len(parts)}", part.task),
                brief_of(_STEP, self.goal, "\n\n".join(filter(None, (part.task, self.worker.task)))),
            )
            for number, part in numbered
            if _part(number) not in ended
        )
        if waiting:
            return Going(waiting)
        if not any(ended[_part(number)].is_done for number, _ in numbered):
            return fallen_short(self.achieved(ended), Shortfall.ALL_FAILED, parts="parts")
        last = StepOrder(
            JOIN,
            self.lead.sub_type,
            label_of("joining", self.goal),
            brief_of(_JOIN, self.goal, self.lead.task),
            tuple(_brought(number, part, ended[_part(number)]) for number, part in numbered),
        )
        return concluded(last, "the lead", ended, self.achieved(ended))

    def _splitting(self, name: str, problem: str, ended: Endings) -> StepOrder:
        offered = (
            f"At most {self.parts_max} parts. `type` is one of {', '.join(self.types)}; "
            f"without it, {self.worker.sub_type}."
        )
        again = (_UNREADABLE, f"What was wrong with it: {problem}.") if problem else ()
        return StepOrder(
            name,
            self.lead.sub_type,
            label_of("splitting", self.goal),
            brief_of(_SPLIT, self.goal, self.lead.task),
            exhibit(_SPLITS[0], "The answer that could not be read", ended),
            " ".join((*again, offered)),
            _PARTS,
        )


def _brought(number: int, part: Part, end: Ended) -> Exhibit:
    """What came of a part, behind what was asked: a lead's words stand in the frame, as a worker's do."""
    asked = f"[asked: {line_of(part.task)}]"
    return Exhibit.of(_part(number), f"Part {number} ({part.sub_type})", Ended(f"{asked}\n{end.text}", end.problem))


def _part(number: int) -> str:
    return f"part {number}"
