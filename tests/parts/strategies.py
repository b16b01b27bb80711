"""Orchestrations for tests: arguments as a model writes them, and a dispatcher that plays the sub-agents."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jsonschema import Draft202012Validator

from agent.subagents.runs import SubOrder
from agent.subagents.steps import Strategy
from agent.subagents.strategies import schema, strategy_of
from agent.tools.tool import ToolContext
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.subagents import SubTask, TaskMode, TaskState

_KEY = SessionKey.parse("telegram:1")
TYPES = ("explore", "general", "reviewer", "writer")
APPROVED = json.dumps({"approved": True, "feedback": ""})


def asked(strategy: str, **arguments: object) -> Strategy:
    """The strategy of a call with these arguments, which have to fit the schema as a model's have."""
    call = {"strategy": strategy, "goal": "Find the fault.", **arguments}
    Draft202012Validator(schema()).validate(call)
    return strategy_of(call, TYPES)


def step(name: str, *needs: str, kind: str = "explore") -> Mapping[str, Any]:
    """One step of a call."""
    return {"id": name, "type": kind, "task": f"Do {name}.", "needs": list(needs)}


def sides(*positions: str) -> list[Mapping[str, Any]]:
    """The steps of a debate."""
    return [{"task": position} for position in positions]


def refused(feedback: str) -> str:
    """A reviewer's no."""
    return json.dumps({"approved": False, "feedback": feedback})


def parts(*tasks: str, kind: str = "explore") -> str:
    """A lead's split."""
    return json.dumps({"parts": [{"type": kind, "task": task} for task in tasks]})


def ended_task(order: SubOrder, number: int, text: str, **changes: Any) -> SubTask:
    """The task of an order that completed, unless the changes say otherwise."""
    task = SubTask(
        id=f"T{number:025}",
        session_id=f"S{number}",
        parent_session_id="S",
        key=_KEY,
        turn_id="turn-1",
        sub_type=order.sub_type,
        label=order.label,
        prompt=order.prompt,
        mode=TaskMode.INLINE,
        depth=1,
        created_at_ms=1_000,
        state=TaskState.COMPLETED,
        result=CleanText(text),
        started_at_ms=1_000,
        finished_at_ms=3_500,
        tokens_in=90,
        tokens_out=10,
        cost_usd=0.001,
    )
    return replace(task, **changes)


Play = Callable[[SubOrder], "str | Mapping[str, Any] | Awaitable[str | Mapping[str, Any]]"]


@dataclass
class Ensemble:
    """A `Dispatcher` whose sub-agents are one function: of an order it makes an answer, or changes to the task it
    ends as, at once or later. `orders` are all that began, `live` those that have not ended, `killed` the cancelled."""

    play: Play
    orders: list[SubOrder] = field(default_factory=list)
    live: int = 0
    live_most: int = 0
    killed: list[SubOrder] = field(default_factory=list)

    async def delegate(self, context: ToolContext, order: SubOrder) -> SubTask:
        self.orders.append(order)
        number = len(self.orders)
        self.live += 1
        self.live_most = max(self.live_most, self.live)
        try:
            await asyncio.sleep(0)
            played = self.play(order)
            if isinstance(played, Awaitable):
                played = await played
        except asyncio.CancelledError:
            self.killed.append(order)
            raise
        finally:
            self.live -= 1
        changes = {} if isinstance(played, str) else played
        ended = ended_task(order, number, played if isinstance(played, str) else "", **changes)
        assert context.allotment is not None
        context.allotment.take(ended.tokens, ended.cost_usd)
        return ended

    async def spawn(self, context: ToolContext, order: SubOrder) -> SubTask:
        raise AssertionError("an orchestration waits for its sub-agents")

    @property
    def labels(self) -> list[str]:
        """What people see of each, in the order in which they began."""
        return [str(order.label) for order in self.orders]
