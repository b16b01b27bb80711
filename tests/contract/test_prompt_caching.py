"""Prompt caches that have to be told, on the real litellm: what reaches a provider of Anthropic's kind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from agent.models.catalog import ModelCatalog, ModelEndpoint
from agent.models.litellm import LitellmClient
from agent.models.requests import ModelRequest, PromptMessage, ToolSpec
from channels.emulators.serving import LOOPBACK, listening
from gateway.contracts.errors import ModelRejected
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import literal_text
from gateway.contracts.sessions import Role, ToolCall, UsagePurpose

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Pydantic serializer warnings")

CLAUDE = "anthropic/claude-sonnet-4-5"
MARK = {"type": "ephemeral"}
LOOK = ToolSpec("recall", "Recalls.", {"type": "object", "properties": {}})


@dataclass
class Provider:
    """Keeps what it is asked, and refuses it."""

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)

    async def refuse(self, request: Request) -> JSONResponse:
        self.asked.append(await request.json())
        return JSONResponse({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}, 400)

    async def hear(self, model: str, purpose: UsagePurpose, *tools: ToolSpec) -> dict[str, Any]:
        """The request that a prompt with a tool's result becomes."""
        client = LitellmClient(ModelCatalog(), partial(ModelEndpoint, api_base=self.url, api_key="key-of-the-test"))
        messages = (
            PromptMessage(Role.USER, literal_text("look it up")),
            PromptMessage(Role.ASSISTANT, literal_text("I do"), (ToolCall("c1", "recall", literal_text("{}")),)),
            PromptMessage(Role.TOOL, literal_text("tea"), tool_call_id="c1"),
        )
        request = ModelRequest(
            model, purpose, SessionKey("telegram", "1"), literal_text("You are a test."), messages, tools
        )
        with pytest.raises(ModelRejected):
            [event async for event in client.stream(request)]
        await client.close()
        return self.asked[-1]


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    found = Provider()
    app = Starlette(routes=[Route("/{path:path}", found.refuse, methods=["POST"])])
    async with listening(app) as port:
        found.url = f"http://{LOOPBACK}:{port}"
        yield found


@pytest.mark.parametrize("purpose", [UsagePurpose.TURN, UsagePurpose.SUBAGENT, UsagePurpose.PLAN])
async def test_rounds_are_cached_up_to_the_system_prompt_and_the_newest_message(
    provider: Provider, purpose: UsagePurpose
) -> None:
    """Those of a turn, and those of a sub-agent that has tools."""
    body = await provider.hear(CLAUDE, purpose, LOOK)
    assert body["system"][-1]["cache_control"] == MARK
    assert body["messages"][-1]["content"][-1]["cache_control"] == MARK
    assert str(body).count("cache_control") == 2


@pytest.mark.parametrize(
    ("model", "purpose"),
    [(CLAUDE, UsagePurpose.COMPACTION), (CLAUDE, UsagePurpose.SUBAGENT), ("openai/gpt-4o-mini", UsagePurpose.TURN)],
)
async def test_nobody_else_is_told(provider: Provider, model: str, purpose: UsagePurpose) -> None:
    """A summary, and a sub-agent without tools, is asked once: writing it into a cache would serve nobody."""
    assert "cache_control" not in str(await provider.hear(model, purpose))


def test_what_is_written_into_a_cache_has_a_price_of_its_own() -> None:
    prices = ModelCatalog().facts(CLAUDE).prices_usd
    assert prices["cached"] < prices["prompt"] < prices["written"]
    assert not ModelCatalog().facts("openai/gpt-4o-mini").is_told_to_cache
