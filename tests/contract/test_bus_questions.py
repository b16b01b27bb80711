"""Questions to people on the bus: settled once, by whoever came first, and words for the one who pressed alone."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gateway.bus.bus import RedisBus
from gateway.contracts.messages import (
    Choice,
    CleanText,
    ControlKind,
    ControlRequest,
    PutQuestion,
    QuestionState,
    ReplyKind,
)
from gateway.contracts.ports import Verdict
from tests.parts.bus_samples import ANNA, BORIS, control, reply

CODE = "K7QM2PXA"


def question(code: str = CODE) -> PutQuestion:
    """Anna is asked."""
    choices = tuple(Choice(CleanText(word), CleanText(f"/{word} {code}")) for word in ("approve", "deny"))
    asked = replace(reply(1), kind=ReplyKind.QUESTION, choices=choices)
    return PutQuestion(
        code,
        asked.key,
        (asked, replace(asked, id="ask:2", key=BORIS)),
        ANNA,
        fence=7,
        digest="d1",
        task_id="K1M2N3P4Q5R6",
    )


def press(number: int, kind: ControlKind = ControlKind.APPROVE) -> ControlRequest:
    """Boris presses a button."""
    return replace(control(number, BORIS, kind), is_press=True)


async def test_a_question_is_found_by_its_code_until_it_is_forgotten(bus: RedisBus) -> None:
    await bus.questions.put(question(), ttl_s=0.6)
    assert await bus.questions.standing(CODE) == QuestionState(question(), is_open=True)
    assert await bus.questions.standing("OTHER234") is None
    while await bus.questions.standing(CODE) is not None:  # noqa: ASYNC110 - forgetting is silent
        await asyncio.sleep(0.02)


async def test_the_first_answer_counts_and_the_others_are_told_which_it_was(bus: RedisBus) -> None:
    await bus.questions.put(question(), ttl_s=60)
    settled = QuestionState(question(), is_open=False, answer=press(1))
    assert await bus.questions.settle(CODE, press(1)) == settled
    assert await bus.questions.settle(CODE, press(2, ControlKind.DENY)) == settled
    assert await bus.questions.settle(CODE, None) == settled
    assert await bus.questions.standing(CODE) == settled


async def test_a_closed_question_takes_no_answer(bus: RedisBus) -> None:
    await bus.questions.put(question(), ttl_s=60)
    closed = QuestionState(question(), is_open=False)
    assert await bus.questions.settle(CODE, None) == closed
    assert await bus.questions.settle(CODE, press(1)) == closed


async def test_of_many_who_press_at_once_one_is_heard(bus: RedisBus) -> None:
    await bus.questions.put(question(), ttl_s=60)
    found = await asyncio.gather(*[bus.questions.settle(CODE, press(number)) for number in range(20)])
    assert len({standing.answer.message.id for standing in found if standing and standing.answer}) == 1


async def test_a_question_that_nobody_knows_stays_unknown(bus: RedisBus) -> None:
    assert await bus.questions.settle(CODE, press(1)) is None
    assert await bus.questions.standing(CODE) is None


async def test_putting_a_question_again_opens_nothing_that_was_settled(bus: RedisBus) -> None:
    """Who asks repeats himself when an acknowledgement got lost."""
    await bus.questions.put(question(), ttl_s=60)
    await bus.questions.settle(CODE, press(1))
    await bus.questions.put(question(), ttl_s=60)
    standing = await bus.questions.standing(CODE)
    assert standing is not None
    assert not standing.is_open


async def test_who_presses_is_told_once_and_the_press_is_acknowledged(bus: RedisBus) -> None:
    await bus.lanes.register("w", lease_ttl_s=60)
    pressed = press(1)
    waiting = asyncio.create_task(bus.questions.told(pressed.message, wait_s=5))
    await bus.intake.request_control(pressed)
    receipt, request = await anext(bus.control.requests("w"))
    assert request == pressed
    word = reply("word", BORIS, text="Only Anna may.")
    await bus.control.finish_press(receipt, request.message, word)
    assert await waiting == word
    assert await bus.questions.told(pressed.message, wait_s=0.01) is None
    await bus.lanes.drain("w")


async def test_a_press_that_comes_twice_is_one(bus: RedisBus) -> None:
    await bus.lanes.register("w", lease_ttl_s=60)
    assert (await bus.intake.request_control(press(1))).verdict is Verdict.ACCEPTED
    assert (await bus.intake.request_control(press(1))).verdict is Verdict.DUPLICATE
    await bus.lanes.drain("w")


async def test_an_amendment_finds_the_messages_of_what_it_amends(bus: RedisBus) -> None:
    await bus.deliveries.publish([reply(1)])
    (pending,) = await bus.deliveries.replies("telegram", "c", count=10, wait_s=1)
    await bus.deliveries.record("telegram", pending.entry_id, replace(pending.record, platform_ids=("55",)))
    amendment = replace(reply(2), amends=reply(1).id)
    assert (await bus.deliveries.delivered(amendment.key, amendment.amends)).platform_ids == ("55",)
    assert (await bus.deliveries.delivered(amendment.key, "unknown")).platform_ids == ()
