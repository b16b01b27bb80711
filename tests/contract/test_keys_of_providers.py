"""Each key goes to the provider it belongs to: real litellm, and providers on loopback that note what they get."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from agent.model_clients import ModelClients, model_clients
from agent.models.catalog import NO_KEY
from agent.models.client import ModelClient
from agent.models.requests import EmbeddingRequest, ModelRequest, PromptMessage, TranscriptionRequest, ask
from agent.models.selection import Models
from gateway.config import load_settings
from gateway.config.show import as_table
from gateway.contracts.errors import ConfigError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import literal_text
from gateway.contracts.sessions import Role, UsagePurpose
from gateway.ops.supervisor.plan import for_admin, for_agent, for_channels
from tests.parts.model_server import Failure, ModelServer, serve_model
from tests.parts.providers.anthropic import serve_anthropic
from tests.parts.providers.server import ProviderServer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Pydantic serializer warnings")

HOME_KEY, CLAUDE_KEY, OTHER_KEY = "key-of-the-home", "key-of-anthropic", "key-of-the-other"
KEY = SessionKey("telegram", "1")
HEARD = TranscriptionRequest("ears", KEY, "a.ogg", "audio/ogg", b"sound")


@dataclass(frozen=True, slots=True)
class Providers:
    """The one of `agent.model`, one that speaks the same API elsewhere, and Anthropic's."""

    home: ModelServer
    other: ModelServer
    anthropic: ProviderServer


@pytest.fixture
async def providers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Providers]:
    monkeypatch.chdir(tmp_path)
    async with serve_model() as home, serve_model() as other, serve_anthropic([]) as anthropic:
        monkeypatch.setenv("ANTHROPIC_API_KEY", CLAUDE_KEY)
        monkeypatch.setenv("ANTHROPIC_API_BASE", anthropic.url)
        monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-environment")
        yield Providers(home, other, anthropic)


@asynccontextmanager
async def configured(providers: Providers, path: Path, **more: str) -> AsyncIterator[ModelClients]:
    key_file = path / "other-key"
    key_file.write_text(OTHER_KEY + "\n")
    environ = {
        "TRIVET_DATA_DIR": str(path),
        "TRIVET_AGENT__MODEL": "openai/gpt-4o-mini",
        "TRIVET_AGENT__API_BASE": providers.home.url,
        "TRIVET_AGENT__API_KEY": HOME_KEY,
        "TRIVET_AGENT__FALLBACK_MODELS": "anthropic/claude-haiku-4-5",
        "TRIVET_AGENT__EMBEDDING_MODEL": "meanings",
        "TRIVET_AGENT__TRANSCRIPTION_MODEL": "ears",
        "TRIVET_MODELS__FAST__MODEL": "openai/fast-one",
        "TRIVET_MODELS__FAST__API_BASE": providers.other.url,
        "TRIVET_MODELS__FAST__API_KEY": OTHER_KEY,
        "TRIVET_MODELS__FAST__TEMPERATURE": "0.5",
        "TRIVET_MODELS__FAST__MAX_TOKENS": "77",
        "TRIVET_MODELS__FAST__EXTRA_HEADERS": "X-Tenant=tenant-secret",
        "TRIVET_MODELS__MEANINGS__MODEL": "openai/text-embedding-3-small",
        "TRIVET_MODELS__MEANINGS__API_BASE": providers.other.url,
        "TRIVET_MODELS__MEANINGS__API_KEY_FILE": str(key_file),
        "TRIVET_MODELS__EARS__MODEL": "openai/whisper-1",
        "TRIVET_MODELS__EARS__API_BASE": providers.other.url,
        **more,
    }
    clients = model_clients(load_settings(None, environ).settings)
    yield clients
    await clients.client.close()


def asking(model: str, purpose: UsagePurpose = UsagePurpose.TURN) -> ModelRequest:
    said = (PromptMessage(Role.USER, literal_text("hello")),)
    return ModelRequest(model, purpose, KEY, literal_text("You are a test."), said, timeout_s=20.0, backoff_s=())


async def said_by(client: ModelClient, request: ModelRequest) -> str:
    return (await ask(client, request)).model


def keys_at(server: ModelServer | ProviderServer) -> set[str]:
    """Everything that was ever given to it that may be a key."""
    given = {name: value for headers in server.headers for name, value in headers.items()}
    assert all(name in {"authorization", "x-api-key"} or "key-of" not in value for name, value in given.items())
    return {
        headers[name].removeprefix("Bearer ")
        for headers in server.headers
        for name in ("authorization", "x-api-key")
        if name in headers
    }


async def test_no_key_ever_reaches_another_host(providers: Providers, tmp_path: Path) -> None:
    """Of the model of conversations, of a fall-back, of entries that talk, embed and hear."""
    async with configured(providers, tmp_path) as clients:
        assert await said_by(clients.client, asking("openai/gpt-4o-mini")) == "openai/gpt-4o-mini"
        assert await said_by(clients.client, asking("openai/another")) == "openai/another"
        assert await said_by(clients.client, asking("fast")) == "fast"
        providers.home.failures.append(Failure(401, "Incorrect API key provided"))
        assert await said_by(clients.client, asking("openai/gpt-4o-mini")) == "anthropic/claude-haiku-4-5"
        assert clients.client.embeddings is not None
        assert clients.client.transcriptions is not None
        await clients.client.embed(EmbeddingRequest("meanings", KEY, (literal_text("hello"),), 20.0))
        await clients.client.transcribe(HEARD)
    assert keys_at(providers.home) == {HOME_KEY}
    assert keys_at(providers.anthropic) == {CLAUDE_KEY}
    assert keys_at(providers.other) == {OTHER_KEY, NO_KEY}
    assert [body["model"] for body in providers.other.requests] == ["fast-one", "text-embedding-3-small"]
    assert [recording.model for recording in providers.other.heard] == ["whisper-1"]
    tenants = [headers.get("x-tenant") for headers in providers.other.headers]
    assert tenants == ["tenant-secret", None, None]
    assert all("x-tenant" not in headers for headers in (*providers.home.headers, *providers.anthropic.headers))


async def test_an_entry_says_how_it_is_asked(providers: Providers, tmp_path: Path) -> None:
    """What a request says of itself counts more; about small work nobody thinks for long."""
    more = {"TRIVET_MODELS__FAST__MODEL": "openai/o3", "TRIVET_MODELS__FAST__REASONING_EFFORT": "high"}
    async with configured(providers, tmp_path, **more) as clients:
        await ask(clients.client, asking("fast"))
        await ask(clients.client, replace(asking("fast", UsagePurpose.TITLE), completion_tokens_max=32))
    async with configured(providers, tmp_path) as clients:
        await ask(clients.client, replace(asking("fast"), temperature=0.3))
        await ask(clients.client, asking("fast"))
        assert clients.client.facts("fast").output_max == 77
    long, short, warm, usual = providers.other.requests
    assert (long["reasoning_effort"], long["max_completion_tokens"]) == ("high", 77)
    assert (short["reasoning_effort"], short["max_completion_tokens"]) == ("low", 32)
    assert (warm["temperature"], usual["temperature"], usual["max_tokens"]) == (0.3, 0.5, 77)


async def test_entries_are_chosen_by_name(providers: Providers, tmp_path: Path) -> None:
    """Everybody may choose those that talk, where the operator lists no others; small work stays at their address."""
    environ = _environ(providers)
    settings = load_settings(None, environ).settings
    async with configured(providers, tmp_path) as clients:
        models = Models(clients.client, settings)
        assert models.choosable == ("openai/gpt-4o-mini", "fast")
        assert models.is_callable("fast")
        assert not models.is_callable("fats")
        assert models.named("cheap", "fast") == "fast"


def _environ(providers: Providers) -> Mapping[str, str]:
    return {
        "TRIVET_AGENT__MODEL": "openai/gpt-4o-mini",
        "TRIVET_AGENT__EMBEDDING_MODEL": "meanings",
        "TRIVET_MODELS__FAST__MODEL": "openai/fast-one",
        "TRIVET_MODELS__FAST__API_BASE": providers.other.url,
        "TRIVET_MODELS__FAST__API_KEY": OTHER_KEY,
        "TRIVET_MODELS__FAST__EXTRA_HEADERS": "X-Tenant=tenant-secret",
        "TRIVET_MODELS__MEANINGS__MODEL": "openai/text-embedding-3-small",
    }


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"TRIVET_AGENT__FALLBACK_MODELS": "fats"}, r"agent\.fallback_models: 'fats' .*did you mean fast\?"),
        ({"TRIVET_AGENT__VISION_MODEL": "gpt-4o-mimi"}, r"agent\.vision_model: .*did you mean gpt-4o-mini\?"),
        ({"TRIVET_MODELS__FAST__MODEL": "nonsense"}, r"models\.fast\.model: 'nonsense'"),
        ({"TRIVET_MODELS__FAST__MODEL": ""}, r"models\.fast\.model: ''"),
        ({"TRIVET_MODELS__FAST__MODEL": "demo/scripted"}, r"models\.fast\.model: 'demo/scripted'"),
        ({"TRIVET_MODELS__MEANINGS__API_KEY_FILE": "/nowhere/key"}, r"meanings\.api_key_file: /nowhere/key cannot"),
        ({"TRIVET_MODELS__FAST__API_KEY_FILE": "/nowhere/key"}, r"models\.fast has an api_key and an api_key_file"),
        ({"TRIVET_AGENT__MODEL": "fast", "TRIVET_AGENT__API_KEY": "k"}, r"agent\.model names models\.fast.*instead"),
        (
            {"TRIVET_AGENT__TRANSCRIPTION_MODEL": "fast", "TRIVET_MODELS__FAST__EXTRA_HEADERS": "X-A=b"},
            r"fast\.extra_headers: litellm gives none to a transcription",
        ),
        ({"TRIVET_MODELS__DEFAULT__MODEL": "openai/x"}, r"models must be tables with names .*default was found"),
        ({"TRIVET_MODELS__FAST__TEMPERATURE": "warm"}, r"fast\.temperature must be a number from 0 to 2"),
    ],
)
def test_what_cannot_be_meant_is_said_with_what_may_have_been_meant(wrong: Mapping[str, str], told: str) -> None:
    environ = {
        "TRIVET_AGENT__MODEL": "openai/gpt-4o-mini",
        "TRIVET_MODELS__FAST__MODEL": "openai/fast-one",
        "TRIVET_MODELS__FAST__API_KEY": OTHER_KEY,
        "TRIVET_MODELS__MEANINGS__MODEL": "openai/text-embedding-3-small",
        **wrong,
    }
    with pytest.raises(ConfigError, match=told) as raised:
        model_clients(load_settings(None, environ).settings)
    assert OTHER_KEY not in str(raised.value)


async def test_what_is_secret_in_an_entry_is_masked_and_known_and_the_agents_alone(providers: Providers) -> None:
    environ = _environ(providers)
    loaded = load_settings(None, environ)
    assert {OTHER_KEY, "tenant-secret"} <= set(loaded.secrets)
    shown = as_table(loaded)
    assert "models.fast.api_key " in shown
    assert OTHER_KEY not in shown
    assert "tenant-secret" not in shown
    as_json = {**environ, "TRIVET_MODELS": '{"fast": {"api_key": "' + OTHER_KEY + '"}}'}
    for others in (for_channels(as_json, {}), for_admin(as_json, {}, channels=())):
        assert OTHER_KEY not in "".join(others.values())
        assert "tenant-secret" not in "".join(others.values())
        load_settings(None, others)
    assert for_agent(as_json, {}, channels=()) == as_json
