"""Edits and deletions on the emulated platforms: what waits is changed or taken back, the rest is left alone."""

from __future__ import annotations

import asyncio

from channels.emulators.discord import DiscordEmulator
from gateway.bus.bus import RedisBus
from tests.parts.answering import EchoAgent, agent
from tests.parts.towns import Town, discord_town, town
from tests.parts.waiting import PATIENCE_S, until

__all__ = ["agent", "town"]


async def test_an_edit_of_what_waits_is_what_is_answered(town: Town, bus: RedisBus, agent: EchoAgent) -> None:
    dm, thought = town.dm(town.ann), asyncio.Event()
    agent.think_until(thought)
    async with town.line(bus):
        await town.stage.say(town.ann.id, dm.id, "first")
        await until(lambda: bool(agent.heard))
        waiting = await town.stage.say(town.ann.id, dm.id, "secnod")
        await until_waiting(bus, 2)
        await town.stage.edit(waiting.id, dm.id, "second")
        await town.stage.say(town.ann.id, dm.id, "third")
        await until_waiting(bus, 3)
        thought.set()
        assert await town.until_answers(3, dm) == ["echo: first", "echo: second", "echo: third"]


async def test_an_edit_of_what_was_answered_is_nothing_new(town: Town, bus: RedisBus, agent: EchoAgent) -> None:
    dm = town.dm(town.ann)
    async with town.line(bus):
        said = await town.stage.say(town.ann.id, dm.id, "first")
        await town.until_answers(1, dm)
        await town.stage.edit(said.id, dm.id, "first, corrected")
        await town.stage.say(town.ann.id, dm.id, "marker")
        await town.until_answers(2, dm)
        await town.stays_silent(2)


async def test_an_edit_that_calls_us_belatedly_is_nothing_new(town: Town, bus: RedisBus, agent: EchoAgent) -> None:
    """Otherwise every edit of something old could be answered."""
    async with town.line(bus):
        said = await town.stage.say(town.ann.id, town.group.id, "just thinking aloud")
        await town.stage.edit(said.id, town.group.id, "/help me think")
        await town.stage.say(town.ann.id, town.dm(town.ann).id, "marker")
        await town.until_answers(1)
        await town.stays_silent(1)


async def test_a_message_deleted_while_it_waits_is_not_answered(bus: RedisBus, town: Town, agent: EchoAgent) -> None:
    """Telegram tells nobody of deletions: there it is answered."""
    dm, thought = town.dm(town.ann), asyncio.Event()
    agent.think_until(thought)
    async with town.line(bus):
        await town.stage.say(town.ann.id, dm.id, "first")
        await until(lambda: bool(agent.heard))
        regretted = await town.stage.say(town.ann.id, dm.id, "regretted")
        await until_waiting(bus, 2)
        await town.stage.delete(regretted.id, dm.id)
        if town.platform != "telegram":
            await until_waiting(bus, 1)
        await town.stage.say(town.ann.id, dm.id, "third")
        thought.set()
        await until(lambda: "echo: third" in town.texts(dm))
        assert ("echo: regretted" in town.texts(dm)) is (town.platform == "telegram")


async def test_a_link_that_gets_its_preview_is_no_edit(bus: RedisBus, agent: EchoAgent) -> None:
    async with discord_town() as town, town.line(bus):
        assert isinstance(town.stage, DiscordEmulator)
        town.stage.switches.sends_unfurls = True
        dm, thought = town.dm(town.ann), asyncio.Event()
        agent.think_until(thought)
        await town.stage.say(town.ann.id, dm.id, "look at https://example.org/page")
        await town.stage.say(town.ann.id, dm.id, "and this")
        await until_waiting(bus, 2)
        thought.set()
        await town.until_answers(2, dm)
        await town.stays_silent(2)


async def until_waiting(bus: RedisBus, count: int) -> None:
    """Wait until so many messages are on the bus, that in work included."""
    figures = await bus.operator.figures()
    async with asyncio.timeout(PATIENCE_S):
        while figures.queued != count:
            figures = await bus.operator.figures()
            await asyncio.sleep(0.01)
