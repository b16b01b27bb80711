"""Who was given which secret for what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gateway.contracts.vault import Loan


class LoanBook(Protocol):
    """Says of every secret that a tool was given who had it given to which tool, never what it was. Raises
    `StoreUnavailable`."""

    async def record(self, loans: Sequence[Loan]) -> None:
        """Write it down, before it happens."""
        ...
