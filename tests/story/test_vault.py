"""What is kept for tools goes with the conversation it was sent in, with what is forgotten, with the person."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi import FastAPI

from agent.prompts.library import PROMPTS
from channels.core.secrets import open_secret_capture
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.config import Settings
from gateway.config.features import ScrubSettings, VaultSettings
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import RemovedSecrets, SecretName
from gateway.scrub import Scrubber
from gateway.scrub.known import PLACEHOLDER
from gateway.store import Store
from tests.parts.agents import AgentProcess, message, running_agent
from tests.parts.minds import Mind
from tests.parts.operator_api import app_of, client_of
from tests.scrubbing.slots import draw

SECRET = draw("glpat-<base64url:20>", seed=41)
ON = ScrubSettings(vault=VaultSettings(enabled=True))
HERE, ELSEWHERE, OTHER = "telegram:1", "telegram:1/-100", "telegram:2"


@pytest.fixture
async def agent(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> AsyncIterator[AgentProcess]:
    async with running_agent(bus, sqlite_store, Mind(), tmp_path, scrub=ON) as process:
        yield process


async def keep(bus: RedisBus, data_dir: Path, *keys: str) -> list[SecretName]:
    """The same secret is sent in each of these lanes."""
    scrubber = Scrubber(placeholder_key=b"story")
    keeping = open_secret_capture(Settings(data_dir=data_dir, scrub=ON), bus.vault, scrubber, SystemClock())
    assert keeping is not None
    names = []
    for key in keys:
        said = f"take {SECRET}"
        clean = scrubber.for_chat(key).scrub(said)
        sent = replace(message(clean, key), removed=(RemovedSecrets("gitlab", 1),))
        await keeping.keep(sent, said)
        found = PLACEHOLDER.search(clean)
        assert found
        names.append(SecretName(sent.key, sent.author, found[0]))
    return names


async def there(bus: RedisBus, names: list[SecretName]) -> list[bool]:
    """Which of them could be lent now."""
    return [await bus.vault.take([name], tool="shell") is not None for name in names]


async def test_a_new_conversation_begins_without_what_the_last_one_brought(agent: AgentProcess, tmp_path: Path) -> None:
    names = await keep(agent.bus, tmp_path, HERE, ELSEWHERE, OTHER)
    assert len({name.placeholder for name in names}) == 3
    await agent.ask("/new", HERE)
    assert await there(agent.bus, names) == [False, True, True]


async def test_whoever_has_everything_forgotten_has_nothing_kept(agent: AgentProcess, tmp_path: Path) -> None:
    names = await keep(agent.bus, tmp_path, HERE, ELSEWHERE, OTHER)
    await agent.ask("/forget all yes", HERE)
    assert await there(agent.bus, names) == [False, False, True]


async def test_who_is_erased_has_nothing_kept(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    names = await keep(bus, tmp_path, HERE, ELSEWHERE, OTHER)
    app: FastAPI = app_of(sqlite_store, bus)
    async with client_of(app) as operator:
        assert (await operator.delete(f"/api/v1/users/{HERE}")).status_code == 200
    assert await there(bus, names) == [False, False, True]


async def test_the_model_is_told_of_the_vault_only_where_there_is_one(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    for scrub in (ON, ScrubSettings()):
        mind = Mind()
        admins = (SessionKey.parse(HERE),)
        async with running_agent(bus, sqlite_store, mind, tmp_path, scrub=scrub, admins=admins) as agent:
            await agent.ask("hello", HERE)
        asked = mind.asked[0]
        assert (PROMPTS.vault in asked.system) is scrub.vault.enabled
        offered = {spec.name: spec.schema["properties"] for spec in asked.tools}
        assert ("secret_headers" in offered["web_fetch"]) is scrub.vault.enabled
        assert ("secret_env" in offered.get("shell", {})) is (scrub.vault.enabled and "shell" in offered)
