"""Replies with buttons, and replies that take the place of earlier ones."""

from __future__ import annotations

from dataclasses import replace

from channels.core.content import chunks_of
from gateway.contracts.errors import AddressDead, OutcomeUnknown, RateLimited
from gateway.contracts.messages import Choice, CleanText, DeliveryRecord, DeliveryState, ReplyKind
from gateway.contracts.ports import PendingReply
from tests.doubles import MemoryBus
from tests.parts.scripted_adapters import ButtonAdapter, ScriptedAdapter
from tests.unit.test_delivery import delivered, reply

CHOICES = (Choice(CleanText("Yes"), CleanText("/approve K7")), Choice(CleanText("No"), CleanText("/deny K7")))


def question(text: str = "may I?") -> PendingReply:
    """A reply with two choices."""
    pending = reply(1, text)
    return replace(pending, reply=replace(pending.reply, kind=ReplyKind.QUESTION, choices=CHOICES))


def amendment(text: str = "you may") -> PendingReply:
    """What takes its place."""
    pending = reply(2, text)
    return replace(pending, reply=replace(pending.reply, amends="r1"))


async def asked(adapter: ButtonAdapter) -> MemoryBus:
    """The bus after the question was delivered."""
    bus, record = await delivered(adapter, question())
    bus.ledger.append(record)
    return bus


async def test_buttons_stand_under_the_last_message() -> None:
    adapter = ButtonAdapter()
    await delivered(adapter, question("a long story|may I?"))
    assert list(adapter.shown.values()) == ["a long story", "may I? [Yes|No]"]


async def test_an_amendment_takes_the_place_of_the_last_message_and_is_no_new_one() -> None:
    adapter = ButtonAdapter()
    bus = await asked(adapter)
    _, record = await delivered(adapter, amendment(), bus=bus)
    assert adapter.shown == {"m1": "you may"}
    assert (record.state, record.platform_ids) == (DeliveryState.SENT, ())


async def test_an_amendment_is_made_again_until_somebody_says_that_it_was_made() -> None:
    """Whether an edit that nobody confirmed was made need not be known."""
    adapter = ButtonAdapter(refusals=[OutcomeUnknown("cut"), RateLimited(0.0)])
    bus = await asked(adapter)
    _, record = await delivered(adapter, amendment(), bus=bus)
    assert adapter.shown == {"m1": "you may"}
    assert record.state is DeliveryState.SENT
    assert bus.ambiguous == 0


async def test_an_amendment_that_a_dead_process_had_begun_is_made_again() -> None:
    adapter = ButtonAdapter()
    bus = await asked(adapter)
    begun = DeliveryRecord("r2", DeliveryState.SENDING, attempt=1)
    await delivered(adapter, replace(amendment(), record=begun), bus=bus)
    assert adapter.shown == {"m1": "you may"}


async def test_what_is_gone_or_was_never_sent_is_not_amended() -> None:
    adapter = ButtonAdapter()
    bus = await asked(adapter)
    adapter.shown.clear()
    for known in (bus, MemoryBus()):
        _, record = await delivered(adapter, amendment(), bus=known)
        assert (record.state, adapter.shown) == (DeliveryState.SENT, {})


async def test_a_place_that_shuts_us_out_ends_the_amendment() -> None:
    adapter = ButtonAdapter(refusals=[AddressDead("kicked")])
    bus = await asked(adapter)
    _, record = await delivered(adapter, amendment(), bus=bus)
    assert record.state is DeliveryState.FAILED


async def test_where_there_are_no_buttons_the_text_is_all_and_an_amendment_is_not_sent() -> None:
    plain = ScriptedAdapter()
    assert await chunks_of(question().reply, plain) == ("may I?",)
    assert await chunks_of(amendment().reply, plain) == ()
