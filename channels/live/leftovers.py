"""What showed a draft that no answer follows: taken away when its turn says that there will be none, or is silent.

A turn that is silent for long, and whose answer does not come, has died; if it is taken up again, its answer is shown
anew. A row that is left although the answer is being delivered names nothing that the answer has not made its own, but
for what a process began that slept through all that.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from channels.live.stream import StreamParts
from channels.outbound.adopting import Adopting
from channels.patience import Abandoned
from gateway.contracts.errors import (
    BusUnavailable,
    CredentialsRejected,
    DeliveryError,
    OutcomeUnknown,
    RateLimited,
    SendFailed,
)
from gateway.contracts.messages import Preview

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 10.0  # for what was begun and never ended
SILENT_FOR_S: Final = 30.0  # a turn that lives says so every three seconds, and is taken over within ten
TURNS_KEPT: Final = 2_000  # more than run at once
_ENDED: Final = float("-inf")


class Leftovers:
    """Those of one channel; only the process that delivers touches them."""

    def __init__(
        self, parts: StreamParts, is_coming: Callable[[str], bool], *, silent_for_s: float = SILENT_FOR_S
    ) -> None:
        """`is_coming` knows of replies that are there and wait to be delivered."""
        self._parts = parts
        self._name = parts.adapter.name
        self._adopting = Adopting(parts.adapter, parts.bus, parts.places, parts.patience)
        self._is_coming = is_coming
        self._silent_for_s = silent_for_s
        self._heard_s: OrderedDict[str, float] = OrderedDict()
        """When each turn was heard of, -inf if that was its end."""

    def lives(self, turn_id: str) -> None:
        """It was heard of. What is late does not bring back one that has ended."""
        if not self.is_ended(turn_id):
            self._note(turn_id, _now_s())

    def ended(self, turn_id: str) -> None:
        """No answer of it will come."""
        self._note(turn_id, _ENDED)

    def is_ended(self, turn_id: str) -> bool:
        """Whether that was said of it."""
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
        """What is left of a turn that has ended. What cannot be taken away now is tried with the next look."""
        for row in await self._rows():
            if row.turn_id == turn_id:
                await self._clear(row, is_ended=True)

    def _note(self, turn_id: str, heard_s: float) -> None:
        self._heard_s[turn_id] = heard_s
        self._heard_s.move_to_end(turn_id)
        while len(self._heard_s) > TURNS_KEPT:
            self._heard_s.popitem(last=False)

    async def _rows(self) -> list[Preview]:
        if not self._parts.tenure.is_sure:
            return []
        try:
            return list(await self._parts.bus.previews(self._name))
        except BusUnavailable:
            log.debug("%s: no look for drafts while the bus is away", self._name)
            return []

    async def _clear(self, row: Preview, *, is_ended: bool) -> None:
        try:
            (lane,) = await self._parts.homes.lanes([row.address])
            async with self._parts.spots.of(lane).one_at_a_time:
                known = await self._parts.bus.delivered(row.key, row.reply_id)
                is_answered = bool(known.updated_at_ms)
                if is_answered or (is_ended and not self._is_coming(row.reply_id)):
                    await self._take_back(row, but={*known.platform_ids, *known.shown}, is_answered=is_answered)
        except (BusUnavailable, Abandoned) as error:
            log.debug("%s: a draft is not taken away yet: %s", self._name, error)

    async def _take_back(self, row: Preview, *, but: set[str], is_answered: bool) -> None:
        bus, withdrawing = self._parts.bus, self._parts.withdrawing
        now = await bus.preview(self._name, row.key, row.reply_id)
        if now is None or not self._parts.tenure.is_sure:
            return
        try:
            address = await self._parts.homes.newest(now.address)
            lost = await self._adopting.settled(now, address) if now.opening and not is_answered else None
            for message_id in (*now.messages, *((lost,) if lost else ())):
                if message_id not in but:
                    await withdrawing.take_back(address, message_id)
        except (RateLimited, SendFailed, OutcomeUnknown, CredentialsRejected) as error:
            log.info("%s: the draft of %s is not taken away yet: %s", self._name, now.reply_id, error)
            return
        except DeliveryError as error:
            log.info("%s: the draft of %s stays: %s", self._name, now.reply_id, error)
        except Exception:  # named boundary, delivery attempt
            log.exception("%s: the draft of %s stays", self._name, now.reply_id)
        await bus.drop_preview(self._name, now)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
