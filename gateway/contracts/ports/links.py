"""Who is the same person."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from gateway.contracts.ids import SessionKey
from gateway.contracts.links import Ends, LinkOffer, Redeemed
from gateway.contracts.messages import Reply


class LinkBook(Protocol):
    """Ends, joined and parted. Every change is a line of the audit. Raises `StoreUnavailable`."""

    async def ends_of(self, owner: SessionKey) -> Sequence[SessionKey]:
        """All ends of the person whose end `owner` is, in order of their names; `owner` alone where nothing is
        linked."""
        ...

    async def persons(self) -> Sequence[Ends]:
        """Everybody who has more than one end."""
        ...

    async def offer(self, offer: LinkOffer, code: str) -> None:
        """Give out a code. It replaces the one that this account had."""
        ...

    async def withdraw(self, code: str) -> None:
        """A code that was said aloud is worth nothing any more."""
        ...

    async def redeem(
        self, owner: SessionKey, code: str, *, taker: str, now_ms: int, notice: Callable[[LinkOffer], Reply]
    ) -> Redeemed:
        """Make `owner` and whoever was given `code` one person, once; the same `taker` may repeat itself. What
        `notice` makes is committed with it. Who errs too often is not listened to."""
        ...

    async def part(
        self, owner: SessionKey, ends: Collection[SessionKey], *, actor: str, now_ms: int
    ) -> Sequence[SessionKey]:
        """Those of `ends` that were the same person as `owner` and stand alone now."""
        ...
