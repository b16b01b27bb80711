"""From an order to an ended sub-agent.

    order checked ─▶ row opened ─▶ a slot awaited ─▶ child run ─▶ ended in SQL, once

One that is ordered inline ends with the turn that waits for it; one in the background lives in this process for
as long as it takes. The outcome of a child is a value; only an order that cannot be carried out is an error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from weakref import WeakValueDictionary

import structlog

from agent import limits
from agent.models.selection import Models
from agent.subagents.catalog import Catalog, SubType, child_context
from agent.subagents.runs import Assignment, OrderRefused, RunRegistry, SubagentRun, SubOrder, TranscriptWriter
from agent.subagents.status import StatusLines
from agent.subagents.supervisor import ChildEnding
from agent.tools.tool import CallOrigin, ToolContext
from gateway.contracts.errors import BudgetSpent, NoSubAgent, Reason, StoreError, TrivetError
from gateway.contracts.messages import CleanText, clipped, joined, literal_code, literal_text
from gateway.contracts.ports import Clock, SpanSink
from gateway.contracts.profiles import CHEAP
from gateway.contracts.subagents import SubTask, TaskEnding, TaskMode, TaskState
from gateway.limits import SUBAGENT_KEPT_CHARS_MAX
from gateway.scrub import Scrubber
from gateway.scrub.raw_text import head
from gateway.store import Store
from gateway.store.subagents import TaskStore
from gateway.tasks import BackgroundTasks, RetryPolicy, Slots, outside_deadlines, retry_until_available
from gateway.telemetry.spans import subagent_span

_log = structlog.get_logger(__name__)


@dataclass(eq=False, repr=False)
class SubagentFactory:
    """Makes the run that carries out an order. `limit_s` is the most that one may live; `rights` says whether a
    sub-agent that outlives the turn of this context may go on."""

    catalog: Catalog
    registry: RunRegistry
    models: Models
    store: Store
    scrubber: Scrubber
    clock: Clock
    _: KW_ONLY
    rights: Callable[[ToolContext], Awaitable[bool]]
    limit_s: float
    _asked_last_ms: int = field(init=False, default=0)

    async def new_run(self, context: ToolContext, order: SubOrder, mode: TaskMode) -> SubagentRun:
        """Return the run that carries out `order`. Raises `OrderRefused`, `StoreUnavailable`."""
        # Each order has another time, so that those of one round keep their sequence
        # in every list.
        self._asked_last_ms = max(self.clock.now_ms(), self._asked_last_ms + 1)
        asked_at_ms = self._asked_last_ms
        sub_type = await self._checked(context, order, mode)
        task = SubTask(
            id=self.clock.code(limits.SUBAGENT_ID_CHARS),
            session_id=self.clock.new_id(),
            parent_session_id=context.call_origin.session_id,
            key=context.key,
            turn_id=context.turn_id,
            sub_type=order.sub_type,
            label=self._label(context, order),
            prompt=order.prompt,
            mode=mode,
            depth=context.call_origin.depth + 1,
            created_at_ms=asked_at_ms,
            parent_task_id=context.call_origin.task_id,
            worker_id=self.registry.worker_id,
        )
        own = child_context(context, sub_type, session_id=task.session_id, task_id=task.id)
        if mode is TaskMode.BACKGROUND:
            own = replace(own, permit=partial(self._permit, task.id, context), fence=0)  # it is no part of any run
        if order.form:
            sub_type = replace(sub_type, prompt=joined(sub_type.prompt, order.form, by="\n\n"))
        named, above = order.model or sub_type.model, await self._model_above(context.call_origin)
        assignment = Assignment(
            sub_type,
            self.models.named(named, above),
            order.purpose,
            own,
            limit_s=min(order.limit_s or self.limit_s, self.limit_s),
            otherwise=above if named == CHEAP else "",  # nobody chose the cheap one by its name
        )
        return SubagentRun(
            task,
            assignment,
            TranscriptWriter(self.store.tasks, task.id),
            wake=context.wake if mode is TaskMode.BACKGROUND else None,
            fence=0 if context.call_origin.task_id else context.fence,
        )

    async def _model_above(self, call_origin: CallOrigin) -> str:
        """Return the model of the conversation, or of the sub-agent, that asks for one."""
        above = self.registry.of(call_origin.task_id)
        if above is not None:
            return above.assignment.model
        session = await self.store.sessions.by_id(call_origin.session_id)
        return self.models.of_session(session) if session is not None else self.models.default

    async def _permit(self, task_id: str, context: ToolContext) -> None:
        """Check `agent.models.requests.Permit` for a sub-agent that outlives the turn of `context`."""
        await self.registry.permit(task_id)
        if not await self.rights(context):
            self.registry.end(task_id, Reason.NOT_ALLOWED)
            raise asyncio.CancelledError

    async def _checked(self, context: ToolContext, order: SubOrder, mode: TaskMode) -> SubType:
        call_origin = context.call_origin
        if not call_origin.session_id:
            raise OrderRefused(NoSubAgent.NO_CONVERSATION)
        if call_origin.depth >= limits.SUBAGENT_DEPTH_MAX:
            raise OrderRefused(NoSubAgent.TOO_DEEP, number=limits.SUBAGENT_DEPTH_MAX)
        types = await self.catalog.current()
        if order.sub_type not in types:
            raise OrderRefused(NoSubAgent.TYPE_UNKNOWN, name=repr(order.sub_type[:40]), types=", ".join(types))
        if types[order.sub_type].is_off:
            raise OrderRefused(NoSubAgent.TYPE_OFF, name=repr(order.sub_type))
        if mode is TaskMode.BACKGROUND:
            # Check that a person can be told later. A model that starts another sub-agent whenever one is done
            # would go on without anybody who wants it: at some time a person has to say something.
            if context.call_origin.task_id or context.wake is None:
                raise OrderRefused(NoSubAgent.NOBODY_TO_WAKE)
            if context.wake.wakes >= limits.WAKES_IN_A_ROW_MAX:
                raise OrderRefused(NoSubAgent.WOKEN_OFTEN, number=context.wake.wakes)
        if not order.prompt.strip():
            raise OrderRefused(NoSubAgent.NO_TASK)
        if len(order.prompt) > limits.SUBAGENT_PROMPT_CHARS_MAX:
            raise OrderRefused(NoSubAgent.TASK_TOO_LONG, number=limits.SUBAGENT_PROMPT_CHARS_MAX)
        if (
            len(self.registry.of_session(call_origin.session_id))
            >= limits.SUBAGENTS_LIVE_MAX + limits.SUBAGENTS_WAITING_MAX
        ):
            raise OrderRefused(NoSubAgent.CROWDED)
        return types[order.sub_type]

    def _label(self, context: ToolContext, order: SubOrder) -> CleanText:
        """Put the label on one line and scrub it once more: a joined line may hold a secret that its two
        parts did not."""
        line = " ".join((order.label or order.prompt).split())
        clean = self.scrubber.for_chat(str(context.key)).scrub(line)
        return clipped(clean, limits.SUBAGENT_LABEL_CHARS_MAX)


@dataclass(eq=False, repr=False)
class SubAgents:
    """Starts the sub-agents of one agent process. `carry_out` runs a child in a process of its own to its
    end; cancelling kills it, and it raises what ends the child from here. `slots` holds those of each depth: parents
    that wait for their children take none of the slots that these need. `ring` is called when a child has ended that
    nobody waited for."""

    factory: SubagentFactory
    carry_out: Callable[[SubagentRun], Awaitable[ChildEnding]]
    slots: Mapping[int, Slots]
    book: TaskStore
    scrubber: Scrubber
    clock: Clock
    _: KW_ONLY
    watch: StatusLines
    spans: SpanSink
    ring: Callable[[], None]
    _seen: BackgroundTasks = field(init=False, default_factory=BackgroundTasks)
    _queues: WeakValueDictionary[str, asyncio.Semaphore] = field(init=False, default_factory=WeakValueDictionary)

    def __post_init__(self) -> None:
        self.registry = self.factory.registry

    async def delegate(self, context: ToolContext, order: SubOrder) -> SubTask:
        """Carry it out and return it as it ended. Cancelling kills it, and returns when it is dead."""
        run = await self._order(context, order, TaskMode.INLINE)
        seen = self._see(run)
        try:
            await asyncio.shield(run.opened)
            await asyncio.shield(seen)
        except asyncio.CancelledError:
            run.end(Reason.TURN_ENDED)
            await run.gone.wait()
            raise
        return _known(run.ended)

    async def spawn(self, context: ToolContext, order: SubOrder) -> SubTask:
        """Start it in the background: it outlives the turn, and ends with this process."""
        run = await self._order(context, order, TaskMode.BACKGROUND)
        outside_deadlines().run(self._see, run)
        return await asyncio.shield(run.opened)

    async def cancel(self, task: SubTask) -> SubTask:
        """End it, wherever it lives, with all below it; it wakes nobody. Returns it as it is then."""
        await self.book.collect([task.id])
        await self.book.want_cancelled(task.key, task_ids=[task.id])
        run = self.registry.of(task.id)
        if run is not None:
            run.end(Reason.CANCELLED)
            await run.written.wait()
        return _known(await self.book.task(task.id))

    async def finish(self, timeout_s: float) -> None:
        """Let those in the background finish, for so long at most: their process is about to stop."""
        lasting = [run for run in self.registry if run.task.mode is TaskMode.BACKGROUND]
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for run in lasting:
                    await run.written.wait()

    async def aclose(self) -> None:
        """End all that still live here. What cannot be written in time is found lost by other processes."""
        for run in self.registry:
            run.end(Reason.WORKER_LOST if run.task.mode is TaskMode.BACKGROUND else Reason.TURN_ENDED)
        await self._seen.finish(timeout_s=limits.LAST_WORDS_S)

    # --- before it runs

    async def _order(self, context: ToolContext, order: SubOrder, mode: TaskMode) -> SubagentRun:
        run = await self.factory.new_run(context, order, mode)
        if not context.call_origin.task_id:
            # What an earlier run of this turn had started ends: it was lost with the process of that run, which
            # died or lost the lane.
            for task in await self.book.tasks_of_turn(context.turn_id):
                if not task.state.is_over and self.registry.of(task.id) is None:
                    await self.book.finish(task.id, _failed(self.clock.now_ms(), Reason.WORKER_LOST))
                    self._tell_of_end(_known(await self.book.task(task.id)))
        return run

    def _see(self, run: SubagentRun) -> asyncio.Task[None]:
        self.registry.add(run)
        return self._seen.start(self._see_through(run))

    # --- while it runs

    async def _see_through(self, run: SubagentRun) -> None:
        """Carry out a child and record its end, however it ends: nothing that goes wrong in it reaches others."""
        with structlog.contextvars.bound_contextvars(subagent=run.task.id, sub_type=run.task.sub_type):
            try:
                if await self._open(run):
                    await self._live(run)
            finally:
                run.gone.set()
                run.written.set()
                self.registry.remove(run)

    async def _open(self, run: SubagentRun) -> bool:
        try:
            opened = await retry_until_available(
                lambda: self.book.open(run.task, wake=run.wake, fence=run.fence),
                RetryPolicy(for_s=limits.BEGIN_PATIENCE_S),
            )
        except Exception as error:  # noqa: BLE001 - the boundary of a child: its requester is told
            run.opened.set_exception(error)
            run.opened.exception()  # nobody may wait any more
            await self._unopen(run)
            return False
        run.opened.set_result(opened)
        self._show(run, opened)
        return True

    async def _unopen(self, run: SubagentRun) -> None:
        """End a task of which it is unknown whether its row was written; if it was, nothing else would end it while
        this process lives."""
        ending = _failed(self.clock.now_ms(), Reason.STORE_AWAY)
        try:
            await retry_until_available(lambda: self.book.finish(run.task.id, ending))
        except TrivetError as error:
            _log.error("subagent.not_unopened", reason=str(error))

    async def _live(self, run: SubagentRun) -> None:
        working = asyncio.create_task(self._carry_out(run))
        run.begin(working)
        await asyncio.wait({working})
        run.gone.set()
        for below in self.registry.below(run.task.id):
            below.end(Reason.PARENT_ENDED)
        ending = self._ending(run, working)
        await run.transcript.finish()
        is_ours = await retry_until_available(lambda: self.book.finish(run.task.id, ending))
        _log.info("subagent.ended", state=ending.state.value, reason=ending.reason, is_first=is_ours)
        if run.task.mode is TaskMode.BACKGROUND:
            self.ring()
        run.ended = await retry_until_available(lambda: self.book.task(run.task.id))
        if run.ended is not None:
            self._tell_of_end(run.ended)

    async def _carry_out(self, run: SubagentRun) -> ChildEnding:
        """Wait first for the child's turn among those of its session here, then for a slot of this process, then until
        other processes leave room in the session; then run it."""
        async with self._queues.setdefault(run.task.parent_session_id, asyncio.Semaphore(limits.SUBAGENTS_LIVE_MAX)):
            while True:
                async with self.slots[run.task.depth].held(run.task.key.owner):
                    if await self._starts(run):
                        return await self.carry_out(run)
                await asyncio.sleep(limits.SUBAGENT_START_EVERY_S)

    async def _starts(self, run: SubagentRun) -> bool:
        task = run.task
        has_started = await retry_until_available(
            lambda: self.book.start(
                task.id,
                worker_id=self.registry.worker_id,
                alive_until_ms=self.registry.alive_until_ms,
                now_ms=self.clock.now_ms(),
                live_max=limits.SUBAGENTS_LIVE_MAX,
            )
        )
        found = await retry_until_available(lambda: self.book.task(task.id))
        if found is None or found.state.is_over:  # ended before it began: its own work ends at the next await
            run.end(Reason.CANCELLED)
            return False
        if not has_started and found.state is TaskState.QUEUED:
            return False
        self._show(run, found)  # also if only an earlier try was heard
        return True

    def _show(self, run: SubagentRun, task: SubTask) -> None:
        """Show it to people; where others read along, under the name of who asked."""
        context, wake = run.assignment.context, run.assignment.context.wake
        person = "" if wake is None or wake.is_private else wake.author_name
        self.watch.started(task, context.address, context.language, person=person)

    # --- its end

    def _tell_of_end(self, task: SubTask) -> None:
        """Show it, and record a span with the cost and the outcome."""
        self.spans.record(subagent_span(task))
        self.watch.ended(task)

    def _ending(self, run: SubagentRun, working: asyncio.Task[ChildEnding]) -> TaskEnding:
        now_ms = self.clock.now_ms()
        if working.cancelled():
            reason = run.reason or Reason.TURN_ENDED  # its permit was withdrawn, and nobody has said so yet
            state = TaskState.FAILED if reason is Reason.WORKER_LOST else TaskState.CANCELLED
            return TaskEnding(state, now_ms, literal_code(reason))
        match working.exception():
            case None:
                ended = working.result()
                why = literal_text("") if ended.reason is None else literal_code(ended.reason)
                return TaskEnding(ended.state, now_ms, why, self._kept(run, ended.response), ended.confinement)
            case BudgetSpent():
                return _failed(now_ms, Reason.BUDGET_SPENT)
            case StoreError():
                return _failed(now_ms, Reason.STORE_AWAY)
            case error:
                _log.error("subagent.crashed", exc_info=error)
                return _failed(now_ms, Reason.CRASHED)

    def _kept(self, run: SubagentRun, response: str) -> CleanText:
        """Return what a child said last, bounded and clean."""
        scrubber = self.scrubber.for_chat(str(run.task.key))
        return clipped(scrubber.scrub(head(response, SUBAGENT_KEPT_CHARS_MAX)), SUBAGENT_KEPT_CHARS_MAX)


def _failed(now_ms: int, reason: Reason) -> TaskEnding:
    return TaskEnding(TaskState.FAILED, now_ms, literal_code(reason))


def _known(task: SubTask | None) -> SubTask:
    if task is None:
        raise OrderRefused(NoSubAgent.FORGOTTEN)
    return task
