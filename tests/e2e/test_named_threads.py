"""The threads and topics that bear the title of their conversation, through the real client libraries."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from channels.core.adapter import ChannelAdapter
from channels.discord import limits
from channels.discord.adapter import DiscordAdapter
from channels.discord.normalize import DiscordTarget, make_target
from channels.emulators.discord import DiscordEmulator
from channels.emulators.discord.world import MessageKind
from gateway.bus.bus import RedisBus
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import DeliveryState
from tests.parts.answering import EchoAgent, agent
from tests.parts.only_discord import stage, town
from tests.parts.titles import called, title_of, until_state
from tests.parts.towns import Town, discord_endpoint, parts_on
from tests.parts.waiting import until

__all__ = ["agent", "stage", "town"]


def beginning(town: Town, bus: RedisBus) -> ChannelAdapter:
    """Our adapter, which begins a thread for each conversation."""
    return DiscordAdapter(replace(discord_endpoint(town.api_base), begins_threads=True), parts_on(bus))


def renamings(stage: DiscordEmulator, thread_id: str) -> list[str]:
    """What the thread itself says of its names."""
    messages = stage.world.channels[int(thread_id)].messages.values()
    return [message.content for message in messages if message.kind is MessageKind.NAME_CHANGED]


def name_of(stage: DiscordEmulator, thread_id: str) -> str:
    return stage.world.channels[int(thread_id)].name


async def until_named(stage: DiscordEmulator, thread_id: str, name: str) -> None:
    await until(lambda: name_of(stage, thread_id) == name)


async def begun(town: Town, stage: DiscordEmulator, agent: EchoAgent) -> str:
    """A thread that a mention began, answered."""
    said = await stage.say(town.ann.id, town.group.id, "how long?", mention_bot=True)
    await until(lambda: int(said.id) in stage.world.channels)
    await until(lambda: len(stage.said(said.id)) >= 2)
    return said.id


async def test_the_thread_that_a_mention_began_bears_the_title(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """Also another one that comes later, by /title or after /new, from a message in the thread; what is said again
    changes nothing."""
    async with town.line(bus, adapter=beginning(town, bus)):
        thread = await begun(town, stage, agent)
        assert name_of(stage, thread) == "Trivet"
        await bus.deliveries.publish([called(agent.heard[0], "Boiling eggs")])
        await until(lambda: name_of(stage, thread) == "Boiling eggs")
        await stage.say(town.ann.id, thread, "and on a mountain?")
        await until(lambda: len(agent.heard) == 2)
        await bus.deliveries.publish([called(agent.heard[1], "Boiling eggs"), called(agent.heard[1], "Eggs 🥚" * 20)])
        await until(lambda: len(renamings(stage, thread)) == 2)
    assert renamings(stage, thread)[0] == "Boiling eggs"
    assert name_of(stage, thread).startswith("Eggs 🥚Eggs")
    assert len(name_of(stage, thread).encode("utf-16-le")) // 2 <= limits.THREAD_NAME_UNITS_MAX


async def test_a_title_that_is_faster_than_its_answer_waits_for_the_thread(
    town: Town, stage: DiscordEmulator, bus: RedisBus
) -> None:
    async with town.line(bus, adapter=beginning(town, bus)):
        said = await stage.say(town.ann.id, town.group.id, "how long?", mention_bot=True)
        target = DiscordTarget(said.id, begun_in=town.group.id)
        address = ReplyAddress("discord", target.lane, make_target(target))
        early = title_of(SessionKey("discord", town.ann.id, (town.group.id, said.id)), address, "Boiling eggs")
        await bus.deliveries.publish([early])
        await until_state(bus, early, DeliveryState.RETRY)
        async with EchoAgent(bus).at_work():
            await until(lambda: int(said.id) in stage.world.channels)
            await until(lambda: name_of(stage, said.id) == "Boiling eggs")


@pytest.mark.parametrize("granted", [1, 2])
async def test_a_name_too_many_waits_and_answers_do_not(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent, granted: int
) -> None:
    """By our own count of two in ten minutes, or by Discord's word where that counts otherwise."""
    stage.switches.rates["rename"] = (granted, 600.0)
    async with town.line(bus, adapter=beginning(town, bus)):
        thread = await begun(town, stage, agent)
        for number in range(granted):
            await bus.deliveries.publish([called(agent.heard[0], f"name {number}")])
            await until_named(stage, thread, f"name {number}")
        refused = called(agent.heard[0], "one too many")
        await bus.deliveries.publish([refused])
        await until_state(bus, refused, DeliveryState.RETRY)
        await stage.say(town.ann.id, thread, "go on")
        await until(lambda: stage.said(thread)[-1].text == "echo: go on")
    assert name_of(stage, thread) == f"name {granted - 1}"


async def test_where_we_may_not_rename_it_the_thread_keeps_its_name_and_its_answers(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """Somebody locked it."""
    async with town.line(bus, adapter=beginning(town, bus)):
        thread = await begun(town, stage, agent)
        stage.world.channels[int(thread)].locked = True
        name = called(agent.heard[0], "Boiling eggs")
        await bus.deliveries.publish([name])
        await until_state(bus, name, DeliveryState.FAILED)
        await stage.say(town.ann.id, thread, "go on")
        await until(lambda: stage.said(thread)[-1].text == "echo: go on")
    assert name_of(stage, thread) == "Trivet"


async def test_an_archived_thread_is_renamed_once_somebody_has_woken_it(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    async with town.line(bus, adapter=beginning(town, bus)):
        thread = await begun(town, stage, agent)
        stage.world.channels[int(thread)].archived = True
        name = called(agent.heard[0], "Boiling eggs")
        await bus.deliveries.publish([name])
        await until_state(bus, name, DeliveryState.RETRY)
        await stage.say(town.ann.id, thread, "go on")
        await until(lambda: name_of(stage, thread) == "Boiling eggs")


async def test_the_threads_of_others_keep_their_names(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """One that somebody began from the message that called us, and one we were only called into; and in ours whoever
    else talks there has a conversation of his own, which does not name it."""
    async with town.line(bus, adapter=beginning(town, bus)):
        thread = await begun(town, stage, agent)
        first = called(agent.heard[0], "Boiling eggs")
        await bus.deliveries.publish([first])
        await until_state(bus, first, DeliveryState.SENT)
        await stage.say(town.ben.id, thread, "me too")
        await stage.say(town.ann.id, town.thread.id, "help us", mention_bot=True)
        await until(lambda: len(agent.heard) == 3)
        names = [called(message, "Somebody else's") for message in agent.heard[1:]]
        await bus.deliveries.publish(names)
        for name in names:
            await until_state(bus, name, DeliveryState.SENT)
    assert (name_of(stage, thread), name_of(stage, town.thread.id)) == ("Boiling eggs", town.thread.title)


async def test_a_thread_that_is_gone_ends_its_title(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    async with town.line(bus, adapter=beginning(town, bus)):
        thread = await begun(town, stage, agent)
        await stage.say(town.ann.id, thread, "and now?")
        await until(lambda: len(agent.heard) == 2)
        first = called(agent.heard[0], "Boiling eggs")
        await bus.deliveries.publish([first])
        await until_state(bus, first, DeliveryState.SENT)
        del stage.world.channels[int(thread)]
        late = called(agent.heard[1], "Boiling more eggs")
        await bus.deliveries.publish([late])
        await until_state(bus, late, DeliveryState.FAILED)


@pytest.mark.parametrize("is_there", [True, False], ids=["closed", "deleted"])
async def test_an_answer_to_a_thread_that_takes_none_is_reported_as_undelivered(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent, is_there: bool
) -> None:
    """Somebody locked and archived it, or took it away, while the answer was being made; elsewhere all goes on."""
    async with town.line(bus, adapter=beginning(town, bus)):
        thread, done = await begun(town, stage, agent), asyncio.Event()
        agent.think_until(done)
        await stage.say(town.ann.id, thread, "and now?")
        await until(lambda: len(agent.heard) == 2)
        if is_there:
            stage.world.channels[int(thread)].archived = stage.world.channels[int(thread)].locked = True
        else:
            del stage.world.channels[int(thread)]
        done.set()
        await until_state(bus, agent.reply_to(agent.heard[1]), DeliveryState.FAILED)
        await stage.say(town.ann.id, town.dm(town.ann).id, "still there?")
        await until(lambda: "echo: still there?" in town.texts(town.dm(town.ann)))
