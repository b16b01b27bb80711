"""What people experience of facts that are always told, and of facts that change."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.models.requests import ModelAnswer, ModelEvent, ModelRequest, TokenCount
from gateway.bus.bus import RedisBus
from gateway.config.features import MemorySettings
from gateway.contracts.ids import SessionKey
from gateway.contracts.memory import Fact, Origin
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import UsagePurpose
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.minds import Mind
from tests.parts.waiting import until, until_found

ANNA, ANNA_IN_GROUP, BEN, BEN_IN_GROUP = "telegram:1", "telegram:1/-100", "telegram:2", "telegram:2/-100"


class Gatherer(Mind):
    """Finds in every conversation the facts that a test says; `shown` is what it was given to read."""

    def __init__(self) -> None:
        super().__init__()
        self.finds: list[dict[str, object]] = []
        self.shown: list[str] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.purpose is not UsagePurpose.MEMORY:
            async for event in super().stream(request):
                yield event
            return
        self.shown.append(request.messages[0].text)
        answer = "\n".join(json.dumps(fact) for fact in self.finds)
        yield ModelAnswer(answer, (), "stop", TokenCount(prompt=1, completion=1), 0.0, request.model)


@pytest.fixture
def mind() -> Gatherer:
    return Gatherer()


@pytest.fixture
async def agent(bus: RedisBus, store: Store, mind: Gatherer, tmp_path: Path) -> AsyncIterator[AgentProcess]:
    """A running agent that gathers facts, on SQLite and on PostgreSQL."""
    memory = MemorySettings(auto_consolidate=True)
    async with running_agent(bus, store, mind, tmp_path, memory=memory) as process:
        yield process


def told(mind: Mind) -> str:
    """The newest user message of the newest prompt, with all that the gateway put in front of it."""
    return mind.asked[-1].messages[-1].text


def everything(mind: Mind) -> str:
    """All that any call of any model has held."""
    return "\n".join(message.text for made in mind.made for message in made.messages)


async def facts_of(agent: AgentProcess, key: str) -> list[Fact]:
    return list(await agent.store.memories.recall(SessionKey.parse(key), "", limit=500))


async def told_before(agent: AgentProcess, key: str, *texts: str, origin: Origin = Origin.TOLD) -> None:
    """Facts that were kept before this test, in this order."""
    for text in texts:
        now_ms = agent.clock.now_ms()
        await agent.store.memories.remember(SessionKey.parse(key), CleanText(text), now_ms=now_ms, origin=origin)


MANY = 40
PARROT = "I once had a parrot that lived with me in the house of my aunt for years" + " and years" * 18
"""Longer than one of `many`, so that it does not fit into what they leave."""


def many(subject: str) -> list[str]:
    """Facts that fill all the room there is."""
    where = ", behind the cellar on the left" * 6
    return [f"My {subject} number {number} stands{where}" for number in range(MANY)]


async def uses_counted(agent: AgentProcess, key: str, number: int, uses: int) -> None:
    """Wait for the background to have counted."""

    async def counted() -> bool:
        document = json.loads(await agent.store.people.export(SessionKey.parse(key), clean=CleanText))
        return any(row["number"] == number and row["uses"] >= uses for row in document["facts"])

    await until_found(counted)


# --- always told


async def test_what_a_person_told_is_known_without_being_asked_for(agent: AgentProcess, mind: Gatherer) -> None:
    """No word of the question is in it. It is told once in a conversation, and again in the next."""
    await agent.ask("remember I am vegetarian and allergic to peanuts", ANNA)
    for _ in range(2):
        await agent.ask("/new", ANNA)
        await agent.ask("what should I cook tonight?", ANNA)
        assert "1. I am vegetarian and allergic to peanuts" in told(mind)
        await agent.ask("and tomorrow?", ANNA)
        assert "peanuts" not in told(mind), "it stands in the prompt already"


async def test_of_many_facts_the_newest_are_told(agent: AgentProcess, mind: Gatherer) -> None:
    await told_before(agent, ANNA, PARROT, *many("suitcase"), "I moved to Porto")
    await agent.ask("what should I cook tonight?", ANNA)
    assert "I moved to Porto" in told(mind)
    assert "parrot" not in told(mind)
    assert len(re.findall("suitcase", told(mind))) < MANY


async def test_a_fact_that_was_told_long_ago_and_is_often_of_use_is_told(agent: AgentProcess, mind: Gatherer) -> None:
    await told_before(agent, ANNA, "I am allergic to nuts", PARROT)
    await agent.ask("are there nuts in marzipan", ANNA)
    await uses_counted(agent, ANNA, 1, 1)
    await told_before(agent, ANNA, *many("suitcase"))
    await agent.ask("/new", ANNA)
    await agent.ask("what should I cook tonight?", ANNA)
    assert "I am allergic to nuts" in told(mind)
    assert "parrot" not in told(mind)


async def test_what_somebody_told_comes_before_what_a_model_gathered(agent: AgentProcess, mind: Gatherer) -> None:
    await told_before(agent, ANNA, "I am allergic to nuts")
    await told_before(agent, ANNA, *many("suitcase"), origin=Origin.GATHERED)
    await agent.ask("what should I cook tonight?", ANNA)
    assert "I am allergic to nuts" in told(mind)


# --- corrected


async def test_a_corrected_fact_takes_the_place_of_the_old_one(agent: AgentProcess, mind: Gatherer) -> None:
    """It has the number of the old one, which /memory shows behind it, and which no later prompt holds."""
    await agent.ask("remember I live in Lisbon", ANNA)
    answer = await agent.ask('tool correct_fact {"number": 1, "fact": "I live in Porto"}', ANNA)
    assert "It was: I live in Lisbon" in answer
    listed = await agent.ask("/memory", ANNA)
    assert "**1** I live in Porto (" in listed
    assert "instead of: I live in Lisbon" in listed
    await agent.ask("/new", ANNA)
    await agent.ask("what is the weather like", ANNA)
    assert "1. I live in Porto" in told(mind)
    assert "\n1. I live in Lisbon" not in told(mind)


async def test_a_fact_is_forgotten_by_its_number(agent: AgentProcess) -> None:
    await agent.ask("remember I live in Lisbon", ANNA)
    assert "Forgotten. It was: I live in Lisbon" in await agent.ask('tool correct_fact {"number": 1, "fact": ""}', ANNA)
    assert "no fact 1" in await agent.ask('tool correct_fact {"number": 1, "fact": " "}', ANNA)
    assert await facts_of(agent, ANNA) == []


async def test_what_a_fact_replaced_is_forgotten_with_it(agent: AgentProcess) -> None:
    await agent.ask("remember I live in Lisbon", ANNA)
    await agent.ask('tool correct_fact {"number": 1, "fact": "I live in Porto"}', ANNA)
    await agent.ask("/forget 1", ANNA)
    assert "Lisbon" not in await agent.ask("/memory", ANNA)
    assert json.loads(await agent.store.people.export(SessionKey.parse(ANNA), clean=CleanText))["facts"] == []


async def test_a_conversation_corrects_what_it_contradicts(agent: AgentProcess, mind: Gatherer) -> None:
    """The model that goes through it is shown the facts by their numbers, and may replace none but these."""
    await told_before(agent, ANNA, "I live in Lisbon", "My favourite town is Lisbon", "I drive a van")
    await told_before(agent, BEN, "I live in Rome")
    mind.finds = [{"fact": "I live in Porto", "replaces": [1, 2, 99]}]
    await agent.ask("we moved from Lisbon to Porto and I like it better", ANNA)
    await agent.ask("/new", ANNA)
    await until(lambda: bool(mind.shown))
    assert "1. I live in Lisbon" in mind.shown[0]
    assert "Rome" not in mind.shown[0]

    async def is_corrected() -> bool:
        return [fact.text for fact in await facts_of(agent, ANNA)] == ["I live in Porto", "I drive a van"]

    await until_found(is_corrected)
    listed = await agent.ask("/memory", ANNA)
    assert "**1** I live in Porto" in listed
    assert "instead of: I live in Lisbon; My favourite town is Lisbon" in listed
    assert [fact.text for fact in await facts_of(agent, BEN)] == ["I live in Rome"]


# --- isolation


async def test_nobody_is_told_or_corrects_a_fact_of_another(agent: AgentProcess, mind: Gatherer) -> None:
    """Nor does what was said in private come into a group, however new or often used it is."""
    await told_before(agent, ANNA, "My canary sings at noon", *many("canary"))
    await agent.ask("when does my canary sing", ANNA)
    await uses_counted(agent, ANNA, 1, 1)
    mind.made.clear()
    for key in (BEN, BEN_IN_GROUP, ANNA_IN_GROUP):
        await agent.ask("when does my canary sing", key)
        await agent.ask('tool recall {"query": ""}', key)
        assert "no fact 1" in await agent.ask('tool correct_fact {"number": 1, "fact": ""}', key)
        await agent.ask("/new", key)
        await agent.ask("what should I cook tonight?", key)
    assert "noon" not in everything(mind)
    assert "cellar" not in everything(mind)
    assert len(await facts_of(agent, ANNA)) == MANY + 1


async def test_a_correction_in_private_is_not_read_in_the_group(agent: AgentProcess, mind: Gatherer) -> None:
    """Neither of a fact from there, nor of one that its owner let be used everywhere."""
    await agent.ask("remember I sit in room 12", ANNA_IN_GROUP)
    await agent.ask("remember I like tea", ANNA)
    await agent.ask("/memory share 2", ANNA)
    await agent.ask('tool correct_fact {"number": 1, "fact": "I am on sick leave"}', ANNA)
    await agent.ask('tool correct_fact {"number": 2, "fact": "I like whisky"}', ANNA)
    mind.made.clear()
    await agent.ask("/new", ANNA_IN_GROUP)
    answers = [await agent.ask(said, ANNA_IN_GROUP) for said in ("what do I like", "recall sick", "/memory")]
    for secret in ("sick leave", "whisky"):
        assert secret not in everything(mind)
        assert secret not in "\n".join(answers)
