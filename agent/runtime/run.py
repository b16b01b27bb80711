"""Selects the messages of a lane that make one turn, and runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, Final

import structlog

from agent import limits
from agent.engine import AfterTurn, Batch, Finished, Joined, Turn, reply_id_of
from agent.features.access import People
from agent.features.titles import Titler, nameable
from agent.runtime.commit import Commits
from agent.runtime.turn import TurnRunner
from agent.subagents.wakes import stale_among
from gateway.bus.deliveries import Deliveries
from gateway.bus.heartbeat import Heartbeat
from gateway.bus.lanes import Lanes
from gateway.contracts.commands import find_command
from gateway.contracts.errors import BusError, BusUnavailable, Fenced, StoreError, StoreUnavailable, TrivetError
from gateway.contracts.ids import ReplyAddress, SessionKey, is_firing, turn_id_of
from gateway.contracts.messages import Activity, CleanText, Draft, InboundMessage, Reply, literal_text
from gateway.contracts.ports import CancelKind, Claim, Clock
from gateway.contracts.sessions import UNTITLED, Committed, TurnCommit, TurnStart
from gateway.limits import RETRY_DELAYS_S, TURN_MESSAGES_MAX
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.tasks import BackgroundTasks, RetryPolicy, retry_until_available


def first_batch(messages: Sequence[InboundMessage]) -> tuple[InboundMessage, ...]:
    """Return the messages that one turn may take: a command or a scheduled run alone, else all up to the next of these
    or of another place."""
    first = messages[0]
    if _is_alone(first):
        return (first,)
    return (first, *joining_messages(first, messages[1:]))


def joining_messages(first: InboundMessage, behind: Sequence[InboundMessage]) -> tuple[InboundMessage, ...]:
    """Return, in order, those messages waiting after a turn that `first` began which may be part of it."""
    return tuple(behind[: leading(behind, lambda message: _belongs(message, first))])


def leading(messages: Sequence[InboundMessage], belongs: Callable[[InboundMessage], bool]) -> int:
    """Count the messages at the beginning that satisfy `belongs`."""
    return next((at for at, message in enumerate(messages) if not belongs(message)), len(messages))


def _belongs(message: InboundMessage, first: InboundMessage) -> bool:
    is_same_place = (message.address.channel, message.address.lane) == (first.address.channel, first.address.lane)
    return is_same_place and not _is_alone(message) and not _is_alone(first)


def without_met(
    messages: tuple[InboundMessage, ...], key: SessionKey, scrubber: Scrubber
) -> tuple[InboundMessage, ...]:
    """Return the messages of a lane without what was found in it: the process that took them in may not have known."""
    if not scrubber.met_by_chat.of(str(key)):
        return messages
    scrub = scrubber.for_chat(str(key)).scrub

    def clean(message: InboundMessage) -> InboundMessage:
        quotes = tuple([replace(quote, text=scrub(quote.text)) for quote in message.quotes])
        return replace(message, text=scrub(message.text), quotes=quotes)

    return tuple(map(clean, messages))


def _is_alone(message: InboundMessage) -> bool:
    """Tell whether a message must have a turn of its own: a command is no conversation, and in a turn that a schedule
    began nobody is present."""
    return find_command(message.text) is not None or is_firing(message.id)


# Drafts: the answer of a running turn, sent to the channel now and then. They may be lost, are paced and block nothing.
#
# A draft has passed the scrubber's stream, which holds back any text that may still become a secret.


_log = structlog.get_logger(__name__)


@contextmanager
def showing(
    bus: Deliveries, blank: Draft, text: Callable[[], CleanText], *, every_s: float = limits.DRAFT_EVERY_S
) -> Iterator[None]:
    """Tell what `text` says every `every_s` while the block lasts, as the draft that `blank` is without its text."""
    telling = asyncio.create_task(_tell(bus, blank, text, every_s))
    try:
        yield
    finally:
        telling.cancel()


async def _tell(bus: Deliveries, blank: Draft, text: Callable[[], CleanText], every_s: float) -> None:
    told = blank.text
    while True:
        await asyncio.sleep(every_s)
        said = text()
        if len(said) > limits.DRAFT_CHARS_MAX:
            return
        if said in ("", told):
            continue
        try:
            await bus.show_draft(replace(blank, text=said))
            told = said
        except BusError as error:  # the next one says it all
            _log.debug("draft.untold", reason=str(error))


# A turn that ends without an answer tells the channel, so that people are not shown that one is being made.


async def show_ended(bus: Deliveries, address: ReplyAddress, turn_id: str) -> None:
    """Put out the typing indicator, and take away what was shown of an answer. Lossy: both go by themselves a little
    later."""
    try:
        await bus.show_activity(Activity(address, turn_id, 0.0, ended=True))
    except BusError as error:
        _log.debug("turn.indicator_left", turn_id=turn_id, reason=str(error))


# One attempt at a turn, as its worker holds it: what may end it early, and what may join it.
#
#     begun ──▶ decided ──▶ over          `cancel` and `lose` count until the run is decided;
#                                         after that the commit is under way and changes nothing any more
#
# Whether a run may go on is asked before each call of a model or a tool. The answer comes from three places: what the
# worker was told (a stop, a restart), its own knowledge of the lease, and the bus. A process that was paused has the
# first two in its memory from before; only the bus knows what happened meanwhile, also that who asked is blocked by
# now.


_UNSURE_S: Final = 0.1  # between two looks at a lease that may have ended


@dataclass(frozen=True, slots=True)
class RunPorts:
    """The dependencies of a run: its lane, the database, who may still speak, what is a secret, the time."""

    lanes: Lanes
    deliveries: Deliveries
    store: Store
    people: People
    scrubber: Scrubber
    clock: Clock


class TurnRun:
    """One claim being answered. `agent.engine.Hold` for the turn it takes."""

    def __init__(self, claim: Claim, beat: Heartbeat, ports: RunPorts, *, is_steered: bool) -> None:
        """Keep the dependencies. With `is_steered`, messages that a lane receives during a turn join that turn between
        its rounds."""
        self.claim = claim
        self.batch: Batch | None = None  # of the turn, which knows this run: neither shall keep the other
        self.task: asyncio.Task[None] | None = None
        self.cancelled: CancelKind | None = CancelKind.STOP if claim.is_stopped else None
        self.is_lost = False
        self._beat = beat
        self._ports = ports
        self._is_steered = is_steered
        self._is_decided = False
        self._ended = asyncio.get_running_loop().create_future()
        self.has_called = asyncio.Event()  # a model or a tool; also once it is decided
        self._language = ""
        self._naming: asyncio.Task[None] | None = None
        self._behind: list[InboundMessage] = []
        self._covered = len(claim.messages)

    # --- what the lease covers

    def begin(self, batch: Batch, start: TurnStart, behind: Sequence[InboundMessage]) -> Turn:
        """Return the turn that answers `batch`; the claim also covers `behind`, which waits."""
        self.batch, self._language = batch, start.session.language
        self._behind = list(behind)
        return Turn(batch, start.session, self, prompt=start.prompt)

    @property
    def covered(self) -> int:
        """Return how many messages the lease covers, from the head of the lane: all that a stop takes along."""
        return self._covered

    @property
    def answered(self) -> int:
        """Return how many of them the turn answers."""
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
        """End without a trace, because the lane is, or may be, another process's."""
        self.is_lost = True
        self._end()

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)
        if self._naming is not None:
            self._naming.cancel()

    def note_naming(self, task: asyncio.Task[None]) -> None:
        """Note the task that makes a title, for which nobody waits: it ends with the turn if that is cut short."""
        self._naming = task

    async def permit(self) -> None:
        """Return when the turn may call a model or a tool; raise `CancelledError` when it has ended.

        While nobody can say (the bus is away), wait: the lease may still turn out to be ours."""
        while not self._is_cut and not self._is_decided and not await self._is_ours():  # noqa: ASYNC110 - a lease does not tell, it is asked
            await asyncio.sleep(_UNSURE_S)
        if self._is_cut:  # background work of a turn that ended well may go on
            raise asyncio.CancelledError
        self.has_called.set()

    async def _is_ours(self) -> bool:
        """Tell whether the lane is still ours; False when that cannot be known right now."""
        if self._ports.clock.monotonic_s() >= self._beat.lease_end_s:
            return False
        try:
            owned = await self._ports.lanes.ownership(self.claim.key, self.claim.lease.fence)
            self._ports.scrubber.met_by_chat.of(str(self.claim.key)).learn(owned.met)
            if not owned.is_held:
                self.lose()
            elif self.batch and await self._ports.people.blocked_authors(self.batch.messages, owned.access):
                self.cancel(CancelKind.RESTART)  # without the messages of authors who were blocked
        except BusUnavailable:
            return False
        return True

    # --- what may join it

    async def join(self) -> Sequence[Joined]:
        """Let new messages join in steer mode: those that arrived after the turn's own, up to a command, another place
        or another person. The turn may do what the person who began it may do. Raises `Fenced`."""
        room = TURN_MESSAGES_MAX - self.answered
        batch = self.batch
        if batch is None or not self._is_steered or self._behind or room <= 0:
            return ()
        more = await retry_until_available(lambda: self._ports.lanes.extend(self.claim, messages_max=room))
        self._covered += len(more)
        more = without_met(more, batch.key, self._ports.scrubber)
        joining = joining_messages(batch.messages[0], more)
        stale = await retry_until_available(lambda: stale_among(self._ports.store.tasks, joining))
        authors = {message.author for message in batch.messages}
        newcomers = joining[: leading(joining, lambda said: said.id not in stale and said.author in authors)]
        self._behind = list(more[len(newcomers) :])
        return await self._stored(batch, newcomers) if newcomers else ()

    async def _stored(self, batch: Batch, newcomers: Sequence[InboundMessage]) -> Sequence[Joined]:
        now_ms = self._ports.clock.now_ms()
        entries = await retry_until_available(
            lambda: self._ports.store.turns.join(
                turn_id=batch.turn_id, key=batch.key, fence=batch.fence, messages=newcomers, now_ms=now_ms
            )
        )
        by_id = {message.id: message for message in newcomers}
        return tuple(Joined(by_id[entry.message_id], entry) for entry in entries)

    # --- what is seen of it

    def showing(self, text: Callable[[], CleanText]) -> AbstractContextManager[None]:
        """Show the text as a draft of the reply that the turn will leave."""
        batch = self.batch
        if batch is None:
            return nullcontext()
        reply_id = reply_id_of(batch.turn_id)
        blank = Draft(batch.newest.address, batch.key, batch.turn_id, reply_id, literal_text(""), self._language)
        return showing(self._ports.deliveries, blank, text)

    # --- its work

    async def decide(self, work: Coroutine[Any, Any, TurnCommit]) -> TurnCommit | None:
        """Do `work` and decide: its commit, or None when the run was cut short. What it raises, this raises.

        Work that ignores its cancellation is left behind: it holds no permit any more."""
        working = asyncio.create_task(work)
        try:
            await asyncio.wait({working, self._ended}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                working.cancel()
                await asyncio.wait({working}, timeout=limits.CUT_GRACE_S)
        finally:
            working.cancel()
            working.add_done_callback(_forget)
        if self._is_cut:
            if not working.done():
                _log.warning("turn.left_behind")
            return None
        if working.cancelled():
            raise RuntimeError("the work of a turn was cancelled, and not by its worker")
        self.settle()
        return working.result()

    def settle(self) -> None:
        """Mark that the commit is under way: from here on the run is not cut short."""
        self._is_decided = True
        self.has_called.set()


def _forget(working: asyncio.Task[TurnCommit]) -> None:
    """Look at how it ended, or asyncio would complain that nobody did."""
    if not working.cancelled():
        working.exception()


# From a claimed lane to a committed answer.
#
#     begin (fence, user entries) -> take the turn -> commit in SQL -> commit on the bus
#
# A crash between any two arrows repeats a step and never a reply: what is consumed is known by id, the outbox row has
# an id of its own, and the bus publishes an id once. A run that is still alive never leaves its lane half done
# either: while bus or store are away it insists for a while, and whatever else goes wrong, it gives the lane back.
# Who was blocked meanwhile is not answered any more.


_HOUR_MS: Final = 3_600_000
_PUT_OFF_S: Final = 1.0  # before a lane that could not even be begun is tried again


@dataclass(eq=False, repr=False)
class LaneRunner:
    """Answers claims, each in one run at a time; any number of them in parallel. With `is_steered`, messages that a
    lane receives during a turn join that turn between its rounds. A session in which nothing happened for `idle_hours`
    is over (0: none is)."""

    ports: RunPorts
    _: KW_ONLY
    turns: TurnRunner
    commits: Commits
    titler: Titler
    background: BackgroundTasks
    is_steered: bool
    idle_hours: int = 0
    afterwards: Sequence[AfterTurn] = ()
    _is_store_away: bool = field(init=False, default=False)
    _being_titled: set[str] = field(init=False, default_factory=set)

    async def has_store(self) -> bool:
        """Tell whether a claim makes sense: a process that lost its database leaves the lanes to those that have it."""
        if self._is_store_away:
            try:
                await self.ports.store.access.revision()
            except StoreUnavailable:
                return False
            self._is_store_away = False
        return True

    async def answer(self, run: TurnRun) -> None:
        """Run a turn; whatever goes wrong in it ends here, recorded and decided.

        Cancelled only when the lane is not ours any more, or is handed over by the one who cancels."""
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

    async def _answer(self, run: TurnRun) -> None:
        claim = run.claim
        self.ports.scrubber.met_by_chat.of(str(claim.key)).learn(claim.met)
        lane = without_met(claim.messages, claim.key, self.ports.scrubber)
        first = first_batch(lane)
        stale = await retry_until_available(lambda: stale_among(self.ports.store.tasks, first))
        wanted = [message for message in first if message.id not in stale]
        blocked = await self.ports.people.blocked_authors(wanted, claim.access)
        messages = tuple(message for message in wanted if message.id not in blocked) or tuple(wanted)
        if not messages:
            await self._pass_over(run, first)
            return
        batch = Batch(
            turn_id_of(messages[0].id), claim.key, claim.lease.fence, messages, begun_at_ms=self.ports.clock.now_ms()
        )
        with structlog.contextvars.bound_contextvars(turn_id=batch.turn_id, lane=str(claim.key)):
            start = await retry_until_available(lambda: self._begin(batch), RetryPolicy(for_s=limits.BEGIN_PATIENCE_S))
            fresh = tuple(message for message in messages if message.id in start.fresh_ids)
            if messages[0] not in fresh:
                handled = leading(first, lambda message: message.id not in start.fresh_ids)
                await self._publish_again(run, batch, start, handled)
                return
            batch = replace(batch, messages=fresh, is_first=start.is_first)
            turn = run.begin(batch, start, lane[len(first) :])
            await self._take(run, turn, start.unsent, is_admitted=messages[0].id not in blocked)

    async def _begin(self, batch: Batch) -> TurnStart:
        return await self.ports.store.turns.begin(
            turn_id=batch.turn_id,
            key=batch.key,
            fence=batch.fence,
            messages=batch.messages,
            now_ms=batch.begun_at_ms,
            is_said=not batch.is_command,
            idle_since_ms=batch.begun_at_ms - self.idle_hours * _HOUR_MS if self.idle_hours else 0,
            prompt=self.turns.prompt_query(batch),
        )

    async def _pass_over(self, run: TurnRun, messages: Sequence[InboundMessage]) -> None:
        """Pass over wakes whose results were told in another way. An earlier run may have begun to answer the first."""
        handled = run.covered if run.cancelled is CancelKind.STOP else len(messages)
        run.settle()
        _log.info("wakes.passed_over", messages=len(messages))
        await retry_until_available(lambda: self.ports.lanes.commit(run.claim, handled=handled, replies=()))
        await show_ended(self.ports.deliveries, messages[0].address, turn_id_of(messages[0].id))

    async def _publish_again(self, run: TurnRun, batch: Batch, start: TurnStart, handled: int) -> None:
        """Publish again what an earlier run committed before it died, and take its messages off the lane."""
        run.settle()
        await retry_until_available(lambda: self.ports.lanes.commit(run.claim, handled=handled, replies=start.unsent))
        if not start.unsent:
            await show_ended(self.ports.deliveries, batch.newest.address, batch.turn_id)

    async def _take(self, run: TurnRun, turn: Turn, unsent: Sequence[Reply], *, is_admitted: bool) -> None:
        commit: TurnCommit | None = None
        if run.cancelled is None and not is_admitted:
            run.settle()
            _log.info("turn.unheard")
            commit = self.commits.stopped(turn)
        elif run.cancelled is None:
            if not turn.batch.is_command and turn.session.title == UNTITLED:
                run.note_naming(self.background.start(self._title_alongside(run, turn)))
            commit = await run.decide(self.turns.take_turn(turn))
            if commit is not None and await self._are_all_blocked(turn):
                commit = self.commits.stopped(turn)
        if run.is_lost:
            _log.info("turn.given_up")
        elif run.cancelled is CancelKind.RESTART:
            await self._restart(run, turn)
        elif commit is None:
            run.settle()
            commit = self.commits.stopped(turn)
            committed = await self._commit(run, turn, commit, handled=run.covered)
            self.background.start(self._follow_up(Finished(turn, commit, committed.has_boundary)))
        else:
            committed = await self._commit(run, turn, commit, handled=run.answered, earlier=unsent)
            self.background.start(self._follow_up(Finished(turn, commit, committed.has_boundary)))

    async def _are_all_blocked(self, turn: Turn) -> bool:
        batch = turn.batch
        if self.ports.people.has_admin(batch.messages):
            return False
        owned = await retry_until_available(lambda: self.ports.lanes.ownership(batch.key, batch.fence))
        return len(await self.ports.people.blocked_authors(batch.messages, owned.access)) == len(batch.messages)

    async def _commit(
        self, run: TurnRun, turn: Turn, commit: TurnCommit, *, handled: int, earlier: Sequence[Reply] = ()
    ) -> Committed:
        """Commit in SQL, then on the bus. Each is retried until it succeeds, so that an answer that was paid for is not
        requested again."""
        committed = await retry_until_available(
            lambda: self.ports.store.turns.commit(commit), RetryPolicy(for_s=limits.COMMIT_PATIENCE_S)
        )
        replies = (*earlier, *commit.outbox)
        met = self.ports.scrubber.met_by_chat.of(str(commit.key))
        rows = met.unshared()
        is_ours = await retry_until_available(
            lambda: self.ports.lanes.commit(run.claim, handled=handled, replies=replies, met=rows)
        )
        if is_ours:
            met.shared(rows)
        if not commit.outbox:
            await show_ended(self.ports.deliveries, turn.batch.newest.address, commit.turn_id)
        _log.info("turn.done", state=commit.state.value, messages=len(commit.consumed), published=is_ours)
        return committed

    async def _restart(self, run: TurnRun, turn: Turn) -> None:
        """Restart because newer messages came: of this run only its cost is kept, and its sub-agents are ended."""
        disowning = partial(self.ports.store.tasks.cancel_silently, turn.batch.key, turn.batch.turn_id)
        _log.info("turn.restarted")
        await retry_until_available(disowning, RetryPolicy(for_s=limits.COMMIT_PATIENCE_S))
        await retry_until_available(lambda: self.ports.lanes.restart(run.claim))
        if turn.usage:
            try:
                await self.ports.store.sessions.charge(turn.usage, session_id=turn.session.id)
            except StoreError as error:
                _log.warning("turn.cost_not_recorded", reason=str(error))

    async def _follow_up(self, finished: Finished) -> None:
        for after in self.afterwards:
            await after(finished)

    async def _title_alongside(self, run: TurnRun, turn: Turn) -> None:
        """Give a title while the turn waits for its model, or after it: it takes no time from the answer. The next turn
        may begin before that is done."""
        session, batch = turn.session, turn.batch
        if session.id in self._being_titled:
            return
        self._being_titled.add(session.id)
        try:
            await run.has_called.wait()
            await asyncio.sleep(limits.TITLE_AFTER_S)
            address = nameable(batch.newest)
            await self.titler.title(session, turn_id=batch.turn_id, permit=turn.hold.permit, address=address)
        finally:
            self._being_titled.discard(session.id)

    async def _put_off(self, run: TurnRun) -> None:
        """Put the run off because the store did not accept it. If the lane is still ours it is tried again, without
        counting an attempt: neither an outage nor a fence that is ahead of the bus is the message's fault."""
        run.lose()
        if await retry_until_available(lambda: self.ports.lanes.is_in_work(run.claim.key, run.claim.lease.fence)):
            await asyncio.sleep(_PUT_OFF_S)
            await retry_until_available(lambda: self.ports.lanes.restart(run.claim))

    async def _give_back(self, run: TurnRun, error: Exception) -> None:
        run.lose()
        attempts = run.claim.attempts
        delay_s = RETRY_DELAYS_S[min(attempts, len(RETRY_DELAYS_S) - 1)]
        said = str(error) if isinstance(error, TrivetError) else type(error).__name__
        reason = self.ports.scrubber.for_chat(str(run.claim.key)).scrub(said)
        try:
            await retry_until_available(lambda: self.ports.lanes.retry_later(run.claim, delay_s=delay_s, error=reason))
        except BusError as bus_error:
            _log.error("turn.not_given_back", reason=str(bus_error))
