"""The growing answers of one channel, and the removal of previews that no answer follows.

A turn that is silent for long, and whose answer does not come, has died; if it is taken up again, its answer is
shown anew. Once an answer is being delivered, its messages belong to the answer; a row left after that may name
further messages only if a process began them after it had been suspended."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Final

from channels.core.attempt import PreviewRemover
from channels.core.lease import LeaseValidity
from channels.core.places import AddressResolver
from channels.core.preview import AnswerStream, PreviewAdopter, StreamDeps, StreamingAdapter
from channels.core.rate_limit import DeliveryHealth, LaneLocks, Pacer
from channels.core.tasks import Abandoned, Backoff, BackoffTimer, first_to_end
from gateway.bus.deliveries import Deliveries
from gateway.bus.places import Places
from gateway.contracts import errors
from gateway.contracts.messages import Activity, Draft, Preview, Reply
from gateway.contracts.ports import Clock
from gateway.scrub import Scrubber

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 10.0  # for what was begun and never ended
SILENT_FOR_S: Final = 30.0  # a turn that lives says so every three seconds, and is taken over within ten
TURNS_KEPT: Final = 2_000  # more than run at once
_ENDED: Final = float("-inf")


class PreviewCleanup:
    """The removal of one channel's previews; only the process that delivers does it."""

    def __init__(
        self, parts: StreamDeps, is_coming: Callable[[str], bool], *, silent_for_s: float = SILENT_FOR_S
    ) -> None:
        """Ask `is_coming` about replies that are there and wait to be delivered."""
        self._parts = parts
        self._name = parts.adapter.name
        self._adopter = PreviewAdopter(parts.adapter, parts.places, parts.backoff)
        self._is_coming = is_coming
        self._silent_for_s = silent_for_s
        self._heard_s: OrderedDict[str, float] = OrderedDict()
        """The last time each turn was heard of, -inf if that was its end."""

    def lives(self, turn_id: str) -> None:
        """Note that the turn was heard of. Late news does not bring back a turn that has ended."""
        if not self.is_ended(turn_id):
            self._note(turn_id, _now_s())

    def ended(self, turn_id: str) -> None:
        """Note that no answer of the turn will come."""
        self._note(turn_id, _ENDED)

    def is_ended(self, turn_id: str) -> bool:
        """Tell whether the turn was noted as ended."""
        return self._heard_s.get(turn_id) == _ENDED

    async def run(self) -> None:
        """Look from time to time until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Take away what is left of turns that are silent."""
        for row in await self._rows():
            if row.turn_id not in self._heard_s:
                self.lives(row.turn_id)
            await self._clear(row, is_ended=_now_s() - self._heard_s[row.turn_id] > self._silent_for_s)

    async def take_away(self, turn_id: str) -> None:
        """Take away the drafts of a turn that has ended. A draft that cannot be taken away now is tried at the next
        look."""
        for row in await self._rows():
            if row.turn_id == turn_id:
                await self._clear(row, is_ended=True)

    def _note(self, turn_id: str, heard_s: float) -> None:
        self._heard_s[turn_id] = heard_s
        self._heard_s.move_to_end(turn_id)
        while len(self._heard_s) > TURNS_KEPT:
            self._heard_s.popitem(last=False)

    async def _rows(self) -> list[Preview]:
        if not self._parts.validity.is_sure:
            return []
        try:
            return list(await self._parts.bus.previews(self._name))
        except errors.BusUnavailable:
            log.debug("%s: no look for drafts while the bus is away", self._name)
            return []

    async def _clear(self, row: Preview, *, is_ended: bool) -> None:
        try:
            (lane,) = await self._parts.addresses.lanes([row.address])
            async with self._parts.lane_locks.of(lane).one_at_a_time:
                known = await self._parts.bus.delivered(row.key, row.reply_id)
                is_answered = bool(known.updated_at_ms)
                if is_answered or (is_ended and not self._is_coming(row.reply_id)):
                    await self._take_back(row, but={*known.platform_ids, *known.shown}, is_answered=is_answered)
        except (errors.BusUnavailable, Abandoned) as error:
            log.debug("%s: a draft is not taken away yet: %s", self._name, error)

    async def _take_back(self, row: Preview, *, but: set[str], is_answered: bool) -> None:
        bus, remover = self._parts.bus, self._parts.remover
        now = await bus.preview(self._name, row.key, row.reply_id)
        if now is None or not self._parts.validity.is_sure:
            return
        try:
            address = await self._parts.addresses.newest(now.address)
            lost = await self._adopter.settled(now, address) if now.opening and not is_answered else None
            for message_id in (*now.messages, *((lost,) if lost else ())):
                if message_id not in but:
                    await remover.take_back(address, message_id)
        except (errors.RateLimited, errors.SendFailed, errors.OutcomeUnknown, errors.CredentialsRejected) as error:
            log.info("%s: the draft of %s is not taken away yet: %s", self._name, now.reply_id, error)
            return
        except errors.DeliveryError as error:
            log.info("%s: the draft of %s stays: %s", self._name, now.reply_id, error)
        except Exception:  # named boundary, delivery attempt
            log.exception("%s: the draft of %s stays", self._name, now.reply_id)
        await bus.drop_preview(self._name, now)


def _now_s() -> float:
    return asyncio.get_running_loop().time()


# Answers while they grow: follows the drafts of one channel, and removes those that no answer follows.
#
# Drafts may be lost, and so may all of this, with one exception: each message begun on a platform is in the ledger
# (`Preview`), and in the end it belongs to the reply, or is removed (`PreviewCleanup`).

STREAMS_MAX: Final = 500  # answers that grow at once; each costs a call every second or so
OVER_KEPT: Final = 2_000  # drafts are late and lossy; one of an answered turn must not begin anything


class AnswerStreams:
    """The streams of one channel. Where nothing is to be shown, the previews of earlier processes are removed."""

    def __init__(
        self,
        adapter: StreamingAdapter,
        bus: Deliveries,
        places: Places,
        scrubber: Scrubber,
        clock: Clock,
        addresses: AddressResolver,
        validity: LeaseValidity,
        lane_locks: LaneLocks,
        *,
        shows: bool = True,
    ) -> None:
        backoff = BackoffTimer()
        pacer = Pacer(bus, adapter)
        self.parts = parts = StreamDeps(
            adapter,
            bus,
            places,
            clock,
            addresses,
            validity,
            lane_locks,
            pacer,
            backoff,
            DeliveryHealth(adapter, places, pacer, backoff, scrubber),
            PreviewRemover(adapter),
        )
        self._backoff = backoff
        self._name = adapter.name
        self._shows = shows
        self._cleanup = PreviewCleanup(parts, self._is_coming)
        self._streams: dict[str, AnswerStream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: OrderedDict[str, bool] = OrderedDict()
        """Replies that need no drafts any more, and whether they are there."""

    async def run(self) -> None:
        """Follow the drafts until cancelled."""
        try:
            await first_to_end(self._follow(), self._cleanup.run())
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def heard(self, activity: Activity) -> None:
        """Note that a turn runs; or that it ended, and that there is no answer to come."""
        if activity.ended:
            self.ended(activity.turn_id)
        else:
            self._cleanup.lives(activity.turn_id)

    def ended(self, turn_id: str) -> None:
        """Note that there is no answer to come, and begin no draft of it any more."""
        for stream in self._streams.values():
            if stream.turn_id == turn_id:
                stream.end()
        self._cleanup.ended(turn_id)
        self._start(self._cleanup.take_away(turn_id))

    def coming(self, reply: Reply) -> None:
        """Note that the answer is here: its draft grows no more."""
        self._is_over(reply.id, is_there=True)
        if stream := self._streams.get(reply.id):
            stream.end()

    async def drain(self, *, grace_s: float) -> None:
        """Begin nothing any more, let what is under way come to its end."""
        self._shows = False
        self._backoff.end()
        for stream in self._streams.values():
            stream.end()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=grace_s)

    # --- what grows

    async def _follow(self) -> None:
        backoff = Backoff(0.5, 10.0)
        if not self._shows:
            await asyncio.Event().wait()
        while True:
            try:
                async for draft in self.parts.bus.drafts(self._name):
                    backoff.reset()
                    self._hear(draft)
            except errors.BusUnavailable:
                log.debug("%s: no drafts while the bus is away", self._name)
            await asyncio.sleep(backoff.next_s())

    def _hear(self, draft: Draft) -> None:
        self._cleanup.lives(draft.turn_id)
        if stream := self._streams.get(draft.reply_id):
            stream.renew(draft)
        elif self._may_begin(draft):
            stream = self._streams[draft.reply_id] = AnswerStream(self.parts, draft)
            self._start(self._keep_up(stream, draft.reply_id))

    def _may_begin(self, draft: Draft) -> bool:
        is_needed = draft.reply_id not in self._over and not self._cleanup.is_ended(draft.turn_id)
        is_wanted = self._shows and is_needed and len(self._streams) < STREAMS_MAX
        return is_wanted and self.parts.validity.is_sure and self.parts.adapter.cadence(draft.address) is not None

    async def _keep_up(self, stream: AnswerStream, reply_id: str) -> None:
        try:
            await stream.run()
            self._is_over(reply_id, is_there=self._is_coming(reply_id))
        except (errors.BusUnavailable, Abandoned) as error:  # the next draft goes on where this ended
            log.debug("%s: a draft is not shown: %s", self._name, error)
        except Exception:  # named boundary, supervisor child: a draft is never worth a failure
            log.exception("%s: a draft is not shown", self._name)
        finally:
            del self._streams[reply_id]

    def _is_coming(self, reply_id: str) -> bool:
        return self._over.get(reply_id, False)

    def _is_over(self, reply_id: str, *, is_there: bool) -> None:
        self._over[reply_id] = is_there
        while len(self._over) > OVER_KEPT:
            self._over.popitem(last=False)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=f"{self._name}-draft")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
