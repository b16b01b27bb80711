"""Whether an order can be carried out, and who the child will be that does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from agent.limits import (
    SUBAGENT_DEPTH_MAX,
    SUBAGENT_ID_CHARS,
    SUBAGENT_LABEL_CHARS_MAX,
    SUBAGENT_PROMPT_CHARS_MAX,
    SUBAGENTS_LIVE_MAX,
    SUBAGENTS_WAITING_MAX,
    WAKES_IN_A_ROW_MAX,
)
from agent.subagents.catalog import Catalog, SubType
from agent.subagents.ceilings import child_context
from agent.subagents.life.lives import Charge, Life, Lives
from agent.subagents.life.orders import Refused, SubOrder
from agent.subagents.life.scribe import Scribe
from agent.subagents.life.thinking import Thinking
from agent.tools.tool import ToolContext
from gateway.contracts.messages import CleanText, clipped, joined
from gateway.contracts.ports import Clock, Scrubber
from gateway.contracts.reasons import NoSubAgent, Reason
from gateway.contracts.subagents import SubTask, TaskMode
from gateway.store.subagents import TaskStore


class Recruiting:
    """Finds the child for an order. `limit_s` is the most that one may live."""

    def __init__(
        self,
        catalog: Catalog,
        lives: Lives,
        thinking: Thinking,
        book: TaskStore,
        scrubber: Scrubber,
        clock: Clock,
        *,
        rights: Callable[[ToolContext], Awaitable[bool]],
        limit_s: float,
    ) -> None:
        """`rights` says whether one that outlives the turn of this context may go on."""
        self._catalog = catalog
        self._lives = lives
        self._thinking = thinking
        self._book = book
        self._scrubber = scrubber
        self._clock = clock
        self._rights = rights
        self._limit_s = limit_s
        self._asked_last_ms = 0

    async def life(self, context: ToolContext, order: SubOrder, mode: TaskMode) -> Life:
        """The child that carries out `order`. Raises `Refused` for one that nobody can, and `StoreUnavailable`."""
        asked_at_ms = self._moment()
        sub_type = await self._checked(context, order, mode)
        task = self._task(context, order, mode, asked_at_ms)
        own = child_context(context, sub_type, session_id=task.session_id, task_id=task.id)
        if mode is TaskMode.BACKGROUND:
            own = replace(own, permit=partial(self._permit, task.id, context), fence=0)  # it is no part of any run
        if order.form:
            sub_type = replace(sub_type, prompt=joined(sub_type.prompt, order.form, by="\n\n"))
        charge = Charge(
            sub_type,
            await self._thinking.model_below(context.lineage),
            order.purpose,
            own,
            limit_s=min(order.limit_s or self._limit_s, self._limit_s),
        )
        return Life(
            task,
            charge,
            Scribe(self._book, task.id),
            wake=context.wake if mode is TaskMode.BACKGROUND else None,
            fence=0 if context.lineage.task_id else context.fence,
        )

    async def _permit(self, task_id: str, context: ToolContext) -> None:
        """`agent.model.client.Permit` of one that outlives the turn of `context`."""
        await self._lives.permit(task_id)
        if not await self._rights(context):
            self._lives.end(task_id, Reason.NOT_ALLOWED)
            raise asyncio.CancelledError

    async def _checked(self, context: ToolContext, order: SubOrder, mode: TaskMode) -> SubType:
        lineage = context.lineage
        if not lineage.session_id:
            raise Refused(NoSubAgent.NO_CONVERSATION)
        if lineage.depth >= SUBAGENT_DEPTH_MAX:
            raise Refused(NoSubAgent.TOO_DEEP, number=SUBAGENT_DEPTH_MAX)
        types = await self._catalog.current()
        if order.sub_type not in types:
            raise Refused(NoSubAgent.TYPE_UNKNOWN, name=repr(order.sub_type[:40]), types=", ".join(types))
        if types[order.sub_type].is_off:
            raise Refused(NoSubAgent.TYPE_OFF, name=repr(order.sub_type))
        if mode is TaskMode.BACKGROUND:
            _check_wake(context)
        if not order.prompt.strip():
            raise Refused(NoSubAgent.NO_TASK)
        if len(order.prompt) > SUBAGENT_PROMPT_CHARS_MAX:
            raise Refused(NoSubAgent.TASK_TOO_LONG, number=SUBAGENT_PROMPT_CHARS_MAX)
        if len(self._lives.of_session(lineage.session_id)) >= SUBAGENTS_LIVE_MAX + SUBAGENTS_WAITING_MAX:
            raise Refused(NoSubAgent.CROWDED)
        return types[order.sub_type]

    def _moment(self) -> int:
        """No two orders are of the same moment, so that those of one round keep their order in every list."""
        self._asked_last_ms = max(self._clock.now_ms(), self._asked_last_ms + 1)
        return self._asked_last_ms

    def _task(self, context: ToolContext, order: SubOrder, mode: TaskMode, asked_at_ms: int) -> SubTask:
        return SubTask(
            id=self._clock.code(SUBAGENT_ID_CHARS),
            session_id=self._clock.new_id(),
            parent_session_id=context.lineage.session_id,
            key=context.key,
            turn_id=context.turn_id,
            sub_type=order.sub_type,
            label=self._label(context, order),
            prompt=order.prompt,
            mode=mode,
            depth=context.lineage.depth + 1,
            created_at_ms=asked_at_ms,
            parent_task_id=context.lineage.task_id,
            worker_id=self._lives.worker_id,
        )

    def _label(self, context: ToolContext, order: SubOrder) -> CleanText:
        """On one line; scrubbed once more, for a line that was joined may hold what two did not."""
        line = " ".join((order.label or order.prompt).split())
        clean = self._scrubber.for_chat(str(context.key)).scrub(line)
        return clipped(clean, SUBAGENT_LABEL_CHARS_MAX)


def _check_wake(context: ToolContext) -> None:
    """Whether there is somebody to be told later. A model that starts another one whenever one is done would go on
    without anybody who wants it: at some time a person has to say something."""
    if context.lineage.task_id or context.wake is None:
        raise Refused(NoSubAgent.NOBODY_TO_WAKE)
    if context.wake.wakes >= WAKES_IN_A_ROW_MAX:
        raise Refused(NoSubAgent.WOKEN_OFTEN, number=context.wake.wakes)
