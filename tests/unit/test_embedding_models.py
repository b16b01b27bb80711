"""The embedding model that is chosen where none is configured: of the same provider and key, or none."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from agent.model_clients import model_clients
from agent.models.catalog import ModelCatalog
from gateway.config import NO_MODEL, Settings
from gateway.config.features import MemorySettings
from gateway.config.settings import AgentSettings
from gateway.contracts.errors import ConfigError

TODAY = date(2026, 11, 27)
PICKS = {
    "openai/gpt-5.4": "openai/text-embedding-3-small",
    "gpt-4o": "text-embedding-3-small",
    "gemini/gemini-2.5-pro": "gemini/gemini-embedding-001",
    "mistral/mistral-large-latest": "mistral/mistral-embed",
    "vertex_ai/gemini-2.5-pro": "vertex_ai/text-multilingual-embedding-002",
    "amazon.nova-pro-v1:0": "amazon.titan-embed-text-v2:0",
    "fireworks_ai/accounts/fireworks/models/deepseek-v3": "fireworks_ai/accounts/fireworks/models/qwen3-embedding-8b",
    "nebius/Qwen/Qwen3-32B": "nebius/Qwen/Qwen3-Embedding-8B",
    "perplexity/sonar": "perplexity/pplx-embed-v1-0.6b",
    # providers that have none, that serve what somebody has deployed or pulled, or other vendors' models
    "anthropic/claude-sonnet-4-6": "",
    "deepseek/deepseek-chat": "",
    "ollama/llama3.2": "",
    "azure/gpt-4o": "",
    "openrouter/openai/gpt-4o": "",
    "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0": "",
    "together_ai/deepseek-ai/DeepSeek-V3": "",  # embeds English alone
}


def test_the_pick_for_each_provider_is_as_it_was_judged() -> None:
    catalog = ModelCatalog(today=TODAY)
    assert {model: catalog.facts(model).embedding_sibling for model in PICKS} == PICKS


def test_a_model_that_retires_soon_is_no_pick() -> None:
    gone = ModelCatalog(today=date(2028, 5, 1))
    assert gone.facts("gemini/gemini-2.5-pro").embedding_sibling == "gemini/gemini-embedding-2"


def picked(data_dir: Path, *, memory: bool = True, **agent: Any) -> str:
    settings = Settings(data_dir=data_dir, agent=AgentSettings(**agent), memory=MemorySettings(enabled=memory))
    clients = model_clients(settings)
    assert (clients.client.embeddings is None) == (clients.embedding_model == "")
    return clients.embedding_model


@pytest.mark.parametrize("model", ["demo/scripted", "anthropic/claude-sonnet-4-6"])
def test_without_one_nothing_is_embedded(tmp_path: Path, model: str) -> None:
    assert picked(tmp_path, model=model) == ""


def test_what_is_configured_is_taken(tmp_path: Path) -> None:
    """An operator may choose, or switch it off."""
    key = SecretStr("key-of-the-test")
    assert picked(tmp_path, model="openai/gpt-4o", api_key=key) == "openai/text-embedding-3-small"
    assert picked(tmp_path, model="openai/gpt-4o", embedding_model="mistral/mistral-embed") == "mistral/mistral-embed"
    assert picked(tmp_path, model="openai/gpt-4o", embedding_model=NO_MODEL) == ""
    with pytest.raises(ConfigError, match=r"agent\.embedding_model"):
        picked(tmp_path, model="openai/gpt-4o", embedding_model="none-of-these")


def test_a_server_of_ones_own_is_not_asked_for_what_it_may_not_have(tmp_path: Path) -> None:
    assert picked(tmp_path, model="openai/gpt-4o", api_base="http://127.0.0.1:9/v1") == ""


def test_nothing_is_embedded_that_nobody_looks_for(tmp_path: Path) -> None:
    assert picked(tmp_path, model="openai/gpt-4o", memory=False) == ""
