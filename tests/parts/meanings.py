"""An embedding model of a few ideas: words of one idea point the same way, whatever their letters."""

from __future__ import annotations

from typing import Final

from agent.models.requests import EmbeddingAnswer, EmbeddingRequest
from gateway.contracts.errors import ModelError

MODEL: Final = "test/meanings"
_IDEAS: Final = (("dog", "rex", "pet", "hund"), ("nuts", "allergic", "cake", "eat"), ("van", "car", "drive"))


class Meanings:
    """`EmbeddingModel` that keeps what it was asked, and fails when told to."""

    def __init__(self) -> None:
        self.asked: list[EmbeddingRequest] = []
        self.failure: ModelError | None = None

    async def embed(self, request: EmbeddingRequest) -> EmbeddingAnswer:
        """A dimension for each idea, and one for what belongs to none."""
        self.asked.append(request)
        if self.failure is not None:
            raise self.failure
        assert all(text.strip() for text in request.texts), "providers refuse blank texts"
        vectors = tuple(
            (0.1, *(float(sum(word in text.lower() for word in idea)) for idea in _IDEAS)) for text in request.texts
        )
        return EmbeddingAnswer(vectors, tokens=len(request.texts), cost_usd=0.001)
