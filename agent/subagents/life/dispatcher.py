"""From an order to an ended sub-agent.

    order checked ─▶ row opened ─▶ a slot awaited ─▶ child run ─▶ ended in SQL, once

One that is ordered inline ends with the turn that waits for it; one in the background lives in this process for as
long as it takes. What becomes of a child is a value; only an order that cannot be carried out is an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol
from weakref import WeakValueDictionary

import structlog

from agent.limits import (
    BEGIN_PATIENCE_S,
    LAST_WORDS_S,
    SUBAGENT_START_EVERY_S,
    SUBAGENTS_LIVE_MAX,
)
from agent.running.deadlines import outside_deadlines
from agent.running.slots import Slots
from agent.subagents.cage.orders import ChildEnding
from agent.subagents.life.lives import Life, Lives
from agent.subagents.life.orders import Refused, SubOrder
from agent.subagents.life.recruiting import Recruiting
from agent.tools.tool import ToolContext
from gateway.contracts.errors import BudgetSpent, StoreError, TrivetError
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import CleanText, clipped, own_code, own_words
from gateway.contracts.ports import Clock, Scrubber, SubTaskBook
from gateway.contracts.reasons import NoSubAgent, Reason
from gateway.contracts.subagents import SubTask, TaskEnding, TaskMode, TaskState
from gateway.limits import SUBAGENT_KEPT_CHARS_MAX
from gateway.retry import RetryPolicy, retry_until_available
from gateway.scrub.cutting import head

_log = structlog.get_logger(__name__)


class Processes(Protocol):
    """Carries out orders in processes of their own."""

    async def carry_out(self, life: Life) -> ChildEnding:
        """From the start of the process to its end; cancelling kills it. Raises what ends it from here."""
        ...


class Watch(Protocol):
    """Whoever shows people what goes on."""

    def started(self, task: SubTask, address: ReplyAddress | None, language: str, *, person: str = "") -> None:
        """It was asked for, or runs. `address`: where those are who asked for it; `language`: what they speak;
        `person`: who of those there asked, "" where nobody else is."""
        ...

    def ended(self, task: SubTask) -> None:
        """It is over, as `task` says."""
        ...


class SubAgents:
    """`agent.subagents.life.orders.Dispatcher` of one agent process."""

    def __init__(
        self,
        lives: Lives,
        recruiting: Recruiting,
        processes: Processes,
        slots: Mapping[int, Slots],
        book: SubTaskBook,
        scrubber: Scrubber,
        clock: Clock,
        *,
        watch: Watch,
        ring: Callable[[], None],
    ) -> None:
        """`slots` are those of each depth: parents that wait for their children hold none that these need. `ring` is
        called when one has ended that nobody waited for."""
        self._lives = lives
        self._recruiting = recruiting
        self._processes = processes
        self._slots = slots
        self._book = book
        self._scrubber = scrubber
        self._clock = clock
        self._watch = watch
        self._ring = ring
        self._seen: set[asyncio.Task[None]] = set()
        self._queues: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def run(self, context: ToolContext, order: SubOrder) -> SubTask:
        """Carry it out and return it as it ended. Cancelling kills it, and returns when it is dead."""
        life = await self._order(context, order, TaskMode.INLINE)
        seen = self._see(life)
        try:
            await asyncio.shield(life.opened)
            await asyncio.shield(seen)
        except asyncio.CancelledError:
            life.end(Reason.TURN_ENDED)
            await life.gone.wait()
            raise
        return _known(life.ended)

    async def spawn(self, context: ToolContext, order: SubOrder) -> SubTask:
        """The same in the background: it outlives the turn, and ends with this process."""
        life = await self._order(context, order, TaskMode.BACKGROUND)
        outside_deadlines().run(self._see, life)
        return await asyncio.shield(life.opened)

    async def cancel(self, task: SubTask) -> SubTask:
        """End it, wherever it lives, with all below it; it wakes nobody. Returns it as it stands then."""
        await self._book.collect([task.id])
        await self._book.want_cancelled(task.key, task_ids=[task.id])
        life = self._lives.of(task.id)
        if life is not None:
            life.end(Reason.CANCELLED)
            await life.written.wait()
        return _known(await self._book.task(task.id))

    async def finish(self, timeout_s: float) -> None:
        """Let those in the background finish, for so long at most: their process is about to stop."""
        lasting = [life for life in self._lives if life.task.mode is TaskMode.BACKGROUND]
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for life in lasting:
                    await life.written.wait()

    async def aclose(self) -> None:
        """End all that still live here. What cannot be written in time is found lost by other processes."""
        for life in self._lives:
            life.end(Reason.WORKER_LOST if life.task.mode is TaskMode.BACKGROUND else Reason.TURN_ENDED)
        if self._seen:
            await asyncio.wait(set(self._seen), timeout=LAST_WORDS_S)
        for seen in self._seen:
            seen.cancel()

    # --- before it lives

    async def _order(self, context: ToolContext, order: SubOrder, mode: TaskMode) -> Life:
        life = await self._recruiting.life(context, order, mode)
        if not context.lineage.task_id:
            await self._end_those_of_earlier_runs(context)
        return life

    async def _end_those_of_earlier_runs(self, context: ToolContext) -> None:
        """A turn that is taken again: what an earlier run had at work was lost with its process, which died or lost the
        lane."""
        for task in await self._book.tasks_of_turn(context.turn_id):
            if not task.state.is_over and self._lives.of(task.id) is None:
                await self._book.finish(task.id, _failed(self._clock.now_ms(), Reason.WORKER_LOST))
                self._watch.ended(_known(await self._book.task(task.id)))

    def _see(self, life: Life) -> asyncio.Task[None]:
        self._lives.add(life)
        seen = asyncio.create_task(self._see_through(life))
        self._seen.add(seen)
        seen.add_done_callback(self._seen.discard)
        return seen

    # --- its life

    async def _see_through(self, life: Life) -> None:
        """The boundary of a child: however it ends, it is recorded and nobody else suffers."""
        with structlog.contextvars.bound_contextvars(subagent=life.task.id, sub_type=life.task.sub_type):
            try:
                if await self._open(life):
                    await self._live(life)
            finally:
                life.gone.set()
                life.written.set()
                self._lives.remove(life)

    async def _open(self, life: Life) -> bool:
        try:
            opened = await retry_until_available(
                lambda: self._book.open(life.task, wake=life.wake, fence=life.fence),
                RetryPolicy(for_s=BEGIN_PATIENCE_S),
            )
        except Exception as error:  # noqa: BLE001 - the boundary of a child: whoever asked for it is told
            life.opened.set_exception(error)
            life.opened.exception()  # nobody may wait any more
            await self._unopen(life)
            return False
        life.opened.set_result(opened)
        context = life.charge.context
        self._watch.started(opened, context.address, context.language, person=_person(context))
        return True

    async def _unopen(self, life: Life) -> None:
        """Nobody knows whether its row is there; if it is, nothing else would end it while this process lives."""
        ending = _failed(self._clock.now_ms(), Reason.STORE_AWAY)
        try:
            await retry_until_available(lambda: self._book.finish(life.task.id, ending))
        except TrivetError as error:
            _log.error("subagent.not_unopened", reason=str(error))

    async def _live(self, life: Life) -> None:
        working = asyncio.create_task(self._carry_out(life))
        life.begin(working)
        await asyncio.wait({working})
        life.gone.set()
        for below in self._lives.below(life.task.id):
            below.end(Reason.PARENT_ENDED)
        ending = self._ending(life, working)
        await life.scribe.finish()
        is_ours = await retry_until_available(lambda: self._book.finish(life.task.id, ending))
        _log.info("subagent.ended", state=ending.state.value, reason=ending.reason, is_first=is_ours)
        if life.task.mode is TaskMode.BACKGROUND:
            self._ring()
        life.ended = await retry_until_available(lambda: self._book.task(life.task.id))
        if life.ended is not None:
            self._watch.ended(life.ended)

    async def _carry_out(self, life: Life) -> ChildEnding:
        """In turn, of all that its session has here; then with a slot of this process; then, if other processes leave
        room in the session, for real."""
        async with self._queue(life.task.parent_session_id):
            while True:
                async with self._slots[life.task.depth].held(life.task.key.owner):
                    if await self._starts(life):
                        return await self._processes.carry_out(life)
                await asyncio.sleep(SUBAGENT_START_EVERY_S)

    async def _starts(self, life: Life) -> bool:
        task = life.task
        has_started = await retry_until_available(
            lambda: self._book.start(
                task.id,
                worker_id=self._lives.worker_id,
                alive_until_ms=self._lives.alive_until_ms,
                now_ms=self._clock.now_ms(),
                live_max=SUBAGENTS_LIVE_MAX,
            )
        )
        found = await retry_until_available(lambda: self._book.task(task.id))
        if found is None or found.state.is_over:  # ended before it began: its own work ends at the next await
            life.end(Reason.CANCELLED)
            return False
        if not has_started and found.state is TaskState.QUEUED:
            return False
        context = life.charge.context
        # also if only an earlier try was heard
        self._watch.started(found, context.address, context.language, person=_person(context))
        return True

    def _queue(self, session_id: str) -> asyncio.Semaphore:
        return self._queues.setdefault(session_id, asyncio.Semaphore(SUBAGENTS_LIVE_MAX))

    # --- its end

    def _ending(self, life: Life, working: asyncio.Task[ChildEnding]) -> TaskEnding:
        now_ms = self._clock.now_ms()
        if working.cancelled():
            reason = life.reason or Reason.TURN_ENDED  # its permit was withdrawn, and nobody has said so yet
            state = TaskState.FAILED if reason is Reason.WORKER_LOST else TaskState.CANCELLED
            return TaskEnding(state, now_ms, own_code(reason))
        match working.exception():
            case None:
                ended = working.result()
                why = own_words("") if ended.reason is None else own_code(ended.reason)
                return TaskEnding(ended.state, now_ms, why, self._kept(life, ended.response), ended.confinement)
            case BudgetSpent():
                return _failed(now_ms, Reason.BUDGET_SPENT)
            case StoreError():
                return _failed(now_ms, Reason.STORE_AWAY)
            case error:
                _log.error("subagent.crashed", exc_info=error)
                return _failed(now_ms, Reason.CRASHED)

    def _kept(self, life: Life, response: str) -> CleanText:
        """What a child said last, bounded and clean."""
        scrubber = self._scrubber.for_chat(str(life.task.key))
        return clipped(scrubber.scrub(head(response, SUBAGENT_KEPT_CHARS_MAX)), SUBAGENT_KEPT_CHARS_MAX)


def _failed(now_ms: int, reason: Reason) -> TaskEnding:
    return TaskEnding(TaskState.FAILED, now_ms, own_code(reason))


def _person(context: ToolContext) -> str:
    """Who asked, to tell him from others in the same place."""
    wake = context.wake
    return "" if wake is None or wake.is_private else wake.author_name


def _known(task: SubTask | None) -> SubTask:
    if task is None:
        raise Refused(NoSubAgent.FORGOTTEN)
    return task
