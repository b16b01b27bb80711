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

    async def enter(self, owner: SessionKey, code: str, *, now_ms: int) -> Redeemed:
        """Say whose code it is, and keep it for `owner`: to nobody else is it worth anything from then on. Nothing is
        joined. Who errs too often is not listened to."""
        ...

    async def join(
        self, owner: SessionKey, other: SessionKey, *, now_ms: int, notice: Callable[[LinkOffer], Reply]
    ) -> Redeemed:
        """Make `owner` and `other`, whose code `owner` has entered, one person, once; whoever repeats himself is told
        the same. What `notice` makes is committed with it."""
        ...

    async def decline(self, owner: SessionKey, other: SessionKey) -> bool:
        """Make the code of `other`, which `owner` has entered, worth nothing. False: it was."""
        ...

    async def part(
        self, owner: SessionKey, ends: Collection[SessionKey], *, actor: str, now_ms: int
    ) -> Sequence[SessionKey]:
        """Those of `ends` that were the same person as `owner` and stand alone now."""
        ...
