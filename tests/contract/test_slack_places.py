"""Channels of Slack that are shared with another workspace: another id, and people who are not of ours."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from channels.emulators.slack import SlackEmulator
from gateway.bus.bus import RedisBus
from tests.parts.answering import EchoAgent, agent, until_delivered
from tests.parts.only_slack import stage, town
from tests.parts.towns import Town
from tests.parts.waiting import until

__all__ = ["agent", "stage", "town"]


def knows_all(stage: SlackEmulator) -> bool:
    """Whether the app has acknowledged whatever it was told."""
    return {each["envelope_id"] for each in stage.sockets.sent} <= {*stage.sockets.acknowledged}


class TestAChannelThatGetsAnotherId:
    async def test_gets_the_answer_that_was_on_its_way_and_keeps_its_session(
        self, town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
    ) -> None:
        thinking = asyncio.Event()
        agent.think_until(thinking)
        async with town.line(bus):
            await stage.say(town.ann.id, town.group.id, "before", mention_bot=True)
            await until(lambda: len(agent.heard) == 1)
            place = stage.share_channel(town.group.id)
            await until(lambda: knows_all(stage))
            thinking.set()
            await until(lambda: town.texts(place) == ["echo: before"])
            await stage.say(town.ann.id, place.id, "after", mention_bot=True)
            await until(lambda: town.texts(place) == ["echo: before", "echo: after"])
        old, new = agent.heard
        assert old.key == new.key
        assert (old.address.lane, new.address.lane) == (town.group.id, place.id)

    async def test_keeps_its_threads_and_is_read_back_after_a_gap(
        self, town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
    ) -> None:
        """Nobody has to call us into a thread twice, and nothing that was answered is answered again."""
        async with town.line(bus):
            await stage.say(town.ann.id, town.thread.id, "one", mention_bot=True)
            await town.until_answers(1)
            channel = stage.share_channel(town.group.id)
            await until(lambda: knows_all(stage))
        thread = f"{channel.id}/{town.thread.id.partition('/')[2]}"
        await stage.say(town.ann.id, thread, "two")
        async with town.line(bus):
            await until(lambda: len(town.texts()) == 2)
            await stage.say(town.ann.id, thread, "three")
            await until(lambda: len(town.texts()) == 3)
        assert [said.text for said in stage.said(thread) if said.author.is_bot] == [
            "echo: one",
            "echo: two",
            "echo: three",
        ]
        assert len({str(message.key) for message in agent.heard}) == 1
        assert len({message.id for message in agent.heard}) == 3


async def test_somebody_of_another_workspace_is_the_same_person_after_a_gap(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """His key says where he is from, whether he was heard or read back."""
    stranger = stage.world.users[town.ben.id] = replace(stage.world.users[town.ben.id], team_id="T0FOREIGN")
    channel = stage.share_channel(town.group.id)
    async with town.line(bus):
        await stage.say(stranger.id, channel.id, "live", mention_bot=True)
        await until(lambda: len(agent.heard) == 1)
    await stage.say(stranger.id, channel.id, "missed", mention_bot=True)
    async with town.line(bus):
        await until(lambda: len(agent.heard) == 2)
    live, missed = agent.heard
    assert live.key == missed.key
    assert str(live.key).startswith(f"slack:T0FOREIGN.{stranger.id}/")


async def test_an_app_that_may_not_see_some_places_reads_back_the_others(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """It was installed before the manifest asked for group messages, and Slack refuses the whole list for that."""
    stage.switches.scopes -= {"mpim:read"}
    dm = town.dm(town.ann)
    async with town.line(bus):
        await stage.say(town.ann.id, dm.id, "one")
        await town.until_answers(1, dm)
    await stage.say(town.ann.id, dm.id, "two")
    async with town.line(bus):
        assert await town.until_answers(2, dm) == ["echo: one", "echo: two"]


async def test_an_error_after_which_the_message_is_there_shows_it_once(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """`fatal_error`: some of what was asked may have been done."""
    dm = town.dm(town.ann)
    async with town.line(bus):
        stage.faults.other["fatal_error_after"] = 1
        await stage.say(town.ann.id, dm.id, "one")
        await until(lambda: not stage.faults.other["fatal_error_after"])
        await until_delivered(bus, town.platform)
    assert town.texts(dm) == ["echo: one"]
