"""Commands chosen from a menu whose answer the platform says to be coming, and which a /stop has dropped.

A /stop takes what waits off its lane, and ends what runs: there will be no answer, and Discord would say for a quarter
of an hour that we think. Whatever was promised on the lane before the /stop, and has no answer by the time that is
acknowledged, never gets one: answers come before the acknowledgement.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from typing import Final

from channels.adapter import ChannelAdapter, SupportsPromises
from gateway.contracts.errors import DeliveryError
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import InboundMessage, Reply

log = logging.getLogger(__name__)

LANES_MAX: Final = 1_000  # with promises at a time; an older one ends by itself
PROMISES_MAX: Final = 50  # of one lane, kept or not: whoever ends one that was kept changes nothing


class Promises:
    """Those that this process made for one account. A platform that promises nothing costs nothing."""

    def __init__(self, adapter: ChannelAdapter) -> None:
        self._adapter = adapter
        self._promising = adapter if isinstance(adapter, SupportsPromises) else None
        self._made: OrderedDict[SessionKey, deque[ReplyAddress]] = OrderedDict()
        self._stopped: OrderedDict[str, deque[ReplyAddress]] = OrderedDict()
        self._broken: asyncio.Queue[ReplyAddress] = asyncio.Queue()

    def made(self, lane: SessionKey, address: ReplyAddress) -> None:
        """A command waits on its lane, and its answer will come to the address."""
        if self._promising is not None:
            self._made.setdefault(lane, deque(maxlen=PROMISES_MAX)).append(address)
            self._made.move_to_end(lane)
            _bound(self._made)

    def stopped(self, stop: InboundMessage) -> None:
        """The bus has a /stop."""
        if promised := self._made.pop(stop.key, None):
            self._stopped[stop.id] = promised
            _bound(self._stopped)

    def answering(self, reply: Reply) -> None:
        """A reply leaves now; perhaps it is what acknowledges a /stop."""
        stop_id = next((each for each in self._stopped if reply.turn_id.endswith(each)), "")
        for address in self._stopped.pop(stop_id, ()):
            self._broken.put_nowait(address)

    async def run(self) -> None:
        """End what nobody will keep, until cancelled."""
        while self._promising is not None:
            address = await self._broken.get()
            try:
                await self._promising.release(address)
            except DeliveryError as error:
                log.info("%s: a promised answer is still waited for: %s", self._adapter.name, error)
        await asyncio.Event().wait()


def _bound(promises: OrderedDict[SessionKey, deque[ReplyAddress]] | OrderedDict[str, deque[ReplyAddress]]) -> None:
    while len(promises) > LANES_MAX:
        promises.popitem(last=False)
