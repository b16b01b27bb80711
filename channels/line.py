"""One enabled channel at work: its adapter, its door, its deliveries, its indicators, its reports.

The parts are supervised one by one: what fails for no foreseen reason is started again, and only a
platform that rejects our credentials ends the whole.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Self

from channels.adapter import CONNECTED, ChannelAdapter, SupportsDownloads
from channels.backoff import Backoff
from channels.homes import Doorstep, Homes
from channels.inbound.company import Company
from channels.inbound.deletions import Deletions
from channels.inbound.fetching import Fetching
from channels.inbound.intake import Intake
from channels.inbound.keeping import Keeping
from channels.inbound.promises import Promises
from channels.inbound.terms import DoorRooms, DoorRules
from channels.indicators import Indicators
from channels.leases import SOMEBODY_ELSE, Tenure
from channels.live.stream import StreamingAdapter
from channels.live.streaming import Streams
from channels.outbound.courier import Courier
from channels.outbound.delivery import Delivery
from channels.outbound.quiet import Spots
from channels.outbound.sender import SendRules
from channels.publishing import menu_of
from channels.together import first_to_end
from gateway.bus.bus import RedisBus
from gateway.bus.files import Files
from gateway.bus.operator import Operator
from gateway.bus.places import Places
from gateway.contracts.errors import BusUnavailable, CredentialsRejected
from gateway.contracts.ids import turn_id_of
from gateway.contracts.messages import Activity, Reply
from gateway.contracts.ports import Clock, Scrubber
from gateway.limits import CHANNEL_REPORT_TTL_S

log = logging.getLogger(__name__)

REPORT_EVERY_S: Final = CHANNEL_REPORT_TTL_S / 4
LOOK_EVERY_S: Final = 0.25  # a change of state is reported at once
RESTART_FIRST_S: Final = 0.5
RESTART_CAP_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rooms(DoorRooms):
    """The rooms of a door, and those that a line uses besides."""

    operator: Operator
    places: Places
    files: Files

    @classmethod
    def of(cls, bus: RedisBus, scrubber: Scrubber, clock: Clock, keeping: Keeping | None = None) -> Self:
        return cls(
            intake=bus.intake,
            access=bus.access,
            deliveries=bus.deliveries,
            operator=bus.operator,
            scrubber=scrubber,
            clock=clock,
            places=bus.places,
            presses=bus.questions,
            files=bus.files,
            suggestions=bus.suggestions,
            keeping=keeping,
        )


@dataclass(frozen=True, slots=True)
class Rules(DoorRules):
    """The part of the configuration that a line obeys, at its door and behind it."""

    sends: SendRules = field(default_factory=SendRules)
    deletes_inbound: bool = False
    streams: bool = True
    hears_bots: bool = False


class Line:
    """One channel. Run it once."""

    def __init__(self, adapter: ChannelAdapter, rooms: Rooms, rules: Rules, *, consumer: str) -> None:
        deliveries, places, scrubber, clock = rooms.deliveries, rooms.places, rooms.scrubber, rooms.clock
        homes, tenure, spots = Homes(adapter, places), Tenure(), Spots()
        self._adapter = adapter
        self._operator = rooms.operator
        self._scrubber = scrubber
        self._clock = clock
        self._rejection: str | None = None
        self._indicators = Indicators(adapter, deliveries, clock, also=self._follow)
        self._deletions = Deletions(adapter, rooms.intake, deliveries, clock) if rules.deletes_inbound else None
        self._fetching = Fetching(adapter, rooms.files, scrubber) if isinstance(adapter, SupportsDownloads) else None
        self._promises = Promises(adapter)
        self._intake = Intake(
            rooms,
            rules,
            accepted=self._indicators.accepted,
            retracted=self._retracted,
            delete=self._deletions.add if self._deletions is not None else None,
            promises=self._promises,
        )
        self._door = Doorstep(self._intake, adapter, places, Company(places) if rules.hears_bots else None)
        self._streams = (
            Streams(adapter, deliveries, places, scrubber, clock, homes, tenure, spots, shows=rules.streams)
            if isinstance(adapter, StreamingAdapter)
            else None
        )
        courier = Courier(
            adapter,
            deliveries,
            places,
            rooms.files,
            scrubber,
            clock,
            homes,
            tenure,
            rules=rules.sends,
            answering=self._answering,
        )
        self._delivery = Delivery(
            adapter,
            deliveries,
            courier,
            homes,
            tenure,
            consumer=consumer,
            spots=spots,
            coming=self._streams.coming if self._streams else lambda reply: None,
        )

    @property
    def state(self) -> str:
        """`connected`, or a plain reason."""
        return self._rejection or self._adapter.state

    async def run(self) -> None:
        """Work until cancelled. Raises `CredentialsRejected`."""
        try:
            await first_to_end(
                self._kept_up("adapter", lambda: self._adapter.run(self._door)),
                self._kept_up("delivery", self._delivery.run),
                self._kept_up("indicators", self._indicators.run),
                self._kept_up("promises", self._promises.run),
                *((self._kept_up("streams", self._streams.run),) if self._streams is not None else ()),
                *(self._kept_up("menu", menus.run) for menus in menu_of(self._adapter)),
                *((self._kept_up("deletions", self._deletions.run),) if self._deletions is not None else ()),
                *((self._kept_up("fetching", self._fetching.run),) if self._fetching is not None else ()),
                self.report(),
            )
        except CredentialsRejected as error:
            self._rejection = str(error)
            raise

    async def report(self) -> None:
        """Tell the operator's side how this channel is, every few seconds and at every change.

        Who stands by says nothing: the process that listens speaks for the account.
        """
        told, due_s = "", 0.0
        while True:
            state, now_s = self.state, self._clock.monotonic_s()
            if state != SOMEBODY_ELSE and (state != told or now_s >= due_s):
                try:
                    shown = state if state == CONNECTED else self._scrubber.scrub(state)
                    await self._operator.report_channel(self._adapter.name, shown, ttl_s=CHANNEL_REPORT_TTL_S)
                    told, due_s = state, now_s + REPORT_EVERY_S
                except BusUnavailable:
                    log.debug("%s: nobody can be told how it is", self._adapter.name)
            await asyncio.sleep(LOOK_EVERY_S)

    async def stop(self, *, grace_s: float) -> None:
        """Take nothing more in, let the sends in flight arrive; then `run` may be cancelled."""
        self._intake.close()
        streams = () if self._streams is None else (self._streams.drain(grace_s=grace_s),)
        await asyncio.gather(self._delivery.drain(grace_s=grace_s), *streams)

    def _answering(self, reply: Reply) -> None:
        self._indicators.answering(reply)
        self._promises.answering(reply)

    def _follow(self, activity: Activity) -> None:
        if self._streams is not None:
            self._streams.heard(activity)

    def _retracted(self, message_id: str) -> None:
        """There is no turn of that name any more, whether or not somebody works at it."""
        turn_id = turn_id_of(message_id)
        self._indicators.ended(turn_id)
        if self._streams is not None:
            self._streams.ended(turn_id)

    async def _kept_up(self, part: str, run: Callable[[], Awaitable[None]]) -> None:
        backoff = Backoff(RESTART_FIRST_S, RESTART_CAP_S)
        while True:
            try:
                await run()
                if self._delivery.is_draining:
                    await asyncio.Event().wait()  # the end of the line is for `stop` to say
            except CredentialsRejected:
                raise
            except Exception:  # named boundary, supervisor child: whatever it was, the channel goes on
                log.exception("%s: the %s failed and starts again", self._adapter.name, part)
            await asyncio.sleep(backoff.next_s())
