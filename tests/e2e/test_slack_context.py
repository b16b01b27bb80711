"""What comes along with a message on the emulated Slack: the thread it stands in, what is passed on, who speaks."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from channels.emulators.slack import SlackEmulator
from channels.emulators.stage import PlaceKind
from gateway.bus.bus import RedisBus
from gateway.contracts.messages import InboundMessage, QuoteKind
from tests.parts.answering import EchoAgent, until_queued
from tests.parts.towns import Town, slack_town
from tests.parts.waiting import until


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    async with slack_town() as built:
        yield built


@pytest.fixture
def stage(town: Town) -> SlackEmulator:
    assert isinstance(town.stage, SlackEmulator)
    return town.stage


@pytest.fixture
async def agent(bus: RedisBus) -> AsyncIterator[EchoAgent]:
    async with EchoAgent(bus).at_work() as echo:
        yield echo


def quoted(message: InboundMessage) -> list[tuple[str, str]]:
    return [(quote.author_name, quote.text) for quote in message.quotes]


async def test_who_is_called_into_a_thread_learns_what_was_said_in_it(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """Once for each of those who talk to us there, and scrubbed as everything."""
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    await stage.say(town.ben.id, town.thread.id, f"does <@{town.ann.id}> know about {token}?")
    async with town.line(bus):
        await stage.say(town.ann.id, town.thread.id, "help us", mention_bot=True)
        await town.until_answers(1, town.thread)
        await stage.say(town.ann.id, town.thread.id, "and?")
        await town.until_answers(2, town.thread)
        await stage.say(town.ben.id, town.thread.id, "thank you")
        await town.until_answers(3, town.thread)
    first, second, third = agent.heard
    (root, question) = quoted(first)
    assert root[1] == "recipes"
    assert question[0] == "Ben"
    assert "does @Ann know about" in question[1]
    assert token not in question[1]
    assert {quote.kind for quote in first.quotes} == {QuoteKind.THREAD}
    assert quoted(second) == []
    assert [text for _, text in quoted(third)][2:] == ["@trivet help us", "echo: help us", "and?", "echo: and?"]
    assert quoted(third)[3][0] == "Trivet"


async def test_an_edit_keeps_what_came_along(town: Town, stage: SlackEmulator, bus: RedisBus) -> None:
    async with town.line(bus):
        said = await stage.say(town.ann.id, town.thread.id, "help", mention_bot=True)
        await until_queued(bus)
        await stage.edit(said.id, town.thread.id, f"<@{stage.world.bot.id}> help us")
        await until(lambda: stage.sockets.sent[-1]["payload"]["event"].get("subtype") == "message_changed")
        await until(lambda: stage.sockets.sent[-1]["envelope_id"] in stage.sockets.acknowledged)
        async with EchoAgent(bus).at_work() as agent:
            await until(lambda: bool(agent.heard))
    assert agent.heard[0].text == "help us"
    assert [text for _, text in quoted(agent.heard[0])] == ["recipes"]


async def test_a_thread_under_our_own_answer_begins_with_that_answer(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """It is a conversation of its own, and would not know what it is about."""
    async with town.line(bus):
        await stage.say(town.ann.id, town.group.id, "a joke, please", mention_bot=True)
        await town.until_answers(1, town.group)
        answer = town.answers(town.group)[0]
        await stage.say(town.ann.id, town.group.id, "I do not get it", reply_to=answer.id)
        await until(lambda: len(agent.heard) == 2)
    assert quoted(agent.heard[1]) == [("Trivet", "echo: a joke, please")]


async def test_a_thread_that_cannot_be_read_loses_no_message(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    async with town.line(bus):
        stage.switches.scopes -= {"channels:history", "groups:history", "im:history", "mpim:history", "users:read"}
        await stage.say(town.ann.id, town.thread.id, "help us", mention_bot=True)
        assert await town.until_answers(1, town.thread) == ["echo: help us"]
    assert agent.heard[0].quotes == ()
    assert agent.heard[0].author_name == town.ann.id


async def test_a_long_thread_is_its_beginning_and_what_was_said_last(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    for number in range(60):
        await stage.say(town.ben.id, town.thread.id, f"number {number}")
    async with town.line(bus):
        await stage.say(town.ann.id, town.thread.id, "help us", mention_bot=True)
        await town.until_answers(1, town.thread)
    texts = [text for _, text in quoted(agent.heard[0])]
    assert (len(texts), texts[0], texts[-1]) == (40, "recipes", "number 59")


async def test_what_somebody_passes_on_comes_along(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """With words of his own, or without."""
    dm = town.dm(town.ann)
    said = await stage.say(town.ben.id, town.group.id, "the oven is <b>hot</b>")
    async with town.line(bus):
        await stage.share(town.ann.id, said.id, town.group.id, dm.id, "is it true?")
        await stage.share(town.ann.id, said.id, town.group.id, dm.id)
        await until(lambda: len(agent.heard) == 2)
    asked, bare = agent.heard
    assert (asked.text, quoted(asked)) == ("is it true?", [("Ben", "the oven is <b>hot</b>")])
    assert (bare.text, bare.quotes[0].kind) == ("", QuoteKind.FORWARD)


async def test_people_are_known_by_their_names_and_their_language(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """Slack is asked once for each."""
    stage.set_language(town.ann.id, "de-DE")
    async with town.line(bus):
        await stage.say(town.ann.id, town.dm(town.ann).id, f"who is <@{town.ben.id}>?")
        await stage.say(town.ann.id, town.group.id, "hello", mention_bot=True)
        await stage.invoke(town.ann.id, town.group.id, "trivet", "new")
        await until(lambda: len(agent.heard) == 3)
    assert {(message.author_name, message.language) for message in agent.heard} == {("Ann", "de-DE")}
    assert "who is @Ben?" in {message.text for message in agent.heard}
    assert list(stage.web_api.calls).count("users.info") == 2


async def test_opening_the_assistant_or_the_home_tab_is_nothing_to_answer(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """And acknowledged, or Slack tells us again. What is said in the assistant's thread is answered there."""
    async with town.line(bus):
        stage.open_home(town.ann.id)
        thread = stage.open_assistant(town.ann.id)
        await stage.say(town.ann.id, thread.id, "hello")
        assert (await town.until_answers(2, thread))[1:] == ["echo: hello"]
        await until(lambda: {each["envelope_id"] for each in stage.sockets.sent} <= set(stage.sockets.acknowledged))
    assert len(agent.heard) == 1
    assert agent.heard[0].quotes == ()
    assert thread.kind is PlaceKind.THREAD
