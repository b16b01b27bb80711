"""Steps that are known from the start: one after the other, side by side, or as they need each other. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from agent.prompts.library import strategy_prompt
from agent.subagents.strategies.assignments import (
    Exhibit,
    Going,
    Move,
    Outcome,
    StepOrder,
    Undone,
    brief_of,
    fallen_short,
    label_of,
)
from agent.subagents.strategies.strategy import Endings, Role, concluded, exhibit, missing
from gateway.contracts.reasons import Shortfall

_STEP: Final = strategy_prompt("step")
_SYNTHESIS: Final = strategy_prompt("synthesis")
SYNTHESIS: Final = "the synthesis"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to be done. `needs` are the ids of steps that have to be done before."""

    id: str
    sub_type: str
    task: str
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sequential:
    """One step after the other, each with the results so far. The last one's answer is the answer."""

    goal: str
    steps: tuple[Step, ...]
    name: ClassVar[str] = "sequential"

    @property
    def children_max(self) -> int:
        return len(self.steps)

    def move(self, ended: Endings) -> Move:
        for place, step in enumerate(self.steps):
            if step.id not in ended:
                before = _exhibits(self.steps[:place], ended)
                return Going((_assignment(step, self.goal, f"{place + 1}/{len(self.steps)}", before),))
            if not ended[step.id].is_done:
                return fallen_short(
                    self.achieved(ended),
                    Shortfall.STEP_FAILED,
                    step=f"step {step.id}",
                    problem=ended[step.id].problem,
                )
        return Outcome(_exhibits(self.steps[-1:], ended))

    def achieved(self, ended: Endings) -> tuple[Exhibit, ...]:
        return _exhibits(self.steps, ended)

    def undone(self, ended: Endings) -> tuple[Undone, ...]:
        failed = next((step.id for step in self.steps if step.id in ended and not ended[step.id].is_done), "")
        why = f"step {failed} failed" if failed else "not reached"
        return tuple(Undone(step.id, step.sub_type, why) for step in self.steps if step.id not in ended)


@dataclass(frozen=True, slots=True)
class Parallel:
    """All steps side by side; then somebody makes one answer of what they bring, unless that is nothing."""

    goal: str
    steps: tuple[Step, ...]
    synthesiser: Role
    name: ClassVar[str] = "parallel"

    @property
    def children_max(self) -> int:
        return len(self.steps) + 1

    def move(self, ended: Endings) -> Move:
        total = self.children_max
        waiting = tuple(
            _assignment(step, self.goal, f"{place}/{total}")
            for place, step in enumerate(self.steps, 1)
            if step.id not in ended
        )
        if waiting:
            return Going(waiting)
        if not any(ended[step.id].is_done for step in self.steps):
            return fallen_short(self.achieved(ended), Shortfall.ALL_FAILED, parts="steps")
        last = StepOrder(
            SYNTHESIS,
            self.synthesiser.sub_type,
            label_of(f"{total}/{total} synthesis", self.goal),
            brief_of(_SYNTHESIS, self.goal, self.synthesiser.task),
            _exhibits(self.steps, ended),
        )
        return concluded(last, "the synthesiser", ended, self.achieved(ended))

    def achieved(self, ended: Endings) -> tuple[Exhibit, ...]:
        return (*_exhibits(self.steps, ended), *exhibit(SYNTHESIS, "Synthesis", ended))

    def undone(self, ended: Endings) -> tuple[Undone, ...]:
        left = tuple(Undone(step.id, step.sub_type, "not reached") for step in self.steps if step.id not in ended)
        return (*left, *missing(SYNTHESIS, self.synthesiser, ended))


@dataclass(frozen=True, slots=True)
class Graph:
    """Each step as soon as those that it needs are done, with their results; what is ready runs side by side.

    What needs something that failed is not run; everything else is. The answer is that of the steps that no other
    step needs, and the graph succeeds when all of its steps do.
    """

    goal: str
    steps: tuple[Step, ...]
    name: ClassVar[str] = "graph"

    @property
    def children_max(self) -> int:
        return len(self.steps)

    def move(self, ended: Endings) -> Move:
        ready = tuple(
            _assignment(step, self.goal, f"{place}/{len(self.steps)}", _exhibits(self._needed_by(step), ended))
            for place, step in enumerate(self.steps, 1)
            if step.id not in ended and all(need in ended and ended[need].is_done for need in step.needs)
        )
        if ready:
            return Going(ready)
        failed = [step.id for step in self.steps if step.id in ended and not ended[step.id].is_done]
        if failed:
            return fallen_short(
                self.achieved(ended),
                Shortfall.SOME_FAILED,
                number=len(failed),
                all=len(self.steps),
                steps=", ".join(failed),
            )
        return Outcome(_exhibits(self._ends(), ended))

    def achieved(self, ended: Endings) -> tuple[Exhibit, ...]:
        return _exhibits(self.steps, ended)

    def undone(self, ended: Endings) -> tuple[Undone, ...]:
        return tuple(
            Undone(step.id, step.sub_type, self._why_not(step, ended)) for step in self.steps if step.id not in ended
        )

    def _why_not(self, step: Step, ended: Endings) -> str:
        for need in step.needs:
            if need not in ended:
                return f"needs {need}, which was not run"
            if not ended[need].is_done:
                return f"needs {need}, which failed"
        return "not reached"

    def _needed_by(self, step: Step) -> tuple[Step, ...]:
        return tuple(other for other in self.steps if other.id in step.needs)

    def _ends(self) -> tuple[Step, ...]:
        needed = {need for step in self.steps for need in step.needs}
        return tuple(step for step in self.steps if step.id not in needed)


def _assignment(step: Step, goal: str, place: str, exhibits: tuple[Exhibit, ...] = ()) -> StepOrder:
    label = label_of(f"{place} {step.id}", step.task)
    return StepOrder(step.id, step.sub_type, label, brief_of(_STEP, goal, step.task), exhibits)


def _exhibits(steps: tuple[Step, ...], ended: Endings) -> tuple[Exhibit, ...]:
    return tuple(found for step in steps for found in exhibit(step.id, f"Step {step.id} ({step.sub_type})", ended))
