"""How a title reaches the place that bears it: once if it can be, again if it must be, never in an answer's way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from channels.core.adapter import Nameable, SendBudget
from channels.core.status import TITLE_LATE_AFTER_S
from gateway.contracts.errors import (
    AddressDead,
    CredentialsRejected,
    FormatRefused,
    OutcomeUnknown,
    RateLimited,
    SendFailed,
)
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText, DeliveryRecord, DeliveryState, ReplyKind
from gateway.contracts.ports import PendingReply
from tests.doubles import ManualClock, MemoryBus
from tests.parts.scripted_adapters import ScriptedAdapter
from tests.parts.waiting import PATIENCE_S
from tests.unit.test_delivery import delivered, delivering, reply

NOW_MS = ManualClock().now_ms()


@dataclass
class NamingAdapter(ScriptedAdapter):
    """A platform whose places have names. `names` are those it was asked for, `refusals` its answers, `bears` the name
    of each lane; what a conversation says in a lane of `fresh` is the first there."""

    fresh: frozenset[str] = frozenset({"lane"})
    names: list[str] = field(default_factory=list)
    bears: dict[str, str] = field(default_factory=dict)
    refusals: list[Exception] = field(default_factory=list)
    slow: asyncio.Event | None = None

    def nameable(self, address: ReplyAddress) -> Nameable | None:
        budgets: Sequence[SendBudget] = (SendBudget(f"names:{address.lane}", 1.0, 1),)
        return None if address.lane == "nameless" else Nameable(address.lane, address.lane in self.fresh, budgets)

    async def lacks_name(self, address: ReplyAddress, title: CleanText) -> bool:
        return self.bears.get(address.lane) != title

    async def name_place(self, address: ReplyAddress, title: CleanText) -> None:
        self.names.append(title)
        if self.slow is not None:
            await self.slow.wait()
        if self.refusals:
            raise self.refusals.pop(0)
        self.bears[address.lane] = title


def title(
    number: int = 1, text: str = "Trip", *, lane: str = "lane", age_s: float = 0.0, user: str = "u1"
) -> PendingReply:
    """A title as the stream hands it out."""
    pending = reply(number, "", lane)
    body = replace(
        pending.reply,
        kind=ReplyKind.TITLE,
        title=CleanText(text),
        key=SessionKey("test", user),
        created_at_ms=NOW_MS - int(age_s * 1000),
    )
    return replace(pending, reply=body)


async def test_the_place_bears_it() -> None:
    adapter = NamingAdapter()
    bus, record = await delivered(adapter, title())
    assert (adapter.bears, record.state, adapter.sent) == ({"lane": "Trip"}, DeliveryState.SENT, [])
    assert bus.namers == {"test:1:lane": "test:u1"}


async def test_one_found_sending_is_given_again() -> None:
    """A crash between the call and the receipt: to name a place twice changes nothing."""
    adapter = NamingAdapter()
    pending = title()
    record = DeliveryRecord(pending.record.reply_id, DeliveryState.SENDING)
    _, after = await delivered(adapter, replace(pending, record=record))
    assert (adapter.bears, after.state, adapter.sent) == ({"lane": "Trip"}, DeliveryState.SENT, [])


async def test_a_name_that_is_there_already_is_not_given() -> None:
    adapter = NamingAdapter(bears={"lane": "Trip"})
    _, record = await delivered(adapter, title())
    assert (adapter.names, record.state) == ([], DeliveryState.SENT)


@pytest.mark.parametrize("adapter", [ScriptedAdapter(), NamingAdapter()], ids=["platform", "place"])
async def test_where_nothing_has_a_name_nothing_happens(adapter: ScriptedAdapter) -> None:
    _, record = await delivered(adapter, title(lane="nameless"))
    assert (record.state, adapter.sent) == (DeliveryState.SENT, [])


async def test_only_the_conversation_that_began_a_place_names_it() -> None:
    """Whoever else talks there has a conversation of his own, which is not what the place is about."""
    adapter, bus = NamingAdapter(), MemoryBus()
    await delivered(adapter, title(1, "Ann's"), bus=bus)
    await delivered(adapter, title(2, "Ben's", user="u2"), bus=bus)
    adapter.fresh = frozenset()
    await delivered(adapter, title(3, "Ben's, too", user="u2"), bus=bus)
    await delivered(adapter, title(4, "Ann's, again"), bus=bus)
    await delivered(adapter, title(5, "a channel of theirs", lane="other"), bus=bus)
    assert adapter.names == ["Ann's", "Ann's, again"]


@pytest.mark.parametrize("error", [AddressDead("gone"), FormatRefused("no"), CredentialsRejected("no such scope")])
async def test_a_refusal_ends_it_and_answers_still_arrive(error: Exception) -> None:
    """A missing right says nothing about the place as a place for answers."""
    adapter = NamingAdapter(refusals=[error])
    bus, record = await delivered(adapter, title())
    assert record.state is DeliveryState.FAILED
    _, answered = await delivered(adapter, reply(2), bus=bus)
    assert (answered.state, bus.graves, bus.paused) == (DeliveryState.SENT, {}, [])


@pytest.mark.parametrize("error", [RateLimited(0.01), SendFailed("away"), OutcomeUnknown("cut"), ValueError("odd")])
async def test_trouble_is_waited_out_unless_nobody_foresaw_it(error: Exception) -> None:
    adapter = NamingAdapter(refusals=[error])
    bus, record = await delivered(adapter, title())
    assert record.state is (DeliveryState.FAILED if isinstance(error, ValueError) else DeliveryState.SENT)
    assert bus.paused == []


async def test_a_limit_that_outlasts_it_ends_it() -> None:
    adapter = NamingAdapter(refusals=[RateLimited(TITLE_LATE_AFTER_S)])
    _, record = await delivered(adapter, title())
    assert (record.state, len(adapter.names)) == (DeliveryState.FAILED, 1)


async def test_one_that_is_too_old_is_left_out() -> None:
    adapter = NamingAdapter()
    _, record = await delivered(adapter, title(age_s=TITLE_LATE_AFTER_S))
    assert (record.reason, adapter.names) == ("too late", [])


async def test_of_several_that_wait_only_the_last_is_given() -> None:
    """A conversation's own: what another one is called stays what it is."""
    adapter = NamingAdapter(slow=asyncio.Event())
    bus = MemoryBus()
    async with delivering(adapter, bus):
        bus.outbound.put_nowait(title(1, "first"))
        await bus.until(lambda: bool(adapter.names))
        for number, name, user in ((2, "second", "u1"), (3, "Ben's", "u2"), (4, "third", "u1")):
            bus.outbound.put_nowait(title(number, name, user=user))
        await bus.until(bus.outbound.empty)
        assert adapter.slow is not None
        adapter.slow.set()
        await bus.until(lambda: len(bus.receipts) == 4)
    assert adapter.names == ["first", "third"]
    assert [bus.receipts[f"e{number}"].record.state for number in (2, 4)] == [DeliveryState.FAILED, DeliveryState.SENT]


async def test_an_answer_does_not_wait_for_it() -> None:
    """Not even while the platform takes its time with the name."""
    adapter, bus = NamingAdapter(slow=asyncio.Event()), MemoryBus()
    async with delivering(adapter, bus):
        bus.outbound.put_nowait(title(1))
        await bus.until(lambda: bool(adapter.names))
        bus.outbound.put_nowait(reply(2, "the answer"))
        await bus.until(lambda: "e2" in bus.receipts)
        assert "e1" not in bus.receipts
    assert [sent.text for sent in adapter.sent] == ["the answer"]


async def test_one_that_waits_for_its_turn_does_not_hold_up_a_process_that_stops() -> None:
    """It stays in the stream for whoever comes next."""
    adapter, bus = NamingAdapter(refusals=[RateLimited(300)]), MemoryBus()
    async with delivering(adapter, bus) as delivery:
        bus.outbound.put_nowait(title())
        await bus.until(lambda: any(row.state is DeliveryState.RETRY for row in bus.ledger))
        async with asyncio.timeout(PATIENCE_S):
            await delivery.drain(grace_s=60)
    assert bus.receipts == {}
