"""/plan: a plan first, then, if it is approved, a turn that works it off."""

from __future__ import annotations

from agent.commands.table import Asked, CommandRow, Converse, Done, Outcome
from agent.limits import PLAN_TASK_CHARS_MAX
from agent.plans.planner import NoPlan, Planning, Proposal
from agent.tools.approvals import Verdict
from agent.tools.lineage import Lineage
from agent.tools.permissions import Place
from agent.tools.tool import ToolContext
from gateway.contracts.errors import ToolError
from gateway.contracts.messages import clipped
from gateway.contracts.ports import Scrubber
from gateway.words import Words


def plan_commands(planning: Planning, scrubber: Scrubber) -> tuple[CommandRow, ...]:
    """The row."""

    async def plan(asked: Asked) -> Outcome:
        words = asked.words
        if not asked.argument:
            return Done(words.say("Write /plan and the task, as in `/plan tidy up the notes in my workspace`."))
        clean = scrubber.for_chat(str(asked.session.key)).scrub
        task = clipped(clean(asked.argument), PLAN_TASK_CHARS_MAX)
        try:
            proposal = await planning.propose(_context(asked), task)
        except NoPlan as problem:
            return Done(words.say("There is no plan: {problem}.", problem=problem.why(words)))
        except ToolError:
            return Done(words.say("There is no plan: the planner failed."))
        if proposal.is_approved:
            return Converse(clean(f"/plan {task}\n\n{proposal.told}"))
        return Done(_declined_text(proposal, words), noted=proposal.told)

    return (CommandRow("plan", plan),)


def _declined_text(proposal: Proposal, words: Words) -> str:
    if proposal.verdict is not Verdict.DENIED:
        return words.say("Nobody approved the plan in time, so nothing was done.")
    return words.say(
        "Then I leave it at that; nothing was done. Tell me what should be different, or give /plan another task."
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
        ceiling=asked.ceiling,
        permit=asked.permit,
        lineage=Lineage(asked.session.id),
        language=asked.session.language,
    )
