"""The sub-agents that live in this process: how each may be ended, and what is said of them while they live."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import structlog

from agent.limits import SUBAGENT_ALIVE_EVERY_S, SUBAGENT_ALIVE_S, SUBAGENT_LOOK_EVERY_S
from agent.subagents.cage.orders import ChildEnding
from agent.subagents.catalog import SubType
from agent.subagents.life.scribe import Scribe
from agent.tools.tool import ToolContext
from gateway.contracts.entries import UsagePurpose
from gateway.contracts.errors import StoreError
from gateway.contracts.ports import Clock
from gateway.contracts.reasons import Reason
from gateway.contracts.subagents import SubTask, WakeAddress
from gateway.store.subagents import TaskStore

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Charge:
    """Who a child is and at whose cost: its type, its model, what its calls are charged as, the context in which its
    tools run, and how long it may live."""

    sub_type: SubType
    model: str
    purpose: UsagePurpose
    context: ToolContext
    limit_s: float


class Life:
    """One sub-agent from its order to its end."""

    def __init__(
        self, task: SubTask, charge: Charge, scribe: Scribe, *, wake: WakeAddress | None = None, fence: int = 0
    ) -> None:
        """`wake` says who is woken when it is over; None: nobody. `fence` is that of the run that asked for it; 0: a
        sub-agent did."""
        self.task = task
        self.charge = charge
        self.wake = wake
        self.fence = fence
        self.scribe = scribe
        self.opened: asyncio.Future[SubTask] = asyncio.get_running_loop().create_future()
        """Its row, once it is in the database."""
        self.gone = asyncio.Event()
        """Set when nothing of it runs any more. What is left is to write it down."""
        self.written = asyncio.Event()
        """Set when that is done."""
        self.ended: SubTask | None = None
        """How it ended, as it is written down; None before, and where nothing of it is kept any more."""
        self.reason: Reason | None = None
        """Why it was told to end; None: it was not."""
        self._work: asyncio.Task[ChildEnding] | None = None

    @property
    def has_row(self) -> bool:
        """True once its row was written; it may have been erased since."""
        return self.opened.done() and self.opened.exception() is None

    @property
    def is_ended(self) -> bool:
        """True when it was told to end."""
        return self.reason is not None

    def begin(self, work: asyncio.Task[ChildEnding]) -> None:
        """`work` is what ends when the life is ended."""
        self._work = work
        if self.is_ended:
            work.cancel()

    def end(self, reason: Reason) -> None:
        """End it, now. The first reason counts; too late once it is gone."""
        if not self.is_ended and not self.gone.is_set():
            self.reason = reason
            if self._work is not None:
                self._work.cancel()
            else:
                self.gone.set()


class Lives:
    """All of them, by the ids of their tasks."""

    def __init__(self, worker_id: str, book: TaskStore, clock: Clock) -> None:
        self.worker_id = worker_id
        self._book = book
        self._clock = clock
        self._lives: dict[str, Life] = {}
        self._any = asyncio.Event()
        self._alive_until_s = -math.inf

    def add(self, life: Life) -> None:
        """It lives from now on."""
        self._lives[life.task.id] = life
        self._any.set()

    def remove(self, life: Life) -> None:
        """It is over, and written down."""
        self._lives.pop(life.task.id, None)
        if not self._lives:
            self._any.clear()

    async def some(self) -> None:
        """Return when there are some."""
        await self._any.wait()

    def of(self, task_id: str) -> Life | None:
        """The life of this task, if it lives here."""
        return self._lives.get(task_id)

    def end(self, task_id: str, reason: Reason) -> None:
        """End the life of this task, if it lives here."""
        if (life := self._lives.get(task_id)) is not None:
            life.end(reason)

    def below(self, task_id: str) -> Sequence[Life]:
        """Those that work for this task directly."""
        return [life for life in self._lives.values() if life.task.parent_task_id == task_id]

    def of_session(self, session_id: str) -> Sequence[Life]:
        """Those that work for this session directly."""
        return [life for life in self._lives.values() if life.task.parent_session_id == session_id]

    def __iter__(self) -> Iterator[Life]:
        return iter(list(self._lives.values()))

    # --- what is said of them

    @property
    def alive_until_ms(self) -> int:
        """Up to when a task that starts now counts as alive."""
        return self._clock.now_ms() + int(SUBAGENT_ALIVE_S * 1000)

    async def keep(self) -> None:
        """Until cancelled: say that they live, and end those that nobody wants any more, wherever that was said."""
        while True:
            await self.some()
            try:
                await self._look()
            except StoreError as error:
                _log.warning("subagents.not_kept", reason=str(error))
            await asyncio.sleep(SUBAGENT_LOOK_EVERY_S)

    async def permit(self, task_id: str) -> None:
        """`agent.model.client.Permit` of one that outlives its turn: it may go on while it was not ended and nobody can
        have found it lost. In a process that was paused for longer it waits for the next look, which knows."""
        while (life := self._lives.get(task_id)) and not life.is_ended:
            if self._clock.monotonic_s() < self._alive_until_s:
                return
            await asyncio.sleep(SUBAGENT_LOOK_EVERY_S)
        raise asyncio.CancelledError

    async def _look(self) -> None:
        """That they live is said first, and counts once those are ended that were found lost before it was heard."""
        now_s = self._clock.monotonic_s()
        is_due = now_s >= self._alive_until_s - SUBAGENT_ALIVE_S + SUBAGENT_ALIVE_EVERY_S
        if is_due:
            await self._book.keep_alive(self.worker_id, alive_until_ms=self.alive_until_ms)
        await self._end_unwanted()
        if is_due:
            self._alive_until_s = now_s + SUBAGENT_ALIVE_S

    async def _end_unwanted(self) -> None:
        known = [life for life in self if life.has_row]
        unwanted = await self._book.unwanted([life.task.id for life in known]) if known else ()
        for life in known:
            if life.task.id in unwanted:
                life.end(Reason.CANCELLED)
