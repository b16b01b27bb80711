"""Files that people are sent, told on a real bus and real databases."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.models.demo import ScriptedClient
from agent.models.requests import ModelEvent, ModelRequest
from agent.tools.files.workspace import Workspaces
from gateway.bus.bus import RedisBus
from gateway.config.tools import ToolSettings
from gateway.contracts.errors import ModelRejected
from gateway.contracts.ids import WORKSPACES, SessionKey
from gateway.contracts.messages import Reply, ReplyKind
from gateway.contracts.ports import WantedFile
from gateway.contracts.sessions import Role
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent

ANNA, BEN = "telegram:1", "telegram:2"


@pytest.fixture
async def agent(bus: RedisBus, store: Store, tmp_path: Path) -> AsyncIterator[AgentProcess]:
    """A running agent with the demo model, on SQLite and on PostgreSQL; everybody may write files."""
    tools = ToolSettings(policy=("allow write",))
    async with running_agent(bus, store, ScriptedClient(), tmp_path, tools=tools) as process:
        yield process


def asks_for(tool: str, **arguments: str) -> str:
    """What makes the demo model call a tool."""
    return f"tool {tool} {json.dumps(arguments)}"


async def answer_to(agent: AgentProcess, text: str, key: str = ANNA) -> Reply:
    await agent.ask(text, key)
    return agent.replies[-1]


async def borrowed(agent: AgentProcess, reply: Reply, key: str = "") -> bytes | None:
    """The bytes of a reply's file, as its channel gets them."""
    wanted = WantedFile(SessionKey.parse(key) if key else reply.key, reply.id, 0)
    return await agent.bus.files.fetch_file(wanted, wait_s=5)


async def test_a_file_goes_with_the_answer_of_its_turn_and_with_no_other(agent: AgentProcess) -> None:
    await agent.ask(asks_for("file_write", path="a.csv", content="1,2\n"), ANNA)
    sent = await answer_to(agent, asks_for("send_file", path="a.csv", caption="as you wished"))
    assert [(file.name, file.media_type, file.size_bytes, file.caption) for file in sent.files] == [
        ("a.csv", "text/csv", 4, "as you wished")
    ]
    assert (await answer_to(agent, "thank you")).files == ()


async def test_nobody_is_sent_a_file_of_somebody_else(agent: AgentProcess) -> None:
    await agent.ask(asks_for("file_write", path="a.csv", content="mine"), ANNA)
    other = await answer_to(agent, asks_for("send_file", path="a.csv"), BEN)
    assert other.files == ()
    assert "does not exist" in other.text


async def test_the_bytes_are_lent_until_the_receipt_and_to_their_lane_only(
    bus: RedisBus, store: Store, tmp_path: Path
) -> None:
    """A channel that asks under another key, or too late, gets nothing."""
    tools = ToolSettings(policy=("allow write",))
    async with running_agent(bus, store, ScriptedClient(), tmp_path, tools=tools) as agent:
        await agent.ask(asks_for("file_write", path="a.csv", content="1,2\n"), ANNA)
        while not agent.titles:
            await agent.deliver("telegram")
        await agent.say(asks_for("send_file", path="a.csv"), ANNA)
        (pending,) = await agent.bus.deliveries.replies("telegram", "test", count=1, wait_s=20)
        assert await borrowed(agent, pending.reply) == b"1,2\n"
        assert await borrowed(agent, pending.reply, key=BEN) == b""
        assert await borrowed(agent, pending.reply) == b"1,2\n"


class FailsAfterwards(ScriptedClient):
    """Does what it is told, and then has no answer."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.messages[-1].role is Role.TOOL:
            raise ModelRejected("no answer today")
        async for event in super().stream(request):
            yield event


async def test_a_turn_that_fails_sends_no_file(bus: RedisBus, store: Store, tmp_path: Path) -> None:
    """Its answer was never given, and nothing of it is kept."""
    Workspaces(tmp_path / WORKSPACES).of(SessionKey.parse(ANNA)).write("a.csv", b"1,2")
    async with running_agent(bus, store, FailsAfterwards(), tmp_path) as agent:
        failed = await answer_to(agent, asks_for("send_file", path="a.csv"))
        assert (failed.kind, failed.files) == (ReplyKind.ERROR, ())
        assert await borrowed(agent, failed) == b""
