"""What the agent asks of an embedding model, and what comes back.

Embedder         what memory and the answer cache use: charged to the key, tried again where that helps
EmbeddingModel   one way to a provider; `agent.memory.embedder` makes the former of the latter
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.vectors import Embedding, Vector, cosine

__all__ = ["Embedder", "Embedding", "EmbeddingAnswer", "EmbeddingModel", "EmbeddingRequest", "Vector", "cosine"]


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """One call, charged to the owner of `key`. None of the texts is blank."""

    model: str
    key: SessionKey
    texts: tuple[CleanText, ...]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class EmbeddingAnswer:
    """A vector for each text, in order, and what they cost."""

    vectors: tuple[Vector, ...]
    tokens: int
    cost_usd: float


class EmbeddingModel(Protocol):
    """A way to an embedding model."""

    async def embed(self, request: EmbeddingRequest) -> EmbeddingAnswer:
        """Raises the `ModelError` tree."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors of `model`."""

    @property
    def model(self) -> str: ...

    async def embed(self, key: SessionKey, texts: Sequence[CleanText]) -> Sequence[Vector]:
        """A vector for each text, none of which is blank. Raises the `ModelError` tree."""
        ...
