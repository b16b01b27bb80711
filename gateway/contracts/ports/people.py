"""Everything that belongs to one person, for whom it belongs to and for the operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gateway.contracts.ids import SessionKey


class PeopleStore(Protocol):
    """Hands out and erases. Raises `StoreUnavailable`."""

    async def export(self, owner: SessionKey) -> bytes:
        """All that is kept of an owner as one JSON document: rows by the name of their table. What was undone
        says so."""
        ...

    async def erase(self, owner: SessionKey) -> Mapping[str, int]:
        """Delete every trace of an owner; how many rows there were, by the name of their table."""
        ...
