"""Claims lanes and has them answered: many at once, each in order, each under the lease of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

import structlog

from agent.features.access import words_of_author
from agent.limits import ACTIVITY_EVERY_S, ACTIVITY_FOR_S, CUT_GRACE_S, LAST_WORDS_S
from agent.runtime.run import LaneRunner, TurnRun, show_ended
from agent.texts import DEAD_NOTE, dead_sentence, removed_note
from gateway.bus.bus import RedisBus
from gateway.bus.deliveries import Deliveries
from gateway.bus.heartbeat import Heartbeat
from gateway.bus.lanes import Lanes
from gateway.config.features import WebhookEvent
from gateway.contracts.errors import BusError
from gateway.contracts.ids import turn_id_of
from gateway.contracts.messages import Activity, Reply, ReplyKind
from gateway.contracts.ports import Cancel, Claim, Clock, DeadMessage
from gateway.limits import CLAIM_LANES_MAX, LEASE_TTL_S, SHUTDOWN_GRACE_S, TURN_ATTEMPTS_MAX, TURN_MESSAGES_MAX
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.tasks import BackgroundTasks, retry_until_available
from gateway.webhooks import WebhookEvents

# A message that was given up still gets an answer, and its conversation a note.


_log = structlog.get_logger(__name__)


@dataclass(eq=False, repr=False)
class DeadLetters:
    """Tells the authors of dead letters. Their messages have left the lane: nobody waits for this."""

    lanes: Lanes
    deliveries: Deliveries
    store: Store
    scrubber: Scrubber
    clock: Clock
    events: WebhookEvents

    async def tell(self, dead: DeadMessage) -> None:
        """Answer a message with an apology, unless its last run had answered it after all."""
        message, reference = dead.message, self.clock.code(6)
        _log.error("message.dead", message_id=message.id, letter_id=dead.letter_id, reference=reference)
        turn_id = turn_id_of(message.id)
        words = await retry_until_available(lambda: words_of_author(message, self.store))
        said = "\n\n".join(filter(None, (dead_sentence(reference, words), removed_note(message.removed, words))))
        reply = Reply(
            id=f"{turn_id}:dead",
            turn_id=turn_id,
            key=message.key,
            address=message.address,
            text=self.scrubber.for_chat(str(message.key)).scrub(said),
            kind=ReplyKind.ERROR,
            created_at_ms=self.clock.now_ms(),
            language=words.language.value,
        )
        event, at_ms = WebhookEvent.DEAD_LETTER, reply.created_at_ms
        told = self.events.tell(event, turn_id, message.key, reply.text, at_ms=at_ms, turn_id=turn_id)
        is_given_up = await retry_until_available(
            lambda: self.store.turns.give_up(
                turn_id=turn_id,
                message=message,
                replies=(reply, *told),
                note=DEAD_NOTE,
                reference=reference,
                letter_id=dead.letter_id,
                now_ms=reply.created_at_ms,
            )
        )
        if is_given_up:
            await show_ended(self.deliveries, message.address, turn_id)
            await retry_until_available(lambda: self.deliveries.publish([reply, *told]))
        await retry_until_available(lambda: self.lanes.finish_dead(message))


_SAFETY_WAIT_S: Final = 1.0  # a lost wake-up costs a second, not a message
_BUS_RETRY_S: Final = 0.5
_STORE_RETRY_S: Final = 0.5


@dataclass(eq=False, repr=False)
class Worker:
    """One agent process's share of the lanes.

    `background` holds the tasks that answering leaves running, and is finished here. `grace_s` is the time that running
    turns get to finish when the process stops, and so does the work that outlives turns: each of `lasting` returns when
    that is done. `loops` run for as long as the worker works."""

    _: KW_ONLY
    worker_id: str
    bus: RedisBus
    answering: LaneRunner
    dead_letters: DeadLetters
    background: BackgroundTasks
    concurrency: int
    grace_s: float = SHUTDOWN_GRACE_S
    loops: Sequence[Callable[[], Coroutine[Any, Any, None]]] = ()
    lasting: Sequence[Callable[[float], Coroutine[Any, Any, None]]] = ()
    _runs: dict[str, TurnRun] = field(init=False, default_factory=dict)
    _registering: asyncio.Task[None] | None = field(init=False, default=None)
    _slot_freed: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    async def serve(self, stopping: asyncio.Event) -> None:
        """Work until `stopping`; then let running turns finish for a while and hand the rest over."""
        registering = asyncio.create_task(self._register())
        stopped = asyncio.create_task(stopping.wait())
        await asyncio.wait({registering, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if registering.done():
            await registering
            stopped.add_done_callback(lambda _: self._slot_freed.set())
            async with self.bus.heartbeat(self.worker_id, on_cancel=self._cancel, on_lost=self._lose_lease) as beat:
                await self._work(stopped, beat)
        for task in (registering, stopped):
            task.cancel()

    async def _work(self, stopped: asyncio.Task[Any], beat: Heartbeat) -> None:
        keepers = (self._watch_cancels, self._show_activity, *self.loops)
        async with asyncio.TaskGroup() as group:
            keeping = [group.create_task(keep()) for keep in keepers]
            wait_s = 0.0
            while not stopped.done():
                free = self.concurrency - len(self._runs)
                if free <= 0:
                    self._slot_freed.clear()
                    await self._slot_freed.wait()
                    wait_s = 0.0
                    continue
                if not await self.answering.has_store():
                    await asyncio.sleep(_STORE_RETRY_S)
                    continue
                try:
                    wait_s = await self._claim(free, beat, stopped, wait_s)
                except BusError as error:
                    _log.warning("worker.claim_failed", reason=str(error))
                    await asyncio.sleep(_BUS_RETRY_S)
                    wait_s = 0.0
            await self._finish()
            for task in keeping:
                task.cancel()

    # --- claiming

    async def _claim(self, free: int, beat: Heartbeat, stopped: asyncio.Task[Any], wait_s: float) -> float:
        """Start a run for each lane that is ready, waiting up to `wait_s` for one unless the process stops; how long to
        wait before there may be more. Fewer than were asked for are all there were; what has come since wakes us."""
        wanted = min(free, CLAIM_LANES_MAX)
        claiming = asyncio.create_task(
            self.bus.lanes.claim(
                self.worker_id,
                lanes_max=wanted,
                messages_max=TURN_MESSAGES_MAX,
                attempts_max=TURN_ATTEMPTS_MAX,
                wait_s=wait_s,
            )
        )
        if wait_s > 0:
            try:
                await asyncio.wait({claiming, stopped}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                is_cut_short = claiming.cancel()  # what it gets after all is handed back
            if is_cut_short:
                return 0.0
        found = await claiming
        # No pause from here on: a lane that was claimed has a run, whatever happens next.
        for claim in found.claims:
            self._start(claim, beat)
        for dead in found.dead:
            self.background.start(self.dead_letters.tell(dead))
        if len(found.claims) >= wanted:
            return 0.0
        return _SAFETY_WAIT_S if found.next_due_s is None else min(found.next_due_s, _SAFETY_WAIT_S)

    def _start(self, claim: Claim, beat: Heartbeat) -> None:
        run = TurnRun(claim, beat, self.answering.ports, is_steered=self.answering.is_steered)
        lane = str(claim.key)
        self._runs[lane] = run
        run.task = asyncio.create_task(self.answering.answer(run))
        run.task.add_done_callback(lambda _: self._ended(lane, run))

    def _ended(self, lane: str, run: TurnRun) -> None:
        if self._runs.get(lane) is run:
            del self._runs[lane]
        run.task = None  # which keeps the run
        self._slot_freed.set()

    # --- lease, cancels, activity

    async def _register(self) -> None:
        await retry_until_available(lambda: self.bus.lanes.register(self.worker_id, lease_ttl_s=LEASE_TTL_S))

    async def _watch_cancels(self) -> None:
        while True:
            try:
                async for cancel in self.bus.lanes.cancellations(self.worker_id):
                    self._cancel(cancel)
            except BusError as error:
                _log.warning("worker.cancels_unheard", reason=str(error))
            await asyncio.sleep(_BUS_RETRY_S)

    def _cancel(self, cancel: Cancel) -> None:
        run = self._runs.get(cancel.lane)
        if run is not None:
            run.cancel(cancel.kind)

    def _lose_lease(self) -> None:
        """End every run of this process without a trace, because another process may own our lanes by now."""
        if self._registering is not None and not self._registering.done():
            return  # every beat says so until we are known again
        _log.warning("worker.lease_lost", runs=len(self._runs))
        _end_runs(list(self._runs.values()))
        self._registering = self.background.start(self._register())

    async def _show_activity(self) -> None:
        while True:
            await asyncio.sleep(ACTIVITY_EVERY_S)
            for run in list(self._runs.values()):
                if run.batch is None:
                    continue
                address = run.batch.messages[-1].address
                try:
                    await self.bus.deliveries.show_activity(Activity(address, run.batch.turn_id, ACTIVITY_FOR_S))
                except BusError:
                    break  # lossy on purpose: the next round tries again

    # --- the end

    async def _finish(self) -> None:
        """Let turns finish within the grace time, then hand the rest to other workers, no attempt counted."""
        lasting = [asyncio.create_task(finish(self.grace_s)) for finish in self.lasting]
        if tasks := _tasks(self._runs.values()) | set(lasting):
            await asyncio.wait(tasks, timeout=self.grace_s)
        for task in lasting:
            task.cancel()
        left = list(self._runs.values())
        if tasks := _end_runs(left):
            _log.info("worker.hands_over", runs=len(tasks))
            await asyncio.wait(tasks, timeout=CUT_GRACE_S)
        await self.background.finish(timeout_s=LAST_WORDS_S)
        try:
            await self.bus.lanes.drain(self.worker_id)
        except BusError as error:
            _log.warning("worker.not_drained", reason=str(error))


def _tasks(runs: Iterable[TurnRun]) -> set[asyncio.Task[None]]:
    return {run.task for run in runs if run.task is not None}


def _end_runs(runs: Sequence[TurnRun]) -> set[asyncio.Task[None]]:
    """End these runs without a trace; the tasks that are about to end."""
    for run in runs:
        run.lose()
    for task in (tasks := _tasks(runs)):
        task.cancel()
    return tasks
