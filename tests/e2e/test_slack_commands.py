"""`/trivet` on the emulated Slack: commands for the one who gives them, words for everybody, wherever we are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from channels.core.adapter import MARK
from channels.emulators.slack import SlackEmulator
from channels.emulators.stage import MenuStage, Place, Said
from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import EmbeddedValkey
from gateway.contracts.commands import Suggestion, SuggestionRequest, Suggests
from gateway.contracts.messages import CleanText
from tests.parts.answering import EchoAgent, agent, until_delivered
from tests.parts.called import called_slack_town
from tests.parts.databases import INSTALLATION
from tests.parts.only_slack import stage, town
from tests.parts.towns import Town, slack_town
from tests.parts.waiting import until

__all__ = ["agent", "stage", "town"]


async def said_in(town: Town, place: Place) -> Sequence[Said]:
    """What the bot said there, once it said something."""
    await until(lambda: bool(town.answers(place)))
    return town.answers(place)


async def test_a_command_in_a_channel_is_answered_to_the_one_who_gave_it(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """His link is nowhere but on the bus, under a name."""
    async with town.line(bus):
        await stage.invoke(town.ann.id, town.group.id, "trivet", "usage")
        (said,) = await said_in(town, town.group)
    assert (said.text, said.only_for) == ("echo: /usage", town.ann.id)
    (message,) = agent.heard
    assert (str(message.key), message.is_private) == (f"slack:{town.ann.id}/{town.group.id}", False)
    assert "http" not in message.address.target


async def test_words_behind_the_slash_are_said_to_everybody(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    async with town.line(bus):
        await stage.invoke(town.ann.id, town.group.id, "trivet", "help me with this letter")
        (said,) = await said_in(town, town.group)
    assert (said.text, said.only_for) == ("echo: help me with this letter", None)


@pytest.mark.parametrize("words", ["usage", "what is up"])
async def test_where_we_are_no_member_the_link_is_the_way(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent, words: str
) -> None:
    stage.remove_bot(town.group.id)
    async with town.line(bus):
        await stage.invoke(town.ann.id, town.group.id, "trivet", words)
        (said,) = await said_in(town, town.group)
    assert said.only_for == town.ann.id


@pytest.mark.parametrize("is_member", [True, False])
async def test_an_answer_that_no_link_takes_comes_as_a_direct_message(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent, is_member: bool
) -> None:
    """Never to everybody: it is of one person."""
    stage.switches.link_uses_max = 0
    if not is_member:
        stage.remove_bot(town.group.id)
    async with town.line(bus):
        await stage.invoke(town.ann.id, town.group.id, "trivet", "memory")
        (said,) = await said_in(town, town.dm(town.ann))
        assert said.text == "echo: /memory"
        await town.stays_silent(1)


async def test_a_long_answer_goes_on_where_the_link_ends(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    stage.switches.link_uses_max = 1
    agent.answer = lambda text: " ".join(f"word{number}" for number in range(900))
    async with town.line(bus):
        await stage.invoke(town.ann.id, town.group.id, "trivet", "memory")
        await until(lambda: len(town.answers()) == 2)
    assert len(town.answers(town.group)) == len(town.answers(town.dm(town.ann))) == 1


async def test_a_command_in_a_direct_message_is_answered_like_a_message(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    dm = town.dm(town.ann)
    async with town.line(bus):
        await stage.invoke(town.ann.id, dm.id, "trivet")
        (said,) = await said_in(town, dm)
    assert (said.text, said.only_for) == ("echo: /help", None)


async def test_a_command_is_acknowledged_when_the_bus_has_it(town: Town, stage: SlackEmulator, tmp_path: Path) -> None:
    """Else Slack tells the one who gave it that it failed."""
    server = EmbeddedValkey(tmp_path)
    bus = await open_bus(await server.start(), installation=INSTALLATION)
    try:
        async with town.line(bus):
            await server.stop()
            stage.switches.ack_within_s = 0.5
            refused = stage.run_command(town.ann.id, town.group.id, "/trivet", "help")
            await until(lambda: refused in stage.delivery.lost)
            assert not refused.answered.is_set()
            await server.start()
    finally:
        await bus.close()
        await server.stop()


async def test_an_answer_of_unknown_fate_says_so(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """Nobody can look up what only one person sees."""
    async with town.line(bus):
        stage.faults.drop_after = 1
        await stage.invoke(town.ann.id, town.group.id, "trivet", "memory")
        await until(lambda: len(town.answers()) == 2)
        await until_delivered(bus, "slack")
    first, again = town.answers()
    assert (first.text, again.text) == ("echo: /memory", f"{MARK}\necho: /memory")
    assert again.only_for == town.ann.id


async def test_the_menu_has_one_command(town: Town, stage: SlackEmulator) -> None:
    assert isinstance(stage, MenuStage)
    assert [entry.name for entry in stage.menu(town.ann.id, town.group.id)] == ["trivet"]
    assert not stage.menu(town.ann.id, town.thread.id)
    with pytest.raises(ValueError, match="no command"):
        await stage.invoke(town.ann.id, town.thread.id, "trivet", "help")
    with pytest.raises(ValueError, match="asks nobody"):
        await stage.suggest(town.ann.id, town.group.id, "trivet", "resume ")


@pytest.mark.parametrize("home", [slack_town, called_slack_town])
async def test_a_conversation_is_picked_from_a_list_below_the_answer(
    home: Callable[[], AbstractAsyncContextManager[Town]], bus: RedisBus, agent: EchoAgent
) -> None:
    """Slack asks us what is in it, over the socket or by HTTP; what is picked is a command like one that was typed, for
    the one who picked."""
    async with home() as town:
        await picked_in(town, bus, agent)


async def picked_in(town: Town, bus: RedisBus, agent: EchoAgent) -> None:
    stage = town.stage
    assert isinstance(stage, SlackEmulator)
    asked: list[SuggestionRequest] = []

    async def suggest() -> None:
        while True:
            wanted = await bus.suggestions.wanted(wait_s=5.0)
            if wanted is not None:
                asked.append(wanted)
                await bus.suggestions.suggest(wanted, [Suggestion(CleanText("2. Lunch, and " * 7), CleanText("2"))])

    suggesting = asyncio.create_task(suggest())
    try:
        async with town.line(bus):
            await stage.invoke(town.ann.id, town.group.id, "trivet", "sessions")
            (said,) = await said_in(town, town.group)
            lines = await stage.options(town.ann.id, said.id, town.group.id, "lun")
            stage.pick(town.ann.id, said.id, town.group.id, lines[0])
            await until(lambda: len(town.answers(town.group)) == 2)
    finally:
        suggesting.cancel()
        await asyncio.gather(suggesting, return_exceptions=True)
    assert [value for _, value in lines] == ["2"]
    (wanted,) = asked
    assert (str(wanted.owner), wanted.kind, wanted.typed) == (f"slack:{town.ann.id}", Suggests.SESSIONS, "lun")
    picked = town.answers(town.group)[1]
    assert (picked.text, picked.only_for) == ("echo: /resume 2", town.ann.id)
    assert len({message.key for message in agent.heard}) == 1


@pytest.mark.long
async def test_nobody_is_kept_waiting_for_a_list(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    async with town.line(bus):
        await stage.say(town.ann.id, town.dm(town.ann).id, "/model")
        (said,) = await said_in(town, town.dm(town.ann))
        assert await stage.options(town.ann.id, said.id, town.dm(town.ann).id) == []
