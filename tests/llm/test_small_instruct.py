"""The whole agent with SmolLM2-135M-Instruct, a model so small that it fits into a Python package.

This proves that the mechanism works with words that no test has written: calls go out on the wire, tools run, failures
come back, titles, summaries and plans are made, checked and kept. It proves nothing of wit. The model has none: which
tool is called is settled by what is offered, and the form of a call or a plan by a grammar (`tests.llm.tool_calls`).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from agent.engine import FirstPrompt
from agent.limits import TITLE_TRIES_MAX
from agent.models.client import ModelClient
from agent.models.litellm import LitellmClient
from agent.models.requests import PromptMessage
from agent.runtime.steps import Steps
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.config.tools import ToolSettings
from gateway.contracts.errors import ToolError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import literal_text
from gateway.contracts.sessions import UNTITLED, Entry, EntryKind, Role
from gateway.scrub import Scrubber
from gateway.store import Store
from tests.llm.conftest import client_of, llama
from tests.llm.test_real_model import STORY, is_titled
from tests.llm.tool_calls import CHARS_MAX, calling_tools
from tests.parts.agents import running_agent
from tests.parts.tooling import context, registry, tool
from tests.parts.turns import Boundless, begun_turn

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Pydantic serializer warnings"),
]
KEY: Final = SessionKey("telegram", "1")
MODEL: Final = "openai/smollm2-135m-instruct"
WINDOW: Final = 8_192
WITHIN_S: Final = 300.0
PLAN_ASKED: Final = "Your answer is one JSON object and nothing else"
_TEXT: Final = {"type": "string", "minLength": 1, "maxLength": CHARS_MAX}
_STEP: Final = {
    "id": {"const": "S1"},
    "title": _TEXT,
    "detail": _TEXT,
    "depends_on": {"type": "array", "items": _TEXT, "maxItems": 0},
    "risks": {"type": "array", "items": _TEXT, "maxItems": 1},
    "rollback": _TEXT,
}


def _object(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


PLAN: Final = _object(
    {"goal": _TEXT, "steps": {"type": "array", "items": _object(_STEP), "minItems": 1, "maxItems": 1}}
)


@pytest.fixture(scope="module")
def smollm2() -> Iterator[str]:
    with llama(WINDOW, model="smollm2") as address:
        yield address


@pytest.fixture
async def client(smollm2: str) -> AsyncIterator[LitellmClient]:
    async with calling_tools(smollm2, {PLAN_ASKED: PLAN}) as address:
        client = client_of(address)
        yield client
        await client.close()


def kinds(entries: list[Entry]) -> list[tuple[Role, int, bool]]:
    """Who spoke, with how many calls, and whether it failed."""
    return [(entry.role, len(entry.tool_calls), entry.is_error) for entry in entries]


async def test_a_tool_is_called_and_its_error_mended(client: LitellmClient) -> None:
    """The first call fails; the model is told why, calls again and answers."""
    taken, heard = begun_turn(), list[Mapping[str, Any]]()

    def switch(arguments: Mapping[str, Any]) -> str:
        heard.append(arguments)
        if len(heard) == 1:
            raise ToolError("the lamp is locked: try again")
        return f"the lamp is {arguments['colour']} now"

    lamp = tool("lamp", switch, properties={"colour": {"enum": ["red", "green"]}})
    steps = Steps(ModelClient(client), registry(lamp), Scrubber(), SystemClock(), rounds_max=3)
    asked = (PromptMessage(Role.USER, literal_text("Make the lamp green.")),)
    await steps.take_steps(taken, context(), FirstPrompt(MODEL, literal_text("You switch lamps."), asked, Boundless()))
    assert kinds(taken.entries) == [
        (Role.ASSISTANT, 1, False),
        (Role.TOOL, 0, True),
        (Role.USER, 0, False),
        (Role.ASSISTANT, 1, False),
        (Role.TOOL, 0, False),
        (Role.ASSISTANT, 0, False),
    ]
    assert "the lamp is locked" in taken.entries[2].text
    assert [arguments["colour"] in {"red", "green"} for arguments in heard] == [True, True]
    assert taken.answer
    assert all(usage.prompt_tokens and usage.completion_tokens for usage in taken.usage)


async def test_a_fact_that_it_remembers_is_in_the_prompt_after_new(
    client: LitellmClient, bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """The model writes the fact down by a tool of ours; the next conversation begins with it."""
    tools = ToolSettings(policy=("deny read", "allow remember"))
    async with running_agent(
        bus, sqlite_store, client, tmp_path, model=MODEL, context_window=WINDOW, tools=tools
    ) as agent:
        assert await agent.ask("Remember that my favourite colour is green.", within_s=WITHIN_S)
        session = await sqlite_store.sessions.current(KEY)
        assert session is not None
        entries = [entry for entry in await sqlite_store.transcript.page(session.id) if entry.kind is EntryKind.MESSAGE]
        assert [entry.role for entry in entries] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
        (call,) = entries[1].tool_calls
        assert call.name == "remember"
        await agent.ask("/new", within_s=WITHIN_S)
        fact = json.loads(call.arguments)["fact"]
        await agent.ask(f"What did I say about this: {fact}", within_s=WITHIN_S)
        later = await sqlite_store.sessions.current(KEY)
        assert later is not None
        notes = [entry.text for entry in await sqlite_store.transcript.page(later.id) if entry.kind is EntryKind.NOTE]
    assert later.id != session.id
    assert any(fact in note for note in notes)


async def test_a_title_and_a_summary_are_made(
    client: LitellmClient, bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    tools = ToolSettings(policy=("deny read",))
    async with running_agent(
        bus, sqlite_store, client, tmp_path, model=MODEL, context_window=WINDOW, tools=tools
    ) as agent:
        for number in range(1, TITLE_TRIES_MAX + 1):
            said = f"Write letter number {number} to Anna Meyer. {STORY}"
            assert await agent.ask(said, within_s=WITHIN_S)
            if await is_titled(agent):
                break
        assert "Compacted" in await agent.ask("/compact", within_s=WITHIN_S)
        session = await sqlite_store.sessions.current(KEY)
        assert session is not None
        view = await sqlite_store.transcript.view(session.id)
    print(f"title: {session.title}\nsummary: {view[0].text}")
    assert session.title != UNTITLED
    assert view[0].kind is EntryKind.COMPACTION
    assert view[0].text.strip()


async def test_a_plan_passes_through_its_schema_and_becomes_the_task_list(
    client: LitellmClient, bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """A sub-agent in a process of its own writes it, a person approves it."""
    tools = ToolSettings(policy=("deny read",))
    async with running_agent(
        bus, sqlite_store, client, tmp_path, model=MODEL, context_window=WINDOW, tools=tools
    ) as agent:
        await agent.say("/plan paint the kitchen")
        question = (await agent.heard(1, within_s=WITHIN_S))[0]
        assert question.text.startswith("**Plan: ")
        await agent.press(question.choices[0].command)
        await agent.heard(3, within_s=WITHIN_S)
        (todo,) = await sqlite_store.transcript.todos(KEY)
        session = await sqlite_store.sessions.current(KEY)
    assert todo.text.startswith("S1: ")
    assert session is not None
    assert session.tokens > 0
