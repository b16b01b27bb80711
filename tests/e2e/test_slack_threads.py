"""Conversations of the emulated Slack in threads of their own, where the operator wants them there."""

from __future__ import annotations

from channels.core.adapter import ChannelAdapter
from channels.emulators.slack import SlackEmulator
from channels.emulators.stage import Said
from channels.slack.adapter import SlackAdapter
from channels.slack.connection import SlackEndpoint
from gateway.bus.bus import RedisBus
from tests.parts.answering import EchoAgent, until_at_most_queued, until_queued
from tests.parts.emulated_slack import APP_TOKEN, BOT_TOKEN
from tests.parts.only_slack import town
from tests.parts.towns import Town, parts_on
from tests.parts.waiting import until

__all__ = ["town"]


def beginning(town: Town, bus: RedisBus) -> ChannelAdapter:
    """Our adapter, which answers a mention in its thread."""
    return SlackAdapter(
        SlackEndpoint(BOT_TOKEN, APP_TOKEN, f"{town.api_base}/api/", connections=2, begins_threads=True), parts_on(bus)
    )


def thread_of(town: Town, said: Said) -> str:
    """The stage's name of the thread under a message, empty while there is none."""
    return next((place.id for place in town.stage.places() if place.id.endswith(said.id) and place.parent_id), "")


async def test_a_mention_is_answered_in_its_thread_where_the_conversation_goes_on(town: Town, bus: RedisBus) -> None:
    async with EchoAgent(bus).at_work() as agent, town.line(bus, adapter=beginning(town, bus)):
        said = await town.stage.say(town.ann.id, town.group.id, "how long?", mention_bot=True)
        await until(lambda: thread_of(town, said))
        thread = next(place for place in town.stage.places() if place.id == thread_of(town, said))
        assert await town.until_answers(1, thread) == ["echo: how long?"]
        await town.stage.say(town.ann.id, thread.id, "and in the microwave?")
        await town.until_answers(2, thread)
    first, second = agent.heard
    assert str(first.key) == str(second.key) == f"slack:{town.ann.id}/{town.group.id}/{said.id}"
    assert (first.quotes, second.quotes) == ((), ())


async def test_what_waits_there_can_still_be_changed_and_taken_back(town: Town, bus: RedisBus) -> None:
    """Also by an edit that takes our name away."""
    assert isinstance(town.stage, SlackEmulator)
    async with town.line(bus, adapter=beginning(town, bus)):
        changed = await town.stage.say(town.ann.id, town.group.id, "how long?", mention_bot=True)
        deleted = await town.stage.say(town.ann.id, town.group.id, "never mind", mention_bot=True)
        await until_queued(bus, 2)
        await town.stage.edit(changed.id, town.group.id, "how hot?")
        await town.stage.delete(deleted.id, town.group.id)
        await until_at_most_queued(bus, 1)
        async with EchoAgent(bus).at_work() as agent:
            await until(lambda: agent.heard)
    assert [message.text for message in agent.heard] == ["how hot?"]
