"""What is kept of people in SQL, as the agent uses it.

Every method takes the session key of whoever asks: it says whose memory it is (the key's owner) and who may be
listening (the key's place). No other way in leads to a fact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from gateway.contracts.ids import SessionKey
from gateway.contracts.memories import Boundary, Fact, Origin, Recollection, Remembered
from gateway.contracts.messages import CleanText
from gateway.contracts.vectors import Embedding, Vector


class MemoryStore(Protocol):
    """Facts and the index of earlier conversations. Raises `StoreUnavailable`."""

    async def remember(
        self,
        key: SessionKey,
        text: CleanText,
        *,
        now_ms: int,
        origin: Origin = Origin.TOLD,
        embedding: Embedding | None = None,
    ) -> Remembered:
        """Keep a fact that was learned in the place of `key`. What says the same as a fact of that place takes
        that fact's row, and the newest wording stays. Raises `MemoryFull`."""
        ...

    async def recall(self, key: SessionKey, query: str, *, limit: int, near: Embedding | None = None) -> Sequence[Fact]:
        """The facts that may be read where `key` speaks, best match first; an empty query gives the newest."""
        ...

    async def recollect(
        self,
        key: SessionKey,
        said: str,
        *,
        but_session_id: str,
        facts_max: int,
        snippets_max: int,
        near: Embedding | None = None,
    ) -> Recollection:
        """What has to do with `said`: facts as in `recall`, and what was said in other sessions of the same
        key. Nothing where only words match that are in every sentence."""
        ...

    async def forget(self, key: SessionKey, numbers: Sequence[int]) -> Sequence[Fact]:
        """Delete these of the facts that may be read where `key` speaks; those that there were."""
        ...

    async def forget_all(self, key: SessionKey) -> int:
        """Delete all facts that may be read where `key` speaks, and the index of what was said there (in a
        direct message: everywhere). How many facts there were."""
        ...

    async def share(self, key: SessionKey, number: int, *, is_shared: bool) -> Fact | None:
        """Whether a fact may be read everywhere its owner speaks; None if there is none of that number."""
        ...

    async def has_vectors(self, key: SessionKey, model: str) -> bool:
        """Whether a search by meaning could find anything."""
        ...

    async def without_vector(self, key: SessionKey, model: str, *, limit: int) -> Sequence[Fact]:
        """Facts of the owner that `model` has not seen."""
        ...

    async def put_vectors(self, key: SessionKey, model: str, vectors: Mapping[int, Vector]) -> None:
        """Keep what `model` made of facts, by their id."""
        ...

    async def claim_boundary(self, key: SessionKey | None, *, now_ms: int, for_ms: int) -> Boundary | None:
        """The oldest boundary (of `key`, None: of anybody) that nobody has gone through or is going through;
        it is the caller's for so long."""
        ...

    async def index(self, boundary: Boundary) -> None:
        """Make what was said there findable from later sessions. May be repeated."""
        ...

    async def finish_boundary(self, boundary: Boundary, *, now_ms: int) -> None:
        """Nobody need go through it again."""
        ...
