"""What the agent knows of a person beyond the conversation: kept, found again, put before the model.

Whose memory it is and who may be listening both come from the session key, and are decided in the store.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from agent.limits import (
    EMBEDDING_TEXTS_MAX,
    MEMORY_FACTS_MAX,
    MEMORY_SAID_CHARS_MAX,
    MEMORY_SNIPPETS_MAX,
)
from agent.memory.recollecting import recollection_block
from agent.model.embedding import Embedder
from gateway.contracts.entries import Entry, EntryKind, Session
from gateway.contracts.errors import ModelError
from gateway.contracts.ids import SessionKey
from gateway.contracts.memories import Fact, Origin
from gateway.contracts.messages import CleanText, clipped
from gateway.contracts.ports import Clock, Scrubber
from gateway.contracts.vectors import Embedding
from gateway.store.memory import MemoryStore

_log = structlog.get_logger(__name__)


class Memory:
    """Facts and earlier words of everybody, each for himself. Without an embedder words alone are compared."""

    def __init__(
        self, store: MemoryStore, scrubber: Scrubber, clock: Clock, *, embedder: Embedder | None = None
    ) -> None:
        self._store = store
        self._scrubber = scrubber
        self._clock = clock
        self._embedder = embedder

    async def block(self, session: Session, said: CleanText, view: Sequence[Entry] = ()) -> CleanText | None:
        """What has to do with what was just said, marked as data; None when there is nothing, or nothing that
        the model is not told in `view` already."""
        asked = clipped(said, MEMORY_SAID_CHARS_MAX)
        found = await self._store.recollect(
            session.key,
            asked,
            but_session_id=session.id,
            facts_max=MEMORY_FACTS_MAX,
            snippets_max=MEMORY_SNIPPETS_MAX,
            near=await self._near(session.key, asked),
        )
        block = recollection_block(found, asked, told=[entry.text for entry in view if entry.kind is EntryKind.NOTE])
        return self._scrubber.for_chat(str(session.key)).scrub(block) if block else None

    async def remember(self, key: SessionKey, text: CleanText, *, origin: Origin = Origin.TOLD) -> Fact:
        """Keep a fact that was learned where `key` speaks. Raises `MemoryFull`."""
        kept = await self._store.remember(
            key, text, now_ms=self._clock.now_ms(), origin=origin, embedding=await self._embedded(key, text)
        )
        if kept.dropped is not None:
            _log.info("memory.made_room", owner=str(key.owner), number=kept.dropped.number)
        return kept.fact

    async def recall(self, key: SessionKey, query: str, *, limit: int) -> Sequence[Fact]:
        """The facts that may be read where `key` speaks, best first; an empty query gives the newest."""
        asked = self._scrubber.for_chat(str(key)).scrub(query)
        return await self._store.recall(key, asked, limit=limit, near=await self._near(key, asked))

    async def _near(self, key: SessionKey, asked: CleanText) -> Embedding | None:
        """What was asked as a vector, where there is anything to compare it with."""
        embedder = self._embedder
        if embedder is None or not asked.strip() or not await self._store.has_vectors(key, embedder.model):
            return None
        try:
            (vector,) = await embedder.embed(key, [asked])
        except ModelError as error:
            _log.warning("memory.not_embedded", reason=str(error))
            return None
        return Embedding(embedder.model, vector)

    async def _embedded(self, key: SessionKey, text: CleanText) -> Embedding | None:
        """A new fact as a vector. Facts that the model has not seen yet go along: it may be new itself."""
        embedder = self._embedder
        if embedder is None or not text.strip():
            return None
        unseen = await self._store.without_vector(key, embedder.model, limit=EMBEDDING_TEXTS_MAX - 1)
        try:
            first, *others = await embedder.embed(key, [text, *(fact.text for fact in unseen)])
        except ModelError as error:
            _log.warning("memory.not_embedded", reason=str(error))
            return None
        vectors = dict(zip((fact.id for fact in unseen), others, strict=True))
        await self._store.put_vectors(key, embedder.model, vectors)
        return Embedding(embedder.model, first)
