"""Threads and forum posts on the emulated Discord: what was said in them before we came, and those that we begin."""

from __future__ import annotations

from dataclasses import replace

import pytest

from channels.core.adapter import ChannelAdapter
from channels.discord import limits
from channels.discord.adapter import DiscordAdapter
from channels.emulators.discord import DiscordEmulator
from channels.emulators.discord.world import ChannelKind, forbidden
from channels.emulators.stage import Place, PlaceKind
from gateway.bus.bus import RedisBus
from gateway.contracts.access import AccessPolicy, StrangerRule
from gateway.contracts.messages import InboundMessage, QuoteKind
from tests.parts.answering import EchoAgent, agent, until_at_most_queued, until_queued
from tests.parts.only_discord import stage, town
from tests.parts.towns import OPEN, Town, discord_endpoint, parts_on
from tests.parts.waiting import until

__all__ = ["agent", "stage", "town"]


STARTER = "The message this thread began with."


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


def beginning(town: Town, bus: RedisBus) -> ChannelAdapter:
    """Our adapter, which begins a thread for each conversation."""
    return DiscordAdapter(replace(discord_endpoint(town.api_base), begins_threads=True), parts_on(bus))


def thread_of(stage: DiscordEmulator, message_id: str) -> Place | None:
    """The thread that was begun from a message has its id."""
    return next((place for place in stage.places() if place.id == message_id), None)


async def test_a_mention_begins_a_thread_in_which_the_conversation_goes_on(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """In one lane, and nobody is told again what he said; another mention is another conversation."""
    async with town.line(bus, adapter=beginning(town, bus)):
        said = await stage.say(town.ann.id, town.group.id, "how long?", mention_bot=True)
        await until(lambda: thread_of(stage, said.id) is not None)
        thread = thread_of(stage, said.id)
        assert await town.until_answers(2, thread) == [STARTER, "echo: how long?"]
        await stage.say(town.ann.id, said.id, "and in the microwave?")
        await town.until_answers(3, thread)
        other = await stage.say(town.ann.id, town.group.id, "what else?", mention_bot=True)
        await until(lambda: len(agent.heard) == 3)
        await town.until_answers(5)
    first, second, third = agent.heard
    assert str(first.key) == str(second.key) == f"discord:{town.ann.id}/{town.group.id}/{said.id}"
    assert third.key.place[-1] == other.id
    assert [message.quotes for message in agent.heard] == [(), (), ()]
    assert town.answers(town.group) == []


async def test_where_we_may_not_begin_threads_the_answer_stays_in_the_channel(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise forbidden(50013)

    monkeypatch.setattr(type(stage._posting), "thread_from", refuse)
    async with town.line(bus, adapter=beginning(town, bus)):
        said = await stage.say(town.ann.id, town.group.id, "how long?", mention_bot=True)
        await town.until_answers(1, town.group)
        await stage.say(town.ann.id, town.group.id, "and now?", mention_bot=True)
        assert await town.until_answers(2, town.group) == ["echo: how long?", "echo: and now?"]
    assert town.answers(town.group)[0].reply_to == said.id
    assert agent.heard[1].key.place == (town.group.id,)


async def test_a_thread_that_is_there_already_is_the_one(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """Somebody was faster, or we were killed after we had begun it."""
    async with town.line(bus, adapter=beginning(town, bus)):
        await stage.say(town.ann.id, town.dm(town.ann).id, "before")
        await town.until_answers(1)
    said = await stage.say(town.ann.id, town.group.id, "how long?", mention_bot=True)
    thread = stage.thread_from(town.ben.id, town.group.id, said.id, "microwaves")
    async with town.line(bus, adapter=beginning(town, bus)):
        assert await town.until_answers(1, thread) == ["echo: how long?"]
        await town.stays_silent(2)


async def test_a_stranger_begins_no_thread(town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent) -> None:
    closed = replace(OPEN, access=AccessPolicy(StrangerRule.CLOSED))
    async with town.line(bus, closed, adapter=beginning(town, bus)):
        said = await stage.say(town.ann.id, town.group.id, "how long?", mention_bot=True)
        await town.until_answers(1, town.group)
    assert thread_of(stage, said.id) is None


async def test_what_waits_in_such_a_thread_can_still_be_changed_and_taken_back(
    town: Town, stage: DiscordEmulator, bus: RedisBus
) -> None:
    """Also by an edit that takes our name away; the message is found in the lane it went to."""
    async with town.line(bus, adapter=beginning(town, bus)):
        changed = await stage.say(town.ann.id, town.group.id, "how long?", mention_bot=True)
        deleted = await stage.say(town.ann.id, town.group.id, "never mind", mention_bot=True)
        await until_queued(bus, 2)
        await stage.edit(changed.id, town.group.id, "how hot?")
        await stage.delete(deleted.id, town.group.id)
        await until_at_most_queued(bus, 1)
        await stage.say(town.ben.id, town.dm(town.ben).id, "marker")
        await until_queued(bus, 2)
        async with EchoAgent(bus).at_work() as agent:
            await until(lambda: len(agent.heard) == 2)
            await town.until_answers(3)
            await town.stays_silent(3)
    assert sorted(message.text for message in agent.heard) == ["how hot?", "marker"]


async def test_a_post_of_a_forum_is_a_thread_without_a_message_in_the_channel(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """Its first message has its id, and who mentions us in it is answered there."""
    forum = stage.world.new_channel(stage.guild, "questions", ChannelKind.FORUM)
    post = stage.add_place(PlaceKind.THREAD, "salt", parent_id=str(forum.id))
    await stage.say(town.ben.id, post.id, "how much salt?")
    async with town.line(bus, adapter=beginning(town, bus)):
        await stage.say(town.ann.id, post.id, "do you know?", mention_bot=True)
        assert await town.until_answers(1, post) == ["echo: do you know?"]
    assert quoted(agent.heard[0]) == [("Ben", "how much salt?")]
    assert agent.heard[0].key.place == (str(forum.id), post.id)
