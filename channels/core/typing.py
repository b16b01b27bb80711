"""Typing indicators while an answer is awaited; its turn owns them, so they always stop.

The agent announces a running turn every few seconds with how long the announcement holds; a turn that dies stops
announcing, and its indicator goes out by itself. An indicator that the platform shows for five seconds is shown
again before it fades."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from channels.core.adapter import ChannelAdapter, SupportsTyping
from channels.core.rate_limit import Pacer, Urgency
from channels.core.tasks import Backoff, BoundedDict
from gateway.bus.deliveries import Deliveries
from gateway.contracts.errors import AddressDead, BusUnavailable, DeliveryError
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import Activity, Reply
from gateway.contracts.ports import Clock

log = logging.getLogger(__name__)

STATUS: Final = "is thinking…"
SHOWN_AFTER_S: Final = 0.8  # nobody misses an indicator for so long, and it costs a platform call like a send
ACCEPTED_FOR_S: Final = 8.0  # until the agent's first announcement; longer only when all workers are busy
REFUSED_FOR_S: Final = 600.0  # a place that shut us out is not asked again every few seconds
SHOWN_MAX: Final = 500  # lanes with an indicator at once: each costs a request every few seconds
ENDED_KEPT: Final = 2_000  # announcements are lossy and late; one of an answered turn must not light up again


@dataclass(slots=True)
class _Shown:
    """One lane's indicator and the turns that want it, each until when."""

    address: ReplyAddress
    until_s: dict[str, float] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None


class TypingIndicators:
    """The indicators of one channel. A platform without them costs nothing."""

    def __init__(
        self,
        adapter: ChannelAdapter,
        bus: Deliveries,
        clock: Clock,
        *,
        show_after_s: float = SHOWN_AFTER_S,
        also: Callable[[Activity], None] = lambda activity: None,
    ) -> None:
        """Call `also` with every announcement."""
        self._name = adapter.name
        self._typing = adapter if isinstance(adapter, SupportsTyping) else None
        self._bus = bus
        self._clock = clock
        self._show_after_s = show_after_s
        self._also = also
        self._shown: dict[str, _Shown] = {}
        self._ended: BoundedDict[str, None] = BoundedDict(ENDED_KEPT)
        self._pacer = Pacer(bus, adapter)
        self._refused_until_s: BoundedDict[str, float] = BoundedDict(SHOWN_MAX)

    async def run(self) -> None:
        """Follow the announcements until cancelled."""
        backoff = Backoff(0.5, 10.0)
        try:
            while True:
                try:
                    async for activity in self._bus.activities(self._name):
                        backoff.reset()
                        self.follow(activity)
                        self._also(activity)
                except BusUnavailable:
                    log.debug("%s: no indicators while the bus is away", self._name)
                await asyncio.sleep(backoff.next_s())
        finally:
            tasks = [shown.task for shown in self._shown.values() if shown.task is not None]
            for shown in tuple(self._shown.values()):
                self._out(shown)
            await asyncio.gather(*tasks, return_exceptions=True)

    def accepted(self, address: ReplyAddress) -> None:
        """Note that a message is on the bus: the person waits, whether or not a worker has claimed it."""
        self._show(address, "", ACCEPTED_FOR_S)

    def follow(self, activity: Activity) -> None:
        """Note that a turn runs, or ended."""
        if activity.ended:
            self._end(activity.address, activity.turn_id)
        elif activity.turn_id not in self._ended:
            self._show(activity.address, activity.turn_id, activity.for_s)

    def ended(self, turn_id: str) -> None:
        """Note that a turn ended, in any place."""
        self._ended[turn_id] = None
        for shown in [shown for shown in self._shown.values() if turn_id in shown.until_s]:
            self._end(shown.address, turn_id)

    def answering(self, reply: Reply) -> None:
        """Hide the indicator of the reply's turn, because the answer leaves now and the indicator would only outlive
        it. After a question the turn waits for a person, until the question is amended."""
        if reply.amends:
            self._ended.pop(reply.turn_id, None)
        else:
            self._end(reply.address, reply.turn_id)

    def _show(self, address: ReplyAddress, turn_id: str, for_s: float) -> None:
        if self._typing is None or self._is_refused(address):
            return
        shown = self._shown.get(address.lane)
        if shown is None:
            if len(self._shown) >= SHOWN_MAX:
                return
            shown = self._shown[address.lane] = _Shown(address)
            shown.task = asyncio.create_task(self._keep(shown, self._typing), name=f"{self._name}-typing")
        shown.address = address
        if turn_id:
            shown.until_s.pop("", None)
        shown.until_s[turn_id] = self._clock.monotonic_s() + for_s

    def _end(self, address: ReplyAddress, turn_id: str) -> None:
        if turn_id:
            self._ended[turn_id] = None
        shown = self._shown.get(address.lane)
        if shown is None:
            return
        shown.until_s.pop("", None)
        shown.until_s.pop(turn_id, None)
        if not shown.until_s:
            self._out(shown)

    def _out(self, shown: _Shown) -> None:
        del self._shown[shown.address.lane]
        if shown.task is not None:
            shown.task.cancel()

    async def _keep(self, shown: _Shown, typing: SupportsTyping) -> None:
        """Show, wait, show again, until the last turn's time is up."""
        is_lit = False
        try:
            await asyncio.sleep(self._show_after_s)
            while (left_s := max(shown.until_s.values(), default=0.0) - self._clock.monotonic_s()) > 0:
                if await self._pacer.may_spend(typing.budgets(shown.address), Urgency.INDICATOR):
                    await typing.show_typing(shown.address, STATUS)
                    is_lit = True
                await asyncio.sleep(min(typing.typing_period_s, left_s))
            if is_lit:
                await typing.show_typing(shown.address, "")
        except AddressDead:
            self._refused_until_s[shown.address.lane] = self._clock.monotonic_s() + REFUSED_FOR_S
        except (DeliveryError, BusUnavailable) as error:
            log.debug("%s: no indicator: %s", self._name, error)
        except Exception:  # named boundary, adapter callback: an indicator is never worth a failure
            log.exception("%s: the indicator failed", self._name)
        if self._shown.get(shown.address.lane) is shown:
            del self._shown[shown.address.lane]

    def _is_refused(self, address: ReplyAddress) -> bool:
        return self._clock.monotonic_s() < self._refused_until_s.get(address.lane, 0.0)
