"""Steps of several sub-agents as data: one graph, what may begin next in it, and the prompt of each step. Pure.

A prompt holds what one sub-agent wrote for another to read. Each such piece is in a frame whose mark its writer
could not know, and all of them share the room that is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from agent.limits import ORCHESTRATION_REASON_CHARS_MAX, SUBAGENT_LABEL_CHARS_MAX, SUBAGENT_PROMPT_CHARS_MAX
from agent.tools.results import abridged, frame_chars, framed
from gateway.contracts.errors import Shortfall
from gateway.contracts.messages import CleanText, literal_text
from gateway.i18n.reasons import SHORTFALLS

_NO_FORM: Final = literal_text("")
_APART: Final = "\n\n"
_MATERIAL: Final = "# Material"
_NOTHING: Final = "[nothing]"
_TITLE_CHARS: Final = 120
_FAILED: Final = "[not done: {problem}]\n"


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a step: its answer, and why that is no answer ("" if it is one)."""

    text: str
    problem: str = ""

    @property
    def is_done(self) -> bool:
        """Tell whether the step was carried out."""
        return not self.problem


@dataclass(frozen=True, slots=True)
class Result:
    """The result of step `id`, as others may be shown it. `title` names it; `problem` is "" where it is done."""

    id: str
    title: str
    text: str
    problem: str = ""

    @classmethod
    def of(cls, step_id: str, title: str, ended: Ended) -> Result:
        """Build the result of a step's end under a title."""
        return cls(step_id, title, ended.text, ended.problem[:ORCHESTRATION_REASON_CHARS_MAX])


@dataclass(frozen=True, slots=True)
class StepOrder:
    """One sub-agent that is to be run. `label` is for people. `brief` comes before the material, `closing` and
    the `form` of the answer after it; these are never cut."""

    id: str
    sub_type: str
    label: str
    brief: str
    results: tuple[Result, ...] = ()
    closing: str = ""
    form: CleanText = _NO_FORM


@dataclass(frozen=True, slots=True)
class Undone:
    """A step that was never begun, and why."""

    id: str
    sub_type: str
    why: str


@dataclass(frozen=True, slots=True)
class StepNode:
    """One step in a graph. It begins once all of `after` are over and all of `needs` are done.

    It never begins where one of its `needs` failed or never begins, where fewer than `quorum` of `after` are done, or
    where a verdict has made it needless (`is_wanted`)."""

    order: StepOrder
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    quorum: int = 0
    is_wanted: bool = True


@dataclass(frozen=True, slots=True)
class UnfinishedGraph:
    """The orchestration goes on: these steps are under way or may begin, in this order. There is at least one."""

    orders: tuple[StepOrder, ...]


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The orchestration is over. `answer` is the final answer where `problem` is "", else what was achieved in
    spite of it; `instead` is what may be done then."""

    answer: tuple[Result, ...]
    problem: str = ""
    instead: str = ""


Move = UnfinishedGraph | Conclusion

Endings = Mapping[str, Ended]
"""The ended steps, by the ids of their orders."""


@dataclass(frozen=True, slots=True)
class StepGraph:
    """An orchestration at one moment: what is to be done, and what it comes to if nothing more can begin.

    A sequence is nodes that need each other, a parallel part is nodes that do not, a join is a node after them with a
    quorum, a loop is its rounds one after the other, and a judge decides by `is_wanted` whether it goes on. `achieved`
    is what there is to show if it ends here, `undone` what is known to be missing then. A failure is handed on as a
    failure, and an orchestration succeeds only if the step that makes its answer did."""

    nodes: Sequence[StepNode]
    outcome: Conclusion
    achieved: tuple[Result, ...]
    undone: tuple[Undone, ...] = ()


@dataclass(frozen=True, slots=True)
class Strategy:
    """One orchestration as it was asked for, valid. It keeps no state: its graph follows from what has ended so far.

    It never wants more than `children_max` sub-agents."""

    name: str
    children_max: int
    graph: Callable[[Endings], StepGraph]

    def move(self, ended: Endings) -> Move:
        """Say what now. A step is wanted until it has ended, and there is no outcome before."""
        graph = self.graph(ended)
        ready = _ready(graph.nodes, ended)
        return UnfinishedGraph(ready) if ready else graph.outcome


def _ready(nodes: Sequence[StepNode], ended: Endings) -> tuple[StepOrder, ...]:
    """Return the orders that are under way or may begin, in the order of the nodes."""
    by_id = {node.order.id: node for node in nodes}

    @cache
    def is_lost(name: str) -> bool:
        """Tell whether the step can never begin."""
        node = by_id[name]
        if name in ended:
            return False
        if any(is_lost(need) or (need in ended and not ended[need].is_done) for need in node.needs):
            return True
        done = sum(other in ended and ended[other].is_done for other in node.after)
        return all(is_over(other) for other in node.after) and (done < node.quorum or not node.is_wanted)

    def is_over(name: str) -> bool:
        return name in ended or is_lost(name)

    return tuple(
        node.order
        for name, node in by_id.items()
        if name not in ended
        and not is_lost(name)
        and all(need in ended for need in node.needs)
        and all(is_over(other) for other in node.after)
    )


def result_of(step_id: str, title: str, ended: Endings) -> tuple[Result, ...]:
    """Return the result of one step, if it has ended."""
    return (Result.of(step_id, title, ended[step_id]),) if step_id in ended else ()


def conclude_without_result(achieved: tuple[Result, ...], shortfall: Shortfall, **values: str | int) -> Conclusion:
    """Conclude without a result; `values` fill the placeholders of the text for this shortfall."""
    told = SHORTFALLS[shortfall]
    return Conclusion(achieved, told.happened.format_map(values), told.instead)


def brief_of(told: str, goal: str, task: str = "") -> str:
    """Write the brief of a sub-agent: its role, the goal of the whole, and its own part."""
    parts = [told, f"# What all of it is for\n{goal}"]
    if task:
        parts.append(f"# Your part\n{task}")
    return _APART.join(parts)


def label_of(place: str, task: str) -> str:
    """Write a label of a few words for the board and the chat."""
    line = " ".join(f"{place}: {task}".split())
    return line if len(line) <= SUBAGENT_LABEL_CHARS_MAX else f"{line[: SUBAGENT_LABEL_CHARS_MAX - 1]}…"


def line_of(task: str) -> str:
    """Return the beginning of a task, as the title of its result."""
    return " ".join(task.split())[:_TITLE_CHARS]


def prompt_of(order: StepOrder, mark: str) -> str:
    """Write the prompt of a step, never longer than a prompt may be. `mark` is new for each prompt."""
    results = order.results
    behind = [order.closing, order.form]
    front = [order.brief, *([_MATERIAL] if results else ())]
    fixed = sum(len(text) + len(_APART) for text in (*front, *behind))
    fixed += sum(len(heading(result)) + frame_chars(len(mark)) + len(_APART) + 1 for result in results)
    rooms = shares([size(result) for result in results], SUBAGENT_PROMPT_CHARS_MAX - fixed)
    material = [
        f"{heading(result)}\n{framed(shown(result, room), mark)}" for result, room in zip(results, rooms, strict=True)
    ]
    return _APART.join(filter(None, (*front, *material, *behind)))


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """Divide `room`: each gets what it wants, as long as none with a smaller wish gets less for it."""
    given = [0] * len(wanted)
    left = max(room, 0)
    for place, index in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        given[index] = min(wanted[index], left // (len(wanted) - place))
        left -= given[index]
    return given


def heading(result: Result) -> str:
    """Write the line above the result."""
    return f"## {result.title}{' (FAILED)' if result.problem else ''}"


def shown(result: Result, room: int, *, handle: str = "") -> str:
    """Write the framed text in at most `room` characters. The reason for a failure may be in the words of the sub-agent
    that failed."""
    why = _why(result)[: max(room, 0)]
    return why + abridged(result.text or _NOTHING, room - len(why), handle=handle)


def size(result: Result) -> int:
    """Count the characters that the uncut text takes."""
    return len(_why(result)) + len(result.text or _NOTHING)


def _why(result: Result) -> str:
    return _FAILED.format(problem=result.problem) if result.problem else ""
