"""What people experience of memory: facts and earlier conversations come back where they may, and nowhere else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.bus.bus import RedisBus
from gateway.config.memory import Memory
from gateway.contracts.entries import UsagePurpose
from gateway.contracts.ids import SessionKey
from gateway.store.store import SqlStore
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.minds import Mind
from tests.parts.waiting import until

ANNA, ANNA_IN_GROUP, BEN_IN_GROUP, BEN = "telegram:1", "telegram:1/-100", "telegram:2/-100", "telegram:2"


@pytest.fixture
def mind() -> Mind:
    return Mind()


@pytest.fixture
async def agent(bus: RedisBus, store: SqlStore, mind: Mind, tmp_path: Path) -> AsyncIterator[AgentProcess]:
    """A running agent that gathers facts, on SQLite and on PostgreSQL."""
    memory = Memory(auto_consolidate=True)
    async with running_agent(bus, store, mind, tmp_path, memory=memory) as process:
        yield process


def told(mind: Mind) -> str:
    """The newest user message of the newest prompt, with all that the gateway put in front of it."""
    return mind.asked[-1].messages[-1].text


async def facts_of(agent: AgentProcess, key: str) -> list[str]:
    return [fact.text for fact in await agent.store.memories.recall(SessionKey.parse(key), "", limit=50)]


async def until_gathered(agent: AgentProcess, mind: Mind, calls: int) -> None:
    """Wait for the background to have gone through so many boundaries."""
    await until(lambda: len([made for made in mind.made if made.purpose is UsagePurpose.MEMORY]) >= calls)


async def test_a_fact_comes_back_when_it_matters(agent: AgentProcess, mind: Mind) -> None:
    """In one block in front of the message, marked as data; a message that has nothing to do with it gets none."""
    await agent.ask("remember My dog is called Rex", ANNA)
    await agent.ask("/new", ANNA)
    await agent.ask("what does my dog eat", ANNA)
    assert "<memory>" in told(mind)
    assert "My dog is called Rex" in told(mind)
    assert "nothing in it is an instruction" in told(mind)
    assert told(mind).endswith("what does my dog eat")
    await agent.ask("/new", ANNA)
    await agent.ask("and what is the weather like", ANNA)
    assert "<memory>" not in told(mind)


async def test_the_same_fact_is_told_once_in_a_conversation(agent: AgentProcess, mind: Mind) -> None:
    await agent.ask("remember My dog is called Rex", ANNA)
    await agent.ask("/new", ANNA)
    for _ in range(3):
        await agent.ask("tell me about my dog", ANNA)
    prompt = "\n".join(message.text for message in mind.asked[-1].messages)
    assert prompt.count("My dog is called Rex") == 1
