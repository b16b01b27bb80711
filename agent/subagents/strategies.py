"""The six strategies of `orchestrate`: the call of a model, read, and the graph of steps that is built of it. Pure.

One flat shape for all six: steps that say who does what. A strategy that needs somebody for a part of its own (a judge,
a lead) knows that step by its id. What the schema cannot say is said here, as a clause that names the place and the
remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from agent import limits
from agent.prompts.library import load_prompt
from agent.schema import object_schema
from agent.subagents.steps import (
    Conclusion,
    Ended,
    Endings,
    Result,
    StepGraph,
    StepNode,
    StepOrder,
    Strategy,
    Undone,
    brief_of,
    conclude_without_result,
    label_of,
    line_of,
    result_of,
)
from agent.tools.arguments import parse_arguments
from agent.tools.results import abridged
from gateway.contracts.errors import Shortfall, ToolError

_PROMPTS: Final = {
    name: load_prompt(f"strategies/{name}")
    for name in (
        *("step", "synthesis", "side", "judge", "draft", "revision", "review", "verdict", "unreadable"),
        *("split", "parts", "join"),
    )
}
_SYNTHESIS: Final = "the synthesis"
_JUDGEMENT: Final = "the judgement"
_SPLITS: Final = ("the split", "the split again")
_JOIN: Final = "the joining"
_NOT_REACHED: Final = "not reached"
_BAD_ANSWER: Final = "The answer that could not be read"
_SPEAKING_MIN: Final = 2
_ASKED_CHARS: Final = 1_500  # of the author's task, before the reviewer: the draft needs the room
_FENCED: Final = re.compile(r"```(?:json)?\s*\n(?P<inside>.*)\n\s*```", re.DOTALL | re.IGNORECASE)

OTHERWISE: Final = "general"
"""The type that does a step if the plan names none."""

DESCRIPTION: Final = (
    "Have several sub-agents work on `goal` and get one answer; takes minutes. A step says who (`type`, as for "
    "sub_agent) does what (`task`); each sees the goal and its own task only.\n"
    "- sequential: one after the other, each with the results so far\n"
    "- parallel: side by side; then step `synthesis` joins them\n"
    "- graph: each when the steps in its `needs` are done\n"
    f"- debate: each argues its position, over `rounds` (1-{limits.ORCHESTRATION_ROUNDS_MAX}); then step `judge` "
    "decides\n"
    "- review: step `author` writes, step `reviewer` approves or says what to mend, at most `rounds` "
    f"(1-{limits.ORCHESTRATION_ITERATIONS_MAX}) times\n"
    "- hierarchical: step `lead` splits the goal, step `worker` says who does the parts, `lead` joins them"
)

_PROBLEMS_SHOWN: Final = 8
_ROUNDS: Final = 2  # of a debate, if nobody says how many
_ITERATIONS: Final = 3  # of a review, likewise


@dataclass(frozen=True, slots=True)
class AskedStep:
    """One thing to be done. `needs` are the ids of steps that have to be done before."""

    id: str
    sub_type: str
    task: str
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepRole:
    """The type and the instructions ("" for none) of a step that the strategy itself asks for."""

    sub_type: str
    task: str = ""


@dataclass(frozen=True, slots=True)
class AskedStrategy:
    """A call, read: the steps without those that are the strategy's own `roles`. `types` are all that there are."""

    goal: str
    steps: tuple[AskedStep, ...]
    roles: Mapping[str, StepRole]
    rounds: int | None
    types: tuple[str, ...]

    def role(self, name: str) -> StepRole:
        """Return the role of that name; a generalist if it is not described."""
        return self.roles.get(name, StepRole(OTHERWISE))

    def role_order(self, id_: str, role: str, prompt: str, label: str, results: tuple[Result, ...] = ()) -> StepOrder:
        """Return the step in which `role` does a part that the strategy itself asks for."""
        own = self.role(role)
        brief = brief_of(_PROMPTS[prompt], self.goal, own.task)
        return StepOrder(id_, own.sub_type, label_of(label, self.goal), brief, results)


# --- steps that are known from the start


def _sequential(asked: AskedStrategy, ended: Endings) -> StepGraph:
    """Run one step after the other, each with the results so far. The last one's answer is the answer."""
    steps, total = asked.steps, len(asked.steps)
    achieved = _results(steps, ended)
    outcome, why = Conclusion(_results(steps[-1:], ended)), _NOT_REACHED
    for name in (step.id for step in steps if step.id in ended and not ended[step.id].is_done):
        problem = ended[name].problem
        outcome = conclude_without_result(achieved, Shortfall.STEP_FAILED, step=f"step {name}", problem=problem)
        why = f"step {name} failed"
    nodes = [
        StepNode(
            _order(asked, step, f"{place + 1}/{total}", _results(steps[:place], ended)),
            needs=tuple(before.id for before in steps[:place]),
        )
        for place, step in enumerate(steps)
    ]
    return StepGraph(nodes, outcome, achieved, _undone(steps, ended, why))


def _parallel(asked: AskedStrategy, ended: Endings) -> StepGraph:
    """Run all steps side by side; then have one answer made of what they bring, unless that is nothing."""
    steps, total = asked.steps, len(asked.steps) + 1
    results = _results(steps, ended)
    achieved = (*results, *result_of(_SYNTHESIS, "Synthesis", ended))
    last = asked.role_order(_SYNTHESIS, "synthesis", "synthesis", f"{total}/{total} synthesis", results)
    outcome = (
        _concluded(_SYNTHESIS, "the synthesiser", ended, achieved)
        if _SYNTHESIS in ended
        else conclude_without_result(achieved, Shortfall.ALL_FAILED, parts="steps")
    )
    nodes = [StepNode(_order(asked, step, f"{place}/{total}")) for place, step in enumerate(steps, 1)]
    join = StepNode(last, after=tuple(step.id for step in steps), quorum=1)
    return StepGraph([*nodes, join], outcome, achieved, (*_undone(steps, ended), *_missing(last, ended)))


def _graph(asked: AskedStrategy, ended: Endings) -> StepGraph:
    """Run each step as soon as those that it needs are done, with their results; what is ready runs side by side.

    What needs something that failed is not run; everything else is. The answer is that of the steps that no other
    step needs, and the graph succeeds when all of its steps do."""
    steps, total = asked.steps, len(asked.steps)
    achieved = _results(steps, ended)
    needed = {need for step in steps for need in step.needs}
    outcome = Conclusion(_results([step for step in steps if step.id not in needed], ended))
    if failed := [step.id for step in steps if step.id in ended and not ended[step.id].is_done]:
        names = ", ".join(failed)
        outcome = conclude_without_result(achieved, Shortfall.SOME_FAILED, number=len(failed), all=total, steps=names)
    nodes = [
        StepNode(
            _order(
                asked, step, f"{place}/{total}", _results([other for other in steps if other.id in step.needs], ended)
            ),
            needs=step.needs,
        )
        for place, step in enumerate(steps, 1)
    ]
    undone = (Undone(step.id, step.sub_type, _why_not(step, ended)) for step in steps if step.id not in ended)
    return StepGraph(nodes, outcome, achieved, tuple(undone))


def _why_not(step: AskedStep, ended: Endings) -> str:
    for need in step.needs:
        if need not in ended:
            return f"needs {need}, which was not run"
        if not ended[need].is_done:
            return f"needs {need}, which failed"
    return _NOT_REACHED


def _order(asked: AskedStrategy, step: AskedStep, place: str, results: tuple[Result, ...] = ()) -> StepOrder:
    label = label_of(f"{place} {step.id}", step.task)
    return StepOrder(step.id, step.sub_type, label, brief_of(_PROMPTS["step"], asked.goal, step.task), results)


def _results(steps: Sequence[AskedStep], ended: Endings) -> tuple[Result, ...]:
    return tuple(found for step in steps for found in result_of(step.id, f"Step {step.id} ({step.sub_type})", ended))


def _undone(steps: Sequence[AskedStep], ended: Endings, why: str = _NOT_REACHED) -> tuple[Undone, ...]:
    return tuple(Undone(step.id, step.sub_type, why) for step in steps if step.id not in ended)


def _missing(last: StepOrder, ended: Endings) -> tuple[Undone, ...]:
    """Return the step that makes the answer, if it was not reached."""
    return () if last.id in ended else (Undone(last.id, last.sub_type, _NOT_REACHED),)


def _concluded(last: str, who: str, ended: Endings, achieved: tuple[Result, ...]) -> Conclusion:
    """Return the conclusion where `last`, which makes the answer, has ended."""
    if ended[last].is_done:
        return Conclusion(result_of(last, last, ended))
    return conclude_without_result(achieved, Shortfall.LAST_FAILED, who=who, problem=ended[last].problem)


# --- debate


def _debate(asked: AskedStrategy, ended: Endings) -> StepGraph:
    """Let each side state its case in every round and see what the others said last; then let a judge decide.

    A side that fails speaks no more, and what it said before still counts. With fewer than two sides left the debate
    is over; unless two of them have spoken there is nothing to judge."""
    sides, rounds = range(1, len(asked.steps) + 1), range(1, (asked.rounds or _ROUNDS) + 1)
    nodes: list[StepNode] = []
    before: tuple[str, ...] = ()
    for number in rounds:
        heard = _newest(asked, ended, number - 1)
        for side, speaker in zip(sides, asked.steps, strict=True):
            position = f"You are side {side} and speak for this position: {speaker.task}"
            order = StepOrder(
                _said(number, side),
                speaker.sub_type,
                label_of(f"round {number}/{rounds[-1]} side {side}", speaker.task),
                brief_of(_PROMPTS["side"], asked.goal, position),
                heard,
            )
            own = (_said(number - 1, side),) if before else ()
            nodes.append(StepNode(order, needs=own, after=before, quorum=_SPEAKING_MIN if before else 0))
        before = tuple(_said(number, side) for side in sides)
    newest = _newest(asked, ended, rounds[-1])
    achieved = (*newest, *result_of(_JUDGEMENT, "Judgement", ended))
    last = asked.role_order(_JUDGEMENT, "judge", "judge", "judgement", newest)
    outcome = (
        _concluded(_JUDGEMENT, "the judge", ended, achieved)
        if _JUDGEMENT in ended
        else conclude_without_result(achieved, Shortfall.TOO_FEW_SIDES)
    )
    judge = StepNode(last, after=tuple(node.order.id for node in nodes), quorum=_SPEAKING_MIN)
    return StepGraph([*nodes, judge], outcome, achieved, _missing(last, ended))


def _newest(asked: AskedStrategy, ended: Endings, rounds: int) -> tuple[Result, ...]:
    """Return what each side said last in the first `rounds` rounds, and whether it has failed since."""
    found = []
    for side, speaker in enumerate(asked.steps, 1):
        if heard := [number for number in range(1, rounds + 1) if _said(number, side) in ended]:
            last = ended[_said(heard[-1], side)]
            number = heard[-1] if last.is_done else max(heard[-1] - 1, 1)
            problem = f"it failed in round {heard[-1]}: {last.problem}" if last.problem else ""
            said = Ended(ended[_said(number, side)].text, problem)
            found.append(Result.of(_said(number, side), f"Side {side}, round {number}: {line_of(speaker.task)}", said))
    return tuple(found)


def _said(number: int, side: int) -> str:
    return f"round {number} side {side}"


# --- review


def _review(asked: AskedStrategy, ended: Endings) -> StepGraph:
    """Have the author write, and the reviewer approve or say what to mend. Approved, the newest draft is the answer;
    not approved in the last iteration, it is none.

    A verdict that cannot be read is asked for once more, and then is no approval."""
    iterations = asked.rounds or _ITERATIONS
    numbers = range(1, iterations + 1)
    reached = [number for number in numbers if _ids(number)[0] in ended]
    achieved = tuple(  # the newest draft that is one, what the reviewer said of it, and what failed last
        found for number in reached[-2:] for name in _ids(number) for found in result_of(name, name.capitalize(), ended)
    )
    outcome = conclude_without_result(achieved, Shortfall.NOT_APPROVED, number=iterations)
    for number in reached:
        draft = _ids(number)[0]
        if (verdict := _verdict(number, ended)) is not None and verdict.approved:
            outcome = Conclusion(result_of(draft, draft, ended))
        for name in _ids(number):
            if name in ended and not ended[name].is_done:
                problem = ended[name].problem
                outcome = conclude_without_result(achieved, Shortfall.STEP_FAILED, step=name, problem=problem)
    nodes = [node for number in numbers for node in _iteration(asked, number, iterations, ended)]
    return StepGraph(nodes, outcome, achieved)


def _iteration(asked: AskedStrategy, number: int, iterations: int, ended: Endings) -> Sequence[StepNode]:
    draft, review, again = _ids(number)
    author, reviewer = asked.role("author"), asked.role("reviewer")
    before, verdict = _ids(number - 1), _verdict(number - 1, ended)
    told = abridged(author.task, _ASKED_CHARS)  # what was asked of the author is what its work is held against
    own = f"{_PROMPTS['review']}\n\n# What the author was told\n{told}" if told else _PROMPTS["review"]
    seen = result_of(draft, f"Draft {number}", ended)
    written = StepOrder(
        draft,
        author.sub_type,
        label_of(f"{number}/{iterations} author", author.task or asked.goal),
        brief_of(_PROMPTS["draft" if number == 1 else "revision"], asked.goal, author.task),
    )
    if verdict is not None:
        feedback = Result(before[1], "The review", verdict.feedback or "Not approved; no reason was given.")
        written = replace(written, results=(*result_of(before[0], "Your last draft", ended), feedback))
    reviewed = StepOrder(
        review,
        reviewer.sub_type,
        label_of(f"{number}/{iterations} reviewer", reviewer.task or asked.goal),
        brief_of(own, asked.goal, reviewer.task),
        seen,
        form=_PROMPTS["verdict"],
    )
    unread = (*seen, *result_of(review, _BAD_ANSWER, ended))
    asked_again = replace(reviewed, id=again, results=unread, closing=_PROMPTS["unreadable"])
    is_read = review in ended and read_verdict(ended[review].text) is not None
    return (
        StepNode(written)
        if number == 1
        else StepNode(
            written, needs=before[:1], after=before[1:], is_wanted=verdict is not None and not verdict.approved
        ),
        StepNode(reviewed, needs=(draft,)),
        StepNode(asked_again, needs=(review,), is_wanted=not is_read),
    )


def _verdict(number: int, ended: Endings) -> ReviewVerdict | None:
    """Return the verdict of an iteration, None where there is none. What cannot be read twice is no approval."""
    answers = [ended[name] for name in _ids(number)[1:] if name in ended]
    if not answers or not answers[-1].is_done:
        return None
    return read_verdict(answers[-1].text) or ReviewVerdict(approved=False, feedback=answers[-1].text)


def _ids(number: int) -> tuple[str, str, str]:
    return f"draft {number}", f"review {number}", f"review {number} again"


# --- hierarchical


def _hierarchical(asked: AskedStrategy, ended: Endings) -> StepGraph:
    """Have the lead split, workers do the parts, and the lead join what they bring, unless that is nothing.

    A split that cannot be read is asked for once more. A part is done by the type that the lead names, else by the
    worker's; what the worker was told holds for every part."""
    worker = asked.role("worker")
    parts, problem = _split(asked, ended)
    names = [f"part {number}" for number in range(1, limits.ORCHESTRATION_PARTS_MAX + 1)]
    brought = tuple(found for name in names for found in result_of(name, name.capitalize(), ended))
    splits = tuple(found for name in _SPLITS for found in result_of(name, name.capitalize(), ended))
    achieved = (*brought, *result_of(_JOIN, "The answer of all", ended)) if brought else splits
    orders = [
        StepOrder(
            name,
            part.sub_type,
            label_of(f"{name}/{len(parts)}", part.task),
            brief_of(_PROMPTS["step"], asked.goal, "\n\n".join(filter(None, (part.task, worker.task)))),
        )
        for name, part in zip(names, parts, strict=False)
    ]
    results = (  # what came of each part, after what was asked: a lead's words are framed, as a worker's are
        Result.of(
            name,
            f"{name.capitalize()} ({part.sub_type})",
            Ended(f"[asked: {line_of(part.task)}]\n{ended[name].text}", ended[name].problem),
        )
        for name, part in zip(names, parts, strict=False)
        if name in ended
    )
    last = asked.role_order(_JOIN, "lead", "join", "joining", tuple(results))
    if not parts:
        problem = next((ended[name].problem for name in _SPLITS if name in ended and not ended[name].is_done), problem)
        outcome = conclude_without_result(achieved, Shortfall.NOT_SPLIT, problem=problem)
    elif _JOIN not in ended:
        outcome = conclude_without_result(achieved, Shortfall.ALL_FAILED, parts="parts")
    else:
        outcome = _concluded(_JOIN, "the lead", ended, achieved)
    nodes = [*_splitting(asked, problem, ended, is_split=bool(parts)), *map(StepNode, orders)]
    if parts:
        nodes.append(StepNode(last, after=tuple(order.id for order in orders), quorum=1))
    return StepGraph(nodes, outcome, achieved, _missing(last, ended))


def _split(asked: AskedStrategy, ended: Endings) -> tuple[tuple[WorkPart, ...], str]:
    """Return the parts of the first split that can be read; none, with what is wrong with the last."""
    own, problem = asked.role("worker").sub_type, ""
    for name in _SPLITS:
        if name in ended and ended[name].is_done:
            try:
                text, most = ended[name].text, limits.ORCHESTRATION_PARTS_MAX
                return read_parts(text, types=asked.types, otherwise=own, parts_max=most), ""
            except BadParts as bad:
                problem = str(bad)
    return (), problem


def _splitting(asked: AskedStrategy, problem: str, ended: Endings, *, is_split: bool) -> Sequence[StepNode]:
    offered = (
        f"At most {limits.ORCHESTRATION_PARTS_MAX} parts. `type` is one of {', '.join(asked.types)}; "
        f"without it, {asked.role('worker').sub_type}."
    )
    first = replace(asked.role_order(_SPLITS[0], "lead", "split", "splitting"), closing=offered, form=_PROMPTS["parts"])
    again = replace(
        first,
        id=_SPLITS[1],
        results=result_of(_SPLITS[0], _BAD_ANSWER, ended),
        closing=f"{_PROMPTS['unreadable']} What was wrong with it: {problem}. {offered}",
    )
    return [StepNode(first), StepNode(again, needs=_SPLITS[:1], is_wanted=not is_split)]


# --- the answers that decide how it goes on


@dataclass(frozen=True, slots=True)
class ReviewVerdict:
    """A reviewer's decision, and the changes it wants.

    It is believed only as a whole JSON object: what approves is the field `approved`, never a word in a sentence, and
    nothing is mended into an approval."""

    approved: bool
    feedback: str


@dataclass(frozen=True, slots=True)
class WorkPart:
    """One of the parts that a lead has split its work into."""

    sub_type: str
    task: str


class BadParts(ValueError):
    """The lead's answer is no list of parts. The message is a clause for the lead."""


def read_verdict(text: str) -> ReviewVerdict | None:
    """Read the verdict; None if the answer is not one JSON object with a true or false `approved`."""
    fenced = _FENCED.fullmatch(text.strip())
    try:
        written = json.loads(fenced["inside"] if fenced else text, object_pairs_hook=_without_twins)
    except (ValueError, RecursionError):
        return None
    if not isinstance(written, dict) or not isinstance(written.get("approved"), bool):
        return None
    return ReviewVerdict(written["approved"], _plain(written.get("feedback")))


def read_parts(text: str, *, types: Collection[str], otherwise: str, parts_max: int) -> tuple[WorkPart, ...]:
    """Read the parts in a lead's answer; one without a type is done by `otherwise`. Raises `BadParts`."""
    start, end = text.find("{"), text.rfind("}")
    if not 0 <= start < end:
        raise BadParts("the answer holds no JSON object")
    try:
        written = parse_arguments(text[start : end + 1]).get("parts")
    except ToolError as error:
        raise BadParts(str(error)) from error
    if not isinstance(written, list) or not written:
        raise BadParts("`parts` is no list with at least one part")
    if len(written) > parts_max:
        raise BadParts(f"there are {len(written)} parts, and there may be {parts_max} at most")
    return tuple(_read_part(place, part, types, otherwise) for place, part in enumerate(written, 1))


def _read_part(place: int, written: object, types: Collection[str], otherwise: str) -> WorkPart:
    if not isinstance(written, dict):
        raise BadParts(f"part {place} is no object with `type` and `task`")
    task = written.get("task")
    if not isinstance(task, str) or not task.strip():
        raise BadParts(f"part {place} has no `task`")
    if len(task) > limits.ORCHESTRATION_TASK_CHARS_MAX:
        raise BadParts(f"the task of part {place} is longer than {limits.ORCHESTRATION_TASK_CHARS_MAX} characters")
    sub_type = written.get("type") or otherwise
    if sub_type not in types:
        raise BadParts(f"part {place} has an unknown type; there are: {', '.join(sorted(types))}")
    return WorkPart(sub_type, task.strip())


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object with a repeated name, because its two values may differ."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("two fields have the same name")
    return found


def _plain(feedback: object) -> str:
    if feedback is None:
        return ""
    return feedback if isinstance(feedback, str) else json.dumps(feedback, ensure_ascii=False)


# --- what is asked for


def schema() -> Mapping[str, Any]:
    """Return the schema that the arguments have to fit."""
    name = {"type": "string", "pattern": r"^[A-Za-z0-9_-]{0,32}\Z"}  # `$` would let a line end through
    step = {
        "id": name,
        "type": {"type": "string"},
        "task": {"type": "string", "maxLength": limits.ORCHESTRATION_TASK_CHARS_MAX},
        "needs": {"type": "array", "items": {"type": "string"}, "maxItems": limits.ORCHESTRATION_STEPS_MAX},
    }
    closed = {"additionalProperties": False}
    whole = {
        "strategy": {"type": "string", "enum": list(_SHAPES)},
        "goal": {"type": "string", "maxLength": limits.ORCHESTRATION_GOAL_CHARS_MAX},
        "steps": {"type": "array", "items": object_schema(step) | closed, "maxItems": limits.ORCHESTRATION_STEPS_MAX},
        "rounds": {"type": "integer", "minimum": 1, "maximum": limits.ORCHESTRATION_ITERATIONS_MAX},
        "tokens_max": {
            "type": "integer",
            "minimum": limits.ORCHESTRATION_TOKENS_MIN,
            "maximum": limits.ORCHESTRATION_TOKENS_MAX,
        },
        "usd_max": {"type": "number", "exclusiveMinimum": 0, "maximum": limits.ORCHESTRATION_USD_MAX},
        "limit_s": {
            "type": "number",
            "minimum": limits.ORCHESTRATION_LIMIT_MIN_S,
            "maximum": limits.ORCHESTRATION_LIMIT_S,
        },
    }
    return object_schema(whole, "strategy", "goal") | closed


@dataclass(frozen=True, slots=True)
class StrategyShape:
    """The size of a strategy: the number of steps besides those of its `roles`, and of rounds. `called` names its steps
    for people. `children_later` are at most those that its first graph does not show."""

    graph: Callable[[AskedStrategy, Endings], StepGraph]
    called: str = "steps"
    steps_min: int = 1
    steps_max: int = limits.ORCHESTRATION_STEPS_MAX
    roles: tuple[str, ...] = ()
    rounds_max: int = limits.ORCHESTRATION_ITERATIONS_MAX
    has_needs: bool = False
    children_later: int = 0


def strategy_of(arguments: Mapping[str, Any], types: Sequence[str]) -> Strategy:
    """Build the strategy that was asked for. Raises `ToolError` that names everything that is wrong with it, and where.

    `arguments` have passed the schema. Empty fields count as left out."""
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
    roles = {step.id: StepRole(step.sub_type, step.task) for step in steps if step.id in shape.roles}
    plain = tuple(step for step in steps if step.id not in shape.roles)
    rounds = arguments.get("rounds")
    asked = AskedStrategy(arguments["goal"], plain, roles, None if rounds is None else int(rounds), tuple(types))
    return Strategy(name, len(shape.graph(asked, {}).nodes) + shape.children_later, partial(shape.graph, asked))


def _problems(
    name: str, shape: StrategyShape, written: Sequence[Mapping[str, Any]], types: Sequence[str]
) -> Iterator[str]:
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


def _problems_of_needs(steps: Sequence[AskedStep]) -> Sequence[str]:
    ids = [step.id for step in steps]
    problems = [
        f"steps[{place}].needs names {need[:32]!r}, which is no step; there are: {', '.join(ids)}"
        for place, step in enumerate(steps)
        for need in step.needs
        if need not in ids
    ]
    problems += [f"steps[{place}] needs itself" for place, step in enumerate(steps) if step.id in step.needs]
    return problems or _cycles(steps)


def _cycles(steps: Sequence[AskedStep]) -> list[str]:
    try:
        TopologicalSorter({step.id: step.needs for step in steps}).prepare()
    except CycleError as error:
        return [f"steps {' → '.join(reversed(error.args[1]))} need each other"]
    return []


def _problems_of_all(name: str, shape: StrategyShape, arguments: Mapping[str, Any]) -> Iterator[str]:
    if not arguments["goal"].strip():
        yield "`goal` says nothing"
    if arguments.get("rounds", 1) > shape.rounds_max:
        yield f"{name} has 1 to {shape.rounds_max} `rounds`"


def _steps(written: Sequence[Mapping[str, Any]]) -> tuple[AskedStep, ...]:
    """Build the steps. One without an id is named by its position."""
    return tuple(
        AskedStep(
            step.get("id", str(place)),
            step.get("type", OTHERWISE),
            step.get("task", ""),
            tuple(dict.fromkeys(step.get("needs", ()))),
        )
        for place, step in enumerate(written, 1)
    )


_SHAPES: Final[Mapping[str, StrategyShape]] = {
    "sequential": StrategyShape(_sequential),
    "parallel": StrategyShape(_parallel, roles=("synthesis",)),
    "graph": StrategyShape(_graph, has_needs=True),
    "debate": StrategyShape(
        _debate,
        called="sides",
        steps_min=2,
        steps_max=limits.ORCHESTRATION_SIDES_MAX,
        roles=("judge",),
        rounds_max=limits.ORCHESTRATION_ROUNDS_MAX,
    ),
    "review": StrategyShape(_review, steps_max=0, roles=("author", "reviewer")),
    "hierarchical": StrategyShape(
        _hierarchical, steps_max=0, roles=("lead", "worker"), children_later=limits.ORCHESTRATION_PARTS_MAX + 1
    ),
}
