"""Embeddings as the rest of the agent gets them: bounded, and charged to whom they were made for."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from agent.limits import EMBEDDING_CHARS_MAX, EMBEDDING_TEXTS_MAX, EMBEDDING_TIMEOUT_S
from agent.model.embedding import EmbeddingAnswer, EmbeddingModel, EmbeddingRequest, Vector
from gateway.contracts.entries import Usage, UsagePurpose
from gateway.contracts.errors import StoreError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, clipped
from gateway.contracts.ports import Clock
from gateway.store import Store

_log = structlog.get_logger(__name__)


class ChargedEmbedder:
    """`Embedder` on one model of the configuration."""

    def __init__(self, inner: EmbeddingModel, model: str, store: Store, clock: Clock, *, space: str) -> None:
        """`space` is what vectors are kept under: litellm's name of the model, for an entry of the settings may mean
        another one tomorrow, and vectors of two models cannot be compared."""
        self._inner = inner
        self._model = model
        self._space = space
        self._store = store
        self._clock = clock

    @property
    def model(self) -> str:
        """What the vectors belong to."""
        return self._space

    async def embed(self, key: SessionKey, texts: Sequence[CleanText]) -> Sequence[Vector]:
        """A vector for each text; of a long text, for its beginning. Raises the `ModelError` tree."""
        vectors: list[Vector] = []
        for at in range(0, len(texts), EMBEDDING_TEXTS_MAX):
            page = tuple(clipped(text, EMBEDDING_CHARS_MAX) for text in texts[at : at + EMBEDDING_TEXTS_MAX])
            answer = await self._inner.embed(EmbeddingRequest(self._model, key, page, EMBEDDING_TIMEOUT_S))
            await self._charge(key, answer)
            vectors += answer.vectors
        return vectors

    async def _charge(self, key: SessionKey, answer: EmbeddingAnswer) -> None:
        now_ms = self._clock.now_ms()
        usage = Usage(
            key,
            UsagePurpose.EMBEDDING,
            self._model,
            prompt_tokens=answer.tokens,
            completion_tokens=0,
            cost_usd=answer.cost_usd,
            created_at_ms=now_ms,
        )
        try:
            session = await self._store.sessions.current(key)
            if session is not None:
                await self._store.sessions.charge([usage], session_id=session.id)
        except StoreError as error:
            _log.warning("embedding.cost_not_recorded", reason=str(error))
