"""Wakes sessions: the end of sub-agents becomes a message on the lane of the session that started them.

    due (SQL) ──▶ enqueue (bus, by the wake's id) ──▶ sent (SQL)

Every agent process runs this. A crash after the first arrow leaves the wake due; one after the second repeats an id
that the bus knows for a day and SQL, once it is answered, for ever. So each wake is one message, however many
processes send it. It never interrupts: it waits its turn on the lane, as everything that its person says does."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

import structlog

from agent import limits
from agent.features.access import People
from agent.prompts.library import PROMPTS
from agent.subagents.texts import results_text
from gateway.bus.inbound import Inbound
from gateway.contracts.errors import BusError, StoreError
from gateway.contracts.ids import SessionKey, is_wake
from gateway.contracts.messages import InboundMessage, joined
from gateway.contracts.ports import Clock, Verdict
from gateway.contracts.subagents import SubTask, TaskState, Wake
from gateway.limits import SUBTASKS_KEPT
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.store.subagents import TaskStore
from gateway.tasks import Wakeup

_log = structlog.get_logger(__name__)


_TAKEN: Final = frozenset({Verdict.ACCEPTED, Verdict.DUPLICATE})


async def stale_among(book: TaskStore, messages: Sequence[InboundMessage]) -> frozenset[str]:
    """Return the ids of the wakes that have become pointless. While a wake waits in its lane, the running turn may ask
    for the same results, or its person may stop everything or begin another conversation."""
    wakes = [message.id for message in messages if is_wake(message.id)]
    return await book.overtaken(wakes) if wakes else frozenset()


class LostJudge:
    """Judges whether a process may find another one dead.

    Others are judged by when they last wrote that they live. So a judge has to know that they could have written: while
    this process was paused, or had no database, they may have been in the same way; where the clock jumps, what they
    wrote says nothing. Then they have as long as ever to write again. A process that has just begun believes what it
    finds: its predecessor may have died."""

    def __init__(self) -> None:
        self._looked_s = math.nan
        self._looked_ms = 0
        self._unbroken_since_s = -math.inf

    def may_judge(self, *, now_s: float, now_ms: int) -> bool:
        """Tell whether losses may be judged now; to be called at each successful look at the database. `now_s` only
        ever grows, `now_ms` is the wall clock."""
        passed_s = now_s - self._looked_s
        jumped_s = abs((now_ms - self._looked_ms) / 1000 - passed_s)
        if passed_s > limits.LOST_UNSEEN_S or jumped_s > limits.LOST_JUMP_S:
            self._unbroken_since_s = now_s
        self._looked_s, self._looked_ms = now_s, now_ms
        return now_s - self._unbroken_since_s >= limits.SUBAGENT_ALIVE_S


@dataclass(eq=False, repr=False)
class SessionWaker:
    """The share of one process in waking sessions, and in finding the sub-agents that died with their process. `wakeup`
    is rung where a sub-agent of this process ends, or a turn that had some; `ended` is told of those that are found
    lost, and at the start of all that are over, because the process that saw their end may have died before it reported
    it."""

    store: Store
    intake: Inbound
    people: People
    wakeup: Wakeup
    scrubber: Scrubber
    clock: Clock
    _: KW_ONLY
    ended: Callable[[SubTask], None]
    _lost_looked_s: float = field(init=False, default=-limits.LOST_LOOK_S)
    _judge: LostJudge = field(init=False, default_factory=LostJudge)

    async def watch(self) -> None:
        """Run until cancelled."""
        has_told = False
        while True:
            try:
                if not has_told:
                    await self._tell_of_ends()
                    has_told = True
                await self.lose()
                await self.wake_due()
            except (BusError, StoreError) as error:
                _log.warning("wakes.failed", reason=str(error))
            await self.wakeup.wait(limits.WAKE_POLL_S)

    async def _tell_of_ends(self) -> None:
        for task in await self.store.tasks.newest(limit=2 * SUBTASKS_KEPT):
            if task.state.is_over:
                self.ended(task)

    async def lose(self) -> None:
        """End the sub-agents whose process died, of any process. Not at every look: they have some seconds anyway."""
        now_s = self.clock.monotonic_s()
        if now_s - self._lost_looked_s < limits.LOST_LOOK_S:
            return
        self._lost_looked_s = now_s
        await self.store.tasks.revision()  # raises where the database is away
        if not self._judge.may_judge(now_s=self.clock.monotonic_s(), now_ms=self.clock.now_ms()):
            return
        for task in await self.store.tasks.lose(now_ms=self.clock.now_ms()):
            _log.warning("subagent.lost", task_id=task.id, worker=task.worker_id)
            self.ended(task)

    async def wake_due(self) -> None:
        """Send what is due now; what a full lane does not take stays due, and holds up nobody else."""
        told: set[str] = set()
        full: set[SessionKey] = set()
        while wakes := await self.store.tasks.due_wakes(limit=limits.WAKES_AT_ONCE, without=full):
            for wake in wakes:
                fresh = tuple(task for task in wake.tasks if task.id not in told)
                is_full = wake.address.key in full
                if is_full or (await self._is_wanted(wake, fresh) and not await self._is_taken(wake, fresh)):
                    full.add(wake.address.key)
                else:
                    told.update(task.id for task in fresh)
                    await self.store.tasks.wake_sent(wake)

    async def _is_taken(self, wake: Wake, tasks: Sequence[SubTask]) -> bool:
        """Deliver the wake; return True when it is on the bus."""
        admission = await self.intake.enqueue(self._message(wake, tasks), settle_ms=int(limits.WAKE_SETTLE_S * 1000))
        _log.info("session.woken", wake=wake.id, tasks=len(tasks), verdict=admission.verdict.value)
        return admission.verdict in _TAKEN

    async def _is_wanted(self, wake: Wake, tasks: Sequence[SubTask]) -> bool:
        """Tell whether the wake is wanted: not if all tasks were cancelled, because the person who did that knows; not
        if the conversation was left; and not if its person may no longer speak."""
        if all(task.state is TaskState.CANCELLED for task in tasks):
            return False
        current = await self.store.sessions.current(wake.address.key)
        if current is None or current.id != wake.session_id:
            _log.info("session.not_woken", wake=wake.id, reason="left")
            return False
        if await self.people.is_admitted(_author(wake), wake.address.spoken_in):
            return True
        _log.info("session.not_woken", wake=wake.id, reason="not admitted")
        return False

    def _message(self, wake: Wake, tasks: Sequence[SubTask]) -> InboundMessage:
        address = wake.address
        told = results_text(tasks, self.clock.code(limits.FRAME_CHARS), limits.WAKE_CHARS_MAX)
        now_ms = self.clock.now_ms()
        return InboundMessage(
            id=wake.message_id,
            key=address.key,
            address=address.address,
            text=joined(PROMPTS.woken, self.scrubber.for_chat(str(address.key)).scrub(told), by="\n\n"),
            author_id=address.author_id,
            author_name=address.author_name,
            is_private=address.is_private,
            sent_at_ms=now_ms,
            received_at_ms=now_ms,
            place=address.place,
            wakes=address.wakes + 1,
            is_nameable=True,
        )


def _author(wake: Wake) -> SessionKey:
    key = wake.address.key
    return SessionKey(key.channel, key.user or wake.address.author_id)
