"""/plan: a plan first, then, if it is approved, a turn that works it off."""

from __future__ import annotations

from agent.commands.table import Asked, CommandRow, Converse, Done, Outcome
from agent.limits import PLAN_TASK_CHARS_MAX
from agent.planner import NoPlan, Planning, Proposal, outcome_text
from agent.tools.approvals import Verdict
from agent.tools.lineage import Lineage
from agent.tools.permissions import Place
from agent.tools.tool import ToolContext
from gateway.contracts.errors import ToolError
from gateway.contracts.messages import clipped
from gateway.contracts.ports import Scrubber


def plan_commands(planning: Planning, scrubber: Scrubber) -> tuple[CommandRow, ...]:
    """The row."""

    async def plan(asked: Asked) -> Outcome:
        if not asked.argument:
            return Done("Write /plan and the task, as in `/plan tidy up the notes in my workspace`.")
        clean = scrubber.for_chat(str(asked.session.key)).scrub
        task = clipped(clean(asked.argument), PLAN_TASK_CHARS_MAX)
        try:
            proposal = await planning.propose(_context(asked), task)
        except NoPlan as problem:
            return Done(f"There is no plan: {problem}.")
        except ToolError:
            return Done("There is no plan: the planner failed.")
        if proposal.is_approved:
            return Converse(clean(f"/plan {task}\n\n{outcome_text(proposal)}\n\n{proposal.text}"))
        return Done(_declined_text(proposal), noted=clean(f"{outcome_text(proposal)}\n\n{proposal.text}"))

    return (CommandRow("plan", "plan a task first, then do it when you approve: /plan TASK", plan),)


def _declined_text(proposal: Proposal) -> str:
    return (
        "Then I leave it at that; nothing was done. Tell me what should be different, or give /plan another task."
        if proposal.verdict is Verdict.DENIED
        else "Nobody approved the plan in time, so nothing was done."
    )


def _context(asked: Asked) -> ToolContext:
    message = asked.message
    return ToolContext(
        asked.session.key,
        asked.session.key.owner,
        asked.turn_id,
        role=asked.role,
        place=Place.DM if message.is_private else Place.GROUP,
        asked_by=message.author,
        address=message.address,
        fence=asked.fence,
        permit=asked.permit,
        lineage=Lineage(asked.session.id),
    )
