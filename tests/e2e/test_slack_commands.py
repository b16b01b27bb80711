"""`/trivet` on the emulated Slack: commands for the one who gives them, words for everybody, wherever we are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from channels.adapter import MARK
from channels.emulators.slack import SlackEmulator
from channels.emulators.stage import MenuStage, Place, Said
from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import EmbeddedValkey
from tests.parts.answering import EchoAgent, until_delivered
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
    bus = await open_bus(await server.start())
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
