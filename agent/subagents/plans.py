"""The planner as a sub-agent: `agent.plans.planner.Delegates` on the type `plan`."""

from __future__ import annotations

from typing import Final

from agent.limits import PLAN_TIMEOUT_S
from agent.plans.planner import NoPlan
from agent.prompts.library import PROMPTS
from agent.subagents.life.orders import Dispatcher, Refused, SubOrder
from agent.tools.tool import ToolContext
from gateway.contracts.entries import UsagePurpose
from gateway.contracts.messages import CleanText
from gateway.contracts.subagents import TaskState
from gateway.words.reasons import in_words

_TYPE: Final = "plan"


class PlanSubAgents:
    """Has each plan written by a sub-agent, whose calls are charged as planning."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def written(self, context: ToolContext, task: CleanText) -> CleanText:
        """What it answered. Raises `NoPlan` when it did not, and `StoreUnavailable`."""
        order = SubOrder(_TYPE, task, limit_s=PLAN_TIMEOUT_S, purpose=UsagePurpose.PLAN, form=PROMPTS.plan)
        try:
            ended = await self._dispatcher.run(context, order)
        except Refused as refused:
            raise NoPlan(refused.said) from refused
        if ended.state is TaskState.COMPLETED:
            return ended.result
        raise NoPlan(
            lambda words: words.say("the planner did not finish ({reason})", reason=in_words(ended.reason, words))
        )
