"""Everything that belongs to one person, for whom it belongs to and for the operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText


class PeopleStore(Protocol):
    """Hands out and erases. Raises `StoreUnavailable`."""

    async def export(self, owner: SessionKey, *, clean: Callable[[str], CleanText]) -> bytes:
        """All that is kept of an owner as one JSON document: rows by the name of their table. What was undone
        says so. Every text leaves through `clean` once more: it was clean by what was known when it was kept."""
        ...

    async def export_own(
        self, key: SessionKey, author: SessionKey, *, left_out: str, clean: Callable[[str], CleanText]
    ) -> bytes:
        """What one person said on a lane that several share, and what was answered to it, as one JSON document.
        `left_out` says in it that nothing else is there. Words that came along (quotes, files, a thread's earlier
        messages) are left out, too, and what was said before authors were kept."""
        ...

    async def keys(self, owner: SessionKey) -> Sequence[SessionKey]:
        """Under which an owner has spoken, each with files of its own."""
        ...

    async def erase(self, owner: SessionKey) -> Mapping[str, int]:
        """Delete every trace of an owner; how many rows there were, by the name of their table."""
        ...
