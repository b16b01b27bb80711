"""What people experience of memory when an embedding model is configured, and when it fails."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.bus.bus import RedisBus
from gateway.contracts.errors import ModelRejected
from gateway.contracts.ids import SessionKey
from gateway.scrub import scrub
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.meanings import MODEL, Meanings
from tests.parts.minds import Mind
from tests.parts.waiting import until_found

ANNA, BEN = "telegram:1", "telegram:2"


@pytest.fixture
def mind() -> Mind:
    return Mind()


@pytest.fixture
def meanings() -> Meanings:
    return Meanings()


@pytest.fixture
async def agent(
    bus: RedisBus, store: Store, mind: Mind, meanings: Meanings, tmp_path: Path
) -> AsyncIterator[AgentProcess]:
    """A running agent with an embedding model, on SQLite and on PostgreSQL."""
    async with running_agent(bus, store, mind, tmp_path, embeddings=meanings) as process:
        yield process


def prompt(mind: Mind) -> str:
    return "\n".join(message.text for message in mind.asked[-1].messages)


async def usage_of(agent: AgentProcess, key: str) -> list[dict[str, object]]:
    document = json.loads(await agent.store.people.export(SessionKey.parse(key), clean=scrub))
    return [row for row in document["usage"] if row["purpose"] == "embedding"]


async def test_a_fact_comes_back_by_its_meaning(agent: AgentProcess, mind: Mind) -> None:
    """No word of the message is in it. What it costs is charged to the person."""
    await agent.ask("remember I am allergic to nuts", ANNA)
    await agent.ask("/new", ANNA)
    await agent.ask("bake me a cake", ANNA)
    assert "I am allergic to nuts" in prompt(mind)
    await agent.ask("bake me a cake", BEN)
    assert "allergic" not in prompt(mind)
    charged = await usage_of(agent, ANNA)
    assert {row["model"] for row in charged} == {MODEL}
    assert len(charged) >= 2, "the fact, the question; and what was said before /new"
    assert all(row["owner"] == ANNA for row in charged)
    assert await usage_of(agent, BEN) == []


async def test_an_earlier_conversation_comes_back_by_its_meaning(agent: AgentProcess, mind: Mind) -> None:
    """Where it stands out among all that was said; never another's."""
    for number in range(12):
        await agent.ask(f"the invoice of month {number} is paid in full", ANNA)
    await agent.ask("never give me anything with almonds: I would be allergic", ANNA)
    await agent.ask("/new", ANNA)
    await until_found(lambda: agent.store.memories.has_vectors(SessionKey.parse(ANNA), MODEL))
    await agent.ask("bake me a cake", ANNA)
    assert "the user: never give me anything with almonds" in prompt(mind)
    assert "invoice" not in prompt(mind).rpartition("<memory>")[2]
    await agent.ask("bake me a cake", BEN)
    assert "almonds" not in prompt(mind)


async def test_nobody_pays_for_a_memory_that_is_empty(agent: AgentProcess, meanings: Meanings) -> None:
    await agent.ask("bake me a cake", ANNA)
    await agent.ask("/memory cake", ANNA)
    assert meanings.asked == []


async def test_facts_of_before_are_embedded_with_the_next_one(
    bus: RedisBus, store: Store, mind: Mind, meanings: Meanings, tmp_path: Path
) -> None:
    """A model that is configured later, or anew, learns what is there."""
    async with running_agent(bus, store, mind, tmp_path) as agent:
        await agent.ask("remember I am allergic to nuts", ANNA)
    async with running_agent(bus, store, mind, tmp_path, embeddings=meanings) as agent:
        await agent.ask("remember I drive a van", ANNA)
        assert [len(request.texts) for request in meanings.asked] == [2]
        assert "allergic" in await agent.ask("recall cake", ANNA)


async def test_a_model_that_fails_leaves_the_words(agent: AgentProcess, meanings: Meanings) -> None:
    """Nothing is lost and nobody notices: facts are kept and found by their words."""
    meanings.failure = ModelRejected("no such model")
    assert "Remembered" in await agent.ask("remember I am allergic to nuts", ANNA)
    meanings.failure = None
    await agent.ask("remember My dog is Rex", ANNA)
    meanings.failure = ModelRejected("no such model")
    assert "nuts" in await agent.ask("recall nuts", ANNA)
    assert "You said: are there nuts in it" in await agent.ask("are there nuts in it", ANNA)


async def test_secrets_never_reach_the_embedding_model(agent: AgentProcess, meanings: Meanings) -> None:
    """Nor what a model puts into its tools; what people write was scrubbed at intake."""
    secret = "-".join(("sk", "proj", "T3BlbkFJq7Xw2Zr9Lm4Vt8Kc1Pd6Hs5Ny0Bg"))
    await agent.ask('tool remember {"fact": "the key opens the shed"}', ANNA)
    await agent.ask(f'tool remember {{"fact": "the key is {secret}"}}', ANNA)
    await agent.ask(f'tool recall {{"query": "{secret}"}}', ANNA)
    by_tools = [text for request in meanings.asked for text in request.texts if not text.startswith("tool ")]
    assert by_tools[0] == "the key opens the shed"
    assert by_tools[1].startswith("[redacted:openai#")
    assert len(by_tools) == 2
