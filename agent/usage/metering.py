"""Daily limits: who may still ask a model today, who is told that little is left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import structlog

from agent.limits import WARNED_PERCENT
from agent.model.metering import Planned
from agent.running.background import Background
from agent.usage.sentences import little_left_note
from gateway.contracts.errors import BudgetSpent, StoreError
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import Clock
from gateway.contracts.spending import Amounts, Caps, Reservation, day_begins_ms, day_of
from gateway.store.usage import SpendingStore
from gateway.words import Words

_log = structlog.get_logger(__name__)
_LAST_SETTLEMENTS_S = 2.0  # what a process that ends gives them; the rest expires


class Terms(Protocol):
    """What people may take on one day."""

    @property
    def pot(self) -> Caps:
        """All together."""
        ...

    async def caps_of(self, owner: SessionKey) -> Caps:
        """One of them."""
        ...


class Meter:
    """`agent.model.metering.Gate`: each owner has an allowance of his own, all share the pot.

    Where nothing is limited, nothing is asked of the database.
    """

    def __init__(self, ledger: SpendingStore, terms: Terms, clock: Clock) -> None:
        self._ledger = ledger
        self._terms = terms
        self._clock = clock
        self._background = Background()
        self._unpriced: set[str] = set()

    async def admit(self, owner: SessionKey, plan: Callable[[], Planned]) -> PaidCall | None:
        """A reservation for one call. Raises `BudgetSpent`."""
        own, pot = await self.caps_of(owner), self._terms.pot
        if own.are_open and pot.are_open:
            return None
        planned = plan()
        if (own.nano_usd or pot.nano_usd) and not planned.is_priced:
            self._complain_of_price(planned.model)
        call = PaidCall(self._ledger, self._clock, self._background, owner, planned, own, pot)
        try:
            await call.renew()
        except asyncio.CancelledError:
            call.settle_soon(Amounts())  # it may have been reserved all the same
            raise
        return call

    async def caps_of(self, owner: SessionKey) -> Caps:
        """What he may take on one day."""
        return await self._terms.caps_of(owner)

    @property
    def pot(self) -> Caps:
        """What all together may take on one day."""
        return self._terms.pot

    async def spent(self, owner: SessionKey | None) -> Amounts | None:
        """What counts against today's caps, of one owner or (None) of the pot; None where nothing was counted."""
        now_ms = self._clock.now_ms()
        return await self._ledger.spent(owner, day_of(now_ms), now_ms=now_ms)

    async def little_left(self, owner: SessionKey, words: Words) -> str:
        """One line that tells `owner`, once per day and measure, that little is left; else nothing."""
        caps = await self.caps_of(owner)
        if caps.are_open:
            return ""
        now_ms = self._clock.now_ms()
        day = day_of(now_ms)
        try:
            measures = await self._ledger.warn_once(owner, day, caps=caps, percent=WARNED_PERCENT)
        except StoreError as error:
            _log.warning("limits.not_warned", reason=str(error))
            return ""
        return little_left_note(measures, words, reset_at_ms=day_begins_ms(day + 1), now_ms=now_ms)

    async def aclose(self) -> None:
        """Let the last settlements be written."""
        await self._background.finish(timeout_s=_LAST_SETTLEMENTS_S)

    def _complain_of_price(self, model: str) -> None:
        if model not in self._unpriced:
            self._unpriced.add(model)
            _log.warning("limits.price_unknown", model=model, counted_as_usd=0)


class PaidCall:
    """`agent.model.metering.Ticket`: one reservation in the ledger, from admission to settlement."""

    def __init__(
        self,
        ledger: SpendingStore,
        clock: Clock,
        background: Background,
        owner: SessionKey,
        planned: Planned,
        own: Caps,
        pot: Caps,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._background = background
        self._for_ms = int(planned.for_s * 1000)
        self._own = own
        self._pot = pot
        self._is_settled = False
        self._reservation = Reservation(
            id=clock.new_id(),
            owner=owner,
            day=day_of(clock.now_ms()),
            tokens=planned.most.tokens,
            nano_usd=planned.most.nano_usd,
            expires_at_ms=0,
            turn_id=planned.turn_id,
            begins_turn=planned.begins_turn,
        )

    async def renew(self) -> None:
        """Reserve for as long as one more attempt may take. Raises `BudgetSpent`."""
        now_ms = self._clock.now_ms()
        self._reservation = replace(self._reservation, expires_at_ms=now_ms + self._for_ms)
        refusal = await self._ledger.reserve(self._reservation, own=self._own, pot=self._pot, now_ms=now_ms)
        if refusal is not None:
            reset_at_ms = day_begins_ms(self._reservation.day + 1)
            raise BudgetSpent(refusal.measure, reset_at_ms=reset_at_ms, is_everybodys=refusal.is_everybodys)

    async def settle(self, cost: Amounts) -> None:
        """Write what it cost. A database that is away does not cost the answer: the reservation expires."""
        try:
            await self._ledger.settle(self._reservation, cost)
        except StoreError as error:
            _log.warning("limits.not_settled", reason=str(error))
        self._is_settled = True

    def settle_soon(self, cost: Amounts) -> None:
        """The same, later and once."""
        if not self._is_settled:
            self._is_settled = True
            self._background.start(self.settle(cost))
