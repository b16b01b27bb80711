"""The ledger of what was spent today, as the agent uses it before and after each model call."""

from __future__ import annotations

from typing import Protocol

from gateway.contracts.ids import SessionKey
from gateway.contracts.spending import Amounts, Caps, Measure, Refusal, Reservation


class SpendingLedger(Protocol):
    """Counts against caps, atomically across processes and machines. Raises `StoreUnavailable`.

    For each owner and for the pot of all: what was settled and what is still reserved are never more than
    the caps, unless calls cost more than they had reserved. The first call of a day on which caps are in force
    finds what the usage table already knows of that day.
    """

    async def reserve(self, reservation: Reservation, *, own: Caps, pot: Caps, now_ms: int) -> Refusal | None:
        """Set the amounts aside, all or nothing. None: done; the same id again replaces what it had set aside."""
        ...

    async def settle(self, reservation: Reservation, cost: Amounts) -> None:
        """What the call really cost takes the place of its reservation. Again: nothing happens."""
        ...

    async def spent(self, owner: SessionKey | None, day: int, *, now_ms: int) -> Amounts | None:
        """Settled and reserved, of one owner or (None) of all; None where nothing was counted on that day."""
        ...

    async def warn_once(self, owner: SessionKey, day: int, *, caps: Caps, percent: int) -> frozenset[Measure]:
        """The measures of which `percent` of the cap is settled. Each is returned once per owner and day."""
        ...
