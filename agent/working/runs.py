"""One attempt at a turn, as its worker holds it: what may end it early, and what may join it.

    begun ──▶ decided ──▶ over          `cancel` and `lose` count until the run is decided;
                                        after that the commit is under way and changes nothing any more

Whether a run may go on is asked before each call of a model or a tool. The answer comes from three places:
what the worker was told (a stop, a restart), its own knowledge of the lease, and the bus. A process that
was paused has the first two in its memory from before; only the bus knows what happened meanwhile, also that
who asked is blocked by now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog

from agent.batch import Batch, reply_id_of
from agent.engine import Joined, Turn
from agent.limits import CUT_GRACE_S
from agent.people import People
from agent.subagents.wakes import stale_among
from agent.working.batches import leading, those_that_join
from agent.working.drafting import showing
from gateway.bus.deliveries import Deliveries
from gateway.bus.lanes import Lanes
from gateway.contracts.entries import Session, TurnCommit
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.messages import CleanText, Draft, InboundMessage, own_words
from gateway.contracts.ports import CancelKind, Claim, Clock
from gateway.limits import TURN_MESSAGES_MAX
from gateway.retry import retry_until_available
from gateway.store import Store

_log = structlog.get_logger(__name__)
_UNSURE_S: Final = 0.1  # between two looks at a lease that may have ended


class Beat(Protocol):
    """What the heartbeat knows of the lease of this process."""

    @property
    def lease_end_s(self) -> float:
        """The monotonic time up to which nobody can have taken our lanes."""
        ...


@dataclass(frozen=True, slots=True)
class RunPorts:
    """What a run reaches: its lane, the database, who may still speak, the time."""

    lanes: Lanes
    deliveries: Deliveries
    store: Store
    people: People
    clock: Clock


class Run:
    """One claim being answered. `agent.engine.Hold` for the turn it takes."""

    def __init__(self, claim: Claim, beat: Beat, ports: RunPorts, *, is_steered: bool) -> None:
        """With `is_steered`, what a lane receives during a turn joins that turn between its rounds."""
        self.claim = claim
        self.turn: Turn | None = None
        self.task: asyncio.Task[None] | None = None
        self.cancelled: CancelKind | None = CancelKind.STOP if claim.is_stopped else None
        self.is_lost = False
        self._beat = beat
        self._lanes = ports.lanes
        self._deliveries = ports.deliveries
        self._store = ports.store
        self._people = ports.people
        self._clock = ports.clock
        self._is_steered = is_steered
        self._is_decided = False
        self._has_ended = asyncio.Event()
        self._beside: asyncio.Task[None] | None = None
        self._behind: list[InboundMessage] = []
        self._covered = len(claim.messages)

    # --- what the lease covers

    def begin(self, batch: Batch, session: Session, behind: Sequence[InboundMessage]) -> Turn:
        """Return the turn that answers `batch`; the claim also covers `behind`, which waits."""
        self.turn = Turn(batch, session, self)
        self._behind = list(behind)
        return self.turn

    @property
    def covered(self) -> int:
        """How many messages the lease covers, from the head of the lane: all that a stop takes along."""
        return self._covered

    @property
    def taken(self) -> int:
        """How many of them the turn answers."""
        return self._covered - len(self._behind)

    # --- what may end it early

    @property
    def _is_cut(self) -> bool:
        return self.is_lost or self.cancelled is not None

    def cancel(self, kind: CancelKind) -> None:
        """End the turn, now; a stop outweighs a restart. Too late once the run is decided."""
        if not self._is_decided and self.cancelled is not CancelKind.STOP:
            self.cancelled = kind
            self._end()

    def lose(self) -> None:
        """The lane is, or may be, somebody else's: end without a trace."""
        self.is_lost = True
        self._end()

    def _end(self) -> None:
        self._has_ended.set()
        if self._beside is not None:
            self._beside.cancel()

    def beside(self, task: asyncio.Task[None]) -> None:
        """Work of the turn that nobody waits for; it ends with the turn if that is cut short."""
        self._beside = task

    async def permit(self) -> None:
        """Return when the turn may call a model or a tool; raise `CancelledError` when it has ended.

        While nobody can say (the bus is away), wait: the lease may still turn out to be ours.
        """
        while not self._is_cut and not self._is_decided and not await self._is_ours():  # noqa: ASYNC110 - a lease does not tell, it is asked
            await asyncio.sleep(_UNSURE_S)
        if self._is_cut:  # what goes on beside a turn that ended well may do so
            raise asyncio.CancelledError

    async def _is_ours(self) -> bool:
        """False when nobody can say right now."""
        if self._clock.monotonic_s() >= self._beat.lease_end_s:
            return False
        try:
            if not await self._lanes.is_in_work(self.claim.key, self.claim.lease.fence):
                self.lose()
            elif self.turn is not None and await self._people.unheard_among(self.turn.batch.messages):
                self.cancel(CancelKind.RESTART)  # without those whom nobody listens to any more
        except BusUnavailable:
            return False
        return True

    # --- what may join it

    async def join(self) -> Sequence[Joined]:
        """In steer mode: what arrived behind the turn, up to a command, another place or another person: the turn may
        do what those may who began it. Raises `Fenced`."""
        room = TURN_MESSAGES_MAX - self.taken
        if self.turn is None or not self._is_steered or self._behind or room <= 0:
            return ()
        batch = self.turn.batch
        more = await retry_until_available(lambda: self._lanes.extend(self.claim, messages_max=room))
        self._covered += len(more)
        joining = those_that_join(batch.messages[0], more)
        stale = await retry_until_available(lambda: stale_among(self._store.tasks, joining))
        authors = {message.author for message in batch.messages}
        newcomers = joining[: leading(joining, lambda said: said.id not in stale and said.author in authors)]
        self._behind = list(more[len(newcomers) :])
        return await self._stored(batch, newcomers) if newcomers else ()

    async def _stored(self, batch: Batch, newcomers: Sequence[InboundMessage]) -> Sequence[Joined]:
        now_ms = self._clock.now_ms()
        entries = await retry_until_available(
            lambda: self._store.turns.join(
                turn_id=batch.turn_id, key=batch.key, fence=batch.fence, messages=newcomers, now_ms=now_ms
            )
        )
        by_id = {message.id: message for message in newcomers}
        return tuple(Joined(by_id[entry.message_id], entry) for entry in entries)

    # --- what is seen of it

    def showing(self, text: Callable[[], CleanText]) -> AbstractContextManager[None]:
        """As a draft of the reply that the turn will leave."""
        if self.turn is None:
            return nullcontext()
        batch = self.turn.batch
        blank = Draft(batch.newest.address, batch.key, batch.turn_id, reply_id_of(batch.turn_id), own_words(""))
        return showing(self._deliveries, blank, text)

    # --- its work

    async def decide(self, work: Coroutine[Any, Any, TurnCommit]) -> TurnCommit | None:
        """Do `work` and decide: its commit, or None when the run was cut short. What it raises, this raises.

        Work that ignores its cancellation is left behind: it holds no permit any more.
        """
        working = asyncio.create_task(work)
        ended = asyncio.create_task(self._has_ended.wait())
        try:
            await asyncio.wait({working, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                working.cancel()
                await asyncio.wait({working}, timeout=CUT_GRACE_S)
        finally:
            ended.cancel()
            working.cancel()
            working.add_done_callback(_forget)
        if self._is_cut:
            if not working.done():
                _log.warning("turn.left_behind")
            return None
        if working.cancelled():
            raise RuntimeError("the work of a turn was cancelled, and not by its worker")
        self._is_decided = True
        return working.result()

    def settle(self) -> None:
        """The commit is under way: from here on the run is not cut short."""
        self._is_decided = True


def _forget(working: asyncio.Task[TurnCommit]) -> None:
    """Look at how it ended, or asyncio would complain that nobody did."""
    if not working.cancelled():
        working.exception()
