"""What every client that stands around another one leaves to it."""

from __future__ import annotations

from agent.model.client import ModelClient, ModelFacts


class AroundClient:
    """All of a `ModelClient` but its `stream`, as `inner` has it."""

    def __init__(self, inner: ModelClient) -> None:
        self._inner = inner

    def facts(self, model: str) -> ModelFacts:
        """As the inner client knows them."""
        return self._inner.facts(model)

    def check_name(self, model: str) -> None:
        """As the inner client judges it."""
        self._inner.check_name(model)

    async def close(self) -> None:
        """Close the inner client."""
        await self._inner.close()
