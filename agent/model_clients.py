"""The clients of all models that the settings name: tried again, observed, then fallen back from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.attachments.gallery import WorkspaceGallery
from agent.model.by_name import ByName
from agent.model.calling import ModelClient
from agent.model.catalog import ModelCatalog
from agent.model.client import ModelProvider
from agent.model.embedding import EmbeddingModel
from agent.model.endpoints import Endpoint, Endpoints
from agent.model.health import ModelHealth
from agent.model.litellm_client import LitellmClient
from agent.model.metering import Gate
from agent.model.transcription import TranscriptionModel
from agent.models import check_models, named_models
from agent.tools.files.workspace import Workspaces
from gateway.config import Settings, utility_model
from gateway.contracts.ports import Clock, SpanSink
from gateway.contracts.workspaces import WORKSPACES


@dataclass(frozen=True, slots=True)
class ModelClients:
    """How models are reached; None where none is configured."""

    provider: ModelProvider
    embeddings: EmbeddingModel | None
    transcriptions: TranscriptionModel | None
    endpoint_of: Callable[[str], Endpoint] = Endpoint
    health: ModelHealth = field(default_factory=ModelHealth)
    fallbacks: tuple[str, ...] = ()

    def client(
        self, *, gate: Gate | None = None, spans: SpanSink | None = None, clock: Clock | None = None
    ) -> ModelClient:
        """Make the client of a process."""
        return ModelClient(
            self.provider,
            embeddings=self.embeddings,
            transcriptions=self.transcriptions,
            fallbacks=self.fallbacks,
            gate=gate,
            health=self.health,
            spans=spans,
            clock=clock,
        )


def model_clients(settings: Settings) -> ModelClients:
    """Make the way to all models. Raises `ConfigError` for a name nobody can call, or a key that cannot be read."""
    agent, catalog = settings.agent, ModelCatalog()
    endpoint_of = Endpoints(settings, catalog).of
    gallery = WorkspaceGallery(Workspaces(settings.data_dir / WORKSPACES))
    sees = {} if agent.sees_images is None else {agent.model: agent.sees_images}
    litellm = LitellmClient(catalog, endpoint_of, gallery=gallery, sees=sees)
    named = {name for names in named_models(settings).values() for name in names}
    health = ModelHealth(lambda model: litellm.facts(model).api or model, named | {utility_model(settings)})
    provider = ByName(litellm)
    check_models(provider, settings, known=catalog.names)
    return ModelClients(
        provider,
        litellm if agent.embedding_model else None,
        litellm if agent.transcription_model else None,
        endpoint_of,
        health,
        agent.fallback_models,
    )
