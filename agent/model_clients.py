"""The clients of all models that the settings name: tried again, then fallen back from."""

from __future__ import annotations

from dataclasses import dataclass

from agent.attachments.gallery import WorkspaceGallery
from agent.model.by_name import ByName
from agent.model.catalog import ModelCatalog
from agent.model.client import ModelClient
from agent.model.embedding import EmbeddingModel
from agent.model.fallback import FallbackClient
from agent.model.litellm_client import LitellmClient
from agent.model.retrying import RetryingClient, RetryingEmbeddings, RetryingTranscriptions
from agent.model.seeing import SeeingClient
from agent.model.transcription import TranscriptionModel
from agent.models import check_models
from agent.tools.files.workspace import Workspaces
from gateway.config import Settings
from gateway.contracts.workspaces import WORKSPACES


@dataclass(frozen=True, slots=True)
class ModelClients:
    """How models are asked; None where none is configured."""

    client: ModelClient
    embeddings: EmbeddingModel | None
    transcriptions: TranscriptionModel | None


def model_clients(settings: Settings) -> ModelClients:
    """All of them. Raises `ConfigError` for a name nobody can call."""
    agent = settings.agent
    client = FallbackClient(RetryingClient(SeeingClient(ByName(_litellm(settings)))), agent.fallback_models)
    check_models(client, settings)
    return ModelClients(
        client,
        RetryingEmbeddings(_litellm(settings)) if agent.embedding_model else None,
        RetryingTranscriptions(_litellm(settings)) if agent.transcription_model else None,
    )


def _litellm(settings: Settings) -> LitellmClient:
    agent = settings.agent
    api_key = agent.api_key.get_secret_value() if agent.api_key else ""
    gallery = WorkspaceGallery(Workspaces(settings.data_dir / WORKSPACES))
    sees = {} if agent.sees_images is None else {agent.model: agent.sees_images}
    return LitellmClient(ModelCatalog(), api_base=agent.api_base, api_key=api_key, gallery=gallery, sees=sees)
