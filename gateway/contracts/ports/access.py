"""Who may speak: what the bus shows of it, and strangers who ask to be let in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gateway.contracts.access import AccessView, Asked, Pairing, Projection, Taken
from gateway.contracts.ids import SessionKey


class AccessBus(Protocol):
    """The projection that intake reads, and strangers who wait to be let in. Truth is in SQL. Raises `BusUnavailable`.

    Where no projection is (a new bus, or one that lost its memory), nobody can say who is blocked: looking raises
    `BusUnavailable` until an agent process has shown what SQL holds, which takes it seconds.
    """

    async def view(self, owner: SessionKey, places: Sequence[SessionKey] = ()) -> AccessView:
        """What was decided about a user, his limits, and these places, all of one moment."""
        ...

    async def project(self, projection: Projection, *, is_forced: bool = False) -> bool:
        """Replace the whole projection, so that no reader ever sees half of it. False: a later one is there, which is
        replaced only if that `is_forced`."""
        ...

    async def projected(self) -> int | None:
        """The revision that is shown; None where none is, or not everywhere the same."""
        ...

    async def ask_pairing(self, pairing: Pairing, *, ttl_s: int, pending_max: int) -> Asked:
        """The pending code of a stranger, which is that of `pairing` if he has none yet."""
        ...

    async def take_pairing(self, code: str, *, by: str, taker: str) -> Taken:
        """Take a code, once: the same `taker` may ask again and is told the same. `by` is who enters it: who errs
        `PAIRING_TRIES_MAX` times is not listened to for `PAIRING_LOCKED_S`."""
        ...

    async def deny_pairing(self, code: str) -> SessionKey | None:
        """Turn a stranger down: his code is worth nothing, and he gets no other for as long as it would have held."""
        ...

    async def pairings(self) -> Sequence[Pairing]:
        """Who waits, oldest first."""
        ...
