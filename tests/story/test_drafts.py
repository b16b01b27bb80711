"""What people may see of an answer while it is made: the text so far, clean, and of nothing but the answer."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.models.demo import ScriptedClient
from agent.models.requests import ModelAnswer, ModelEvent, ModelRequest, StreamRestarted, TextDelta, TokenCount
from agent.runtime import run
from agent.runtime.run import showing
from gateway.bus.bus import RedisBus
from gateway.contracts.messages import Draft
from gateway.contracts.sessions import UsagePurpose
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.waiting import until

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
TEXT = f"Here is what you asked for: {TOKEN} and now you know it, so keep it to yourself, please, and be well."


class Dictation(ScriptedClient):
    """A model that says `events` one by one, slowly enough to be read along."""

    def __init__(self, events: Sequence[ModelEvent]) -> None:
        self.events = events

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.purpose is not UsagePurpose.TURN:
            async for event in super().stream(request):
                yield event
            return
        said = ""
        for event in self.events:
            await asyncio.sleep(0.01)
            said = said + event.text if isinstance(event, TextDelta) else ""
            yield event
        yield ModelAnswer(said, (), "stop", TokenCount(1, 1), 0.0, request.model)


@contextlib.asynccontextmanager
async def reading(bus: RedisBus, raw_redis: Any) -> AsyncIterator[list[Draft]]:
    """All drafts that are told inside the block. What is told to nobody is lost, so it begins when we listen."""
    read: list[Draft] = []

    async def listen() -> None:
        async for draft in bus.deliveries.drafts("telegram"):
            read.append(draft)  # noqa: PERF401 - the list is read while it grows

    listening = asyncio.create_task(listen())
    try:
        await until(lambda: any(b"draft" in channel for channel in raw_redis.pubsub_channels()))
        yield read
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drafts are told much more often than ever."""
    monkeypatch.setattr(run, "showing", partial(showing, every_s=0.005))


def said_by(
    events: Sequence[ModelEvent], bus: RedisBus, store: Store, folder: Path
) -> AbstractAsyncContextManager[AgentProcess]:
    """An agent that says just that."""
    return running_agent(bus, store, Dictation(events), folder)


def demo(bus: RedisBus, store: Store, folder: Path) -> AbstractAsyncContextManager[AgentProcess]:
    """An agent with the demo model."""
    return running_agent(bus, store, ScriptedClient(), folder)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("seed", range(2))
async def test_nothing_of_a_secret_is_ever_in_a_draft(
    seed: int, bus: RedisBus, raw_redis: Any, sqlite_store: Store, tmp_path: Path
) -> None:
    """Wherever the model's stream is cut; and each draft is the beginning of what is said in the end."""
    cuts = sorted(random.Random(seed).sample(range(1, len(TEXT)), 25))
    pieces = [TEXT[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)]
    async with (
        said_by([TextDelta(piece) for piece in pieces], bus, sqlite_store, tmp_path) as agent,
        reading(bus, raw_redis) as read,
    ):
        answer = await agent.ask("tell me")
        reply = agent.replies[-1]
        await until(lambda: len(read) > 3)
    assert TOKEN not in answer
    for draft in read:
        assert answer.startswith(draft.text)
        assert "ghp_" not in draft.text
        assert (draft.reply_id, draft.turn_id, draft.address) == (reply.id, reply.turn_id, reply.address)


@pytest.mark.usefixtures("eager")
async def test_a_stream_that_begins_anew_is_shown_anew(
    bus: RedisBus, raw_redis: Any, sqlite_store: Store, tmp_path: Path
) -> None:
    first, second = "The first attempt, word by word. ", "Another one. "
    events: list[ModelEvent] = [
        *(TextDelta(f"{word} ") for word in first.split()),
        StreamRestarted(),
        *(TextDelta(f"{word} ") for word in (second * 3).split()),
    ]
    async with said_by(events, bus, sqlite_store, tmp_path) as agent, reading(bus, raw_redis) as read:
        await agent.ask("tell me")
        await until(lambda: read and read[-1].text.startswith("Another"))
    texts = [draft.text for draft in read]
    begun_anew = next(at for at, text in enumerate(texts) if text.startswith("Another"))
    assert begun_anew > 0
    assert all(text.startswith("The") for text in texts[:begun_anew])
    assert all(text.startswith("Another") for text in texts[begun_anew:])


@pytest.mark.long
@pytest.mark.usefixtures("eager")
async def test_only_the_answer_of_the_turn_is_told(
    bus: RedisBus, raw_redis: Any, sqlite_store: Store, tmp_path: Path
) -> None:
    """No command, no title, nothing of sub-agents."""
    async with running_agent(bus, sqlite_store, ScriptedClient(), tmp_path) as agent, reading(bus, raw_redis) as read:
        await agent.ask("/help")
        await agent.ask("split slow 0.3 say secretly | slow 0.3 say quietly")
        await agent.ask("slow 0.5 say this is the marker of what is told")
        await until(lambda: any("marker" in draft.text for draft in read))
    own = {reply.id for reply in agent.replies}
    assert {draft.reply_id for draft in read} <= own
    assert not any(draft.text.startswith(("secretly", "quietly")) for draft in read)


async def test_a_quick_answer_is_not_told_of(
    bus: RedisBus, raw_redis: Any, sqlite_store: Store, tmp_path: Path
) -> None:
    async with running_agent(bus, sqlite_store, ScriptedClient(), tmp_path) as agent, reading(bus, raw_redis) as read:
        await agent.ask("hello")
        await agent.ask("slow 0.6 say this one is told of, because it takes a while")
        await until(lambda: bool(read))
    assert {draft.reply_id for draft in read} == {agent.replies[-1].id}
