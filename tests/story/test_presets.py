"""What people of each role may do where the operator has said only for whom this Trivet is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.models.demo import ScriptedClient
from agent.models.requests import ModelEvent, ModelRequest
from gateway.bus.bus import RedisBus
from gateway.config import load_settings
from gateway.config.access import AccessSettings, ChannelAccess
from gateway.contracts.access import StrangerRule
from gateway.contracts.ids import SessionKey
from gateway.contracts.profiles import READING, RUNNING, SEARCHING, WRITING
from gateway.contracts.sessions import UsagePurpose
from gateway.store import Store
from tests.parts.agents import running_agent

ADMIN, MEMBER, GUEST = (SessionKey.parse(f"telegram:{number}") for number in (1, 2, 3))


class Listening(ScriptedClient):
    """Remembers which tools a turn was offered."""

    def __init__(self) -> None:
        self.offered: set[str] = set()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.purpose is UsagePurpose.TURN:
            self.offered = {spec.name for spec in request.tools}
        async for event in super().stream(request):
            yield event


@pytest.mark.parametrize(
    ("preset", "who", "may"),
    [
        ("me", ADMIN, True),
        ("me", GUEST, False),
        ("team", ADMIN, True),
        ("team", MEMBER, True),
        ("team", GUEST, False),
        ("community", MEMBER, False),
        ("community", GUEST, False),
    ],
)
async def test_a_teams_members_search_write_and_run_code_and_a_communitys_do_not(
    sqlite_store: Store, bus: RedisBus, tmp_path: Path, preset: str, who: SessionKey, may: bool
) -> None:
    """In private as in groups; and nobody but whom an admin asks for it touches databases or the browser."""
    model, settings = Listening(), load_settings(None, {"TRIVET_PRESET": preset}).settings
    access = AccessSettings(admins=(ADMIN,), default=StrangerRule.OPEN, telegram=ChannelAccess(users=(MEMBER.user,)))
    async with running_agent(
        bus, sqlite_store, model, tmp_path, tools=settings.tools, limits=settings.limits, access=access
    ) as agent:
        for key in (str(who), f"{who}/-100"):
            await agent.ask("hello", key)
            assert model.offered >= {*READING}
            for tools in (WRITING, RUNNING, SEARCHING):
                assert model.offered.isdisjoint(tools) is not may, tools
            if who is not ADMIN:
                assert model.offered.isdisjoint({"db_query", "browser"})
