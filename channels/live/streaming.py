"""Answers while they grow: follows the drafts of one channel, and takes away what no answer follows.

Drafts are lossy, and so is all of this, but for one thing: what was begun on a platform stands in the ledger
(`Preview`), and in the end it is the reply's, or gone (`channels.live.leftovers`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any, Final

from channels.backoff import Backoff
from channels.homes import Homes
from channels.leases import Tenure
from channels.live.leftovers import Leftovers
from channels.live.stream import Stream, StreamingAdapter, StreamParts
from channels.outbound.lessons import Lessons
from channels.outbound.quiet import Spots
from channels.outbound.withdrawing import Withdrawing
from channels.pacing import Pacer
from channels.patience import Abandoned, Patience
from channels.together import first_to_end
from gateway.bus.deliveries import Deliveries
from gateway.bus.places import Places
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.messages import Activity, Draft, Reply
from gateway.contracts.ports import Clock, Scrubber

log = logging.getLogger(__name__)

STREAMS_MAX: Final = 500  # answers that grow at once; each costs a call every second or so
OVER_KEPT: Final = 2_000  # drafts are late and lossy; one of an answered turn must not begin anything


class Streams:
    """Those of one channel. Where nothing is to be shown, what earlier processes began is taken away."""

    def __init__(
        self,
        adapter: StreamingAdapter,
        bus: Deliveries,
        places: Places,
        scrubber: Scrubber,
        clock: Clock,
        homes: Homes,
        tenure: Tenure,
        spots: Spots,
        *,
        shows: bool = True,
    ) -> None:
        patience = Patience()
        pacer = Pacer(bus, adapter, patience.wait)
        self.parts = parts = StreamParts(
            adapter,
            bus,
            places,
            clock,
            homes,
            tenure,
            spots,
            pacer,
            patience,
            Lessons(adapter, places, pacer, patience, scrubber),
            Withdrawing(adapter),
        )
        self._patience = patience
        self._name = adapter.name
        self._shows = shows
        self._leftovers = Leftovers(parts, self._is_coming)
        self._streams: dict[str, Stream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: OrderedDict[str, bool] = OrderedDict()
        """Replies that need no drafts any more, and whether they are there."""

    async def run(self) -> None:
        """Follow the drafts until cancelled."""
        try:
            await first_to_end(self._follow(), self._leftovers.run())
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def heard(self, activity: Activity) -> None:
        """A turn runs; or it ended, and there is no answer to come."""
        if activity.ended:
            self.ended(activity.turn_id)
        else:
            self._leftovers.lives(activity.turn_id)

    def ended(self, turn_id: str) -> None:
        """There is no answer to come, and no draft of it begins any more."""
        for stream in self._streams.values():
            if stream.turn_id == turn_id:
                stream.end()
        self._leftovers.ended(turn_id)
        self._start(self._leftovers.take_away(turn_id))

    def coming(self, reply: Reply) -> None:
        """The answer is here: its draft grows no more."""
        self._is_over(reply.id, is_there=True)
        if stream := self._streams.get(reply.id):
            stream.end()

    async def drain(self, *, grace_s: float) -> None:
        """Begin nothing any more, let what is under way come to its end."""
        self._shows = False
        self._patience.end()
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
            except BusUnavailable:
                log.debug("%s: no drafts while the bus is away", self._name)
            await asyncio.sleep(backoff.next_s())

    def _hear(self, draft: Draft) -> None:
        self._leftovers.lives(draft.turn_id)
        if stream := self._streams.get(draft.reply_id):
            stream.renew(draft)
        elif self._may_begin(draft):
            stream = self._streams[draft.reply_id] = Stream(self.parts, draft)
            self._start(self._keep_up(stream, draft.reply_id))

    def _may_begin(self, draft: Draft) -> bool:
        is_needed = draft.reply_id not in self._over and not self._leftovers.is_ended(draft.turn_id)
        is_wanted = self._shows and is_needed and len(self._streams) < STREAMS_MAX
        return is_wanted and self.parts.tenure.is_sure and self.parts.adapter.cadence(draft.address) is not None

    async def _keep_up(self, stream: Stream, reply_id: str) -> None:
        try:
            await stream.run()
            self._is_over(reply_id, is_there=self._is_coming(reply_id))
        except (BusUnavailable, Abandoned) as error:  # the next draft goes on where this ended
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
