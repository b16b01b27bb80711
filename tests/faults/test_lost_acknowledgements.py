"""Sends whose acknowledgement gets lost, on the real client libraries: nothing lost, nothing twice without a word.

Each reply is committed before it is sent; what the fault hides is whether the platform has it. A reply that is
there twice has to say so itself, and the bus counts it.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

from channels.core.adapter import MARK, SupportsPlaceholders
from channels.emulators.stage import Place
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import Choice, CleanText, Reply, ReplyKind
from tests.parts.answering import EchoAgent, until_delivered
from tests.parts.towns import Town, town
from tests.parts.waiting import until

__all__ = ["town"]

ROUNDS = 10
CHATS = 10  # one send of each round gets cut: ten in a hundred
CUT_BEFORE_SHARE = 0.3


@pytest.mark.timeout(240)
@pytest.mark.long
async def test_a_hundred_replies_with_lost_acknowledgements(
    town: Town, bus: RedisBus, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every question is answered, in the order of its chat; a second copy stands under the line that says so."""
    chance = random.Random(2_026)
    people = [town.ann, *(town.stage.add_person(f"Person {number}") for number in range(CHATS - 1))]
    places = [town.dm(person) for person in people]
    async with EchoAgent(bus).at_work(), town.line(bus):
        for number in range(ROUNDS):
            setattr(town.stage.faults, "drop_before" if chance.random() < CUT_BEFORE_SHARE else "drop_after", 1)
            for person, place in zip(people, places, strict=True):
                await town.stage.say(person.id, place.id, f"question {number}")
            await until(partial(_is_answered, town, places, f"question {number}"))
        await until_delivered(bus, town.platform)
    marked = 0
    for place in places:
        texts = town.texts(place)
        marked += sum(text.startswith(MARK) for text in texts)
        bare = [text.removeprefix(MARK).strip() for text in texts]
        assert list(dict.fromkeys(bare)) == [f"echo: question {number}" for number in range(ROUNDS)]
        assert max(Counter(text for text in texts if not text.startswith(MARK)).values()) == 1
    counted = (await bus.operator.figures()).ambiguous_sends.get(town.platform, 0)
    with capsys.disabled():
        print(
            f"\n{town.platform}: {ROUNDS * CHATS} replies, {ROUNDS} cut: 0 lost, 0 unmarked duplicates, {marked} marked"
        )
    assert counted == marked


def _is_answered(town: Town, places: list[Place], question: str) -> bool:
    return all((town.texts(place) or [""])[-1].endswith(question) for place in places)


async def test_a_question_whose_acknowledgement_got_lost_is_there_once_with_its_buttons(
    town: Town, bus: RedisBus
) -> None:
    """Found again by what the platform offers for that; and so is the amendment that takes its buttons away."""
    async with EchoAgent(bus).at_work(), town.line(bus):
        await town.stage.say(town.ann.id, town.dm(town.ann).id, "hello")
        await town.until_answers(1)
        await until_delivered(bus, town.platform)
        (said,) = [message for message in town.stage.said(town.dm(town.ann).id) if not message.author.is_bot]
        asked = question_to(town, said.id)
        for reply in (asked, replace(asked, id="ask:1:end", text=CleanText("Settled."), choices=(), amends=asked.id)):
            town.stage.faults.drop_after = 1
            await bus.deliveries.publish([reply])
            await until(lambda: not town.stage.faults.drop_after)
            await until_delivered(bus, town.platform)
            (shown,) = [message for message in town.answers() if "echo" not in message.text]
            assert shown.text == reply.text
            assert [button.label for button in shown.buttons] == [choice.label for choice in reply.choices]
    assert (await bus.operator.figures()).ambiguous_sends.get(town.platform, 0) == 0


@pytest.mark.parametrize("town", ["telegram"], indirect=True)
async def test_a_message_in_front_of_known_ones_is_not_taken_for_the_lost_one(town: Town, bus: RedisBus) -> None:
    """A placeholder that a dead process left there belongs to an earlier answer: the later one would stand in front of
    what was said between them."""
    adapter = town.adapter(bus)
    assert isinstance(adapter, SupportsPlaceholders)
    async with EchoAgent(bus).at_work() as agent, town.line(bus, adapter=adapter):
        await town.stage.say(town.ann.id, town.dm(town.ann).id, "hello")
        await town.until_answers(1)
        (asked,) = [message for message in town.stage.said(town.dm(town.ann).id) if not message.author.is_bot]
        await adapter.put_placeholder(agent.heard[0].address)
        await town.stage.say(town.ann.id, town.dm(town.ann).id, "and you?")
        await town.until_answers(2)
        await until_delivered(bus, town.platform)
        town.stage.faults.drop_before = 1
        await bus.deliveries.publish([question_to(town, asked.id)])
        await until(lambda: not town.stage.faults.drop_before)
        await until_delivered(bus, town.platform)
    *earlier, last = town.texts(town.dm(town.ann))
    assert earlier == ["echo: hello", "echo: and you?"]
    assert last.startswith(MARK)


def question_to(town: Town, message_id: str) -> Reply:
    """A question in Ann's direct chat, as an answer to her message."""
    chat = town.dm(town.ann).address.removeprefix("DM ")
    target: dict[str, object] = {"channel": chat, "message_ts": message_id}
    if town.platform == "telegram":
        target = {"chat_id": int(chat), "answered_message_id": int(message_id)}
    elif town.platform == "discord":
        target = {"channel_id": chat}
    return Reply(
        id="ask:1",
        turn_id="1",
        key=SessionKey(town.platform, town.ann.id),
        address=ReplyAddress(town.platform, chat, json.dumps(target)),
        text=CleanText("May I?"),
        kind=ReplyKind.QUESTION,
        created_at_ms=SystemClock().now_ms(),
        choices=(
            Choice(CleanText("Approve"), CleanText("/approve K7QM2PXA")),
            Choice(CleanText("Deny"), CleanText("/deny K7QM2PXA")),
        ),
    )
