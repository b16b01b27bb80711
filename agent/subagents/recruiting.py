"""Whether an order can be carried out, and who the child will be that does."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from agent.limits import (
    SUBAGENT_DEPTH_MAX,
    SUBAGENT_ID_CHARS,
    SUBAGENT_LABEL_CHARS_MAX,
    SUBAGENT_PROMPT_CHARS_MAX,
    SUBAGENTS_LIVE_MAX,
    SUBAGENTS_WAITING_MAX,
)
from agent.models import Models
from agent.subagents.catalog import Catalog, SubType
from agent.subagents.ceilings import child_context
from agent.subagents.dispatching import SubOrder
from agent.subagents.lives import Charge, Life, Lives
from agent.subagents.scribe import Scribe
from agent.tools.tool import ToolContext
from gateway.contracts.errors import ToolError
from gateway.contracts.messages import CleanText, clipped, joined
from gateway.contracts.ports import Clock, Scrubber, Store
from gateway.contracts.subagents import SubTask, TaskMode


class Recruiting:
    """Finds the child for an order. `model` is what all sub-agents think with; "": each with what its user's
    conversation has. `limit_s` is the most that one may live."""

    def __init__(
        self,
        catalog: Catalog,
        lives: Lives,
        models: Models,
        store: Store,
        scrubber: Scrubber,
        clock: Clock,
        *,
        model: str,
        limit_s: float,
    ) -> None:
        self._catalog = catalog
        self._lives = lives
        self._models = models
        self._store = store
        self._scrubber = scrubber
        self._clock = clock
        self._model = model
        self._limit_s = limit_s

    async def life(self, context: ToolContext, order: SubOrder, mode: TaskMode) -> Life:
        """The child that carries out `order`. Raises `ToolError` for one that nobody can, and `StoreUnavailable`."""
        sub_type = await self._checked(context, order, mode)
        task = self._task(context, order, mode)
        own = child_context(context, sub_type, session_id=task.session_id, task_id=task.id)
        if mode is TaskMode.BACKGROUND:
            own = replace(own, permit=partial(self._lives.permit, task.id))
        if order.form:
            sub_type = replace(sub_type, prompt=joined(sub_type.prompt, order.form, by="\n\n"))
        charge = Charge(
            sub_type,
            await self._model_for(context),
            order.purpose,
            own,
            limit_s=min(order.limit_s or self._limit_s, self._limit_s),
        )
        wake = context.wake if mode is TaskMode.BACKGROUND else None
        return Life(task, charge, Scribe(self._store.tasks, task.id), wake)

    async def _checked(self, context: ToolContext, order: SubOrder, mode: TaskMode) -> SubType:
        lineage = context.lineage
        if not lineage.session_id:
            raise ToolError("there is no conversation for a sub-agent to work for")
        if lineage.depth >= SUBAGENT_DEPTH_MAX:
            raise ToolError(f"sub-agents are at most {SUBAGENT_DEPTH_MAX} deep: do this part yourself")
        types = await self._catalog.current()
        if order.sub_type not in types:
            raise ToolError(f"there is no sub-agent {order.sub_type[:40]!r}; there are: {', '.join(types)}")
        if mode is TaskMode.BACKGROUND and (lineage.task_id or context.wake is None):
            raise ToolError("nothing can wake this conversation later: have a sub-agent that is waited for")
        if not order.prompt.strip():
            raise ToolError("a sub-agent needs a task")
        if len(order.prompt) > SUBAGENT_PROMPT_CHARS_MAX:
            raise ToolError(f"a sub-agent's task has at most {SUBAGENT_PROMPT_CHARS_MAX} characters")
        if len(self._lives.of_session(lineage.session_id)) >= SUBAGENTS_LIVE_MAX + SUBAGENTS_WAITING_MAX:
            raise ToolError("too many sub-agents wait to be started: wait for some of them first")
        return types[order.sub_type]

    def _task(self, context: ToolContext, order: SubOrder, mode: TaskMode) -> SubTask:
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
            created_at_ms=self._clock.now_ms(),
            parent_task_id=context.lineage.task_id,
            worker_id=self._lives.worker_id,
        )

    def _label(self, context: ToolContext, order: SubOrder) -> CleanText:
        """On one line; scrubbed once more, for a line that was joined may hold what two did not."""
        line = " ".join((order.label or order.prompt).split())
        clean = self._scrubber.for_chat(str(context.key)).scrub(line)
        return clipped(clean, SUBAGENT_LABEL_CHARS_MAX)

    async def _model_for(self, context: ToolContext) -> str:
        """A sub-agent's own sub-agents think with what it thinks with."""
        if self._model:
            return self._model
        above = self._lives.of(context.lineage.task_id)
        if above is not None:
            return above.charge.model
        session = await self._store.session(context.lineage.session_id)
        return self._models.of_session(session) if session is not None else self._models.default
