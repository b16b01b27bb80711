"""What reaches the provider, byte for byte: each prompt begins with the whole of the one before it.

Providers keep what they have read of a prompt and charge a fraction for it, up to the first byte that differs.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import AsyncIterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import SecretStr

from agent.model_clients import gallery_of
from agent.models.catalog import ModelCatalog, ModelEndpoint
from agent.models.litellm import LitellmClient
from agent.tools.files.workspace import Workspaces
from gateway.bus.bus import RedisBus
from gateway.config.tools import ToolSettings
from gateway.contracts.ids import WORKSPACES
from gateway.contracts.messages import AttachmentKind
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.mcp_server import PNG
from tests.parts.model_server import Body, ModelServer, call, echo, images_of, last_user_text, serve_model
from tests.parts.pictures import png
from tests.parts.postmen import delivering, with_files

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Pydantic serializer warnings")]


def answer(body: Body) -> Body:
    """Looks something up, does something wrong, or answers, as the user's last words say."""
    said = last_user_text(body).rpartition("\n\n")[2]
    if body["messages"][-1]["role"] == "user" and said.startswith("look"):
        return call("recall", '{"query": "tea"}', "call_look")
    if body["messages"][-1]["role"] == "user" and said.startswith("stumble"):
        return call("recall", '{"limit": -1}', "call_stumble")
    return echo(body)


@pytest.fixture
async def provider() -> AsyncIterator[ModelServer]:
    async with serve_model() as server:
        server.answer = answer
        yield server


@pytest.fixture
async def agent(bus: RedisBus, store: Store, tmp_path: Path, provider: ModelServer) -> AsyncIterator[AgentProcess]:
    client = LitellmClient(ModelCatalog(), partial(ModelEndpoint, api_base=provider.url, api_key="key-of-the-test"))
    model = "openai/gpt-4o-mini"
    async with running_agent(bus, store, client, tmp_path, model=model) as process:
        yield process
    await client.close()


async def test_an_image_stays_where_it_was_shown(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, provider: ModelServer
) -> None:
    """Its bytes, too, are part of what a provider has read."""
    gallery = gallery_of(Workspaces(tmp_path / WORKSPACES))
    client = LitellmClient(
        ModelCatalog(), partial(ModelEndpoint, api_base=provider.url, api_key="key-of-the-test"), gallery=gallery
    )
    async with (
        delivering(bus) as postman,
        running_agent(bus, sqlite_store, client, tmp_path, model="openai/gpt-4o-mini") as agent,
    ):
        files = [postman.post("cat.png", png(9), AttachmentKind.IMAGE), postman.post("notes.txt", b"about cats")]
        await agent.bus.intake.enqueue(with_files("whose cat?", *files))
        await agent.heard(1)
        await agent.ask("look for cats")
        await agent.ask("bye")
    await client.close()
    (address,) = images_of(of_turns(provider)[0])
    assert base64.b64decode(address.removeprefix("data:image/png;base64,")) == png(9)
    for before, after in pairwise(map(as_read, of_turns(provider))):
        assert after.startswith(before)
    assert all(images_of(body) == [address] for body in of_turns(provider))


async def test_an_image_of_a_tool_is_shown_after_its_result_and_stays_there(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, provider: ModelServer
) -> None:
    gallery = gallery_of(Workspaces(tmp_path / WORKSPACES))
    client = LitellmClient(
        ModelCatalog(), partial(ModelEndpoint, api_base=provider.url, api_key="key-of-the-test"), gallery=gallery
    )
    provider.answer = lambda body: (
        call("mcp_local_picture", '{"kind": "png"}', "call_picture")
        if body["messages"][-1]["role"] == "user" and last_user_text(body).endswith("draw")
        else echo(body)
    )
    server = ToolSettings(
        policy=("allow mcp_local_picture",),
        mcp=(f"local={sys.executable} -m tests.parts.mcp_server",),
        mcp_secrets=(SecretStr(f"local.PYTHONPATH={ROOT}"),),
        mcp_access=("local.confined=off",),
    )
    async with running_agent(bus, sqlite_store, client, tmp_path, model="openai/gpt-4o-mini", tools=server) as agent:
        while "mcp_local_picture" not in json.dumps(provider.requests):  # the server starts beside us
            await agent.ask("hello")
        await agent.ask("draw")
        await agent.ask("bye")
    await client.close()
    asked, shown, later = of_turns(provider)[-3:]
    assert images_of(asked) == []
    (address,) = images_of(shown)
    assert base64.b64decode(address.removeprefix("data:image/png;base64,")) == PNG
    assert [message["role"] for message in shown["messages"]][-2:] == ["tool", "user"]
    assert images_of(later) == [address]
    assert as_read(later).startswith(as_read(shown))


def of_turns(provider: ModelServer) -> list[Body]:
    """The requests that were made for turns: titles have no tools."""
    return [body for body in provider.requests if body.get("tools")]


def as_read(body: Body) -> str:
    """A prompt as a provider reads it: tools, system prompt, messages."""
    return "\n".join(map(json.dumps, (body["tools"], *body["messages"])))


async def test_over_ten_turns_each_prompt_begins_with_the_one_before(
    agent: AgentProcess, provider: ModelServer
) -> None:
    """With tools that ran, tools that failed, different moods, a clock that goes on, and a person who moves: the name
    and the time zone are told with each message."""
    said = [
        "hello",
        "look for tea",
        "wtf, still broken",
        "/remind zone Asia/Tokyo",
        "what if we plan it",
        "stumble",
        "look again",
        "ok",
        "and",
        "so",
        "bye",
    ]
    for number, text in enumerate(said):
        await agent.ask(text)
        assert len(agent.replies) == number + 1
    sent = [as_read(body) for body in of_turns(provider)]
    assert len(sent) >= len(said) + 2
    for earlier, later in pairwise(sent):
        assert later.startswith(earlier)
    assert "<tone>" in sent[-1]
    asked = [message["content"] for message in of_turns(provider)[-1]["messages"] if message["role"] == "user"]
    told = [text for text in asked if text.startswith(("<now>", "<tone>"))]
    assert len(told) == len(said) - 1
    assert all(', from "Someone"\n</now>' in text for text in told)
    assert [" in Asia/Tokyo)" in text for text in told] == [False] * 3 + [True] * (len(told) - 3)


async def test_an_edited_file_changes_the_system_prompt_and_nothing_else(
    agent: AgentProcess, provider: ModelServer, tmp_path: Path
) -> None:
    await agent.ask("hello")
    (tmp_path / "workspace").mkdir(exist_ok=True)
    (tmp_path / "workspace" / "SOUL.md").write_text("Be brief.", "utf-8")
    await agent.ask("hello again")
    first, second = [body["messages"] for body in of_turns(provider)]
    assert "Be brief." in second[0]["content"]
    assert second[1 : len(first)] == first[1:]


async def test_a_profile_narrows_what_is_offered_and_what_runs(agent: AgentProcess, provider: ModelServer) -> None:
    """A tool outside of the profile is not offered, and a model that asks for it all the same gets a refusal."""
    await agent.ask("/agent tester")
    await agent.ask("hello")
    allowed = of_turns(provider)[-1]
    provider.answer = lambda body: (
        call("web_fetch", '{"url": "https://example.org"}', "call_fetch")
        if body["messages"][-1]["role"] == "user" and "web" in last_user_text(body)
        else echo(body)
    )
    assert "You are a tester." in allowed["messages"][0]["content"]
    names = {tool["function"]["name"] for tool in allowed["tools"]}
    assert "file_list" in names
    assert "db_query" not in names
    await agent.ask("/agent reviewer")
    await agent.ask("read the web")
    narrowed = of_turns(provider)[-1]
    assert "web_fetch" not in {tool["function"]["name"] for tool in narrowed["tools"]}
    (refused,) = [line for line in narrowed["messages"][0]["content"].splitlines() if "web_fetch" in line]
    assert refused.startswith("Not permitted here: ")
    results = [message["content"] for message in narrowed["messages"] if message["role"] == "tool"]
    assert "web_fetch is not permitted" in results[-1]
    assert "my usual self" in await agent.ask("/agent default")
    await agent.ask("hello")
    assert "You are a reviewer." not in of_turns(provider)[-1]["messages"][0]["content"]


async def test_a_profile_belongs_to_its_session(agent: AgentProcess, provider: ModelServer) -> None:
    """Not to other people, and not to the next conversation."""
    await agent.ask("/agent security", "telegram:1")
    await agent.ask("hello", "telegram:2")
    assert "You are a security reviewer." not in of_turns(provider)[-1]["messages"][0]["content"]
    assert "security" in (await agent.ask("/agent", "telegram:1")).partition(" (current)")[0].splitlines()[-1]
    await agent.ask("/new", "telegram:1")
    assert (await agent.ask("/agent", "telegram:1")).endswith("**default**: my usual self (current)")


@pytest.mark.parametrize(
    ("said", "hint"),
    [("/agent develper", "**developer**"), ("/agent REVIEWR", "**reviewer**"), ("/agent qqqqqq", "/agent lists them")],
)
async def test_of_an_unknown_profile_the_nearest_is_named(agent: AgentProcess, said: str, hint: str) -> None:
    assert hint in await agent.ask(said)
    assert "**default**: my usual self (current)" in await agent.ask("/agent")
