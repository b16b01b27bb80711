"""Whole turns on the second engine: the real program of the Claude Agent SDK, an API on loopback, a real bus."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from agent.models.demo import ScriptedClient
from agent.models.requests import ModelEvent, ModelFacts, ModelRequest
from gateway.bus.bus import RedisBus
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import AttachmentKind, ControlKind
from gateway.contracts.sessions import EntryKind, Role
from gateway.store import Store
from tests.parts.agents import running_agent
from tests.parts.pictures import png
from tests.parts.postmen import delivering, with_files
from tests.parts.providers.anthropic import Step, serve_anthropic
from tests.parts.waiting import until

ANN = SessionKey.parse("telegram:1")


class Titles(ScriptedClient):
    """Small work is done by litellm on either engine; here by the demo model under whatever name."""

    def check_name(self, model: str) -> None:
        """Every name."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        stand_in = ModelRequest("demo/scripted", request.purpose, request.key, request.system, request.messages)
        async for event in super().stream(stand_in):
            yield event


class Seer(Titles):
    """The same, where models see."""

    def facts(self, model: str) -> ModelFacts:
        return replace(super().facts(model), sees=True)


def children() -> list[str]:
    """Programs of the SDK that this process has started and that live."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it may end meanwhile
            found.append(child.name())
    return [name for name in found if name == "claude"]


async def test_a_conversation_with_a_tool_and_a_stop(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second turn knows the first; all is on record and paid for; a stop ends the program's call."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-nobody")
    steps = [Step("Hello Ann."), Step("", [("todo_read", {})]), Step("Nothing to do, Ann."), Step("never heard")]
    async with (
        serve_anthropic(steps) as api,
        running_agent(
            bus,
            sqlite_store,
            Titles(),
            tmp_path,
            model="anthropic/claude-sonnet-4-6",
            engine="claude_sdk",
            api_base=api.url,
        ) as agent,
    ):
        assert await agent.ask("I am Ann.") == "Hello Ann."
        assert await agent.ask("What is there to do?") == "Nothing to do, Ann."
        second = [request for request in api.requests if request.get("tools")][1]
        assert "I am Ann." in json.dumps(second["messages"])
        session = await sqlite_store.sessions.current(ANN)
        assert session is not None
        assert session.tokens >= 3 * 35
        kept = [entry for entry in await sqlite_store.transcript.page(session.id) if entry.kind is EntryKind.MESSAGE]
        roles = [Role.USER, Role.ASSISTANT, Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
        assert [entry.role for entry in kept] == roles
        api.hold()
        await agent.say("Think for ever.")
        asked = len(api.requests)
        await until(lambda: len(api.requests) > asked, lambda: api.requests)
        earlier = api.hung_up
        await agent.control(ControlKind.STOP)
        assert "Stopped" in (await agent.heard(3))[-1].text
        await until(lambda: api.hung_up > earlier, lambda: api.hung_up)
        await until(lambda: not children(), children)


async def test_a_picture_that_came_is_shown_to_its_model(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the turn it came with and in those that follow; nobody is told that it cannot be seen."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-nobody")
    model = "anthropic/claude-sonnet-4-6"
    async with (
        serve_anthropic([Step("A grey square."), Step("As I said.")]) as api,
        delivering(bus) as postman,
        running_agent(bus, sqlite_store, Seer(), tmp_path, model=model, engine="claude_sdk", api_base=api.url) as agent,
    ):
        picture = postman.post("square.png", png(16), AttachmentKind.IMAGE)
        await agent.bus.intake.enqueue(with_files("what is this?", picture))
        assert (await agent.heard(1))[-1].text == "A grey square."
        assert await agent.ask("really?") == "As I said."
    for request in (request for request in api.requests if request.get("tools")):
        blocks = [block for message in request["messages"] for block in message["content"]]
        (shown,) = (block for block in blocks if block["type"] == "image")
        assert base64.b64decode(shown["source"]["data"]) == png(16)
        assert "<unseen>" not in json.dumps(blocks)
