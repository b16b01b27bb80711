"""The title of a conversation on its way to the thread or topic that bears it: may be repeated, never in a hurry.

No answer waits for it: titles have lanes of their own, spend what the platform grants for names, and no refusal of one
says anything about the place as a place for answers. Of several that wait for a place only the last is given; one that
cannot be given for too long is left out.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Final

from channels.adapter import ChannelAdapter, Nameable, SupportsNames
from channels.homes import Homes
from channels.outbound.journey import RETRY_DELAYS_S
from channels.outbound.page import Page, TakenOver
from channels.outbound.status import PutOff
from channels.pacing import Pacer
from channels.patience import Abandoned, Patience
from gateway.bus.deliveries import Deliveries
from gateway.bus.places import Places
from gateway.contracts.errors import (
    AddressDead,
    CredentialsRejected,
    DeliveryError,
    FormatRefused,
    OutcomeUnknown,
    RateLimited,
)
from gateway.contracts.messages import DeliveryState
from gateway.contracts.ports import Clock, PendingReply, Scrubber

log = logging.getLogger(__name__)

TITLE_LATE_AFTER_S: Final = 900.0  # a thread of Discord's may be renamed twice in ten minutes
ATTEMPT_MAX_S: Final = 10.0  # an SDK may wait for a rate limit by itself
_ENDED: Final = (DeliveryState.SENT, DeliveryState.FAILED)

_Ending = tuple[DeliveryState, str]
_DONE: Final[_Ending] = (DeliveryState.SENT, "")


class TitleCourier:
    """Names the places of one channel. Safe to use from many lanes at once."""

    def __init__(
        self,
        adapter: ChannelAdapter,
        bus: Deliveries,
        places: Places,
        homes: Homes,
        pacer: Pacer,
        patience: Patience,
        scrubber: Scrubber,
        clock: Clock,
    ) -> None:
        self._adapter = adapter
        self._naming = adapter if isinstance(adapter, SupportsNames) else None
        self._bus = bus
        self._places = places
        self._homes = homes
        self._pacer = pacer
        self._patience = patience
        self._scrubber = scrubber
        self._clock = clock

    async def attempt(self, pending: PendingReply, *, is_overtaken: bool) -> PutOff | None:
        """Name the place; `is_overtaken`: a later title of the same conversation waits already. None: the title has
        come to its end, the receipt is written. Raises `Abandoned`, `TakenOver`."""
        page = Page(pending, self._adapter.name, self._bus, self._scrubber, self._clock, self._patience)
        outcome = self._foregone(page, is_overtaken=is_overtaken) or await self._tried(page)
        if isinstance(outcome, float):
            return PutOff(replace(pending, record=page.record), outcome)
        state, reason = outcome
        if state is not DeliveryState.SENT:
            log.info("%s: %s is left out: %s", self._adapter.name, page.reply.id, reason)
        await page.finish(state, reason=reason)
        return None

    def _foregone(self, page: Page, *, is_overtaken: bool) -> _Ending | None:
        """What needs no attempt."""
        if page.record.state in _ENDED:
            return page.record.state, page.record.reason
        if is_overtaken:
            return DeliveryState.FAILED, "a later title takes its place"
        return (DeliveryState.FAILED, "too late") if _left_s(page) <= 0 else None

    async def _tried(self, page: Page) -> _Ending | float:
        """How it ended, or the pause before the next attempt."""
        try:
            async with asyncio.timeout(ATTEMPT_MAX_S):
                return await self._name(page)
        except (Abandoned, TakenOver):
            raise
        except DeliveryError as error:
            return await self._after(page, error)
        except TimeoutError:
            return await self._after(page, OutcomeUnknown("no answer within the time that a title has"))
        except Exception as error:  # named boundary, delivery attempt: a name is never worth a failure
            log.exception("%s: %s cannot be given", self._adapter.name, page.reply.id)
            return DeliveryState.FAILED, f"unforeseen {type(error).__name__}"

    async def _name(self, page: Page) -> _Ending | float:
        naming, title = self._naming, page.reply.title
        if naming is None or not title:
            return _DONE
        await self._adapter.until_ready()
        address = await self._patience.with_bus(lambda: self._homes.newest(page.reply.address))
        place = naming.nameable(address)
        if place is None or not await self._is_ours(page, place):
            return _DONE
        if not await naming.lacks_name(address, title):
            return _DONE
        wait_s = await self._patience.with_bus(lambda: self._pacer.spend(place.budgets))
        if wait_s > 0:
            return await self._later(page, wait_s, "the place was named too often lately")
        await page.note(DeliveryState.SENDING)
        await naming.name_place(address, title)
        return _DONE

    async def _is_ours(self, page: Page, place: Nameable) -> bool:
        name, key = f"{self._adapter.account}:{place.name}", str(page.reply.key)
        return await self._patience.with_bus(
            lambda: self._places.may_name(name, conversation=key, is_first=place.is_first)
        )

    async def _after(self, page: Page, error: DeliveryError) -> _Ending | float:
        match error:
            case AddressDead() | FormatRefused() | CredentialsRejected():  # of a token that is bad the sends tell
                return DeliveryState.FAILED, str(error)
            case RateLimited():
                return await self._later(page, error.retry_after_s, str(error))
            case _:
                chosen_s = RETRY_DELAYS_S[min(page.record.attempt, len(RETRY_DELAYS_S) - 1)]
                return await self._later(page, self._patience.chosen_s(chosen_s), str(error))

    async def _later(self, page: Page, pause_s: float, reason: str) -> _Ending | float:
        if pause_s >= _left_s(page):
            return DeliveryState.FAILED, reason
        await page.note(DeliveryState.RETRY, reason=reason, attempt=page.record.attempt + 1)
        return float(pause_s)


def _left_s(page: Page) -> float:
    """How long it is worth trying."""
    return TITLE_LATE_AFTER_S - (page.now_ms() - page.reply.created_at_ms) / 1000
