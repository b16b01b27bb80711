"""What a model asks for when it calls `orchestrate`: the schema, and the strategy made of the arguments. Pure.

One flat object for all six, for that is what models fill in well. What the schema cannot say is said here, as a
clause that names the place and the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from agent.limits import (
    ORCHESTRATION_GOAL_CHARS_MAX,
    ORCHESTRATION_ITERATIONS_MAX,
    ORCHESTRATION_LIMIT_MIN_S,
    ORCHESTRATION_LIMIT_S,
    ORCHESTRATION_PARTS,
    ORCHESTRATION_PARTS_MAX,
    ORCHESTRATION_POSITION_CHARS_MAX,
    ORCHESTRATION_ROUNDS_MAX,
    ORCHESTRATION_SIDES_MAX,
    ORCHESTRATION_STEPS_MAX,
    ORCHESTRATION_TASK_CHARS_MAX,
    ORCHESTRATION_TOKENS,
    ORCHESTRATION_TOKENS_MAX,
    ORCHESTRATION_USD_MAX,
)
from agent.model.client import ToolSpec
from agent.subagents.strategies.debate import Debate
from agent.subagents.strategies.hierarchical import Hierarchical
from agent.subagents.strategies.review import Review
from agent.subagents.strategies.stepwise import Graph, Parallel, Sequential, Step
from agent.subagents.strategies.strategy import Role, Strategy
from gateway.contracts.errors import ToolError

OTHERWISE: Final = "general"
"""Who does it if nobody says who."""

_PROBLEMS_SHOWN: Final = 8
_ROUNDS: Final = 2
_ITERATIONS: Final = 3
_DESCRIPTION: Final = (
    "Have several sub-agents work on one thing, after one of six strategies, and get one answer. Every strategy needs "
    "`goal`; `steps` are objects of `id`, `type`, `task`; every `type` is one of sub_agent's. A sub-agent sees the "
    "goal and its own task, not this conversation: say all that it has to know.\n"
    "- sequential: `steps` one after the other, each with the results so far.\n"
    "- parallel: `steps` side by side, then `synthesiser` makes one answer.\n"
    "- graph: `steps` with `needs` (ids of steps that come before); what is ready runs side by side.\n"
    "- debate: `sides` (2 to 5 positions) argue over `rounds` (1 to 5), then `judge` decides.\n"
    "- review: `author` writes, `reviewer` approves or says what to mend, at most `iterations` times (1 to 10).\n"
    "- hierarchical: `lead` splits the goal into at most `parts_max` parts, workers do them, `lead` joins them.\n"
    "It takes minutes and many tokens: use it where one sub-agent is not enough."
)


def spec() -> ToolSpec:
    """The tool as the model sees it. It stands in every prompt, so the types are not listed once more."""
    kind = {"type": "string"}
    task = {"type": "string", "minLength": 1, "maxLength": ORCHESTRATION_TASK_CHARS_MAX}
    role = {"type": "object", "properties": {"type": kind, "task": task}}
    identity = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,32}$"}
    step = {
        "type": "object",
        "properties": {
            "id": identity,
            "type": kind,
            "task": task,
            "needs": {"type": "array", "items": {"type": "string"}, "maxItems": ORCHESTRATION_STEPS_MAX},
        },
        "required": ["task"],
    }
    position = {"type": "string", "minLength": 1, "maxLength": ORCHESTRATION_POSITION_CHARS_MAX}
    return ToolSpec(
        "orchestrate",
        _DESCRIPTION,
        {
            "type": "object",
            "properties": {
                "strategy": {"type": "string", "enum": list(_READERS)},
                "goal": {"type": "string", "minLength": 1, "maxLength": ORCHESTRATION_GOAL_CHARS_MAX},
                "steps": {"type": "array", "items": step, "maxItems": ORCHESTRATION_STEPS_MAX},
                "synthesiser": role,
                "sides": {"type": "array", "items": position, "maxItems": ORCHESTRATION_SIDES_MAX},
                "side_type": kind,
                "judge": role,
                "rounds": _number(1, ORCHESTRATION_ROUNDS_MAX, f"Of a debate; {_ROUNDS} if left out."),
                "author": role,
                "reviewer": role,
                "iterations": _number(1, ORCHESTRATION_ITERATIONS_MAX, f"Of a review; {_ITERATIONS} if left out."),
                "lead": role,
                "worker_type": kind,
                "parts_max": _number(1, ORCHESTRATION_PARTS_MAX, f"{ORCHESTRATION_PARTS} if left out."),
                "tokens_max": _number(
                    1_000, ORCHESTRATION_TOKENS_MAX, f"Budget of all together; {ORCHESTRATION_TOKENS} if left out."
                ),
                "usd_max": {"type": "number", "exclusiveMinimum": 0, "maximum": ORCHESTRATION_USD_MAX},
                "limit_s": {
                    "type": "number",
                    "minimum": ORCHESTRATION_LIMIT_MIN_S,
                    "maximum": ORCHESTRATION_LIMIT_S,
                    "description": f"Deadline of all together in seconds; {ORCHESTRATION_LIMIT_S:g} if left out.",
                },
            },
            "required": ["strategy", "goal"],
        },
    )


def strategy_of(arguments: Mapping[str, Any], types: Sequence[str]) -> Strategy:
    """The strategy that was asked for. Raises `ToolError` that says all that is wrong with it, and where.

    `arguments` have passed the schema. Empty fields count as left out.
    """
    given = {name: value for name, value in arguments.items() if value not in ("", [], {}, None)}
    name = arguments["strategy"]
    reader, fields = _READERS[name]
    strange = [f"`{field}` is no field of {name}" for field in sorted(_STRUCTURED & given.keys() - fields)]
    problems = [*strange, *_problems_of_types(given, types)]
    problems += _problems_of_steps(name, given) if "steps" in fields else ()
    if "sides" in fields and len(given.get("sides", ())) < 2:
        problems.append(f"debate needs `sides`: 2 to {ORCHESTRATION_SIDES_MAX} positions")
    if problems:
        taken = ", ".join(f"`{field}`" for field in sorted(fields))
        raise ToolError(f"{'; '.join(problems[:_PROBLEMS_SHOWN])}. {name} takes `goal`, {taken}")
    return reader(given, types)


def _problems_of_types(given: Mapping[str, Any], types: Sequence[str]) -> list[str]:
    named = {name: given[name] for name in ("side_type", "worker_type") if name in given}
    named |= {f"{name}.type": given[name]["type"] for name in _ROLES if given.get(name, {}).get("type")}
    named |= {f"steps[{at}].type": step["type"] for at, step in enumerate(given.get("steps", ())) if step.get("type")}
    known = ", ".join(types)
    return [f"{where} is {kind[:32]!r}; there are: {known}" for where, kind in named.items() if kind not in types]


def _problems_of_steps(name: str, given: Mapping[str, Any]) -> list[str]:
    if not given.get("steps"):
        return [f"{name} needs `steps`, 1 to {ORCHESTRATION_STEPS_MAX} of them"]
    steps = _steps(given)
    ids = [step.id for step in steps]
    if name != "graph":
        problems = [f"steps[{place}].needs belongs to graph" for place, step in enumerate(steps) if step.needs]
    else:
        problems = [
            f"steps[{place}].needs names {need[:32]!r}, which is no step; there are: {', '.join(ids)}"
            for place, step in enumerate(steps)
            for need in step.needs
            if need not in ids
        ]
        problems += [f"steps[{place}] needs itself" for place, step in enumerate(steps) if step.id in step.needs]
    problems += [f"steps[{place}].id: {own!r} is there twice" for place, own in enumerate(ids) if own in ids[:place]]
    return problems or _cycles(steps)


def _cycles(steps: Sequence[Step]) -> list[str]:
    try:
        TopologicalSorter({step.id: step.needs for step in steps}).prepare()
    except CycleError as error:
        return [f"steps {' → '.join(reversed(error.args[1]))} need each other"]
    return []


def _steps(given: Mapping[str, Any]) -> tuple[Step, ...]:
    """Without an id a step is called by its place."""
    return tuple(
        Step(
            step.get("id") or str(place),
            step.get("type") or OTHERWISE,
            step["task"],
            tuple(dict.fromkeys(step.get("needs", ()))),
        )
        for place, step in enumerate(given["steps"], 1)
    )


def _role(given: Mapping[str, Any], name: str) -> Role:
    role = given.get(name, {})
    return Role(role.get("type") or OTHERWISE, role.get("task", ""))


def _sequential(given: Mapping[str, Any], _types: Sequence[str]) -> Strategy:
    return Sequential(given["goal"], _steps(given))


def _parallel(given: Mapping[str, Any], _types: Sequence[str]) -> Strategy:
    return Parallel(given["goal"], _steps(given), _role(given, "synthesiser"))


def _graph(given: Mapping[str, Any], _types: Sequence[str]) -> Strategy:
    return Graph(given["goal"], _steps(given))


def _debate(given: Mapping[str, Any], _types: Sequence[str]) -> Strategy:
    return Debate(
        given["goal"],
        tuple(given["sides"]),
        given.get("side_type", OTHERWISE),
        given.get("rounds", _ROUNDS),
        _role(given, "judge"),
    )


def _review(given: Mapping[str, Any], _types: Sequence[str]) -> Strategy:
    iterations = given.get("iterations", _ITERATIONS)
    return Review(given["goal"], _role(given, "author"), _role(given, "reviewer"), iterations)


def _hierarchical(given: Mapping[str, Any], types: Sequence[str]) -> Strategy:
    return Hierarchical(
        given["goal"],
        _role(given, "lead"),
        given.get("worker_type", OTHERWISE),
        given.get("parts_max", ORCHESTRATION_PARTS),
        tuple(types),
    )


def _number(least: int, most: int, description: str) -> Mapping[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most, "description": description}


_Reader = Callable[[Mapping[str, Any], Sequence[str]], Strategy]

_READERS: Final[Mapping[str, tuple[_Reader, frozenset[str]]]] = {
    Sequential.name: (_sequential, frozenset({"steps"})),
    Parallel.name: (_parallel, frozenset({"steps", "synthesiser"})),
    Graph.name: (_graph, frozenset({"steps"})),
    Debate.name: (_debate, frozenset({"sides", "side_type", "rounds", "judge"})),
    Review.name: (_review, frozenset({"author", "reviewer", "iterations"})),
    Hierarchical.name: (_hierarchical, frozenset({"lead", "worker_type", "parts_max"})),
}
_ROLES: Final = ("synthesiser", "judge", "author", "reviewer", "lead")
_STRUCTURED: Final = frozenset({"steps", "sides", *_ROLES})
"""Fields that say what is to be done. One that does not belong to the strategy would not be done; a number that does
not belong to it does no harm."""
