"""What fails because a server is away is put off as long as it takes; a message's own failures alone count."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.models.demo import ScriptedClient
from agent.models.requests import ModelEvent, ModelRequest
from agent.runtime import run
from gateway.bus.bus import RedisBus
from gateway.contracts.errors import StoreUnavailable
from gateway.contracts.messages import ReplyKind
from gateway.contracts.sessions import UsagePurpose
from gateway.limits import TURN_ATTEMPTS_MAX
from gateway.store import Store
from tests.parts.agents import running_agent
from tests.parts.waiting import PATIENCE_S

AT_ONCE = (0.01,)


class Away:
    """A method of the store that fails as often as told, or until told to stop."""

    def __init__(self, method: Any, times: int) -> None:
        self._method = method
        self.times = times
        self.tried = asyncio.Event()

    async def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.tried.set()
        if self.times > 0:
            self.times -= 1
            raise StoreUnavailable("the test took the database away")
        return await self._method(*arguments, **named)


@pytest.mark.parametrize("method", ["begin", "commit"])
@pytest.mark.long
async def test_a_database_that_stays_away_kills_no_message(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """More refusals than a poisonous message has attempts, and the answer still comes."""
    monkeypatch.setattr(run, "RETRY_DELAYS_S", AT_ONCE)
    monkeypatch.setattr(sqlite_store.turns, method, Away(getattr(sqlite_store.turns, method), 2 * TURN_ATTEMPTS_MAX))
    async with running_agent(bus, sqlite_store, ScriptedClient(), tmp_path) as agent:
        assert "You said: hello" in await agent.ask("hello")
        assert (await bus.operator.figures()).dead_letters == 0


async def test_who_is_given_up_is_told_once_the_database_is_back(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And whoever was claimed with him is answered meanwhile."""
    monkeypatch.setattr(run, "RETRY_DELAYS_S", AT_ONCE)
    away = Away(sqlite_store.turns.give_up, 1_000_000)
    monkeypatch.setattr(sqlite_store.turns, "give_up", away)
    async with running_agent(bus, sqlite_store, Poisoned(), tmp_path) as agent:
        await agent.say("poison", "telegram:1")
        await asyncio.wait_for(away.tried.wait(), PATIENCE_S)
        assert "You said: hello" in await agent.ask("hello", "telegram:2")
        away.times = 0
        told = await agent.heard(2)
    assert [reply.kind for reply in told] == [ReplyKind.ANSWER, ReplyKind.ERROR]


class Poisoned(ScriptedClient):
    """A model that breaks in a way nobody foresaw, at one word."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.purpose is UsagePurpose.TURN and "poison" in request.messages[-1].text:
            raise ZeroDivisionError
        async for event in super().stream(request):
            yield event
