"""The planner: a sub-agent that looks and does nothing, writes a plan, and has a person approve it.

`make` is all that a planner is: in a process of its own it would be no other. What follows a plan, whoever made it,
is the same for /plan and for the model's own call: it is shown, somebody answers, and an approved one becomes the
task list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog

from agent.background import Background
from agent.deadlines import Deadline
from agent.engine import Engine, Joined, StepsTaken
from agent.limits import PLAN_TASK_CHARS_MAX, PLAN_TIMEOUT_S, TOOL_TIMEOUT_S
from agent.model.client import Permit, PromptMessage, ToolSpec
from agent.models import Models
from agent.planning import BadPlan, PlanDocument, plan_text, read_plan, todo_text
from agent.prompts.library import PROMPTS
from agent.tools.approvals import Approvals, Question, Verdict
from agent.tools.permissions import Permissions, Risk
from agent.tools.tool import Tool, ToolContext
from gateway.contracts.entries import Entry, Role, Session, Todo, TodoState
from gateway.contracts.errors import ContextTooLong, ModelError, StoreError, ToolError
from gateway.contracts.messages import CleanText, clipped, own_words
from gateway.contracts.ports import Scrubber, Store
from gateway.limits import REPLY_CHARS_MAX

PLANNING_TOOLS: Final = ("file_read", "file_search", "file_list", "file_tree", "file_info")
"""What a planner may use: it reads the workspace and nothing else."""

_log = structlog.get_logger(__name__)

_PLAN: Final = ToolSpec(
    "plan",
    "Have a plan made for a larger task, by a planner that reads the workspace. The user sees it and approves it or "
    "not; an approved plan becomes the task list, and you work it off. Say all that the planner has to know: it does "
    "not see this conversation.",
    {
        "type": "object",
        "properties": {"task": {"type": "string", "minLength": 1, "maxLength": PLAN_TASK_CHARS_MAX}},
        "required": ["task"],
    },
)


class NoPlan(ToolError):
    """The planner came to no plan. The message is a clause for whoever asked for one."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan, its text, and what the person said to it."""

    plan: PlanDocument
    text: CleanText
    verdict: Verdict

    @property
    def is_approved(self) -> bool:
        """True when it is to be worked off."""
        return self.verdict is Verdict.APPROVED


@dataclass(frozen=True, slots=True)
class _Alone:
    """`agent.engine.Hold` and `Room` of a planner: it ends with its turn, nobody joins it, and what it has read is
    never condensed: a plan is about what was seen."""

    permit_of_turn: Permit

    async def permit(self) -> None:
        await self.permit_of_turn()

    async def join(self) -> Sequence[Joined]:
        return ()

    async def condensed(
        self, in_flight: Sequence[Entry], *, counted: int, is_refused: bool = False
    ) -> Sequence[PromptMessage] | None:
        if is_refused:
            raise ContextTooLong("the planner has read more than its model can hold")
        return None


class Planner:
    """Makes plans. Every model call is charged to the key it plans for."""

    def __init__(
        self, engine: Engine, models: Models, store: Store, scrubber: Scrubber, background: Background
    ) -> None:
        """`engine` charges its calls as planning and ends after a few rounds."""
        self._engine = engine
        self._models = models
        self._store = store
        self._scrubber = scrubber
        self._background = background

    async def make(self, context: ToolContext, task: CleanText) -> PlanDocument:
        """A plan for `task`. Raises `NoPlan`, `ToolError` and the `ModelError` tree; cancellable at every await."""
        session = await self._store.current_session(context.key)
        if session is None:
            raise NoPlan("there is no conversation to plan in")
        messages = [PromptMessage(Role.USER, task)]
        context = replace(context, ceiling=context.ceiling & Permissions.only(PLANNING_TOOLS), address=None)
        try:
            async with Deadline(PLAN_TIMEOUT_S):
                return await self._attempt(context, session, messages)
        except TimeoutError as error:
            raise NoPlan("the planner took too long") from error
        except ContextTooLong as error:
            raise NoPlan("the planner read more than its model can hold") from error

    async def _attempt(self, context: ToolContext, session: Session, messages: list[PromptMessage]) -> PlanDocument:
        """What is wrong with a plan goes back to the model once, and without tools: it has seen what there is."""
        answer = await self._answer(context, session, messages)
        try:
            return read_plan(answer)
        except BadPlan as bad:
            _log.info("plan.refused", problems=len(bad.problems))
            messages += [
                PromptMessage(Role.ASSISTANT, answer),
                PromptMessage(Role.USER, self._correction(context, bad)),
            ]
        try:
            return read_plan(await self._answer(replace(context, ceiling=Permissions.only(())), session, messages))
        except BadPlan as bad:
            _log.warning("plan.given_up", problems=len(bad.problems))
            raise NoPlan("the planner wrote no usable plan") from bad

    async def _answer(self, context: ToolContext, session: Session, messages: Sequence[PromptMessage]) -> CleanText:
        taken, alone = StepsTaken(), _Alone(context.permit)
        try:
            await self._engine.run(
                taken,
                alone,
                context,
                model=self._models.of_session(session),
                system=PROMPTS.plan,
                prompt=messages,
                room=alone,
            )
        finally:
            # Also of a run that failed or was stopped; without waiting, for nothing may hold up a stop.
            self._background.start(self._record(session, taken))
        return taken.answer or own_words("")

    def _correction(self, context: ToolContext, bad: BadPlan) -> CleanText:
        listed = "\n".join(f"- {problem}" for problem in bad.problems)
        said = f"That is no plan I can use:\n\n{listed}\n\nWrite the whole JSON object again."
        return self._scrubber.for_chat(str(context.key)).scrub(said)

    async def _record(self, session: Session, taken: StepsTaken) -> None:
        try:
            await self._store.record_usage(taken.usage, session_id=session.id)
        except StoreError as error:
            _log.warning("plan.cost_not_recorded", reason=str(error))


class Planning:
    """From a task to a plan that somebody has approved or not."""

    def __init__(self, planner: Planner, approvals: Approvals, store: Store, scrubber: Scrubber) -> None:
        self._planner = planner
        self._approvals = approvals
        self._store = store
        self._scrubber = scrubber

    async def propose(self, context: ToolContext, task: CleanText) -> Proposal:
        """Make a plan, show it, ask. Approved, its steps are the task list of the owner; else nothing has happened.

        Raises as `Planner.make`, and `NoPlan` where nobody could approve one.
        """
        if context.address is None:
            raise NoPlan("nobody is present to approve a plan")
        plan = await self._planner.make(context, task)
        clean = self._scrubber.for_chat(str(context.key)).scrub
        text = clipped(clean(plan_text(plan)), REPLY_CHARS_MAX)
        verdict = await self._approvals.ask(
            Question(
                key=context.key,
                turn_id=context.turn_id,
                fence=context.fence,
                asked_by=context.asked_by or context.owner,
                address=context.address,
                text=clean(f"May I work through this plan of {len(plan.steps)} step(s)?"),
                preface=text,
            )
        )
        _log.info("plan.asked", steps=len(plan.steps), verdict=verdict.value)
        if verdict is Verdict.APPROVED:
            await self._store.replace_todos(context.key, _todos(plan, clean))
        return Proposal(plan, text, verdict)


def _todos(plan: PlanDocument, clean: Callable[[str], CleanText]) -> Sequence[Todo]:
    return [Todo(position, clean(todo_text(step)), TodoState.PENDING) for position, step in enumerate(plan.steps, 1)]


def plan_tool(planning: Planning, scrubber: Scrubber) -> Tool:
    """`plan`. It reads, and whatever comes of it was approved: the policy has no more to ask."""

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        try:
            proposal = await planning.propose(context, scrubber.for_chat(str(context.key)).scrub(arguments["task"]))
        except ModelError as error:
            raise NoPlan("the planner's model did not answer") from error
        return f"{outcome_text(proposal)}\n\n{proposal.text}"

    return Tool(_PLAN, "tasks", Risk.READ, run, timeout_s=PLAN_TIMEOUT_S + TOOL_TIMEOUT_S, protected=True, quotes=True)


def outcome_text(proposal: Proposal) -> str:
    """What the model that asked for a plan is told of it."""
    if proposal.is_approved:
        return (
            "The user approved this plan, and the task list holds its steps. Work through it in this order; keep the "
            "task list up to date with todo_write, and say so when a step fails."
        )
    why = "did not approve" if proposal.verdict is Verdict.DENIED else "did not answer about"
    return f"The user {why} this plan. Do nothing of it; ask what should be different."
