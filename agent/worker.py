"""Claims lanes and answers them: many at once, each in order, each under a lease.

    claim -> begin (fence, user entries) -> take the turn -> commit in SQL -> commit on the bus

A crash between any two arrows repeats a step and never a reply: what is consumed is known by id, the
outbox row has an id of its own, and the bus publishes an id once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, Protocol

import structlog

from agent.background import Background
from agent.commands import parse_command
from agent.limits import ACTIVITY_EVERY_S, ACTIVITY_FOR_S
from agent.sentences import dead_sentence
from agent.titler import Titler
from agent.turn import Batch, TurnTaker
from gateway.contracts.entries import Session, TurnCommit
from gateway.contracts.errors import BusError, Fenced, StoreUnavailable, TrivetError
from gateway.contracts.messages import Activity, InboundMessage, Reply, ReplyKind
from gateway.contracts.ports import Cancel, CancelKind, Claim, Clock, LaneBus, Scrubber, Store
from gateway.limits import (
    CLAIM_LANES_MAX,
    LEASE_TTL_S,
    RETRY_DELAYS_S,
    SHUTDOWN_GRACE_S,
    TURN_ATTEMPTS_MAX,
    TURN_MESSAGES_MAX,
)

_log = structlog.get_logger(__name__)
_SAFETY_WAIT_S: Final = 1.0  # a lost wake-up costs a second, not a message
_BUS_RETRY_S: Final = 0.5


class Pulse(Protocol):
    """Opens the heartbeat of a registered worker: it beats, reaps and calls back in the event loop."""

    def __call__(
        self, *, on_cancel: Callable[[Cancel], None], on_lost: Callable[[], None]
    ) -> AbstractAsyncContextManager[object]: ...


@dataclass(slots=True)
class _Run:
    """One attempt at a turn. `work` is the part that may be stopped; the commit after it may not."""

    claim: Claim
    task: asyncio.Task[None] | None = None
    work: asyncio.Task[TurnCommit] | None = None
    is_stopped: bool = False
    batch: Batch | None = field(default=None)


def first_run(messages: Sequence[InboundMessage]) -> tuple[InboundMessage, ...]:
    """The messages one turn may take: a command alone, else all up to the next command or other place."""
    first = messages[0]
    if parse_command(first.text) is not None:
        return (first,)
    count = 1
    while count < len(messages) and _belongs(messages[count], first):
        count += 1
    return tuple(messages[:count])


def _belongs(message: InboundMessage, first: InboundMessage) -> bool:
    is_same_place = (message.address.channel, message.address.lane) == (first.address.channel, first.address.lane)
    return is_same_place and parse_command(message.text) is None


def turn_id_of(message: InboundMessage) -> str:
    """The same for every attempt: named after the first message it answers."""
    return "t_" + blake2b(message.id.encode(), digest_size=10).hexdigest()


class Worker:
    """One agent process's share of the lanes."""

    def __init__(
        self,
        *,
        worker_id: str,
        bus: LaneBus,
        pulse: Pulse,
        store: Store,
        turns: TurnTaker,
        titler: Titler,
        scrubber: Scrubber,
        clock: Clock,
        concurrency: int,
    ) -> None:
        self._id = worker_id
        self._bus = bus
        self._pulse = pulse
        self._store = store
        self._turns = turns
        self._titler = titler
        self._scrubber = scrubber
        self._clock = clock
        self._concurrency = concurrency
        self._runs: dict[str, _Run] = {}
        self._slot_freed = asyncio.Event()
        self._background = Background()

    async def run(self, stopping: asyncio.Event) -> None:
        """Work until `stopping`; then let running turns finish for a while and hand the rest back."""
        await self._register()
        async with self._pulse(on_cancel=self._stop, on_lost=self._lose_lease), asyncio.TaskGroup() as group:
            keeping = [group.create_task(keep()) for keep in (self._watch_stops, self._show_activity)]
            await self._claim_until(stopping)
            await self._finish()
            for task in keeping:
                task.cancel()

    async def _claim_until(self, stopping: asyncio.Event) -> None:
        stopped = asyncio.create_task(stopping.wait())
        while not stopping.is_set():
            claiming = asyncio.create_task(self._claim_once())
            await asyncio.wait({claiming, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not claiming.done():
                # A claim that is on its way must arrive, or its lanes would wait for the reaper.
                await claiming
        stopped.cancel()

    async def _claim_once(self) -> None:
        free = self._concurrency - len(self._runs)
        if free <= 0:
            self._slot_freed.clear()
            await self._slot_freed.wait()
            return
        try:
            found = await self._bus.claim(
                self._id,
                lanes_max=min(free, CLAIM_LANES_MAX),
                messages_max=TURN_MESSAGES_MAX,
                attempts_max=TURN_ATTEMPTS_MAX,
            )
            for message in found.dead:
                await self._tell_dead(message)
            for claim in found.claims:
                run = self._runs[str(claim.key)] = _Run(claim, is_stopped=claim.is_stopped)
                run.task = asyncio.create_task(self._run_lane(run))
            if not found.claims:
                due_s = _SAFETY_WAIT_S if found.next_due_s is None else found.next_due_s
                await self._bus.wait_for_work(timeout_s=min(due_s, _SAFETY_WAIT_S))
        except (BusError, StoreUnavailable) as error:
            _log.warning("worker.claim_failed", reason=str(error))
            await asyncio.sleep(_BUS_RETRY_S)

    async def _run_lane(self, run: _Run) -> None:
        """The worker's boundary: whatever goes wrong in a turn ends here, recorded and decided."""
        claim = run.claim
        try:
            await self._answer(run)
        except Fenced as error:
            # As a rule somebody else has the lane, and giving it back is refused. If Redis lost the claim of
            # that somebody, it is ours by Redis and his by SQL: it waits until the fences have caught up.
            _log.warning("turn.fenced", lane=str(claim.key))
            await self._give_back(claim, error)
        except BusError as error:
            # The SQL commit stands; the next claim publishes what is unsent.
            _log.warning("turn.bus_lost", lane=str(claim.key), reason=str(error))
            await self._give_back(claim, error)
        except StoreUnavailable as error:
            _log.warning("turn.put_off", lane=str(claim.key), attempts=claim.attempts, reason=str(error))
            await self._give_back(claim, error)
        except asyncio.CancelledError:
            _log.info("turn.given_up", lane=str(claim.key))
        except Exception as error:  # noqa: BLE001 - the worker boundary: the lane goes back, with an attempt counted
            _log.exception("turn.crashed", lane=str(claim.key), attempts=claim.attempts)
            await self._give_back(claim, error)
        finally:
            if self._runs.get(str(claim.key)) is run:
                del self._runs[str(claim.key)]
            self._slot_freed.set()

    async def _answer(self, run: _Run) -> None:
        claim = run.claim
        messages = first_run(claim.messages)
        batch = run.batch = Batch(turn_id_of(messages[0]), claim.key, claim.lease.fence, messages)
        with structlog.contextvars.bound_contextvars(turn_id=batch.turn_id, lane=str(claim.key)):
            start = await self._store.begin_turn(
                turn_id=batch.turn_id,
                key=batch.key,
                fence=batch.fence,
                messages=messages,
                now_ms=self._clock.now_ms(),
                is_said=not batch.is_command,
            )
            answered = [message for message in messages if message.id not in start.fresh_ids]
            if answered:
                # An earlier run committed and died before it could say so: publish, take these off the lane.
                await self._bus.commit(claim, handled=len(answered), replies=start.unsent)
                return
            if run.is_stopped:
                commit = self._turns.stopped(batch, start.session)
            else:
                self._title(batch, start.session)
                commit = await self._work(run, batch, start.session)
            await self._store.commit_turn(commit)
            is_ours = await self._bus.commit(claim, handled=len(messages), replies=commit.outbox)
            _log.info("turn.done", state=commit.state.value, messages=len(messages), published=is_ours)

    async def _work(self, run: _Run, batch: Batch, session: Session) -> TurnCommit:
        """The part of a turn that /stop may cut short."""
        run.work = asyncio.create_task(self._turns.take_turn(batch, session))
        try:
            return await run.work
        except asyncio.CancelledError:
            if not run.is_stopped:
                run.work.cancel()
                raise
            return self._turns.stopped(batch, session)

    def _title(self, batch: Batch, session: Session) -> None:
        if not batch.is_command:
            self._background.start(self._titler.title(session, batch.messages[0].text))

    async def _give_back(self, claim: Claim, error: Exception) -> None:
        delay_s = RETRY_DELAYS_S[min(claim.attempts, len(RETRY_DELAYS_S) - 1)]
        reason = str(error) if isinstance(error, TrivetError) else type(error).__name__
        try:
            await self._bus.retry_later(claim, delay_s=delay_s, error=self._scrubber.scrub(reason))
        except BusError as bus_error:
            _log.warning("turn.not_given_back", reason=str(bus_error))

    async def _tell_dead(self, message: InboundMessage) -> None:
        """A message that was given up still gets an answer."""
        reference = self._clock.code(6)
        _log.error("message.dead", message_id=message.id, reference=reference)
        reply = Reply(
            id=f"{turn_id_of(message)}:dead",
            turn_id=turn_id_of(message),
            key=message.key,
            address=message.address,
            text=self._scrubber.scrub(dead_sentence(reference)),
            kind=ReplyKind.ERROR,
            created_at_ms=self._clock.now_ms(),
        )
        await self._store.put_outbox([reply])
        await self._bus.republish([reply])

    # --- lease, stops, activity

    async def _register(self) -> None:
        while True:
            try:
                await self._bus.register(self._id, lease_ttl_s=LEASE_TTL_S)
                return
            except BusError as error:
                _log.warning("worker.waits_for_bus", reason=str(error))
                await asyncio.sleep(_BUS_RETRY_S)

    async def _watch_stops(self) -> None:
        while True:
            try:
                async for cancel in self._bus.cancellations(self._id):
                    self._stop(cancel)
            except BusError as error:
                _log.warning("worker.stops_unheard", reason=str(error))
            await asyncio.sleep(_BUS_RETRY_S)

    def _stop(self, cancel: Cancel) -> None:
        run = self._runs.get(cancel.lane)
        if cancel.kind is CancelKind.STOP and run is not None and not run.is_stopped:
            run.is_stopped = True
            if run.work is not None:
                run.work.cancel()

    def _lose_lease(self) -> None:
        """Somebody else may own our lanes by now: every run of this process ends without a trace."""
        _log.warning("worker.lease_lost", runs=len(self._runs))
        for run in self._runs.values():
            if run.task is not None:
                run.task.cancel()
        self._background.start(self._register())

    async def _show_activity(self) -> None:
        while True:
            await asyncio.sleep(ACTIVITY_EVERY_S)
            for run in list(self._runs.values()):
                if run.batch is None:
                    continue
                address = run.batch.messages[-1].address
                try:
                    await self._bus.show_activity(Activity(address, run.batch.turn_id, ACTIVITY_FOR_S))
                except BusError:
                    break  # lossy on purpose: the next round tries again

    async def _finish(self) -> None:
        """Let turns finish within the grace time, then hand the rest to other workers."""
        running = [run.task for run in self._runs.values() if run.task is not None]
        if running:
            await asyncio.wait(running, timeout=SHUTDOWN_GRACE_S)
        left = [run for run in self._runs.values() if run.task is not None]
        for run in left:
            if run.task is not None:
                run.task.cancel()
        await asyncio.gather(*(run.task for run in left if run.task is not None), return_exceptions=True)
        await self._background.finish(timeout_s=_SAFETY_WAIT_S)
        try:
            await self._bus.drain(self._id, [run.claim for run in left])
        except BusError as error:
            _log.warning("worker.not_drained", reason=str(error))
