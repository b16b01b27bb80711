"""From a claimed lane to a committed answer.

    begin (fence, user entries) -> take the turn -> commit in SQL -> commit on the bus

A crash between any two arrows repeats a step and never a reply: what is consumed is known by id, the
outbox row has an id of its own, and the bus publishes an id once. A run that is still alive never leaves
its lane half done either: while bus or store are away it insists for a while, and whatever else goes wrong,
it gives the lane back. Who was blocked meanwhile is not answered any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import structlog

from agent.afterwards.finished import AfterTurn, Finished
from agent.batch import Batch
from agent.commits import Commits
from agent.engine import Turn
from agent.limits import BEGIN_PATIENCE_S, COMMIT_PATIENCE_S
from agent.running.background import Background
from agent.subagents.wakes import stale_among
from agent.titles.naming import nameable
from agent.titles.titler import Titler
from agent.turn import TurnTaker
from agent.working.batches import first_batch, leading
from agent.working.closing import put_out
from agent.working.runs import Beat, Run, RunPorts
from gateway.contracts.entries import Committed, TurnCommit, TurnStart
from gateway.contracts.errors import BusError, Fenced, StoreError, StoreUnavailable, TrivetError
from gateway.contracts.ids import turn_id_of
from gateway.contracts.messages import InboundMessage, Reply
from gateway.contracts.ports import CancelKind, Claim, Scrubber
from gateway.limits import RETRY_DELAYS_S
from gateway.retry import RetryPolicy, retry_until_available

_log = structlog.get_logger(__name__)
_PUT_OFF_S: Final = 1.0  # before a lane that could not even be begun is tried again


class Answering:
    """Answers claims, one run at a time each; any number of them side by side."""

    def __init__(
        self,
        ports: RunPorts,
        *,
        turns: TurnTaker,
        commits: Commits,
        titler: Titler,
        scrubber: Scrubber,
        background: Background,
        is_steered: bool,
        afterwards: Sequence[AfterTurn] = (),
    ) -> None:
        """With `is_steered`, what a lane receives during a turn joins that turn between its rounds."""
        self._ports = ports
        self._lanes = ports.lanes
        self._deliveries = ports.deliveries
        self._store = ports.store
        self._people = ports.people
        self._clock = ports.clock
        self._turns = turns
        self._commits = commits
        self._titler = titler
        self._scrubber = scrubber
        self._background = background
        self._is_steered = is_steered
        self._afterwards = tuple(afterwards)
        self._is_store_away = False

    def run_of(self, claim: Claim, beat: Beat) -> Run:
        """The run of a lane that was just claimed, not yet begun."""
        return Run(claim, beat, self._ports, is_steered=self._is_steered)

    async def has_store(self) -> bool:
        """Whether a claim makes sense: a process that lost its database leaves the lanes to those that have it."""
        if self._is_store_away:
            try:
                await self._store.access.revision()
            except StoreUnavailable:
                return False
            self._is_store_away = False
        return True

    async def run(self, run: Run) -> None:
        """The worker's boundary: whatever goes wrong in a turn ends here, recorded and decided.

        Cancelled only when the lane is not ours any more, or is handed over by the one who cancels.
        """
        lane = str(run.claim.key)
        try:
            await self._answer(run)
        except (Fenced, StoreUnavailable) as error:
            _log.warning("turn.put_off", lane=lane, reason=str(error))
            self._is_store_away = isinstance(error, StoreUnavailable)
            await self._put_off(run)
        except asyncio.CancelledError:
            run.lose()
            _log.info("turn.given_up", lane=lane)
        except Exception as error:  # noqa: BLE001 - the worker boundary: the lane goes back, with an attempt counted
            _log.exception("turn.crashed", lane=lane, attempts=run.claim.attempts)
            await self._give_back(run, error)

    async def _answer(self, run: Run) -> None:
        claim = run.claim
        lane = claim.messages
        taken = first_batch(lane)
        stale = await retry_until_available(lambda: stale_among(self._store.tasks, taken))
        wanted = [message for message in taken if message.id not in stale]
        unheard = await self._people.unheard_among(wanted)
        messages = tuple(message for message in wanted if message.id not in unheard) or tuple(wanted)
        if not messages:
            await self._pass_over(run, taken)
            return
        batch = Batch(
            turn_id_of(messages[0].id), claim.key, claim.lease.fence, messages, begun_at_ms=self._clock.now_ms()
        )
        with structlog.contextvars.bound_contextvars(turn_id=batch.turn_id, lane=str(claim.key)):
            start = await retry_until_available(lambda: self._begin(batch), RetryPolicy(for_s=BEGIN_PATIENCE_S))
            fresh = tuple(message for message in messages if message.id in start.fresh_ids)
            if messages[0] not in fresh:
                handled = leading(taken, lambda message: message.id not in start.fresh_ids)
                await self._publish_again(run, batch, start, handled)
                return
            batch = replace(batch, messages=fresh, is_first=start.is_first)
            turn = run.begin(batch, start.session, lane[len(taken) :])
            await self._take(run, turn, start.unsent, is_heard=messages[0].id not in unheard)

    async def _begin(self, batch: Batch) -> TurnStart:
        return await self._store.turns.begin(
            turn_id=batch.turn_id,
            key=batch.key,
            fence=batch.fence,
            messages=batch.messages,
            now_ms=batch.begun_at_ms,
            is_said=not batch.is_command,
        )

    async def _pass_over(self, run: Run, messages: Sequence[InboundMessage]) -> None:
        """What these were to tell was told in another way. An earlier run may have begun to answer the first."""
        handled = run.covered if run.cancelled is CancelKind.STOP else len(messages)
        run.settle()
        _log.info("wakes.passed_over", messages=len(messages))
        await retry_until_available(lambda: self._lanes.commit(run.claim, handled=handled, replies=()))
        await put_out(self._deliveries, messages[0].address, turn_id_of(messages[0].id))

    async def _publish_again(self, run: Run, batch: Batch, start: TurnStart, handled: int) -> None:
        """An earlier run committed and died before it could say so: publish, take its messages off the lane."""
        run.settle()
        await retry_until_available(lambda: self._lanes.commit(run.claim, handled=handled, replies=start.unsent))
        if not start.unsent:
            await put_out(self._deliveries, batch.newest.address, batch.turn_id)

    async def _take(self, run: Run, turn: Turn, unsent: Sequence[Reply], *, is_heard: bool) -> None:
        commit: TurnCommit | None = None
        if run.cancelled is None and not is_heard:
            run.settle()
            _log.info("turn.unheard")
            commit = self._commits.stopped(turn)
        elif run.cancelled is None:
            self._title(run, turn)
            commit = await run.decide(self._turns.take_turn(turn))
            messages = turn.batch.messages
            if commit is not None and len(await self._people.unheard_among(messages)) == len(messages):
                commit = self._commits.stopped(turn)
        if run.is_lost:
            _log.info("turn.given_up")
        elif run.cancelled is CancelKind.RESTART:
            await self._restart(run, turn)
        elif commit is None:
            run.settle()
            commit = self._commits.stopped(turn)
            committed = await self._commit(run, turn, commit, handled=run.covered)
            self._follow_up(Finished(turn, commit, committed.has_boundary))
        else:
            committed = await self._commit(run, turn, commit, handled=run.taken, earlier=unsent)
            self._follow_up(Finished(turn, commit, committed.has_boundary))

    async def _commit(
        self, run: Run, turn: Turn, commit: TurnCommit, *, handled: int, earlier: Sequence[Reply] = ()
    ) -> Committed:
        """In SQL, then on the bus; both are insisted on, so that an answer that was paid for is not asked again."""
        committed = await retry_until_available(
            lambda: self._store.turns.commit(commit), RetryPolicy(for_s=COMMIT_PATIENCE_S)
        )
        replies = (*earlier, *commit.outbox)
        is_ours = await retry_until_available(lambda: self._lanes.commit(run.claim, handled=handled, replies=replies))
        if not commit.outbox:
            await put_out(self._deliveries, turn.batch.newest.address, commit.turn_id)
        _log.info("turn.done", state=commit.state.value, messages=len(commit.consumed), published=is_ours)
        return committed

    async def _restart(self, run: Run, turn: Turn) -> None:
        """Newer words came: nothing of this run stays but what it cost, and nobody goes on working for it."""
        disowning = partial(self._store.tasks.disown, turn.batch.key, turn.batch.turn_id)
        _log.info("turn.restarted")
        await retry_until_available(disowning, RetryPolicy(for_s=COMMIT_PATIENCE_S))
        await retry_until_available(lambda: self._lanes.restart(run.claim))
        if turn.usage:
            try:
                await self._store.sessions.charge(turn.usage, session_id=turn.session.id)
            except StoreError as error:
                _log.warning("turn.cost_not_recorded", reason=str(error))

    def _follow_up(self, finished: Finished) -> None:
        for after in self._afterwards:
            self._background.start(after(finished))

    def _title(self, run: Run, turn: Turn) -> None:
        batch = turn.batch
        if not batch.is_command:
            address = nameable(batch.newest)
            title = self._titler.title(turn.session, turn_id=batch.turn_id, permit=turn.permit, address=address)
            run.beside(self._background.start(title))

    async def _put_off(self, run: Run) -> None:
        """The store would not have it. If the lane is still ours it is tried again, without counting an attempt:
        neither an outage nor a fence that is ahead of the bus is the message's fault."""
        run.lose()
        if await retry_until_available(lambda: self._lanes.is_in_work(run.claim.key, run.claim.lease.fence)):
            await asyncio.sleep(_PUT_OFF_S)
            await retry_until_available(lambda: self._lanes.restart(run.claim))

    async def _give_back(self, run: Run, error: Exception) -> None:
        run.lose()
        attempts = run.claim.attempts
        delay_s = RETRY_DELAYS_S[min(attempts, len(RETRY_DELAYS_S) - 1)]
        said = str(error) if isinstance(error, TrivetError) else type(error).__name__
        reason = self._scrubber.for_chat(str(run.claim.key)).scrub(said)
        try:
            await retry_until_available(lambda: self._lanes.retry_later(run.claim, delay_s=delay_s, error=reason))
        except BusError as bus_error:
            _log.error("turn.not_given_back", reason=str(bus_error))
