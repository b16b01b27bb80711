"""What one person alone sees on Discord: a whole product behind the real SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from agent.models.demo import ScriptedClient
from channels.emulators.discord import DiscordEmulator
from channels.emulators.discord.world import MessageFlag
from channels.emulators.stage import Place, Said
from gateway.bus.bus import RedisBus
from gateway.store import Store
from tests.parts.agents import running_agent
from tests.parts.towns import Town, discord_town
from tests.parts.waiting import until


@pytest.fixture
async def town(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> AsyncIterator[Town]:
    """With an agent behind it, and its menu in front."""
    async with (
        discord_town() as built,
        running_agent(bus, sqlite_store, ScriptedClient(), tmp_path, grace_s=0.1),
        built.line(bus),
    ):
        await until(lambda: stage_of(built).menu(built.ann.id, built.group.id))
        yield built


def stage_of(town: Town) -> DiscordEmulator:
    assert isinstance(town.stage, DiscordEmulator)
    return town.stage


def whispers(town: Town, place: Place) -> Sequence[Said]:
    return [said for said in town.answers(place) if said.only_for == town.ann.id]


def thinking(town: Town, place: Place) -> int:
    """How many messages say that an answer comes."""
    messages = stage_of(town).world.channels[int(place.id)].messages.values()
    return sum(bool(message.flags & MessageFlag.LOADING) for message in messages)


async def test_a_command_that_was_stopped_does_not_go_on_thinking(town: Town) -> None:
    """Neither one that waited nor one that ran; what was answered before stays."""
    stage, group = stage_of(town), town.group
    await stage.invoke(town.ann.id, group.id, "usage", "")
    await until(lambda: len(whispers(town, group)) == 1)
    await stage.invoke(town.ann.id, group.id, "plan", "slow 60 a party")
    await until(lambda: thinking(town, group) == 1)
    await stage.invoke(town.ann.id, group.id, "sessions", "")
    await until(lambda: thinking(town, group) == 2)
    await stage.say(town.ann.id, group.id, "/stop", mention_bot=True)
    await until(lambda: any("Stopped" in text for text in town.texts(group)), lambda: town.texts(group))
    await until(lambda: thinking(town, group) == 0)
    assert len(whispers(town, group)) == 1


@pytest.mark.long
async def test_buttons_that_one_person_sees_answer_him_alone(town: Town) -> None:
    """A list of conversations in a server: nobody else reads what is chosen from it."""
    stage, group = stage_of(town), town.group
    for name, argument in (("title", "A long holiday"), ("new", ""), ("sessions", "")):
        count = len(whispers(town, group))
        await stage.invoke(town.ann.id, group.id, name, argument)
        await until(lambda count=count: len(whispers(town, group)) > count)  # type: ignore[misc]
    (listed,) = [said for said in whispers(town, group) if said.buttons]
    (button,) = [button for button in listed.buttons if "A long holiday" in button.label]
    await stage.press_button(town.ann.id, group.id, listed.id, button.id)
    await until(lambda: any("Back in conversation 1" in said.text for said in whispers(town, group)))
    await until(lambda: not any(said.buttons for said in whispers(town, group)))
    assert len(town.answers(group)) == len(whispers(town, group)) == 4
