"""What people are suggested while they type: what the commands would list, and nobody else's. On real databases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.bus.bus import RedisBus
from gateway.contracts.access import Projection
from gateway.contracts.commands import SuggestionRequest, Suggests
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Grant, GrantRole
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.bus_samples import ANNA, BORIS
from tests.parts.minds import Mind

QUICK = "demo/scripted@1ms"


@pytest.fixture
async def agent(bus: RedisBus, store: Store, tmp_path: Path) -> AsyncIterator[AgentProcess]:
    async with running_agent(bus, store, Mind(), tmp_path, models=(QUICK,)) as process:
        yield process


async def suggested(bus: RedisBus, kind: Suggests, typed: str, key: SessionKey = ANNA) -> list[tuple[str, str]]:
    wanted = SuggestionRequest(key, key.owner, kind, CleanText(typed))
    return [(suggestion.label, suggestion.value) for suggestion in await bus.suggestions.ask(wanted, wait_s=5)]


async def test_conversations_are_found_by_their_titles_and_numbers(agent: AgentProcess, bus: RedisBus) -> None:
    """The newest first; a choice says its number, which is what /resume understands."""
    for title in ("Roses", "Tulips", "Primroses"):
        await agent.ask(f"/title {title}")
        await agent.ask("/new")
    assert await suggested(bus, Suggests.SESSIONS, "ROSE") == [("3. Primroses", "3"), ("1. Roses", "1")]
    assert await suggested(bus, Suggests.SESSIONS, "2") == [("2. Tulips", "2")]
    assert [value for _, value in await suggested(bus, Suggests.SESSIONS, "")] == ["4", "3", "2", "1"]


async def test_nobody_is_suggested_what_another_has(agent: AgentProcess, bus: RedisBus) -> None:
    await agent.ask("/title Roses")
    assert await suggested(bus, Suggests.SESSIONS, "", BORIS) == []


@pytest.mark.long
async def test_models_and_profiles_are_those_of_their_commands(agent: AgentProcess, bus: RedisBus) -> None:
    assert await suggested(bus, Suggests.MODELS, "1MS") == [(QUICK, QUICK)]
    assert ("default", "default") in await suggested(bus, Suggests.MODELS, "")
    assert [value for _, value in await suggested(bus, Suggests.PROFILES, "dev")][:1] == ["developer"]


@pytest.mark.long
async def test_who_was_blocked_meanwhile_is_suggested_nothing(agent: AgentProcess, bus: RedisBus) -> None:
    await agent.ask("/title Roses")
    await bus.access.project(Projection(1, [Grant(ANNA, GrantRole.BLOCKED, "", 0)]))
    assert await suggested(bus, Suggests.SESSIONS, "") == []
