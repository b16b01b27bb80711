"""`gateway.contracts.ports.MemoryStore` on SQL: each method is one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from sqlalchemy import Connection

from gateway.contracts.ids import SessionKey
from gateway.contracts.memories import Boundary, Fact, Origin, Recollection, Remembered
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Clock
from gateway.contracts.vectors import Embedding, Vector
from gateway.limits import RECALL_TERMS_MAX
from gateway.store import boundaries, facts, passages
from gateway.store.engine import Database
from gateway.store.terms import telling_terms


class SqlMemories:
    """Facts and the index of earlier conversations."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def remember(
        self,
        key: SessionKey,
        text: CleanText,
        *,
        now_ms: int,
        origin: Origin = Origin.TOLD,
        embedding: Embedding | None = None,
    ) -> Remembered:
        """Keep a fact that was learned in the place of `key`. Raises `MemoryFull`."""
        return await self._database.write(
            partial(facts.remember, key=key, text=text, now_ms=now_ms, origin=origin, embedding=embedding)
        )

    async def recall(self, key: SessionKey, query: str, *, limit: int, near: Embedding | None = None) -> Sequence[Fact]:
        """Facts, best match first; an empty query gives the newest."""
        return await self._database.read(partial(facts.recall, key=key, query=query, limit=limit, near=near))

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
        """Facts and earlier words that have to do with `said`."""
        terms = telling_terms(said, count_max=RECALL_TERMS_MAX)
        if not terms and near is None:
            return Recollection()

        def look_up(connection: Connection) -> Recollection:
            return Recollection(
                tuple(facts.matching(connection, key, terms, limit=facts_max, near=near)),
                tuple(passages.matching(connection, key, terms, but_session_id=but_session_id, limit=snippets_max)),
            )

        return await self._database.read(look_up)

    async def forget(self, key: SessionKey, numbers: Sequence[int]) -> Sequence[Fact]:
        """Delete facts by their number; those that there were."""
        return await self._database.write(partial(facts.forget, key=key, numbers=numbers))

    async def forget_all(self, key: SessionKey) -> int:
        """Delete all facts, and the index of what was said; how many facts there were."""
        now_ms = self._clock.now_ms()

        def delete(connection: Connection) -> int:
            passages.drop(connection, key)
            boundaries.skip(connection, key, now_ms=now_ms)
            return facts.forget_all(connection, key)

        return await self._database.write(delete)

    async def share(self, key: SessionKey, number: int, *, is_shared: bool) -> Fact | None:
        """Whether a fact may be read everywhere its owner speaks."""
        return await self._database.write(partial(facts.share, key=key, number=number, is_shared=is_shared))

    async def has_vectors(self, key: SessionKey, model: str) -> bool:
        """Whether a search by meaning could find anything."""
        return await self._database.read(partial(facts.has_vectors, key=key, model=model))

    async def without_vector(self, key: SessionKey, model: str, *, limit: int) -> Sequence[Fact]:
        """Facts of the owner that `model` has not seen."""
        return await self._database.read(partial(facts.without_vector, key=key, model=model, limit=limit))

    async def put_vectors(self, key: SessionKey, model: str, vectors: Mapping[int, Vector]) -> None:
        """Keep what `model` made of facts, by their id."""
        await self._database.write(partial(facts.put_vectors, key=key, model=model, vectors=vectors))

    async def claim_boundary(self, key: SessionKey | None, *, now_ms: int, for_ms: int) -> Boundary | None:
        """The oldest boundary that is due; it is the caller's for so long."""
        if not await self._database.read(partial(boundaries.is_any_due, key=key, now_ms=now_ms)):
            return None
        return await self._database.write(partial(boundaries.claim, key=key, now_ms=now_ms, for_ms=for_ms))

    async def index(self, boundary: Boundary) -> None:
        """Make what was said there findable, page by page: the words are cut outside of any transaction."""
        after_seq = boundary.after_seq
        while rows := await self._database.read(partial(passages.cut, boundary=boundary, after_seq=after_seq)):
            await self._database.write(partial(passages.put, rows=rows), durable=False)
            after_seq = int(rows[-1]["seq"])

    async def finish_boundary(self, boundary: Boundary, *, now_ms: int) -> None:
        """Nobody need go through it again."""
        await self._database.write(partial(boundaries.finish, boundary=boundary, now_ms=now_ms))
