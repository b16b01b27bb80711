"""How a reply leaves: order, the ledger, what each refusal leads to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from channels.core import delivery as module
from channels.core.adapter import AnyChunk, ChannelAdapter
from channels.core.attempt import (
    RATE_LIMITS_MAX,
    REJECTIONS_MAX,
    ChunkAttempt,
    FailReply,
    RetryChunk,
    SendRules,
    next_move,
)
from channels.core.content import rendered
from channels.core.delivery import DeliveryDispatcher, ReplyDelivery
from channels.core.lease import LeaseValidity
from channels.core.notices import file_not_sent
from channels.core.places import AddressResolver
from gateway.config.channels import PlaceholderUse, UnknownSends
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
from gateway.contracts.messages import (
    CleanText,
    DeliveryRecord,
    DeliveryState,
    Reply,
    ReplyFile,
    ReplyKind,
    literal_text,
)
from gateway.contracts.ports import PendingReply
from gateway.i18n import ENGLISH
from gateway.limits import DELIVERY_ATTEMPTS_MAX, RENDERED_AT_ONCE_CHARS_MAX, REPLY_CHARS_MAX
from gateway.scrub import Scrubber
from tests.doubles import ManualClock, MemoryBus
from tests.parts.scripted_adapters import AskableAdapter, EditableAdapter, FilingAdapter, ScriptedAdapter
from tests.parts.waiting import until

RULES = SendRules()
Ended = Callable[[Reply, DeliveryState], Awaitable[None]]
HERE = ReplyAddress("test", "lane", "{}")
ELSEWHERE = ReplyAddress("test", "elsewhere", "{}")


def reply(number: int = 1, text: str = "hello", lane: str = "lane") -> PendingReply:
    """A committed reply as the stream hands it out."""
    key = SessionKey("test", "u1")
    body = Reply(f"r{number}", "t1", key, ReplyAddress("test", lane, "{}"), CleanText(text), ReplyKind.ANSWER, 1)
    return PendingReply(f"e{number}", body, DeliveryRecord(body.id, DeliveryState.PENDING))


def delivery_of(
    adapter: ChannelAdapter, bus: MemoryBus, rules: SendRules = RULES, ended: Ended | None = None
) -> DeliveryDispatcher:
    """A delivery whose back-offs take no time."""
    clock = ManualClock()
    addresses, validity = AddressResolver(adapter, bus), LeaseValidity()
    courier = ReplyDelivery(
        adapter, bus, bus, bus, Scrubber(), clock, addresses, validity, rules=rules, ended=ended, delay_scale=0.0
    )
    return DeliveryDispatcher(adapter, bus, courier, addresses, validity, consumer="c1")


@asynccontextmanager
async def delivering(
    adapter: ChannelAdapter, bus: MemoryBus, rules: SendRules = RULES, *, ended: Ended | None = None
) -> AsyncIterator[DeliveryDispatcher]:
    """A running delivery."""
    delivery = delivery_of(adapter, bus, rules, ended)
    running = asyncio.create_task(delivery.run())
    try:
        yield delivery
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def delivered(
    adapter: ScriptedAdapter, pending: PendingReply, rules: SendRules = RULES, bus: MemoryBus | None = None
) -> tuple[MemoryBus, DeliveryRecord]:
    """The bus after one reply was brought to its end, and its last record."""
    bus = bus or MemoryBus()
    async with delivering(adapter, bus, rules):
        bus.outbound.put_nowait(pending)
        await bus.until(lambda: pending.entry_id in bus.receipts)
    return bus, bus.receipts[pending.entry_id].record


async def test_who_wants_to_know_is_told_of_a_reply_once_its_receipt_is_written() -> None:
    bus, told = MemoryBus(), list[tuple[str, DeliveryState, bool]]()

    async def ended(reply: Reply, state: DeliveryState) -> None:
        told.append((reply.text, state, "e1" in bus.receipts))
        bus.changed.set()

    async with delivering(ScriptedAdapter(), bus, ended=ended):
        bus.outbound.put_nowait(reply())
        await bus.until(lambda: bool(told))
    assert told == [("hello", DeliveryState.SENT, True)]


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

    async def test_found_sending_without_a_look_up_is_sent_again_and_says_so(self) -> None:
        """Losing an answer is worse than saying it twice, and whoever reads it twice is told why."""
        adapter = ScriptedAdapter()
        pending = reply()
        await delivered(adapter, replace(pending, record=replace(pending.record, state=DeliveryState.SENDING)))
        assert [sent.text for sent in adapter.sent] == ["again: hello"]

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
        assert [(sent.text, sent.is_plain) for sent in adapter.sent] == [("one", False), ("one", True), ("two", False)]

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
        assert bus.paused == [("test:1:lane", 0.01)]
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
        adapter = ScriptedAdapter([CredentialsRejected("test: wrong token")] * REJECTIONS_MAX)
        delivery = delivery_of(adapter, bus)
        bus.outbound.put_nowait(reply())
        with pytest.raises(CredentialsRejected):
            await delivery.run()
        assert bus.receipts == {}
        assert bus.ledger[-1].state is DeliveryState.RETRY

    async def test_of_the_credentials_once_is_a_hiccup(self) -> None:
        """The channel goes on, and the reply goes out."""
        adapter = ScriptedAdapter([CredentialsRejected("401")] * (REJECTIONS_MAX - 1))
        _, record = await delivered(adapter, reply())
        assert (record.state, record.attempt) == (DeliveryState.SENT, 0)


class UneditableAdapter(EditableAdapter):
    """A platform that should let us edit, and does not."""

    async def complete(self, address: ReplyAddress, chunk: AnyChunk, *, message_id: str, plain: bool) -> bool:
        return False


FILE = ReplyFile(literal_text("a.txt"), "text/plain", 3, literal_text(""))


def with_files(text: str = "one|two") -> PendingReply:
    """A reply with two files behind its text."""
    pending = reply(text=text)
    return replace(pending, reply=replace(pending.reply, files=(FILE, FILE)))


class TestFiles:
    async def test_are_steps_behind_the_text(self) -> None:
        """With rows and ids of their own: what is out stays out."""
        adapter, bus = FilingAdapter(), MemoryBus(contents={("r1", 0): b"abc", ("r1", 1): b"def"})
        _, record = await delivered(adapter, with_files(), bus=bus)
        assert [sent.text for sent in adapter.sent] == ["one", "two", "a.txt:3", "a.txt:3"]
        assert (record.state, record.chunks, record.next_chunk) == (DeliveryState.SENT, 4, 4)
        assert {sent.send_id for sent in adapter.sent} == {"r1:0", "r1:1", "r1:2", "r1:3"}

    @pytest.mark.parametrize("refusal", [FormatRefused("too large"), AddressDead("no right to send documents")])
    async def test_that_are_refused_become_a_sentence(self, refusal: Exception) -> None:
        """And nothing else: the place lives, the other file goes out."""
        adapter = FilingAdapter(refusals=[refusal])
        bus = MemoryBus(contents={("r1", 0): b"abc", ("r1", 1): b"def"})
        _, record = await delivered(adapter, with_files(), bus=bus)
        assert [sent.text for sent in adapter.sent] == ["one", "two", str(file_not_sent(FILE.name, ENGLISH)), "a.txt:3"]
        assert (record.state, bus.graves) == (DeliveryState.SENT, {})

    async def test_that_nobody_hands_over_are_waited_for(self) -> None:
        """While no agent process answers nothing is given up."""
        adapter, bus = FilingAdapter(), MemoryBus(away_for_files=3)
        bus.contents = {("r1", 0): b"abc", ("r1", 1): b"def"}
        _, record = await delivered(adapter, with_files(), bus=bus)
        assert [sent.text for sent in adapter.sent] == ["one", "two", "a.txt:3", "a.txt:3"]
        assert (record.state, record.attempt) == (DeliveryState.SENT, 3)

    async def test_that_nobody_keeps_any_more_become_a_sentence(self) -> None:
        adapter, bus = FilingAdapter(), MemoryBus(contents={("r1", 0): b"", ("r1", 1): b"def"})
        await delivered(adapter, with_files(), bus=bus)
        assert [sent.text for sent in adapter.sent] == ["one", "two", str(file_not_sent(FILE.name, ENGLISH)), "a.txt:3"]

    async def test_where_there_are_none_become_sentences(self) -> None:
        """A terminal shows no files."""
        adapter = ScriptedAdapter()
        await delivered(adapter, with_files())
        assert [sent.text for sent in adapter.sent] == ["one", "two", *[str(file_not_sent(FILE.name, ENGLISH))] * 2]


class TestASendOfUnknownOutcome:
    """Where the platform cannot be asked what arrived."""

    async def test_is_marked_counted_and_marked_once(self) -> None:
        """However often the acknowledgement is lost, the marked text is what goes out again."""
        adapter = ScriptedAdapter([OutcomeUnknown("cut"), OutcomeUnknown("cut")])
        bus, record = await delivered(adapter, reply(text="one|two"))
        assert [sent.text for sent in adapter.sent] == ["one", "again: one", "again: one", "two"]
        assert (record.state, record.marked, bus.ambiguous) == (DeliveryState.SENT, (0,), 1)

    async def test_is_repeated_without_a_mark_if_so_configured(self) -> None:
        adapter = ScriptedAdapter([OutcomeUnknown("cut")])
        bus, record = await delivered(adapter, reply(), SendRules(UnknownSends.RESEND))
        assert [sent.text for sent in adapter.sent] == ["hello", "hello"]
        assert (record.marked, bus.ambiguous) == ((), 1)

    async def test_is_left_at_that_if_so_configured(self) -> None:
        """At most once: the rest goes out, and the record says what nobody knows."""
        adapter = ScriptedAdapter([OutcomeUnknown("cut")])
        _, record = await delivered(adapter, reply(text="one|two"), SendRules(UnknownSends.DROP))
        assert [sent.text for sent in adapter.sent] == ["one", "two"]
        assert record.state is DeliveryState.UNKNOWN
        assert "message 1" in record.reason

    async def test_is_never_assumed_of_what_was_refused(self) -> None:
        """A rate limit and a refusal say that nothing was sent."""
        adapter = ScriptedAdapter([RateLimited(0.01), SendFailed("no connection"), FormatRefused("no")])
        bus, record = await delivered(adapter, reply())
        assert {sent.text for sent in adapter.sent} == {"hello"}
        assert (record.marked, bus.ambiguous) == ((), 0)

    async def test_stays_unknown_in_the_ledger_until_it_is_settled(self) -> None:
        """A crash while the platform cannot be asked must not turn it into a plain retry."""
        adapter = AskableAdapter([OutcomeUnknown("cut")], arrived={"r1:0": ("m7",)}, away=[SendFailed("503")])
        bus, _ = await delivered(adapter, reply())
        assert [row.state for row in bus.ledger] == [
            DeliveryState.SENDING,
            DeliveryState.UNKNOWN,
            DeliveryState.UNKNOWN,
        ]


class TestAPlatformThatLetsUsEdit:
    """What cannot be asked for can be made harmless."""

    async def test_costs_nothing_while_all_is_well(self) -> None:
        adapter = EditableAdapter()
        bus, _ = await delivered(adapter, reply())
        assert [sent.text for sent in adapter.sent] == ["hello"]
        assert bus.sent_ids == {"test:1:lane": ["m1"]}

    async def test_gets_a_placeholder_whose_id_is_written_down_before_it_is_edited(self) -> None:
        bus, record = await delivered(EditableAdapter(), reply(), SendRules(placeholder=PlaceholderUse.ALWAYS))
        assert [row.placeholder for row in bus.ledger] == ["?", "m1", "m1"]
        assert (record.platform_ids, record.placeholder) == (("m1",), "")

    async def test_gets_placeholders_after_any_send_of_the_account_got_lost(self) -> None:
        bus = MemoryBus()
        first = EditableAdapter([OutcomeUnknown("cut")], lost="m9", shown={"m9": "hello"})
        await delivered(first, reply(), bus=bus)
        second = EditableAdapter()
        await delivered(second, reply(2), bus=bus)
        assert [sent.text for sent in second.sent] == ["…"]
        assert second.shown == {"m1": "hello"}

    async def test_shows_a_lost_message_which_becomes_the_answer(self) -> None:
        """One unknown message of ours behind the question: whatever it was, it is right now."""
        adapter = EditableAdapter([OutcomeUnknown("cut")], lost="m9", shown={"m9": "what ever"})
        bus, record = await delivered(adapter, reply())
        assert adapter.shown == {"m9": "hello"}
        assert (record.platform_ids, record.marked, bus.ambiguous) == (("m9",), (), 0)

    async def test_is_looked_for_once_however_often_it_is_refused_afterwards(self) -> None:
        """Where questions cost as much as messages, a search before each attempt leaves nothing for the message."""
        adapter = EditableAdapter([OutcomeUnknown("cut"), RateLimited(1.0), RateLimited(1.0)])
        await delivered(adapter, reply())
        assert (adapter.shown, adapter.searches) == ({"m4": "again: hello"}, 1)

    async def test_is_looked_for_again_when_its_next_attempt_gets_lost_too(self) -> None:
        adapter = EditableAdapter([OutcomeUnknown("cut"), RateLimited(1.0), OutcomeUnknown("cut")])
        await delivered(adapter, reply())
        assert (adapter.shown, adapter.searches) == ({"m4": "again: hello"}, 2)

    async def test_repeats_an_edit_whose_outcome_is_unknown(self) -> None:
        """Found in the middle of an edit after a crash: edited again, not sent again."""
        adapter = EditableAdapter(shown={"m4": "…"})
        pending = reply()
        cut = replace(pending.record, state=DeliveryState.SENDING, placeholder="m4")
        await delivered(adapter, replace(pending, record=cut))
        assert (adapter.sent, adapter.shown) == ([], {"m4": "hello"})

    async def test_starts_over_when_somebody_deleted_the_placeholder(self) -> None:
        pending = reply()
        cut = replace(pending.record, state=DeliveryState.SENDING, placeholder="m4")
        adapter = EditableAdapter()
        await delivered(adapter, replace(pending, record=cut))
        assert adapter.shown == {"m1": "hello"}

    async def test_is_sent_where_no_placeholder_can_be_edited(self) -> None:
        """Once, and with no more than one placeholder."""
        adapter = UneditableAdapter()
        _, record = await delivered(adapter, reply(), SendRules(placeholder=PlaceholderUse.ALWAYS))
        assert [sent.text for sent in adapter.sent] == ["…", "hello"]
        assert (record.state, record.platform_ids) == (DeliveryState.SENT, ("m2",))

    async def test_is_told_what_arrived_after_the_ledger_knows_it(self) -> None:
        """Killed in between, the next process finds the chunk done; it neither looks for it nor loses sight of it."""
        pending = reply(text="one|two")
        half = replace(pending.record, state=DeliveryState.PENDING, next_chunk=1, chunks=2, platform_ids=("m5",))
        adapter = EditableAdapter()
        bus, record = await delivered(adapter, replace(pending, record=half))
        assert [sent.text for sent in adapter.sent] == ["two"]
        assert set(bus.sent_ids["test:1:lane"]) == {"m5", "m1"}
        assert record.platform_ids == ("m5", "m1")

    async def test_may_get_a_second_placeholder_without_a_mark(self) -> None:
        """A lost placeholder says nothing twice."""
        pending = reply()
        cut = replace(pending.record, state=DeliveryState.SENDING, placeholder="?")
        adapter = EditableAdapter()
        bus, record = await delivered(adapter, replace(pending, record=cut))
        assert adapter.shown == {"m1": "hello"}
        assert (record.marked, bus.ambiguous) == ((), 0)


class TestAPlaceThatRefusedUs:
    async def test_is_not_tried_again_until_somebody_speaks_there(self) -> None:
        bus = MemoryBus()
        await delivered(ScriptedAdapter([AddressDead("blocked")]), reply(), bus=bus)
        adapter = ScriptedAdapter()
        _, record = await delivered(adapter, reply(2), bus=bus)
        assert (adapter.sent, record.state) == ([], DeliveryState.FAILED)
        assert "blocked" in record.reason
        await bus.mark_alive("test:1:lane")
        _, record = await delivered(adapter, reply(3), bus=bus)
        assert record.state is DeliveryState.SENT


class TestAReplyThatAnotherProcessTookOver:
    async def test_is_left_to_it_without_a_call_of_the_platform(self) -> None:
        adapter, bus = ScriptedAdapter(), MemoryBus(taken_over={"e1"})
        async with delivering(adapter, bus):
            bus.outbound.put_nowait(reply(1))
            bus.outbound.put_nowait(reply(2, text="mine"))
            await bus.until(lambda: "e2" in bus.receipts)
        assert [sent.text for sent in adapter.sent] == ["mine"]
        assert "e1" not in bus.receipts


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


async def test_who_lost_the_platform_leaves_to_another_what_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a reply that it has taken and cannot begin: else it held the lease for ever, where another has the
    connection."""
    monkeypatch.setattr(module, "UNREADY_MAX_S", 0.02)
    monkeypatch.setattr(module, "READY_LOOK_S", 0.02)
    monkeypatch.setattr(module, "ARRIVE_WITHIN_S", 0.02)
    adapter, bus = ScriptedAdapter(), MemoryBus()
    async with delivering(adapter, bus) as running:
        await bus.until(lambda: bus.holder == "c1")
        adapter.is_there = False
        bus.outbound.put_nowait(reply(1))
        await bus.until(lambda: running.in_hand == 1)
        await until(lambda: bus.holder is None)
        assert running.in_hand == 0


class TestTheNextMove:
    """The pure decision behind it all."""

    def test_waits_exactly_as_long_as_a_rate_limit_says(self) -> None:
        move = next_move(RateLimited(7.0), ChunkAttempt(HERE))
        assert isinstance(move, RetryChunk)
        assert (move.wait_s, move.is_exact, move.chunk_attempt.attempt) == (7.0, True, 0)

    def test_ends_an_endless_rate_limit(self) -> None:
        assert isinstance(next_move(RateLimited(1.0), ChunkAttempt(HERE, rate_limits=RATE_LIMITS_MAX)), FailReply)

    def test_ends_an_endless_move(self) -> None:
        assert isinstance(next_move(AddressMoved(ELSEWHERE), ChunkAttempt(HERE, moves=9)), FailReply)

    def test_gives_up_when_even_plain_text_is_refused(self) -> None:
        assert isinstance(next_move(FormatRefused("no"), ChunkAttempt(HERE, is_plain=True)), FailReply)

    def test_never_gives_up_a_young_reply(self) -> None:
        """Processes that die spend its attempts; a storm once lost an answer so."""
        worn = ChunkAttempt(HERE, attempt=DELIVERY_ATTEMPTS_MAX + 5)
        for error in (SendFailed("502"), OutcomeUnknown("cut")):
            assert isinstance(next_move(error, worn), FailReply)
            move = next_move(error, worn, is_young=True)
            assert isinstance(move, RetryChunk)
            assert move.wait_s <= 60

    def test_waits_longer_after_each_failure(self) -> None:
        waits = []
        chunk_attempt = ChunkAttempt(HERE)
        while isinstance(move := next_move(SendFailed("502"), chunk_attempt), RetryChunk):
            waits.append(move.wait_s)
            chunk_attempt = move.chunk_attempt
        assert waits == sorted(waits)
        assert len(waits) == DELIVERY_ATTEMPTS_MAX - 1


def test_a_bus_that_is_away_is_no_delivery_error() -> None:
    """The two trees must not meet: one waits, the other counts attempts."""
    assert not issubclass(BusUnavailable, (SendFailed, OutcomeUnknown))


class _WatchedAdapter(ScriptedAdapter):
    """Says on which thread it renders."""

    def chunks(self, text: CleanText) -> Sequence[AnyChunk]:
        return (threading.current_thread(),)


async def test_a_long_text_is_rendered_beside_the_event_loop() -> None:
    """The longest takes a second and more, in which nobody else's message would come or go."""
    adapter = _WatchedAdapter()
    assert await rendered(adapter, CleanText("a" * RENDERED_AT_ONCE_CHARS_MAX)) == (threading.current_thread(),)
    (thread,) = await rendered(adapter, CleanText("a" * REPLY_CHARS_MAX))
    assert thread is not threading.current_thread()
