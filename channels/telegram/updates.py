"""What is in an update, however it came: presses and moves are dealt with here, messages go on to the door.

The raw JSON is read: an update that nobody can parse must not stop the others.
"""

from __future__ import annotations

import logging
from typing import Any

from channels.adapter import Door
from channels.normalized import Ignored, Incoming, Migrated
from channels.telegram.answering import Presses
from channels.telegram.normalize import TelegramIdentity, normalize
from channels.telegram.presses import normalize_stop, query_id_of
from gateway.bus.places import Places

log = logging.getLogger(__name__)


class Updates:
    """The updates of one bot."""

    def __init__(self, me: TelegramIdentity, presses: Presses, places: Places) -> None:
        self._me = me
        self._presses = presses
        self._places = places

    async def message_in(self, update: Any, door: Door) -> Incoming | None:
        """The message that is left to hand in, None when nothing is. Raises `BusUnavailable`."""
        if query_id_of(update):
            await self._presses.hand_in(update, door)
            return None
        try:
            incoming = normalize_stop(update, self._me) or normalize(update, self._me)
        except Exception:  # named boundary, adapter callback: one poisonous update must not hold up the others
            log.exception("%s: update %s is skipped: it cannot be understood", self._me.channel, id_of(update))
            return None
        if isinstance(incoming, Ignored):
            log.debug("%s: update %s ignored: %s", self._me.channel, id_of(update), incoming.reason)
            return None
        if isinstance(incoming, Migrated):
            log.info("%s: chat %s is %s now", self._me.channel, incoming.old, incoming.new)
            await self._places.note_move(self._me.channel, incoming.old, incoming.new)
            return None
        return incoming


def id_of(update: Any) -> int | None:
    """The number of an update, None if it has none."""
    value = update.get("update_id") if isinstance(update, dict) else None
    return value if isinstance(value, int) else None
