"""In a shared place nobody's words are done with the rights of another. On a real bus and real databases."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.models.demo import ScriptedClient
from agent.models.requests import ModelAnswer, ModelEvent, ModelRequest, RequestedCall, TextDelta, TokenCount
from gateway.bus.bus import RedisBus
from gateway.config.tools import ToolSettings
from gateway.contracts.ids import WORKSPACES, SessionKey, folder_name
from gateway.contracts.sessions import Role, UsagePurpose
from gateway.store import Store
from tests.parts.agents import AgentProcess, message, running_agent

GROUP = SessionKey.parse("telegram:/-100")
ADA, GUS = SessionKey.parse("telegram:1"), SessionKey.parse("telegram:3")
WRITE = RequestedCall("c1", "file_write", json.dumps({"path": "note.txt", "content": "hello"}))
TASK = {"action": "create", "kind": "task", "when": "in 2 hours", "text": "say hello"}


class OneCall(ScriptedClient):
    """Makes the same call in every turn, and says what came of it."""

    def __init__(self, call: RequestedCall) -> None:
        self.call = call

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.purpose is not UsagePurpose.TURN:
            async for event in super().stream(request):
                yield event
            return
        since = [message.text for message in request.messages[-2:] if message.role is Role.TOOL]
        text, calls = (since[0], ()) if since else ("", (self.call,))
        yield TextDelta(text)
        yield ModelAnswer(text, calls, "stop", TokenCount(100, 10), 0.5, request.model)


@pytest.fixture
async def agent(bus: RedisBus, store: Store, tmp_path: Path) -> AsyncIterator[AgentProcess]:
    """Ada is an admin, who may write here without being asked; Gus is a guest."""
    tools = ToolSettings(policy=("allow write for admin",))
    async with running_agent(bus, store, OneCall(WRITE), tmp_path, admins=(ADA,), tools=tools) as process:
        yield process


async def say(agent: AgentProcess, text: str, author: SessionKey) -> None:
    """Speak in the group."""
    await agent.bus.intake.enqueue(replace(message(text, str(GROUP)), author_id=author.user))


def note(tmp_path: Path) -> Path:
    return tmp_path / WORKSPACES / folder_name(GROUP) / "files" / "note.txt"


async def test_a_retry_of_an_admin_lends_a_guest_nothing(agent: AgentProcess, tmp_path: Path) -> None:
    await say(agent, "write the note", GUS)
    assert "not permitted" in (await agent.heard(1))[-1].text
    await say(agent, "/retry", ADA)
    assert "not permitted" in (await agent.heard(2))[-1].text
    assert not note(tmp_path).exists()


async def test_a_retry_of_a_guest_has_a_guests_rights(agent: AgentProcess, tmp_path: Path) -> None:
    await say(agent, "write the note", ADA)
    await agent.heard(1)
    note(tmp_path).unlink()
    await say(agent, "/retry", GUS)
    await agent.heard(2)
    assert not note(tmp_path).exists()
    await say(agent, "/retry", ADA)
    await agent.heard(3)
    assert note(tmp_path).read_text() == "hello"


async def test_words_of_nobody_known_are_those_of_a_guest(agent: AgentProcess, tmp_path: Path) -> None:
    """Before authors were kept, and once their author was erased."""
    await say(agent, "write the note", ADA)
    await agent.heard(1)
    note(tmp_path).unlink()
    await agent.store.people.erase(ADA)
    await say(agent, "/retry", ADA)
    await agent.heard(2)
    assert not note(tmp_path).exists()


async def test_what_a_guest_has_scheduled_with_an_admin_is_the_guests(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """Both speak in one turn, the admin last: the task comes back in the name of the one with the least role."""
    for author in (GUS, ADA):
        await bus.intake.enqueue(replace(message("remind us", str(GROUP)), author_id=author.user))
    model = OneCall(RequestedCall("c1", "schedule", json.dumps(TASK)))
    async with running_agent(bus, sqlite_store, model, tmp_path, admins=(ADA,)) as agent:
        await agent.heard(1)
        (ordered,) = await sqlite_store.schedules.active(GROUP)
        assert ordered.author_id == GUS.user
