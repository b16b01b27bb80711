"""The client of all models that the settings name: routed by name, with the images of conversations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from agent.limits import IMAGE_BYTES_MAX, MODELS_KEPT
from agent.models import requests
from agent.models.catalog import ModelCatalog, ModelEndpoint, ModelEndpoints
from agent.models.client import ModelClient, ModelHealth
from agent.models.demo import PREFIX, ScriptedClient
from agent.models.litellm import LitellmClient
from agent.models.selection import check_models, embedding_model, named_models, utility_model
from agent.tools.files.workspace import Workspaces
from gateway.config import Settings
from gateway.contracts.errors import ToolError
from gateway.contracts.ids import MODEL_AWAY, WORKSPACES, SessionKey

# The images of conversations, as the model client asks for them.


def gallery_of(workspaces: Workspaces) -> requests.Gallery:
    """Build the gallery over the workspaces: a conversation sees only its own images."""

    async def read(key: SessionKey, path: str) -> bytes | None:
        try:
            return await asyncio.to_thread(lambda: workspaces.of(key).read(path, bytes_max=IMAGE_BYTES_MAX))
        except ToolError:
            return None

    return read


# Every model by its name: the demo models are scripted, all others are litellm's.


class ModelRouter:
    """`ModelProvider` for any name."""

    def __init__(self, others: requests.ModelProvider, *, demo_away: Path | None = None) -> None:
        """Keep the client of all models that are no demo. As long as the file `demo_away` is there, no demo answers."""
        self._demo = ScriptedClient()
        self._demo.away = demo_away
        self._others = others

    def facts(self, model: str) -> requests.ModelFacts:
        """Return the facts as the client of that name knows them."""
        return self._client(model).facts(model)

    def check_name(self, model: str) -> None:
        """Check the name with the client of that name."""
        self._client(model).check_name(model)

    def stream(self, request: requests.ModelRequest) -> AsyncIterator[requests.ModelEvent]:
        """Stream from the client of that name."""
        return self._client(request.model).stream(request)

    async def close(self) -> None:
        """Close both."""
        await self._demo.close()
        await self._others.close()

    def _client(self, model: str) -> requests.ModelProvider:
        return self._demo if model.startswith(PREFIX) else self._others


@dataclass(frozen=True, slots=True)
class ModelClients:
    """The way to all models: a client that charges nothing yet, and the endpoint of each name. `embedding_model` is
    the name of the model that embeds. `warm_up` loads what the first call would have to wait for; None where every
    model is a demo."""

    client: ModelClient
    endpoint_of: Callable[[str], ModelEndpoint] = ModelEndpoint
    warm_up: Callable[[], Coroutine[Any, Any, None]] | None = None
    embedding_model: str = ""


def model_clients(settings: Settings) -> ModelClients:
    """Make the way to all models. Raises `ConfigError` for a name nobody can call, or a key that cannot be read."""
    agent, catalog = settings.agent, ModelCatalog()
    endpoint_of = lru_cache(maxsize=MODELS_KEPT)(ModelEndpoints(settings, catalog).of)
    gallery = gallery_of(Workspaces(settings.data_dir / WORKSPACES))
    sees = {} if agent.sees_images is None else {agent.model: agent.sees_images}
    litellm = LitellmClient(catalog, endpoint_of, gallery=gallery, sees=sees)
    named = {name for names in named_models(settings).values() for name in names}
    embeds = embedding_model(settings, litellm.facts)
    unnamed = {utility_model(settings, litellm.facts), embeds} - {""}
    health = ModelHealth(lambda model: litellm.facts(model).api or model, named | unnamed)
    called = sorted(name for name in named if not name.startswith(PREFIX))
    is_own_way = bool(embeds or agent.transcription_model or agent.speech_model)
    provider = ModelRouter(litellm, demo_away=settings.data_dir / MODEL_AWAY)
    check_models(provider, settings, known=catalog.names)
    for name in called:
        litellm.facts(name)
    catalog.release()
    client = ModelClient(
        provider,
        embeddings=litellm if embeds else None,
        transcriptions=litellm if agent.transcription_model else None,
        speech=litellm if agent.speech_model else None,
        fallbacks=agent.fallback_models,
        health=health,
    )
    warm_up = partial(litellm.warm_up, called, is_own_way=is_own_way) if called else None
    return ModelClients(client, endpoint_of, warm_up, embeds)
