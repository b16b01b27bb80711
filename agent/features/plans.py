"""Plan documents: what a planner must write, what is wrong with what it wrote, how it reads. Pure."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from hashlib import sha256
from typing import Any, Final

import structlog
from jsonschema import Draft202012Validator
from referencing import Registry

from agent import limits
from agent.features.commands import CommandReply, CommandRequest, CommandRow, Converse, Outcome
from agent.models.requests import ToolSpec
from agent.schema import object_schema, text_schema
from agent.tools.approvals import ApprovalOutcome, ApprovalRequest, Approvals
from agent.tools.arguments import parse_arguments, schema_problem
from agent.tools.policy import Risk
from agent.tools.questions import visible
from agent.tools.results import framed
from agent.tools.tool import Tool, ToolContext
from gateway.contracts.errors import ToolError
from gateway.contracts.messages import CleanText, clipped, joined, literal_text
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import Todo, TodoState
from gateway.i18n import ENGLISH, Spoken, Words, words_for
from gateway.scrub import Scrubber
from gateway.store import Store

_PROBLEMS_SHOWN: Final = 8
_OBJECT: Final = re.compile(r"\{.*\}", re.DOTALL)
_SPACE: Final = re.compile(r"\s+")


_STEP_FIELDS: Final[Mapping[str, Any]] = {
    "id": {"type": "string", "pattern": r"^S[1-9][0-9]?\Z"},
    "title": text_schema(200),
    "detail": text_schema(1_500),
    "depends_on": {"type": "array", "items": {"type": "string"}, "maxItems": limits.PLAN_STEPS_MAX},
    "risks": {"type": "array", "items": text_schema(300), "maxItems": 5},
    "rollback": text_schema(500, chars_min=0),
}
_STEPS: Final = {
    "type": "array",
    "items": object_schema(_STEP_FIELDS, *_STEP_FIELDS),
    "minItems": 1,
    "maxItems": limits.PLAN_STEPS_MAX,
}
_PLAN: Final = object_schema({"goal": text_schema(500), "steps": _STEPS}, "goal", "steps")
_VALIDATOR: Final = Draft202012Validator(_PLAN, registry=Registry())


class BadPlan(ValueError):
    """The planner's answer is no valid plan; `problems` are worded for the planner."""

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
    """Read the plan from a planner's answer, in an order in which it can be carried out. Raises `BadPlan`."""
    found = _OBJECT.search(text)
    if found is None:
        raise BadPlan(["the answer holds no JSON object"])
    try:
        written = parse_arguments(found[0])
    except ToolError as error:
        raise BadPlan([str(error)]) from error
    problems = list(map(schema_problem, _VALIDATOR.iter_errors(written)))
    if problems:
        raise BadPlan(problems[:_PROBLEMS_SHOWN])
    return PlanDocument(_line(written["goal"]), _in_order([_step(step) for step in written["steps"]]))


def plan_text(plan: PlanDocument, words: Words) -> str:
    """Write the plan as CommonMark, for the person who approves it and for the model that carries it out."""
    head = words.say("**Plan: {goal}**", goal=plan.goal)
    return "\n\n".join([head, *(_step_text(step, words) for step in plan.steps)])


def todo_text(step: PlanStep) -> str:
    """Write the step as one task of the task list."""
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
    """Order the steps as written, except that a step comes after those it depends on. Raises `BadPlan`."""
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


# Plans: written by a sub-agent that looks and does nothing, approved by a person, worked off as a task list.
#
# Who writes a plan is somebody else's affair (`WritePlan`). What follows one is the same for /plan and for the
# model's own call: it is shown, somebody answers, and an approved one becomes the task list.


_log = structlog.get_logger(__name__)

PLAN: Final = ToolSpec(
    "plan",
    "Have a plan made for a larger task, by a planner that reads the workspace. The user sees it and approves it or "
    "not; an approved plan becomes the task list, and you work it off. Say all that the planner has to know: it does "
    "not see this conversation.",
    object_schema({"task": text_schema(limits.PLAN_TASK_CHARS_MAX)}, "task"),
)


class NoPlan(ToolError):
    """The planner produced no plan: why, as a clause for the caller. The model reads it in English."""

    def __init__(self, why: Spoken) -> None:
        super().__init__(why(ENGLISH))
        self.why = why


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the person said to a plan, and what the model that asked for it is told of both."""

    verdict: ApprovalOutcome
    told: CleanText

    @property
    def is_approved(self) -> bool:
        """Tell whether the plan is to be carried out."""
        return self.verdict is ApprovalOutcome.APPROVED


WritePlan = Callable[[ToolContext, CleanText], Awaitable[CleanText]]
"""Has a planner answer a task. Raises `NoPlan` and `StoreUnavailable`; cancelling ends it."""


@dataclass(eq=False, repr=False)
class Planning:
    """From a task to a plan that somebody has approved or not. Every model call is charged to the key it plans for."""

    write: WritePlan
    approvals: Approvals
    store: Store
    scrubber: Scrubber
    clock: Clock

    async def propose(self, context: ToolContext, task: CleanText) -> Proposal:
        """Make a plan, show it, ask. Approved, its steps are the task list of the owner; else nothing has happened.

        Raises as `WritePlan`, and `NoPlan` where nobody could approve one."""
        if context.address is None:
            raise NoPlan(lambda words: words.say("nobody is present to approve a plan"))
        plan = await self._make(context, task)
        clean, words = self.scrubber.for_chat(str(context.key)).scrub, words_for(context.language)
        text = clean(visible(plan_text(plan, words)))
        asked = words.count(
            "May I work through this plan of {count} step?",
            "May I work through this plan of {count} steps?",
            len(plan.steps),
        )
        verdict = await self.approvals.ask(
            ApprovalRequest(
                key=context.key,
                turn_id=context.turn_id,
                fence=context.fence,
                asked_by=context.asked_by or context.owner,
                address=context.address,
                text=joined(text, asked, by="\n\n"),
                digest=sha256(text.encode()).hexdigest(),
                language=context.language,
            )
        )
        _log.info("plan.asked", steps=len(plan.steps), verdict=verdict.value)
        if verdict is ApprovalOutcome.APPROVED:
            await self.store.transcript.replace_todos(context.key, _todos(plan, clean))
        return Proposal(verdict, clean(told_text(text, verdict, self.clock.code(limits.FRAME_CHARS))))

    async def _make(self, context: ToolContext, task: CleanText) -> PlanDocument:
        """Make a plan for `task`. A planner is told once what is wrong with its plan. Raises as `WritePlan`."""
        answer = await self.write(context, task)
        try:
            return read_plan(answer)
        except BadPlan as bad:
            _log.info("plan.refused", problems=len(bad.problems))
            answer = await self.write(context, self._corrected(context, task, answer, bad))
        try:
            return read_plan(answer)
        except BadPlan as bad:
            _log.warning("plan.given_up", problems=len(bad.problems))
            raise NoPlan(lambda words: words.say("the planner wrote no usable plan")) from bad

    def _corrected(self, context: ToolContext, task: CleanText, answer: CleanText, bad: BadPlan) -> CleanText:
        listed = "\n".join(f"- {problem}" for problem in bad.problems)
        clean = self.scrubber.for_chat(str(context.key)).scrub
        return joined(
            task,
            literal_text("You have answered this before:"),
            clean(framed(clipped(answer, limits.PLAN_ANSWER_CHARS_MAX), self.clock.code(limits.FRAME_CHARS))),
            clean(f"That is no plan I can use:\n\n{listed}"),
            literal_text("Look again only where you have to, and write the whole JSON object."),
            by="\n\n",
        )


def _todos(plan: PlanDocument, clean: Callable[[str], CleanText]) -> Sequence[Todo]:
    return [Todo(position, clean(todo_text(step)), TodoState.PENDING) for position, step in enumerate(plan.steps, 1)]


def plan_tool(planning: Planning, scrubber: Scrubber) -> Tool:
    """Build `plan`. It only reads, and its plan is approved before anything follows from it: the policy has no more to
    ask."""

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        proposal = await planning.propose(context, scrubber.for_chat(str(context.key)).scrub(arguments["task"]))
        return proposal.told

    waits_s = 2 * limits.PLAN_TIMEOUT_S + limits.TOOL_TIMEOUT_S
    return Tool(PLAN, "tasks", Risk.READ, run, timeout_s=waits_s, protected=True, quotes=True, only_waits=True)


def told_text(plan: str, verdict: ApprovalOutcome, mark: str) -> str:
    """Write the tool's answer to the model that asked for a plan. A sub-agent's words are instructions only once a
    person has approved them; until then they are framed with `mark`."""
    if verdict is ApprovalOutcome.APPROVED:
        return (
            "The user approved this plan, and the task list holds its steps. Work through it in this order; keep the "
            f"task list up to date with todo_write, and say so when a step fails.\n\n{plan}"
        )
    why = "did not approve" if verdict is ApprovalOutcome.DENIED else "did not answer about"
    return f"The user {why} this plan. Do nothing of it; ask what should be different.\n\n{framed(plan, mark)}"


# /plan: a plan first, then, if it is approved, a turn that works it off.


def plan_commands(planning: Planning, scrubber: Scrubber) -> tuple[CommandRow, ...]:
    """Return the command row."""

    async def plan(asked: CommandRequest) -> Outcome | str:
        words = asked.words
        if not asked.argument:
            return words.say("Write /plan and the task, as in `/plan tidy up the notes in my workspace`.")
        clean = scrubber.for_chat(str(asked.session.key)).scrub
        task = clipped(clean(asked.argument), limits.PLAN_TASK_CHARS_MAX)
        try:
            proposal = await planning.propose(asked.tool_context(), task)
        except NoPlan as problem:
            return words.say("There is no plan: {problem}.", problem=problem.why(words))
        except ToolError:
            return words.say("There is no plan: the planner failed.")
        if proposal.is_approved:
            return Converse(clean(f"/plan {task}\n\n{proposal.told}"))
        return CommandReply(_declined_text(proposal, words), noted=proposal.told)

    return (CommandRow("plan", plan),)


def _declined_text(proposal: Proposal, words: Words) -> str:
    if proposal.verdict is not ApprovalOutcome.DENIED:
        return words.say("Nobody approved the plan in time, so nothing was done.")
    return words.say(
        "Then I leave it at that; nothing was done. Tell me what should be different, or give /plan another task."
    )
