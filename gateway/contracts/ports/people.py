"""Everything that belongs to one person, for whom it belongs to and for the operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from gateway.contracts.ids import SessionKey


class PeopleStore(Protocol):
    """Hands out and erases. Raises `StoreUnavailable`."""

    async def belongings(self, owner: SessionKey) -> Mapping[str, list[dict[str, Any]]]:
        """What is kept of an owner: rows by the name of their table, values that JSON takes."""
        ...

    async def erase(self, owner: SessionKey) -> Mapping[str, int]:
        """Delete every trace of an owner; how many rows there were, by the name of their table."""
        ...
