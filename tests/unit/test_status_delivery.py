"""How a status line leaves: silently, once, behind whatever waits, given up rather than late."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from channels.core.adapter import AnyChunk
from channels.core.content import chunks_of
from channels.core.delivery import DeliveryDispatcher, ReplyDelivery
from channels.core.lease import LeaseValidity
from channels.core.places import AddressResolver
from channels.core.status import EDIT_LATE_AFTER_S, LINE_LATE_AFTER_S
from gateway.contracts.errors import AddressDead, CredentialsRejected, OutcomeUnknown, RateLimited
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import CleanText, DeliveryRecord, DeliveryState, ReplyKind
from gateway.contracts.ports import PendingReply, TokenWish
from gateway.limits import RELAY_AFTER_S
from tests.doubles import ManualClock, MemoryBus, PlainScrubber
from tests.parts.scripted_adapters import ButtonAdapter, ScriptedAdapter
from tests.unit.test_delivery import RULES, delivered, delivering, reply

NOW_MS = ManualClock().now_ms()


@dataclass
class QuietAdapter(ButtonAdapter):
    """A platform with silent messages, and messages that can be edited."""

    def silent(self, chunk: AnyChunk) -> AnyChunk:
        return f"(quietly) {chunk}"


def line(
    number: int = 1, text: str = "explore", *, age_s: float = 0.0, lane: str = "lane", turn_id: str = "another turn"
) -> PendingReply:
    """A status line as the stream hands it out."""
    pending = reply(number, text, lane)
    made_at_ms = NOW_MS - int(age_s * 1000)
    said = replace(pending.reply, turn_id=turn_id, kind=ReplyKind.STATUS, created_at_ms=made_at_ms)
    return replace(pending, reply=said)


def edit(number: int = 2, text: str = "explored", *, of: str = "r1", age_s: float = 0.0) -> PendingReply:
    """What takes its place."""
    pending = line(number, text, age_s=age_s)
    return replace(pending, reply=replace(pending.reply, amends=of))


async def shown_first(adapter: ButtonAdapter) -> MemoryBus:
    """The bus after the line was delivered."""
    bus, record = await delivered(adapter, line())
    bus.ledger.append(record)
    return bus


async def test_it_is_sent_silently_and_edited_in_place() -> None:
    adapter = QuietAdapter()
    bus = await shown_first(adapter)
    assert adapter.shown == {"m1": "(quietly) explore"}
    _, record = await delivered(adapter, edit(), bus=bus)
    assert adapter.shown == {"m1": "(quietly) explored"}
    assert (record.state, len(adapter.sent)) == (DeliveryState.SENT, 1)


async def test_whoever_shows_that_an_answer_is_made_does_not_hear_of_it() -> None:
    """The answer is still being made."""
    adapter, bus, left = ButtonAdapter(), MemoryBus(), list[str]()
    addresses, validity = AddressResolver(adapter, bus), LeaseValidity()
    courier = ReplyDelivery(
        adapter,
        bus,
        bus,
        bus,
        PlainScrubber(),
        ManualClock(),
        addresses,
        validity,
        rules=RULES,
        answering=lambda reply: left.append(reply.id),
    )
    running = asyncio.create_task(DeliveryDispatcher(adapter, bus, courier, addresses, validity, consumer="c1").run())
    for pending in (line(1), reply(2)):
        bus.outbound.put_nowait(pending)
    await bus.until(lambda: len(bus.receipts) == 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (left, len(adapter.sent)) == (["r2"], 2)


async def test_where_nothing_can_be_edited_there_are_none() -> None:
    """A line that says for ever that something is at work is worse than none."""
    assert await chunks_of(line().reply, ScriptedAdapter()) == ()


def test_what_the_sweep_of_the_outbox_finds_is_too_late_to_be_said() -> None:
    assert LINE_LATE_AFTER_S < RELAY_AFTER_S


@pytest.mark.parametrize(
    "pending", [line(age_s=LINE_LATE_AFTER_S), edit(age_s=EDIT_LATE_AFTER_S)], ids=["line", "edit"]
)
async def test_one_that_is_late_is_left_out(pending: PendingReply) -> None:
    adapter = ButtonAdapter()
    _, record = await delivered(adapter, pending)
    assert (record.state, record.reason, adapter.sent) == (DeliveryState.FAILED, "too late", [])


async def test_of_several_edits_that_wait_only_the_last_is_made() -> None:
    adapter = QuietAdapter()
    bus = await shown_first(adapter)
    for number, text in enumerate(("1 of 3", "2 of 3", "3 of 3"), start=2):
        bus.outbound.put_nowait(edit(number, text))
    async with delivering(adapter, bus):
        await bus.until(lambda: "e4" in bus.receipts)
    states = [bus.receipts[f"e{number}"].record.state for number in (2, 3, 4)]
    assert states == [DeliveryState.FAILED, DeliveryState.FAILED, DeliveryState.SENT]
    assert adapter.shown == {"m1": "(quietly) 3 of 3"}


async def test_answers_of_the_lane_go_first() -> None:
    adapter, bus = ButtonAdapter(), MemoryBus()
    for pending in (line(1, "explore"), line(2, "code"), reply(3, "the answer")):
        bus.outbound.put_nowait(pending)
    async with delivering(adapter, bus):
        await bus.until(lambda: len(bus.receipts) == 3)
    assert [sent.text for sent in adapter.sent] == ["the answer", "explore", "code"]


async def test_none_comes_behind_the_answer_of_its_turn() -> None:
    adapter, bus, answer = ButtonAdapter(), MemoryBus(), reply(2, "the answer")
    for pending in (line(1, turn_id=answer.reply.turn_id), answer, line(3, "code", turn_id="")):
        bus.outbound.put_nowait(pending)
    async with delivering(adapter, bus):
        await bus.until(lambda: len(bus.receipts) == 3)
    assert [sent.text for sent in adapter.sent] == ["the answer", "code"]
    assert bus.receipts["e1"].record.state is DeliveryState.FAILED


@dataclass
class UnwellAdapter(ButtonAdapter):
    """A platform that fails for edits while `is_unwell`. `failed` is set at the first that does."""

    is_unwell: bool = True
    failed: asyncio.Event = field(default_factory=asyncio.Event)

    async def amend(self, address: ReplyAddress, chunk: AnyChunk, *, message_id: str, plain: bool) -> bool:
        if self.is_unwell:
            self.failed.set()
            raise RateLimited(0.01)
        return await super().amend(address, chunk, message_id=message_id, plain=plain)


async def test_an_answer_does_not_wait_for_an_edit_that_fails() -> None:
    """The answer that comes meanwhile leaves at once; then the edit is made after all."""
    adapter = UnwellAdapter()
    bus = await shown_first(adapter)
    async with delivering(adapter, bus):
        bus.outbound.put_nowait(edit())
        await adapter.failed.wait()
        bus.outbound.put_nowait(reply(3, "the answer"))
        await bus.until(lambda: "e3" in bus.receipts)
        adapter.is_unwell = False
        await bus.until(lambda: "e2" in bus.receipts)
    assert list(bus.receipts) == ["e1", "e3", "e2"]
    assert adapter.shown == {"m1": "explored", "m2": "the answer"}


@dataclass
class CrowdedBus(MemoryBus):
    """Whose buckets have a token for an answer, and none to spare until somebody has asked often enough."""

    refused: int = 0

    async def take_send_tokens(self, account: str, wishes: Sequence[TokenWish]) -> float:
        if self.refused and any(wish.spare for wish in wishes):
            self.refused -= 1
            return 1.0
        return 0.0


async def test_it_takes_no_token_that_an_answer_may_need() -> None:
    adapter, bus = ButtonAdapter(), CrowdedBus(refused=1_000)
    async with delivering(adapter, bus):
        bus.outbound.put_nowait(line())
        await bus.until(lambda: bus.refused < 1_000)
        bus.outbound.put_nowait(reply(2, "the answer"))
        await bus.until(lambda: "e2" in bus.receipts)
    assert [sent.text for sent in adapter.sent] == ["the answer"]


async def test_one_that_may_have_arrived_is_neither_looked_for_nor_sent_again() -> None:
    adapter = ButtonAdapter(script=[OutcomeUnknown("cut")])
    bus, record = await delivered(adapter, line())
    assert (record.state, len(adapter.sent), bus.ambiguous) == (DeliveryState.UNKNOWN, 1, 0)
    begun = DeliveryRecord("r1", DeliveryState.SENDING, attempt=0)
    _, record = await delivered(adapter, replace(line(), record=begun))
    assert (record.state, len(adapter.sent)) == (DeliveryState.UNKNOWN, 1)


@pytest.mark.parametrize("refusal", [RateLimited(60.0), AddressDead("kicked")])
async def test_one_that_would_have_to_wait_or_is_not_wanted_is_left_out(refusal: Exception) -> None:
    """What the platform said still counts for everybody else."""
    adapter = ButtonAdapter(script=[refusal])
    bus, record = await delivered(adapter, line())
    assert record.state is DeliveryState.FAILED
    assert bool(bus.paused) or bool(bus.graves)


async def test_an_edit_is_made_again_until_somebody_says_that_it_was_made() -> None:
    adapter = ButtonAdapter(refusals=[RateLimited(0.01), RateLimited(0.01)])
    bus = await shown_first(adapter)
    _, record = await delivered(adapter, edit(), bus=bus)
    assert (record.state, record.attempt, adapter.shown) == (DeliveryState.SENT, 2, {"m1": "explored"})


async def test_an_edit_of_a_line_that_never_went_out_says_nothing() -> None:
    adapter = ButtonAdapter()
    _, record = await delivered(adapter, edit())
    assert (record.state, adapter.sent) == (DeliveryState.SENT, [])


@dataclass
class BrokenAdapter(ButtonAdapter):
    """A platform whose renderer has a fault."""

    def chunks(self, text: CleanText) -> Sequence[AnyChunk]:
        raise ZeroDivisionError


async def test_one_that_cannot_even_be_rendered_blocks_nothing() -> None:
    _, record = await delivered(BrokenAdapter(), line())
    assert (record.state, record.reason) == (DeliveryState.FAILED, "unforeseen ZeroDivisionError")


async def test_rejected_credentials_are_tried_again() -> None:
    """The answers tell whether the token is bad."""
    _, record = await delivered(ButtonAdapter(script=[CredentialsRejected("401")]), line())
    assert (record.state, record.attempt) == (DeliveryState.SENT, 1)


async def test_stopping_does_not_wait_for_one_that_pauses() -> None:
    """It stays in the stream."""
    adapter, bus = ButtonAdapter(), CrowdedBus(refused=1_000)
    async with delivering(adapter, bus) as delivery:
        bus.outbound.put_nowait(line())
        await bus.until(lambda: bus.refused < 1_000)
        await delivery.drain(grace_s=60.0)
    assert bus.receipts == {}
