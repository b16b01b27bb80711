"""Our client, our compactor and our titler with a real model: what a provider really streams, counts and refuses."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Final

import httpx
import pytest

from agent.limits import TITLE_TIMEOUT_S, TITLE_TRIES_MAX
from agent.model_clients import ModelRouter
from agent.models.litellm import LitellmClient
from agent.models.requests import ModelAnswer, ModelRequest, PromptMessage, TextDelta
from agent.tokens import estimate_tokens
from gateway.bus.bus import RedisBus
from gateway.config.subagents import SubagentSettings
from gateway.config.tools import ToolSettings
from gateway.contracts.errors import ContextTooLong
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, literal_text
from gateway.contracts.sessions import UNTITLED, EntryKind, Role, Session, UsagePurpose
from gateway.contracts.subagents import TaskState
from gateway.store import Store
from tests.llm.conftest import ONE_LINE, WINDOW, client_of, llama
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.waiting import PATIENCE_S, POLL_S

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Pydantic serializer warnings"),
]
KEY: Final = SessionKey("telegram", "1")
MODEL: Final = "openai/gemma-3-270m"
NO_TOOLS: Final = ToolSettings(policy=("deny read",))
"""What is left to members: their prompts have no tools, which this model has never heard of."""
ONLY_SUB_AGENTS: Final = ToolSettings(policy=("allow sub_agent",))
"""They have the tools of members, as the types that are offered need them."""
STORY: Final = "Tell me about the harbour of Hamburg, its ships, its cranes, its people and its long history. " * 3


def asking(text: str) -> ModelRequest:
    return ModelRequest(
        MODEL,
        UsagePurpose.TURN,
        KEY,
        literal_text("You are a helpful assistant."),
        (PromptMessage(Role.USER, CleanText(text)),),
        completion_tokens_max=120,
        temperature=0.2,
    )


async def current(agent: AgentProcess) -> Session:
    session = await agent.store.sessions.current(KEY)
    assert session is not None
    return session


async def test_deltas_add_up_and_usage_is_plausible(brief: LitellmClient) -> None:
    """The answer is what was streamed; the provider's count is near our estimate."""
    request = asking("What is the capital of France? " * 20)
    events = [event async for event in brief.stream(request)]
    answer = events[-1]
    assert isinstance(answer, ModelAnswer)
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(deltas) > 3
    assert "".join(deltas) == answer.text
    assert answer.finish_reason == "stop"
    expected = estimate_tokens(request.messages[0].text) + estimate_tokens(request.system)
    assert expected / 2 < answer.tokens.prompt < expected * 2
    assert 0 < answer.tokens.completion <= len(answer.text)


async def test_a_prefix_that_was_read_before_comes_from_the_cache(brief: LitellmClient) -> None:
    """And we see how much of it."""
    counts = []
    for question in ("Where is it?", "How old is it?"):
        request = asking(f"{STORY}{question}")
        answer = [event async for event in brief.stream(request)][-1]
        assert isinstance(answer, ModelAnswer)
        counts.append(answer.tokens)
    assert counts[1].cached > counts[1].prompt / 2


async def test_too_long_a_prompt_is_recognised(brief: LitellmClient) -> None:
    with pytest.raises(ContextTooLong):
        async for _ in brief.stream(asking("word " * WINDOW * 2)):
            pass


async def test_a_cancelled_call_is_hung_up(talkative: LitellmClient, talkative_server: str) -> None:
    """The server stops making an answer that nobody wants: it would talk for a minute or more."""
    events = talkative.stream(replace(asking("Count to ten thousand."), completion_tokens_max=None))

    async def listen() -> None:
        async for _ in events:
            pass

    listening = asyncio.create_task(listen())
    await slot_becomes(talkative_server, is_busy=True)
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    await slot_becomes(talkative_server, is_busy=False)


async def slot_becomes(address: str, *, is_busy: bool) -> None:
    """Wait until the server says so."""
    async with httpx.AsyncClient(base_url=address, timeout=PATIENCE_S) as http, asyncio.timeout(PATIENCE_S):
        while (await http.get("/slots")).json()[0]["is_processing"] is not is_busy:  # noqa: ASYNC110 - a server is asked
            await asyncio.sleep(POLL_S)


async def test_a_conversation_that_outgrows_the_model_goes_on(
    brief: LitellmClient, bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """Nothing is known of the model, so 8,192 tokens are assumed; it has 2,048. The server refuses, the conversation
    is compacted by the same model, and the answer comes."""
    async with running_agent(bus, sqlite_store, brief, tmp_path, model=MODEL, tools=NO_TOOLS) as agent:
        for number in range(24):
            reply = await agent.ask(f"Question {number}. {STORY}", within_s=PATIENCE_S)
            assert "Reference" not in reply
        session = await current(agent)
        entries = await agent.store.transcript.page(session.id)
    summaries = [entry for entry in entries if entry.kind is EntryKind.COMPACTION]
    assert summaries
    assert all(summary.text.strip() for summary in summaries)
    assert sum(entry.role is Role.USER and entry.kind is EntryKind.MESSAGE for entry in entries) == 24


async def is_titled(agent: AgentProcess) -> bool:
    """Give the titler, which works beside the answer, the time that it has."""
    session = await agent.store.sessions.current(KEY)
    if session is None:
        return False
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(TITLE_TIMEOUT_S):
            while (session := await current(agent)).title == UNTITLED:  # noqa: ASYNC110 - it is not told to anybody
                await asyncio.sleep(POLL_S)
    return session.title != UNTITLED


async def test_a_title_and_a_summary_are_really_made(
    brief: LitellmClient, bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """By the model, and charged for what it counted."""
    async with running_agent(
        bus, sqlite_store, brief, tmp_path, model=MODEL, context_window=WINDOW, tools=NO_TOOLS
    ) as agent:
        days = 0
        while days < TITLE_TRIES_MAX and not await is_titled(agent):
            days += 1
            await agent.ask(f"Plan a trip to Hamburg, day {days}. {STORY}", within_s=PATIENCE_S)
        assert await is_titled(agent)
        before = await current(agent)
        assert await agent.ask("/compact", within_s=PATIENCE_S) == f"Compacted {2 * days} messages."
        after = await current(agent)
        view = await agent.store.transcript.view(after.id)
    assert after.tokens > before.tokens > 0
    assert view[0].kind is EntryKind.COMPACTION
    assert view[0].text.strip()


async def test_sixty_turns_go_through_several_compactions(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    """Every turn is answered, and every prompt fits, as the provider itself counts it."""
    window = 2_048
    with llama(window, ONE_LINE) as address:
        client = client_of(address)
        async with running_agent(
            bus, sqlite_store, client, tmp_path, model=MODEL, context_window=window, tools=NO_TOOLS
        ) as agent:
            sizes = []
            for number in range(60):
                reply = await agent.ask(f"Question {number}. {STORY}", within_s=2 * PATIENCE_S)
                assert "Reference" not in reply
                sizes.append((await current(agent)).prompt_tokens)
            entries = await agent.store.transcript.page((await current(agent)).id, limit=1_000)
        await client.close()
    summaries = [entry for entry in entries if entry.kind is EntryKind.COMPACTION]
    print(f"prompts: {sizes}\nsummaries: {[(summary.seq, summary.text) for summary in summaries]}")
    assert len(summaries) >= 3
    assert max(sizes) <= window


async def test_three_sub_agents_think_at_once_and_the_turn_that_split_the_job_passes_their_answers_on(
    brief: LitellmClient, bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """The turn follows a script, what sub-agents think is really thought, and what the provider counted is charged."""
    client, thinking = ModelRouter(brief), SubagentSettings(model=MODEL)
    async with running_agent(bus, sqlite_store, client, tmp_path, subagents=thinking, tools=ONLY_SUB_AGENTS) as agent:
        said = "split What is the capital of France? | What colour is the sky? | How many legs has a cat?"
        reply = await agent.ask(said, within_s=3 * PATIENCE_S)
        tasks = await agent.store.tasks.newest(limit=10)
    print(f"{reply}\n{[(task.label, task.tokens, task.duration_ms, task.result) for task in tasks]}")
    assert [(task.state, task.reason) for task in tasks] == [(TaskState.COMPLETED, "")] * 3
    assert all(task.tokens > 100 and task.result.strip() and task.result.strip() in reply for task in tasks)
    assert max(task.started_at_ms for task in tasks) < min(task.finished_at_ms for task in tasks)
