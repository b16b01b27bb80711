"""How a reply leaves: order, the ledger, what each refusal leads to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from channels.adapter import ChannelAdapter
from channels.courier import RATE_LIMITS_MAX, Again, Courier, GiveUp, Journey, next_move
from channels.delivery import Delivery
from gateway.contracts.errors import (
    AddressDead,
    AddressMoved,
    BusUnavailable,
    CredentialsRejected,
    FormatRefused,
    OutcomeUnknown,
    RateLimited,
    SendFailed,
)
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText, DeliveryRecord, DeliveryState, Reply, ReplyKind
from gateway.contracts.ports import PendingReply
from gateway.limits import DELIVERY_ATTEMPTS_MAX
from tests.doubles import AskableAdapter, ManualClock, MemoryBus, ScriptedAdapter

HERE = ReplyAddress("test", "lane", "{}")
ELSEWHERE = ReplyAddress("test", "elsewhere", "{}")


def reply(number: int = 1, text: str = "hello", lane: str = "lane") -> PendingReply:
    """A committed reply as the stream hands it out."""
    key = SessionKey("test", "u1")
    body = Reply(f"r{number}", "t1", key, ReplyAddress("test", lane, "{}"), CleanText(text), ReplyKind.ANSWER, 1)
    return PendingReply(f"e{number}", body, DeliveryRecord(body.id, DeliveryState.PENDING))


@asynccontextmanager
async def delivering(adapter: ChannelAdapter, bus: MemoryBus) -> AsyncIterator[Delivery]:
    """A running delivery whose back-offs take no time."""
    courier = Courier(adapter, bus, ManualClock(), delay_scale=0.0)
    delivery = Delivery(adapter, bus, courier, consumer="c1")
    running = asyncio.create_task(delivery.run())
    try:
        yield delivery
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def delivered(adapter: ScriptedAdapter, pending: PendingReply) -> tuple[MemoryBus, DeliveryRecord]:
    """The bus after one reply was brought to its end, and its last record."""
    bus = MemoryBus()
    async with delivering(adapter, bus):
        bus.outbound.put_nowait(pending)
        await bus.until(lambda: pending.entry_id in bus.receipts)
    return bus, bus.receipts[pending.entry_id].record


class TestTheLedger:
    async def test_says_sending_before_every_platform_call(self) -> None:
        """A crash during a call leaves a record of which chunk may be out."""
        bus, record = await delivered(ScriptedAdapter(), reply(text="one|two"))
        assert [(row.state, row.next_chunk) for row in bus.ledger] == [
            (DeliveryState.SENDING, 0),
            (DeliveryState.SENDING, 1),
        ]
        assert record.state is DeliveryState.SENT
        assert record.platform_ids == ("m1", "m2")
        assert record.chunks == 2

    async def test_resumes_at_the_chunk_that_failed(self) -> None:
        """Chunks that are out stay out."""
        adapter = ScriptedAdapter()
        pending = reply(text="one|two|three")
        half = replace(pending.record, state=DeliveryState.RETRY, next_chunk=1, platform_ids=("m0",))
        _, record = await delivered(adapter, replace(pending, record=half))
        assert [sent.text for sent in adapter.sent] == ["two", "three"]
        assert record.platform_ids == ("m0", "m1", "m2")

    async def test_found_sending_is_looked_up_before_it_is_sent(self) -> None:
        """After a crash the platform is asked first; what arrived is not sent again."""
        adapter = AskableAdapter(arrived={"r1:0": ("m9",)})
        pending = reply(text="one|two")
        _, record = await delivered(
            adapter, replace(pending, record=replace(pending.record, state=DeliveryState.SENDING))
        )
        assert [sent.text for sent in adapter.sent] == ["two"]
        assert record.platform_ids == ("m9", "m1")

    async def test_found_sending_without_a_look_up_is_sent_again(self) -> None:
        """Losing an answer is worse than saying it twice where the platform cannot be asked."""
        adapter = ScriptedAdapter()
        pending = reply()
        await delivered(adapter, replace(pending, record=replace(pending.record, state=DeliveryState.SENDING)))
        assert [sent.text for sent in adapter.sent] == ["hello"]

    async def test_a_finished_reply_only_gets_its_receipt(self) -> None:
        """A crash between the last send and the receipt sends nothing again."""
        adapter = ScriptedAdapter()
        pending = reply()
        _, record = await delivered(adapter, replace(pending, record=replace(pending.record, state=DeliveryState.SENT)))
        assert adapter.sent == []
        assert record.state is DeliveryState.SENT

    async def test_nothing_is_sent_while_the_bus_is_away(self) -> None:
        """What the ledger cannot know must not happen."""
        adapter, bus = ScriptedAdapter(), MemoryBus()
        async with delivering(adapter, bus):
            await asyncio.sleep(0)
            bus.away = True
            bus.outbound.put_nowait(reply())
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(bus.until(lambda: bool(adapter.sent)), 0.3)
            bus.away = False
            await bus.until(lambda: "e1" in bus.receipts)
        assert len(adapter.sent) == 1


class TestARefusal:
    async def test_of_the_format_sends_the_same_chunk_plain(self) -> None:
        """A formatting error never loses an answer, and the next chunk is formatted again."""
        adapter = ScriptedAdapter([FormatRefused("no")])
        await delivered(adapter, reply(text="one|two"))
        assert [(sent.text, sent.is_plain) for sent in adapter.sent] == [
            ("one", False),
            ("one", True),
            ("two", False),
        ]

    async def test_that_is_transient_is_tried_again_with_the_same_send_id(self) -> None:
        """The send id is what lets a platform recognise the second attempt."""
        adapter = ScriptedAdapter([SendFailed("502"), SendFailed("502")])
        bus, record = await delivered(adapter, reply())
        assert {sent.send_id for sent in adapter.sent} == {"r1:0"}
        assert record.state is DeliveryState.SENT
        assert DeliveryState.RETRY in {row.state for row in bus.ledger}

    async def test_of_unknown_outcome_is_looked_up(self) -> None:
        """A cut connection may hide a success."""
        adapter = AskableAdapter([OutcomeUnknown("cut")], arrived={"r1:0": ("m7",)})
        bus, record = await delivered(adapter, reply())
        assert len(adapter.sent) == 1
        assert record.platform_ids == ("m7",)
        assert DeliveryState.UNKNOWN in {row.state for row in bus.ledger}

    async def test_that_nobody_foresaw_counts_as_unknown(self) -> None:
        """An SDK may throw anything; the message may be out."""
        adapter = AskableAdapter([KeyError("surprise")])
        _, record = await delivered(adapter, reply())
        assert adapter.asked == ["r1:0"]
        assert record.state is DeliveryState.SENT

    async def test_because_of_the_rate_pauses_the_bucket_for_everybody(self) -> None:
        """Other processes and lanes of the bucket wait as long as the platform said."""
        adapter = ScriptedAdapter([RateLimited(0.01)])
        bus, record = await delivered(adapter, reply())
        assert bus.paused == [("test:lane", 0.01)]
        assert record.state is DeliveryState.SENT
        assert record.attempt == 0

    async def test_because_the_chat_moved_goes_to_the_new_address(self) -> None:
        """A migrated group gets its answer."""
        adapter = ScriptedAdapter([AddressMoved(ELSEWHERE)])
        await delivered(adapter, reply())
        assert [sent.lane for sent in adapter.sent] == ["lane", "elsewhere"]

    async def test_for_good_fails_with_the_reason(self) -> None:
        """Nobody is left to write to, and the operator can read why."""
        _, record = await delivered(ScriptedAdapter([AddressDead("bot was blocked")]), reply())
        assert (record.state, record.reason) == (DeliveryState.FAILED, "bot was blocked")

    async def test_again_and_again_ends(self) -> None:
        """The attempts have a limit."""
        adapter = ScriptedAdapter([SendFailed("502")] * 99)
        _, record = await delivered(adapter, reply())
        assert record.state is DeliveryState.FAILED
        assert len(adapter.sent) == DELIVERY_ATTEMPTS_MAX

    async def test_of_the_credentials_stops_the_channel_and_keeps_the_reply(self) -> None:
        """The reply waits in the stream for the operator's new token."""
        bus = MemoryBus()
        adapter = ScriptedAdapter([CredentialsRejected("test: wrong token")])
        delivery = Delivery(adapter, bus, Courier(adapter, bus, ManualClock()), consumer="c1")
        bus.outbound.put_nowait(reply())
        with pytest.raises(CredentialsRejected):
            await delivery.run()
        assert bus.receipts == {}
        assert bus.ledger[-1].state is DeliveryState.RETRY


class TestLanes:
    async def test_keep_their_order_while_one_is_in_flight(self) -> None:
        """The second reply of a lane waits for the first, whatever that takes."""
        adapter, bus = ScriptedAdapter([SendFailed("502")]), MemoryBus()
        async with delivering(adapter, bus):
            for number in (1, 2, 3):
                bus.outbound.put_nowait(reply(number, text=str(number)))
            await bus.until(lambda: len(bus.receipts) == 3)
        assert [sent.text for sent in adapter.sent] == ["1", "1", "2", "3"]

    async def test_do_not_wait_for_each_other(self) -> None:
        """A lane that hangs holds up nobody else."""
        hanging = asyncio.Event()
        adapter, bus = ScriptedAdapter(hold_lanes={"slow": hanging}), MemoryBus()
        async with delivering(adapter, bus):
            bus.outbound.put_nowait(reply(1, lane="slow"))
            bus.outbound.put_nowait(reply(2, lane="quick"))
            await bus.until(lambda: "e2" in bus.receipts)
            assert "e1" not in bus.receipts
            hanging.set()
            await bus.until(lambda: "e1" in bus.receipts)

    async def test_take_an_entry_once_however_often_it_is_handed_out(self) -> None:
        """A stream that repeats an entry in hand causes no second send."""
        hanging = asyncio.Event()
        adapter, bus = ScriptedAdapter(hold_lanes={"slow": hanging}), MemoryBus()
        async with delivering(adapter, bus) as delivery:
            for _ in range(3):
                bus.outbound.put_nowait(reply(1, lane="slow"))
            await bus.until(lambda: bus.outbound.empty() and delivery.in_hand == 1)
            hanging.set()
            await bus.until(lambda: "e1" in bus.receipts)
        assert len(adapter.sent) == 1


async def test_a_drain_lets_the_reply_in_flight_arrive_and_leaves_the_rest() -> None:
    """SIGTERM loses nothing: what was not started stays in the stream."""
    hanging = asyncio.Event()
    adapter, bus = ScriptedAdapter(hold_lanes={"lane": hanging}), MemoryBus()
    async with delivering(adapter, bus) as delivery:
        bus.outbound.put_nowait(reply(1))
        bus.outbound.put_nowait(reply(2))
        await bus.until(lambda: bool(bus.ledger))
        draining = asyncio.create_task(delivery.drain(grace_s=5))
        await asyncio.sleep(0)
        hanging.set()
        await draining
    assert list(bus.receipts) == ["e1"]


class TestTheNextMove:
    """The pure decision behind it all."""

    def test_waits_exactly_as_long_as_a_rate_limit_says(self) -> None:
        move = next_move(RateLimited(7.0), Journey(HERE))
        assert isinstance(move, Again)
        assert (move.wait_s, move.is_exact, move.journey.attempt) == (7.0, True, 0)

    def test_ends_an_endless_rate_limit(self) -> None:
        assert isinstance(next_move(RateLimited(1.0), Journey(HERE, rate_limits=RATE_LIMITS_MAX)), GiveUp)

    def test_ends_an_endless_move(self) -> None:
        assert isinstance(next_move(AddressMoved(ELSEWHERE), Journey(HERE, moves=9)), GiveUp)

    def test_gives_up_when_even_plain_text_is_refused(self) -> None:
        assert isinstance(next_move(FormatRefused("no"), Journey(HERE, is_plain=True)), GiveUp)

    def test_waits_longer_after_each_failure(self) -> None:
        waits = []
        journey = Journey(HERE)
        while isinstance(move := next_move(SendFailed("502"), journey), Again):
            waits.append(move.wait_s)
            journey = move.journey
        assert waits == sorted(waits)
        assert len(waits) == DELIVERY_ATTEMPTS_MAX - 1


def test_a_bus_that_is_away_is_no_delivery_error() -> None:
    """The two trees must not meet: one waits, the other counts attempts."""
    assert not issubclass(BusUnavailable, (SendFailed, OutcomeUnknown))
