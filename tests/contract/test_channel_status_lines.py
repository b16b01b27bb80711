"""Status lines on the three emulated platforms, with the real SDKs: one quiet message, edited in place.

Each test runs three times, once in each town.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.contracts.messages import CleanText, InboundMessage, Reply, ReplyKind
from tests.parts.answering import EchoAgent, until_delivered
from tests.parts.towns import Town, town
from tests.parts.waiting import until

__all__ = ["town"]


def line_for(message: InboundMessage, text: str, *, turn_id: str = "") -> Reply:
    """What an agent says while a sub-agent works for the one who wrote `message`; in the background without a turn."""
    return Reply(
        id=f"status:turn-{message.id}",
        turn_id=turn_id,
        key=message.key,
        address=message.address,
        text=CleanText(text),
        kind=ReplyKind.STATUS,
        created_at_ms=SystemClock().now_ms(),
    )


def edit_of(line: Reply, text: str) -> Reply:
    """What is said in its place afterwards."""
    return replace(line, id=f"{line.id}:completed", text=CleanText(text), amends=line.id)


async def heard_in(town: Town, bus: RedisBus, place_id: str, *, mention_bot: bool = False) -> InboundMessage:
    """What the agent hears when Ann writes there; it has answered."""
    agent = EchoAgent(bus)
    async with agent.at_work():
        await town.stage.say(town.ann.id, place_id, "look into it", mention_bot=mention_bot)
        await town.until_answers(1)
    return agent.heard[0]


async def test_a_line_appears_once_silently_and_is_edited_in_place(town: Town, bus: RedisBus) -> None:
    """Slack has no silent messages. The answer before it rang."""
    dm = town.dm(town.ann)
    async with town.line(bus):
        message = await heard_in(town, bus, dm.id)
        line = line_for(message, "⏳ explore: where it is")
        for _ in range(2):
            await bus.deliveries.publish([line])
        assert await town.until_answers(2, dm) == ["echo: look into it", "⏳ explore: where it is"]
        answer, said = town.answers(dm)
        assert (answer.silent, said.silent) == (False, town.platform != "slack")

        await bus.deliveries.publish([edit_of(line, "✓ explore: where it is (2 s, 900 tokens)")])
        await until(lambda: town.texts(dm)[-1] == "✓ explore: where it is (2 s, 900 tokens)")
        *_, edited = town.answers(dm)
        assert (edited.id, edited.edited) == (said.id, True)
        await town.stays_silent(2)


async def test_a_line_stays_in_its_thread_and_quotes_nobody(town: Town, bus: RedisBus) -> None:
    async with town.line(bus):
        message = await heard_in(town, bus, town.thread.id, mention_bot=True)
        await bus.deliveries.publish([line_for(message, "⏳ explore")])
        await town.until_answers(2, town.thread)
    _, said = town.answers(town.thread)
    assert said.text == "⏳ explore"
    assert said.reply_to is None or town.platform == "slack"


async def test_a_line_that_the_platform_does_not_take_is_left_out(town: Town, bus: RedisBus) -> None:
    """So is what is edited into it afterwards."""
    dm = town.dm(town.ann)
    async with town.line(bus):
        message = await heard_in(town, bus, dm.id)
        town.stage.faults.blocked = True
        line = line_for(message, "⏳ explore")
        await bus.deliveries.publish([line])
        await until_delivered(bus, town.platform)
        town.stage.faults.blocked = False
        await bus.deliveries.publish([edit_of(line, "✓ explore")])
        await until_delivered(bus, town.platform)
        await town.stays_silent(1)


async def test_no_line_of_a_turn_comes_behind_its_answer(town: Town, bus: RedisBus) -> None:
    """Taken at the same time, the answer goes first, and then there is nothing to wait for any more."""
    dm = town.dm(town.ann)
    async with town.line(bus):
        message = await heard_in(town, bus, dm.id)
    line = line_for(message, "⏳ explore", turn_id="turn-2")
    answer = replace(line, id="answer-2", text=CleanText("It is here."), kind=ReplyKind.ANSWER)
    await bus.deliveries.publish([line, answer, edit_of(line, "✓ explore")])
    async with town.line(bus):
        assert (await town.until_answers(2, dm))[-1] == "It is here."
        await until_delivered(bus, town.platform)
        await town.stays_silent(2)


async def test_a_line_whose_sending_was_cut_is_found_and_edited(town: Town, bus: RedisBus) -> None:
    """Otherwise it would say for ever that somebody is at work."""
    dm = town.dm(town.ann)
    async with town.line(bus):
        message = await heard_in(town, bus, dm.id)
        town.stage.faults.drop_after = 1
        line = line_for(message, "⏳ explore: where it is")
        await bus.deliveries.publish([line])
        await until(lambda: len(town.answers(dm)) == 2)
        await bus.deliveries.publish([edit_of(line, "✓ explore: where it is")])
        await until(lambda: town.texts(dm)[-1] == "✓ explore: where it is")
        await town.stays_silent(2)
