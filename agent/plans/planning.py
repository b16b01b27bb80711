"""Plan documents: what a planner must write, what is wrong with what it wrote, how it reads. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from jsonschema import Draft202012Validator
from referencing import Registry

from agent.limits import PLAN_STEPS_MAX
from agent.tools.arguments import parse_arguments
from agent.tools.misfits import misfit
from gateway.contracts.errors import ToolError
from gateway.words import Words

_PROBLEMS_SHOWN: Final = 8
_OBJECT: Final = re.compile(r"\{.*\}", re.DOTALL)
_SPACE: Final = re.compile(r"\s+")


def _text(chars_max: int, *, chars_min: int = 1) -> Mapping[str, Any]:
    return {"type": "string", "minLength": chars_min, "maxLength": chars_max}


_STEP: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": r"^S[1-9][0-9]?\Z"},
        "title": _text(200),
        "detail": _text(1_500),
        "depends_on": {"type": "array", "items": {"type": "string"}, "maxItems": PLAN_STEPS_MAX},
        "risks": {"type": "array", "items": _text(300), "maxItems": 5},
        "rollback": _text(500, chars_min=0),
    },
    "required": ["id", "title", "detail", "depends_on", "risks", "rollback"],
}
_PLAN: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "goal": _text(500),
        "steps": {"type": "array", "items": _STEP, "minItems": 1, "maxItems": PLAN_STEPS_MAX},
    },
    "required": ["goal", "steps"],
}
_VALIDATOR: Final = Draft202012Validator(_PLAN, registry=Registry())


class BadPlan(ValueError):
    """What a planner wrote is no plan; `problems` are fit for its ear."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step. `depends_on` are the ids of steps that come before it."""

    id: str
    title: str
    detail: str
    depends_on: tuple[str, ...]
    risks: tuple[str, ...]
    rollback: str


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """A plan whose steps can be done: in this order each finds done what it depends on."""

    goal: str
    steps: tuple[PlanStep, ...]


def read_plan(text: str) -> PlanDocument:
    """The plan in a planner's answer, in an order that can be worked off. Raises `BadPlan`."""
    found = _OBJECT.search(text)
    if found is None:
        raise BadPlan(["the answer holds no JSON object"])
    try:
        written = parse_arguments(found[0])
    except ToolError as error:
        raise BadPlan([str(error)]) from error
    problems = list(map(misfit, _VALIDATOR.iter_errors(written)))
    if problems:
        raise BadPlan(problems[:_PROBLEMS_SHOWN])
    return PlanDocument(_line(written["goal"]), _in_order([_step(step) for step in written["steps"]]))


def plan_text(plan: PlanDocument, words: Words) -> str:
    """The plan as CommonMark, for whoever approves it and for the model that works it off."""
    head = words.say("**Plan: {goal}**", goal=plan.goal)
    return "\n\n".join([head, *(_step_text(step, words) for step in plan.steps)])


def todo_text(step: PlanStep) -> str:
    """The step as one task of the task list."""
    return f"{step.id}: {step.title}"


def _step(written: Mapping[str, Any]) -> PlanStep:
    return PlanStep(
        id=written["id"],
        title=_line(written["title"]),
        detail=written["detail"].strip(),
        depends_on=tuple(dict.fromkeys(written["depends_on"])),
        risks=tuple(map(_line, written["risks"])),
        rollback=_line(written["rollback"]),
    )


def _in_order(steps: Sequence[PlanStep]) -> tuple[PlanStep, ...]:
    """As written, except that a step comes behind those it depends on. Raises `BadPlan`."""
    by_id = {step.id: step for step in steps}
    problems = [
        f"step {step.id} depends on {name[:20]!r}, which is no step"
        for step in steps
        for name in step.depends_on
        if name not in by_id
    ]
    if len(by_id) != len(steps):
        problems.append("two steps have the same id")
    if problems:
        raise BadPlan(problems[:_PROBLEMS_SHOWN])
    sorter = TopologicalSorter({step.id: step.depends_on for step in steps})
    try:
        sorter.prepare()
    except CycleError as error:
        raise BadPlan([f"the steps {' → '.join(error.args[1])} wait for each other"]) from error
    places = {step.id: place for place, step in enumerate(steps)}
    done: list[PlanStep] = []
    ready: list[str] = []
    while sorter.is_active():
        ready = sorted([*ready, *sorter.get_ready()], key=places.__getitem__)
        done.append(by_id[ready[0]])
        sorter.done(ready.pop(0))
    return tuple(done)


def _step_text(step: PlanStep, words: Words) -> str:
    after = " " + words.say("(after {steps})", steps=", ".join(step.depends_on)) if step.depends_on else ""
    lines = [f"**{step.id}. {step.title}**{after}", step.detail]
    notes = [words.say("- Risk: {risk}", risk=risk) for risk in step.risks]
    if step.rollback:
        notes.append(words.say("- Rollback: {way}", way=step.rollback))
    return "\n\n".join([*lines, *(["\n".join(notes)] if notes else [])])


def _line(text: str) -> str:
    return _SPACE.sub(" ", text).strip()
