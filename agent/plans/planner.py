"""Plans: written by a sub-agent that looks and does nothing, approved by a person, worked off as a task list.

Who writes a plan is somebody else's affair (`Delegates`). What follows one is the same for /plan and for the model's
own call: it is shown, somebody answers, and an approved one becomes the task list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Protocol

import structlog

from agent.limits import FRAME_CHARS, PLAN_ANSWER_CHARS_MAX, PLAN_TASK_CHARS_MAX, PLAN_TIMEOUT_S, TOOL_TIMEOUT_S
from agent.model.client import ToolSpec
from agent.plans.planning import BadPlan, PlanDocument, plan_text, read_plan, todo_text
from agent.questions import visible
from agent.tools.approvals import Approvals, Question, Verdict
from agent.tools.framing import framed
from agent.tools.permissions import Risk
from agent.tools.tool import Tool, ToolContext
from gateway.contracts.entries import Todo, TodoState
from gateway.contracts.errors import ToolError
from gateway.contracts.messages import CleanText, clipped, joined, own_words
from gateway.contracts.ports import Clock, Scrubber
from gateway.store import Store
from gateway.words import ENGLISH, Spoken, words_for

_log = structlog.get_logger(__name__)

PLAN: Final = ToolSpec(
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
    """The planner came to no plan: why, as a clause for whoever asked for one. The model reads it in English."""

    def __init__(self, why: Spoken) -> None:
        super().__init__(why(ENGLISH))
        self.why = why


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan, what the person said to it, and what the model that asked for it is told of both."""

    plan: PlanDocument
    verdict: Verdict
    told: CleanText

    @property
    def is_approved(self) -> bool:
        """True when it is to be worked off."""
        return self.verdict is Verdict.APPROVED


class Delegates(Protocol):
    """Has plans written."""

    async def written(self, context: ToolContext, task: CleanText) -> CleanText:
        """What a planner answered to `task`. Raises `NoPlan` and `StoreUnavailable`; cancelling ends it."""
        ...


class Planner:
    """Makes plans. Every model call is charged to the key it plans for."""

    def __init__(self, delegates: Delegates, scrubber: Scrubber, clock: Clock) -> None:
        self._delegates = delegates
        self._scrubber = scrubber
        self._clock = clock

    async def make(self, context: ToolContext, task: CleanText) -> PlanDocument:
        """A plan for `task`. What is wrong with one is told to a planner once. Raises as `Delegates.written`."""
        answer = await self._delegates.written(context, task)
        try:
            return read_plan(answer)
        except BadPlan as bad:
            _log.info("plan.refused", problems=len(bad.problems))
            answer = await self._delegates.written(context, self._corrected(context, task, answer, bad))
        try:
            return read_plan(answer)
        except BadPlan as bad:
            _log.warning("plan.given_up", problems=len(bad.problems))
            raise NoPlan(lambda words: words.say("the planner wrote no usable plan")) from bad

    def _corrected(self, context: ToolContext, task: CleanText, answer: CleanText, bad: BadPlan) -> CleanText:
        listed = "\n".join(f"- {problem}" for problem in bad.problems)
        clean = self._scrubber.for_chat(str(context.key)).scrub
        return joined(
            task,
            own_words("You have answered this before:"),
            clean(framed(clipped(answer, PLAN_ANSWER_CHARS_MAX), self._clock.code(FRAME_CHARS))),
            clean(f"That is no plan I can use:\n\n{listed}"),
            own_words("Look again only where you have to, and write the whole JSON object."),
            by="\n\n",
        )


class Planning:
    """From a task to a plan that somebody has approved or not."""

    def __init__(self, planner: Planner, approvals: Approvals, store: Store, scrubber: Scrubber, clock: Clock) -> None:
        self._planner = planner
        self._approvals = approvals
        self._store = store
        self._scrubber = scrubber
        self._clock = clock

    async def propose(self, context: ToolContext, task: CleanText) -> Proposal:
        """Make a plan, show it, ask. Approved, its steps are the task list of the owner; else nothing has happened.

        Raises as `Planner.make`, and `NoPlan` where nobody could approve one.
        """
        if context.address is None:
            raise NoPlan(lambda words: words.say("nobody is present to approve a plan"))
        plan = await self._planner.make(context, task)
        clean, words = self._scrubber.for_chat(str(context.key)).scrub, words_for(context.language)
        text = clean(visible(plan_text(plan, words)))
        asked = words.count(
            "May I work through this plan of {count} step?",
            "May I work through this plan of {count} steps?",
            len(plan.steps),
        )
        verdict = await self._approvals.ask(
            Question(
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
        if verdict is Verdict.APPROVED:
            await self._store.transcript.replace_todos(context.key, _todos(plan, clean))
        return Proposal(plan, verdict, clean(told_text(text, verdict, self._clock.code(FRAME_CHARS))))


def _todos(plan: PlanDocument, clean: Callable[[str], CleanText]) -> Sequence[Todo]:
    return [Todo(position, clean(todo_text(step)), TodoState.PENDING) for position, step in enumerate(plan.steps, 1)]


def plan_tool(planning: Planning, scrubber: Scrubber) -> Tool:
    """`plan`. It reads, and whatever comes of it was approved: the policy has no more to ask."""

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        proposal = await planning.propose(context, scrubber.for_chat(str(context.key)).scrub(arguments["task"]))
        return proposal.told

    waits_s = 2 * PLAN_TIMEOUT_S + TOOL_TIMEOUT_S
    return Tool(PLAN, "tasks", Risk.READ, run, timeout_s=waits_s, protected=True, quotes=True, only_waits=True)


def told_text(plan: str, verdict: Verdict, mark: str) -> str:
    """What the model that asked for a plan is told of it. A sub-agent's words are orders only once a person has
    approved them; until then they stand in a frame with `mark`."""
    if verdict is Verdict.APPROVED:
        return (
            "The user approved this plan, and the task list holds its steps. Work through it in this order; keep the "
            f"task list up to date with todo_write, and say so when a step fails.\n\n{plan}"
        )
    why = "did not approve" if verdict is Verdict.DENIED else "did not answer about"
    return f"The user {why} this plan. Do nothing of it; ask what should be different.\n\n{framed(plan, mark)}"
