"""Updates by long poll, confirmed only after the bus has every message of the batch.

Telegram forgets an update when the next `getUpdates` asks for a higher offset, so the offset moves after
the last message of a batch is on the bus and never before; a batch that was interrupted comes again, and
the bus knows what it has.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from telegram import Bot

from channels.adapter import Door, QueueFull
from channels.normalized import Incoming
from channels.telegram import limits
from channels.telegram.offsets import Offset
from channels.telegram.updates import Updates, id_of
from gateway.bus.inbound import Inbound
from gateway.contracts.ports import Clock
from gateway.limits import POLLER_LEASE_TTL_S


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a poll waits for an update, when a poll that does not return counts as dead (`silence_s` after
    that), and how long after our death somebody else polls."""

    poll_s: int = limits.POLL_TIMEOUT_S
    silence_s: float = limits.POLL_READ_MARGIN_S
    lease_ttl_s: float = POLLER_LEASE_TTL_S


PATIENCE: Final = Patience()


class Poller:
    """The update stream of one bot."""

    def __init__(
        self,
        bot: Bot,
        updates: Updates,
        positions: Inbound,
        position: str,
        clock: Clock,
        *,
        silence_s: float,
    ) -> None:
        self._bot = bot
        self._updates = updates
        self._positions = positions
        self._position = position
        self._clock = clock
        self._silence_s = silence_s
        self._offset: Offset | None = None
        self._taken: set[int] = set()  # from the offset on: what came behind an update that is not confirmed yet

    async def next_batch(self, door: Door, *, wait_s: int) -> int:
        """One poll; everything in it goes through the door, then the offset moves. Returns its size.

        Raises `BusUnavailable`, `TimeoutError` or the SDK's `TelegramError`; the offset then stays.
        """
        if self._offset is None:
            self._offset = Offset.parse(await self._positions.position(self._position))
        asked, asked_s = self._offset.update_id, _now_s()
        updates = await self._get_updates(self._offset.valid_at(self._clock.now_ms()), wait_s)
        refusals = _Refusals()
        for update in updates:
            update_id = id_of(update)
            if update_id not in self._taken and await self._hand_in(update, door, refusals) and update_id is not None:
                self._taken.add(update_id)
        known = [update_id for update in updates if (update_id := id_of(update)) is not None]
        if refusals.first_id is not None:
            await self._move_to(refusals.first_id)
        elif known and refusals.first is None:
            await self._move_to(known[-1] + 1)
        if refusals.first is not None:
            raise refusals.first
        if self._offset.update_id == asked:
            await self._rest(asked_s, wait_s)
        return len(updates)

    async def _rest(self, asked_s: float, wait_s: int) -> None:
        """A server that brings nothing new and does not wait for it either must not be asked without a break."""
        if _now_s() - asked_s < min(wait_s, limits.EMPTY_POLL_PAUSE_S):
            await asyncio.sleep(limits.EMPTY_POLL_PAUSE_S)

    async def _move_to(self, update_id: int) -> None:
        """On record before it is used: the next poll makes Telegram forget what is below."""
        offset = Offset(update_id, self._clock.now_ms())
        await self._positions.set_position(self._position, offset.as_text())
        self._offset = offset
        self._taken = {taken for taken in self._taken if taken >= update_id}

    async def _get_updates(self, offset: int, wait_s: int) -> list[Any]:
        async with asyncio.timeout(wait_s + 2 * self._silence_s):  # a read timeout begins anew with each byte
            answer = await self._bot.do_api_request(
                "getUpdates",
                api_kwargs={
                    "offset": offset,
                    "timeout": wait_s,
                    "limit": limits.POLL_BATCH_MAX,
                    "allowed_updates": list(limits.ALLOWED_UPDATES),
                },
                read_timeout=wait_s + self._silence_s,
            )
        return answer if isinstance(answer, list) else []

    async def _hand_in(self, update: Any, door: Door, refusals: _Refusals) -> bool:
        """Bring it to the bus; False where there was no room for it."""
        incoming = await self._updates.message_in(update, door)
        if incoming is None:
            return True
        if refusals.holds_back(incoming):
            return False
        try:
            await door.accept(incoming)
        except QueueFull as error:
            refusals.add(incoming, id_of(update), error)
            return False
        return True


def _now_s() -> float:
    return asyncio.get_running_loop().time()


class _Refusals:
    """Those for whom the queue had no room: what follows in the same place waits behind them, others go on."""

    def __init__(self) -> None:
        self._places: set[tuple[str, str]] = set()
        self.first: QueueFull | None = None
        self.first_id: int | None = None

    def holds_back(self, incoming: Incoming) -> bool:
        return self._lane(incoming) in self._places and not incoming.is_control

    def add(self, incoming: Incoming, update_id: int | None, error: QueueFull) -> None:
        self._places.add(self._lane(incoming))
        if self.first is None:
            self.first, self.first_id = error, update_id

    @staticmethod
    def _lane(incoming: Incoming) -> tuple[str, str]:
        return incoming.user_id, incoming.address.lane
