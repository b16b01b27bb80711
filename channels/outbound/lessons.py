"""What a platform's refusal means for everybody else who writes to the same place, or at all."""

from __future__ import annotations

import logging
from typing import Final

from channels.adapter import ChannelAdapter, SupportsMoves, SupportsPlaceholders
from channels.pacing import Pacer
from channels.patience import Patience
from gateway.bus.places import Places
from gateway.contracts.errors import AddressDead, AddressMoved, DeliveryError, OutcomeUnknown, RateLimited
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.ports import Outlook, Scrubber

log = logging.getLogger(__name__)

REFUSALS_MAX: Final = 1_000  # within REFUSALS_WINDOW_S; at ten times as many Discord shuts out the whole machine
REFUSED_PAUSE_S: Final = 60.0


class Lessons:
    """Those of one account. Waits for the bus."""

    def __init__(
        self, adapter: ChannelAdapter, places: Places, pacer: Pacer, patience: Patience, scrubber: Scrubber
    ) -> None:
        self._adapter = adapter
        self._places = places
        self._pacer = pacer
        self._patience = patience
        self._scrubber = scrubber

    async def outlook(self, address: ReplyAddress) -> Outlook:
        """What was learned about a place, and about the account."""
        grave = self._grave(address)
        return await self._patience.with_bus(lambda: self._places.outlook(self._adapter.account, grave))

    async def learn(self, error: DeliveryError, address: ReplyAddress) -> None:
        """A send to `address` was refused, or got lost."""
        adapter, places, with_bus = self._adapter, self._places, self._patience.with_bus
        match error:
            case RateLimited():
                await self._pause(address, error.retry_after_s, is_global=error.is_global)
            case AddressMoved() if isinstance(adapter, SupportsMoves):
                old, new = adapter.chat_of(address), adapter.chat_of(error.address)
                log.info("%s: chat %s is %s now", adapter.name, old, new)
                await with_bus(lambda: places.note_move(adapter.name, old, new))
            case AddressDead():
                reason = self._scrubber.scrub(str(error))
                met = await with_bus(lambda: places.bury(adapter.account, self._grave(address), reason=reason))
                if met >= REFUSALS_MAX:
                    log.error("%s: %d places refused us lately, so sends pause", adapter.name, met)
                    await self._pause(address, REFUSED_PAUSE_S, is_global=True)
            case OutcomeUnknown() if isinstance(adapter, SupportsPlaceholders):
                await with_bus(lambda: places.doubt(adapter.account))
            case _:
                pass

    async def _pause(self, address: ReplyAddress, for_s: float, *, is_global: bool) -> None:
        budgets = self._adapter.budgets(address)
        await self._patience.with_bus(lambda: self._pacer.pause(budgets[-1:] if is_global else budgets, for_s=for_s))

    def _grave(self, address: ReplyAddress) -> str:
        return f"{self._adapter.account}:{address.lane}"
