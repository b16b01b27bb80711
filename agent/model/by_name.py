"""Every model by its name: the demo models are scripted, all others are litellm's."""

from __future__ import annotations

from collections.abc import AsyncIterator

from agent.model.client import ModelEvent, ModelFacts, ModelProvider, ModelRequest
from agent.model.scripted import PREFIX, ScriptedClient


class ByName:
    """`ModelProvider` for any name."""

    def __init__(self, others: ModelProvider) -> None:
        """`others` is asked for every model that is no demo."""
        self._demo = ScriptedClient()
        self._others = others

    def facts(self, model: str) -> ModelFacts:
        """As the client of that name knows them."""
        return self._client(model).facts(model)

    def check_name(self, model: str) -> None:
        """As the client of that name judges it."""
        self._client(model).check_name(model)

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """As the client of that name answers."""
        return self._client(request.model).stream(request)

    async def close(self) -> None:
        """Close both."""
        await self._demo.close()
        await self._others.close()

    def _client(self, model: str) -> ModelProvider:
        return self._demo if model.startswith(PREFIX) else self._others
