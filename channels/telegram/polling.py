"""Updates by long poll, confirmed only after the bus has every message of the batch.

Telegram forgets an update when the next `getUpdates` asks for a higher offset, so the offset moves after
the last message of a batch is on the bus and never before; a batch that was interrupted comes again, and
the bus knows what it has. The raw JSON is read: an update that nobody can parse must not stop the others.
"""

from __future__ import annotations

import logging
from typing import Any

from telegram import Bot

from channels.adapter import Door
from channels.normalized import Ignored, Migrated
from channels.telegram import limits
from channels.telegram.normalize import TelegramIdentity, normalize
from gateway.contracts.ports import IntakeBus, PlaceBus

log = logging.getLogger(__name__)


class Poller:
    """The update stream of one bot."""

    def __init__(self, bot: Bot, me: TelegramIdentity, positions: IntakeBus, places: PlaceBus) -> None:
        self._bot = bot
        self._me = me
        self._positions = positions
        self._places = places
        self._position = f"telegram:{me.bot_id}"
        self.poisoned = 0
        """Updates that could not be understood, since the start."""

    async def next_batch(self, door: Door, *, wait_s: int) -> int:
        """One poll; everything in it goes through the door, then the offset moves. Returns its size.

        Raises `BusUnavailable` or the SDK's `TelegramError`; the offset then stays.
        """
        offset = int(await self._positions.position(self._position) or 0)
        updates = await self._get_updates(offset, wait_s)
        for update in updates:
            await self._hand_in(update, door)
        newest = max((update_id for update in updates if (update_id := _update_id(update)) is not None), default=None)
        if newest is not None:
            await self._positions.set_position(self._position, str(newest + 1))
        return len(updates)

    async def _get_updates(self, offset: int, wait_s: int) -> list[Any]:
        answer = await self._bot.do_api_request(
            "getUpdates",
            api_kwargs={
                "offset": offset,
                "timeout": wait_s,
                "limit": limits.POLL_BATCH_MAX,
                "allowed_updates": list(limits.ALLOWED_UPDATES),
            },
            read_timeout=wait_s + limits.POLL_READ_MARGIN_S,
        )
        return answer if isinstance(answer, list) else []

    async def _hand_in(self, update: Any, door: Door) -> None:
        try:
            incoming = normalize(update, self._me)
        except Exception:  # named boundary, adapter callback: one poisonous update must not hold up the others
            self.poisoned += 1
            log.exception("telegram: update %s is skipped: it cannot be understood", _update_id(update))
            return
        if isinstance(incoming, Ignored):
            log.debug("telegram: update %s ignored: %s", _update_id(update), incoming.reason)
            return
        if isinstance(incoming, Migrated):
            log.info("telegram: chat %s is %s now", incoming.old, incoming.new)
            await self._places.note_move(self._me.channel, incoming.old, incoming.new)
            return
        await door.accept(incoming)


def _update_id(update: Any) -> int | None:
    value = update.get("update_id") if isinstance(update, dict) else None
    return value if isinstance(value, int) else None
