"""Sums over the usage ledger, for people who want to know what they or all of them spend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.contracts.entries import UsagePurpose
from gateway.contracts.ids import SessionKey
from gateway.contracts.spending import DailyUsage, UsageSum


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in Unix milliseconds, its end excluded."""

    from_ms: int
    to_ms: int


class UsageBook(Protocol):
    """Every sum is of the calls that ended within a span. Raises `StoreUnavailable`."""

    async def by_purpose(self, owner: SessionKey | None, span: Span) -> Mapping[UsagePurpose, UsageSum]:
        """Of one owner, or (None) of all."""
        ...

    async def by_model(self, span: Span) -> Mapping[tuple[UsagePurpose, str], UsageSum]:
        """Of all, by purpose and model."""
        ...

    async def by_day(self, owner: SessionKey | None, span: Span, *, limit: int, offset: int) -> Sequence[DailyUsage]:
        """Of one owner or of each of all; newest day first, on each day the greatest spender first."""
        ...

    async def top(self, span: Span, *, limit: int) -> Sequence[tuple[SessionKey, UsageSum]]:
        """Those who spent most: in money, and where that is equal in tokens."""
        ...
