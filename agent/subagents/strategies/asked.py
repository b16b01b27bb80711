"""What a model asks for when it calls `orchestrate`: the schema, and the strategy made of the arguments. Pure.

One flat shape for all six: steps that say who does what. A strategy that needs somebody for a part of its own (a judge,
a lead) knows that step by its id. What the schema cannot say is said here, as a clause that names the place and the
remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from agent.limits import (
    ORCHESTRATION_GOAL_CHARS_MAX,
    ORCHESTRATION_ITERATIONS_MAX,
    ORCHESTRATION_LIMIT_MIN_S,
    ORCHESTRATION_LIMIT_S,
    ORCHESTRATION_PARTS_MAX,
    ORCHESTRATION_ROUNDS_MAX,
    ORCHESTRATION_SIDES_MAX,
    ORCHESTRATION_STEPS_MAX,
    ORCHESTRATION_TASK_CHARS_MAX,
    ORCHESTRATION_TOKENS_MAX,
    ORCHESTRATION_TOKENS_MIN,
    ORCHESTRATION_USD_MAX,
)
from agent.subagents.strategies.debate import Debate
from agent.subagents.strategies.hierarchical import Hierarchical
from agent.subagents.strategies.review import Review
from agent.subagents.strategies.stepwise import Graph, Parallel, Sequential, Step
from agent.subagents.strategies.strategy import Role, Strategy
from gateway.contracts.errors import ToolError

OTHERWISE: Final = "general"
"""Who does it if nobody says who."""

DESCRIPTION: Final = (
    "Have several sub-agents work on `goal` and get one answer; takes minutes. A step says who (`type`, as for "
    "sub_agent) does what (`task`); each sees the goal and its own task only.\n"
    "- sequential: one after the other, each with the results so far\n"
    "- parallel: side by side; then step `synthesis` joins them\n"
    "- graph: each when the steps in its `needs` are done\n"
    f"- debate: each argues its position, over `rounds` (1-{ORCHESTRATION_ROUNDS_MAX}); then step `judge` decides\n"
    "- review: step `author` writes, step `reviewer` approves or says what to mend, at most `rounds` "
    f"(1-{ORCHESTRATION_ITERATIONS_MAX}) times\n"
    "- hierarchical: step `lead` splits the goal, step `worker` says who does the parts, `lead` joins them"
)

_PROBLEMS_SHOWN: Final = 8
_ROUNDS: Final = 2  # of a debate, if nobody says how many
_ITERATIONS: Final = 3  # of a review, likewise


def schema() -> Mapping[str, Any]:
    """What the arguments have to fit."""
    name = {"type": "string", "pattern": r"^[A-Za-z0-9_-]{0,32}\Z"}  # `$` would let a line end through
    step = {
        "type": "object",
        "properties": {
            "id": name,
            "type": {"type": "string"},
            "task": {"type": "string", "maxLength": ORCHESTRATION_TASK_CHARS_MAX},
            "needs": {"type": "array", "items": {"type": "string"}, "maxItems": ORCHESTRATION_STEPS_MAX},
        },
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {
            "strategy": {"type": "string", "enum": list(_SHAPES)},
            "goal": {"type": "string", "maxLength": ORCHESTRATION_GOAL_CHARS_MAX},
            "steps": {"type": "array", "items": step, "maxItems": ORCHESTRATION_STEPS_MAX},
            "rounds": {"type": "integer", "minimum": 1, "maximum": ORCHESTRATION_ITERATIONS_MAX},
            "tokens_max": {
                "type": "integer",
                "minimum": ORCHESTRATION_TOKENS_MIN,
                "maximum": ORCHESTRATION_TOKENS_MAX,
            },
            "usd_max": {"type": "number", "exclusiveMinimum": 0, "maximum": ORCHESTRATION_USD_MAX},
            "limit_s": {"type": "number", "minimum": ORCHESTRATION_LIMIT_MIN_S, "maximum": ORCHESTRATION_LIMIT_S},
        },
        "required": ["strategy", "goal"],
        "additionalProperties": False,
    }


@dataclass(frozen=True, slots=True)
class Asked:
    """A call, read: the steps without those that are the strategy's own `roles`. `types` are all that there are."""

    goal: str
    steps: tuple[Step, ...]
    roles: Mapping[str, Role]
    rounds: int | None
    types: tuple[str, ...]

    def role(self, name: str) -> Role:
        """Who does that; a generalist if nobody says who."""
        return self.roles.get(name, Role(OTHERWISE))


@dataclass(frozen=True, slots=True)
class Shape:
    """What a strategy takes: so many steps besides those of its `roles`, and as many rounds. `called` is what its steps
    are to people."""

    made: Callable[[Asked], Strategy]
    called: str = "steps"
    steps_min: int = 1
    steps_max: int = ORCHESTRATION_STEPS_MAX
    roles: tuple[str, ...] = ()
    rounds_max: int = ORCHESTRATION_ITERATIONS_MAX
    has_needs: bool = False


def strategy_of(arguments: Mapping[str, Any], types: Sequence[str]) -> Strategy:
    """The strategy that was asked for. Raises `ToolError` that says all that is wrong with it, and where.

    `arguments` have passed the schema. Empty fields count as left out.
    """
    name = arguments["strategy"]
    shape = _SHAPES[name]
    written = [
        {field: value for field, value in step.items() if value not in ("", [], None)}
        for step in arguments.get("steps") or ()
    ]
    problems = [*_problems_of_all(name, shape, arguments), *_problems(name, shape, written, types)]
    if problems:
        raise ToolError(f"{'; '.join(problems[:_PROBLEMS_SHOWN])}. Nothing of this {name} was started")
    steps = _steps(written)
    roles = {step.id: Role(step.sub_type, step.task) for step in steps if step.id in shape.roles}
    plain = tuple(step for step in steps if step.id not in shape.roles)
    rounds = arguments.get("rounds")
    return shape.made(Asked(arguments["goal"], plain, roles, None if rounds is None else int(rounds), tuple(types)))


def _problems(name: str, shape: Shape, written: Sequence[Mapping[str, Any]], types: Sequence[str]) -> Iterator[str]:
    known = ", ".join(types)
    steps = _steps(written)
    ids = [step.id for step in steps]
    own = " and ".join(f"`{role}`" for role in shape.roles)
    for place, step in enumerate(steps):
        if step.sub_type not in types:
            yield f"steps[{place}].type is {step.sub_type[:32]!r}; there are: {known}"
        if step.id in ids[:place]:
            yield f"steps[{place}].id: {step.id!r} is there twice"
        if step.id not in shape.roles and not shape.steps_max:
            yield f"steps[{place}].id is {step.id!r}; {name} has only the steps {own}"
        if step.id not in shape.roles and not step.task.strip():
            yield f"steps[{place}] has no `task`"
        if step.needs and not shape.has_needs:
            yield f"steps[{place}].needs belongs to graph"
    count = sum(step.id not in shape.roles for step in steps)
    if shape.steps_max and not shape.steps_min <= count <= shape.steps_max:
        besides = f" besides {own}" if own else ""
        yield f"{name} needs `steps`: {shape.steps_min} to {shape.steps_max} {shape.called}{besides}, not {count}"
    if shape.has_needs:
        yield from _problems_of_needs(steps)


def _problems_of_needs(steps: Sequence[Step]) -> Sequence[str]:
    ids = [step.id for step in steps]
    problems = [
        f"steps[{place}].needs names {need[:32]!r}, which is no step; there are: {', '.join(ids)}"
        for place, step in enumerate(steps)
        for need in step.needs
        if need not in ids
    ]
    problems += [f"steps[{place}] needs itself" for place, step in enumerate(steps) if step.id in step.needs]
    return problems or _cycles(steps)


def _cycles(steps: Sequence[Step]) -> list[str]:
    try:
        TopologicalSorter({step.id: step.needs for step in steps}).prepare()
    except CycleError as error:
        return [f"steps {' → '.join(reversed(error.args[1]))} need each other"]
    return []


def _problems_of_all(name: str, shape: Shape, arguments: Mapping[str, Any]) -> Iterator[str]:
    if not arguments["goal"].strip():
        yield "`goal` says nothing"
    if arguments.get("rounds", 1) > shape.rounds_max:
        yield f"{name} has 1 to {shape.rounds_max} `rounds`"


def _steps(written: Sequence[Mapping[str, Any]]) -> tuple[Step, ...]:
    """Without an id a step is called by its place."""
    return tuple(
        Step(
            step.get("id", str(place)),
            step.get("type", OTHERWISE),
            step.get("task", ""),
            tuple(dict.fromkeys(step.get("needs", ()))),
        )
        for place, step in enumerate(written, 1)
    )


def _hierarchical(asked: Asked) -> Strategy:
    return Hierarchical(asked.goal, asked.role("lead"), asked.role("worker"), ORCHESTRATION_PARTS_MAX, asked.types)


_SHAPES: Final[Mapping[str, Shape]] = {
    Sequential.name: Shape(lambda asked: Sequential(asked.goal, asked.steps)),
    Parallel.name: Shape(
        lambda asked: Parallel(asked.goal, asked.steps, asked.role("synthesis")), roles=("synthesis",)
    ),
    Graph.name: Shape(lambda asked: Graph(asked.goal, asked.steps), has_needs=True),
    Debate.name: Shape(
        lambda asked: Debate(asked.goal, asked.steps, asked.rounds or _ROUNDS, asked.role("judge")),
        called="sides",
        steps_min=2,
        steps_max=ORCHESTRATION_SIDES_MAX,
        roles=("judge",),
        rounds_max=ORCHESTRATION_ROUNDS_MAX,
    ),
    Review.name: Shape(
        lambda asked: Review(asked.goal, asked.role("author"), asked.role("reviewer"), asked.rounds or _ITERATIONS),
        steps_max=0,
        roles=("author", "reviewer"),
    ),
    Hierarchical.name: Shape(_hierarchical, steps_max=0, roles=("lead", "worker")),
}
