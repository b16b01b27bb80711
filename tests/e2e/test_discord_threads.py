"""Threads and forum posts on the emulated Discord: what was said in them before we came."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from channels.discord import limits
from channels.emulators.discord import DiscordEmulator
from channels.emulators.stage import Place
from gateway.bus.bus import RedisBus
from gateway.contracts.messages import InboundMessage, QuoteKind
from tests.parts.answering import EchoAgent
from tests.parts.towns import Town, discord_town


@pytest.fixture
async def town(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Town]:
    monkeypatch.setattr(limits, "GUILDS_WITHIN_S", 0.1)
    async with discord_town() as built:
        yield built


@pytest.fixture
def stage(town: Town) -> DiscordEmulator:
    assert isinstance(town.stage, DiscordEmulator)
    return town.stage


@pytest.fixture
async def agent(bus: RedisBus) -> AsyncIterator[EchoAgent]:
    async with EchoAgent(bus).at_work() as echo:
        yield echo


def quoted(message: InboundMessage) -> list[tuple[str, str]]:
    return [(quote.author_name, quote.text) for quote in message.quotes]


async def started(town: Town, stage: DiscordEmulator) -> Place:
    """A thread that Ben began with what he had said in the channel."""
    said = await stage.say(town.ben.id, town.group.id, "the oven is hot")
    return stage.thread_from(town.ben.id, town.group.id, said.id, "oven")


async def test_who_is_called_into_a_thread_learns_what_was_said_in_it(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """With the message that it was begun from, once for each of those who talk to us there, and scrubbed."""
    thread, token = await started(town, stage), "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    await stage.say(town.ben.id, thread.id, f"does <@{town.ann.id}> know about {token}?")
    async with town.line(bus):
        await stage.say(town.ann.id, thread.id, "help us", mention_bot=True)
        await town.until_answers(1, thread)
        await stage.say(town.ann.id, thread.id, "and?")
        await town.until_answers(2, thread)
        await stage.say(town.ben.id, thread.id, "thank you")
        await town.until_answers(3, thread)
    first, second, third = agent.heard
    root, question = quoted(first)
    assert root == ("Ben", "the oven is hot")
    assert question[1].startswith("does @Ann know about")
    assert token not in question[1]
    assert {quote.kind for quote in first.quotes} == {QuoteKind.THREAD}
    assert quoted(second) == []
    assert [text for _, text in quoted(third)][2:] == ["@Trivet help us", "echo: help us", "and?", "echo: and?"]
    assert quoted(third)[3][0] == "Trivet"


async def test_a_thread_that_cannot_be_read_loses_no_message(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one that is read too slowly."""
    monkeypatch.setattr(limits, "THREAD_WAIT_S", 0.0)
    async with town.line(bus):
        await stage.say(town.ann.id, town.thread.id, "help us", mention_bot=True)
        assert await town.until_answers(1, town.thread) == ["echo: help us"]
    assert agent.heard[0].quotes == ()


async def test_a_long_thread_is_its_beginning_and_what_was_said_last(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    thread = await started(town, stage)
    for number in range(60):
        await stage.say(town.ben.id, thread.id, f"number {number}")
    async with town.line(bus):
        await stage.say(town.ann.id, thread.id, "help us", mention_bot=True)
        await town.until_answers(1, thread)
    texts = [text for _, text in quoted(agent.heard[0])]
    assert (len(texts), texts[0], texts[-1]) == (limits.THREAD_QUOTES_MAX, "the oven is hot", "number 59")
