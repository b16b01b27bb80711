"""A growing answer in front of a platform that does what it is told: its pace, and what is left of it in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from channels.core import delivery as module
from channels.core.adapter import AnyChunk, StreamCadence
from channels.core.delivery import DeliveryDispatcher, ReplyDelivery
from channels.core.lease import LeaseValidity
from channels.core.places import AddressResolver
from channels.core.preview import AnswerStreams, PreviewCleanup, StreamingAdapter
from channels.core.rate_limit import LaneLocks
from gateway.clock import SystemClock
from gateway.contracts.errors import FormatRefused, OutcomeUnknown, RateLimited
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import Activity, CleanText, DeliveryRecord, DeliveryState, Draft, Preview
from gateway.contracts.ports import Beginning, PendingReply, SendAttempt
from gateway.scrub import Scrubber
from tests.doubles import MemoryBus
from tests.parts.scripted_adapters import ButtonAdapter
from tests.parts.waiting import until
from tests.unit.test_delivery import RULES, reply

HERE = ReplyAddress("test", "lane", "{}")
KEY = SessionKey("test", "u1")


@dataclass
class GrowingAdapter(ButtonAdapter):
    """A platform on which answers grow in messages. `beginnings` are what begins fail with, one by one."""

    pace: StreamCadence = field(default_factory=lambda: StreamCadence(0.0, 0.001, chars_min=1))
    beginnings: list[Exception] = field(default_factory=list)
    taken_back: list[str] = field(default_factory=list)
    changes: int = 0

    def cadence(self, address: ReplyAddress) -> StreamCadence | None:
        return self.pace

    def is_draft(self, address: ReplyAddress) -> bool:
        return False

    async def begin_stream(self, address: ReplyAddress, chunk: AnyChunk, *, send_id: str) -> str:
        if self.beginnings:
            raise self.beginnings.pop(0)
        (message_id,) = await self.send(address, chunk, send_id=send_id, plain=False)
        return message_id

    async def go_on(self, address: ReplyAddress, chunk: AnyChunk, *, message_id: str, send_id: str) -> bool:
        self.changes += 1
        return await self.amend(address, chunk, message_id=message_id, plain=False)

    async def end_stream(self, address: ReplyAddress, *, message_id: str) -> None:
        return

    async def withdraw(self, address: ReplyAddress, *, message_id: str) -> bool:
        self.taken_back.append(message_id)
        self.shown.pop(message_id, None)
        return True


@dataclass
class Stage:
    """A channel with its delivery and its streams."""

    adapter: GrowingAdapter
    bus: MemoryBus
    streams: AnswerStreams

    async def says(self, text: str, number: int = 1) -> None:
        await self.bus.drafted.put(Draft(HERE, KEY, f"t{number}", f"r{number}", CleanText(text)))

    def answers(self, text: str, number: int = 1) -> None:
        self.bus.outbound.put_nowait(reply(number, text))


@asynccontextmanager
async def staged(adapter: GrowingAdapter, bus: MemoryBus | None = None) -> AsyncIterator[Stage]:
    """Everything at work."""
    bus = bus or MemoryBus()
    clock, lane_locks = SystemClock(), LaneLocks()
    addresses, validity = AddressResolver(adapter, bus), LeaseValidity()
    assert isinstance(adapter, StreamingAdapter)
    streams = AnswerStreams(adapter, bus, bus, Scrubber(), clock, addresses, validity, lane_locks)
    courier = ReplyDelivery(
        adapter, bus, bus, bus, Scrubber(), clock, addresses, validity, rules=RULES, delay_scale=0.0
    )
    delivery = DeliveryDispatcher(
        adapter, bus, courier, addresses, validity, consumer="c1", lane_locks=lane_locks, coming=streams.coming
    )
    running = [asyncio.create_task(delivery.run())]
    await until(lambda: validity.is_sure)
    running.append(asyncio.create_task(streams.run()))
    try:
        yield Stage(adapter, bus, streams)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def test_the_ledger_knows_of_a_message_before_the_platform_does() -> None:
    seen: list[dict[str, Preview]] = []

    class Watching(GrowingAdapter):
        async def begin_stream(self, address: ReplyAddress, chunk: AnyChunk, *, send_id: str) -> str:
            seen.append(dict(bus.shown))
            return await super().begin_stream(address, chunk, send_id=send_id)

    bus = MemoryBus()
    async with staged(Watching(), bus) as stage:
        await stage.says("This")
        await until(lambda: stage.adapter.shown == {"m1": "This"})
        await until(lambda: bus.shown["r1"].messages == ("m1",))
        assert (seen[0]["r1"].opening, seen[0]["r1"].messages) == ("This", ())
        stage.answers("This is it")
        await until(lambda: "e1" in bus.receipts)
    assert stage.adapter.shown == {"m1": "This is it"}
    assert bus.receipts["e1"].record.platform_ids == ("m1",)
    assert bus.shown == {}


async def test_the_answer_ends_what_grew() -> None:
    """A draft that comes late changes nothing any more."""
    async with staged(GrowingAdapter()) as stage:
        await stage.says("This")
        await until(lambda: bool(stage.adapter.shown))
        stage.answers("This is it")
        await until(lambda: "e1" in stage.bus.receipts)
        await stage.says("This is i")
        await asyncio.sleep(0.05)
    assert stage.adapter.shown == {"m1": "This is it"}


async def test_messages_that_the_answer_does_not_need_are_taken_away() -> None:
    async with staged(GrowingAdapter()) as stage:
        await stage.says("one|two|three")
        await until(lambda: len(stage.adapter.shown) == 3)
        stage.answers("Something went wrong.")
        await until(lambda: "e1" in stage.bus.receipts)
    assert stage.adapter.shown == {"m1": "Something went wrong."}
    assert stage.adapter.taken_back == ["m2", "m3"]


async def test_no_draft_comes_before_an_earlier_answer_of_its_lane() -> None:
    gate = asyncio.Event()
    async with staged(GrowingAdapter(hold_lanes={"lane": gate})) as stage:
        stage.answers("one", 1)
        stage.answers("two", 2)
        await until(lambda: stage.bus.outbound.empty())
        await stage.says("three", 3)
        await asyncio.sleep(0.05)  # the draft waits for its lane, between the two answers
        gate.set()
        await until(lambda: len(stage.adapter.sent) > 2)
    assert [sent.text for sent in stage.adapter.sent] == ["one", "two", "three"]


@dataclass
class LeftBus(MemoryBus):
    """Knows when nobody reads from it any more, and how often a draft asked whether it may begin."""

    looks: int = 0
    is_left: bool = False

    async def replies(self, channel: str, consumer: str, *, count: int, wait_s: float) -> Sequence[PendingReply]:
        try:
            return await super().replies(channel, consumer, count=count, wait_s=wait_s)
        except asyncio.CancelledError:
            self.is_left = True
            raise

    async def has_taken_all(self, channel: str, key: SessionKey) -> bool:
        self.looks += 1
        return await super().has_taken_all(channel, key)


async def test_no_draft_comes_before_an_answer_that_is_left_to_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The platform was away for too long: a lane leaves what waits in it, while another one ends what it had begun."""
    monkeypatch.setattr(module, "UNREADY_MAX_S", 0.02)
    monkeypatch.setattr(module, "READY_LOOK_S", 0.02)
    ours, others = asyncio.Event(), asyncio.Event()
    adapter, bus = GrowingAdapter(hold_lanes={"lane": ours, "other": others}), LeftBus()
    async with staged(adapter, bus) as stage:
        stage.answers("one", 1)
        stage.answers("two", 2)
        stage.bus.outbound.put_nowait(reply(9, "nine", lane="other"))
        await until(lambda: len(stage.bus.ledger) == 2)
        adapter.is_there = False
        await until(lambda: bus.is_left)
        ours.set()
        await until(lambda: "e1" in stage.bus.receipts)
        await stage.says("three", 3)
        await until(lambda: bus.looks > 1 or len(adapter.sent) > 1)
        assert [sent.text for sent in adapter.sent] == ["one"]
        others.set()


@dataclass
class UnreadBus(MemoryBus):
    """Where an earlier answer is still with a process that does not deliver any more."""

    is_unread: bool = True

    async def has_taken_all(self, channel: str, key: SessionKey) -> bool:
        return not self.is_unread


async def test_no_draft_comes_before_an_answer_that_nobody_delivers_yet() -> None:
    bus = UnreadBus()
    async with staged(GrowingAdapter(), bus) as stage:
        await stage.says("This")
        await asyncio.sleep(0.05)
        assert stage.adapter.shown == {}
        bus.is_unread = False
        await until(lambda: stage.adapter.shown == {"m1": "This"})


@dataclass
class SuspendedBus(MemoryBus):
    """Where another process wakes, and begins one more message, after the preview was looked for."""

    has_woken: bool = False

    async def begin(self, channel: str, entry_id: str, attempt: SendAttempt) -> Beginning | None:
        if attempt.adopts and not self.has_woken:
            self.has_woken = True
            row = self.shown[attempt.reply_id]
            await self.note_preview(channel, replace(row, messages=(*row.messages, "m9")))
        return await super().begin(channel, entry_id, attempt)


async def test_a_message_that_another_process_began_late_is_the_answers_too() -> None:
    """What was found is looked for again, until the ledger has it."""
    async with staged(GrowingAdapter(), SuspendedBus()) as stage:
        await stage.says("This")
        await until(lambda: bool(stage.bus.shown))
        stage.answers("This is it")
        await until(lambda: "e1" in stage.bus.receipts)
    assert stage.adapter.shown == {"m1": "This is it"}
    assert (stage.adapter.taken_back, stage.bus.shown) == (["m9"], {})
    assert stage.bus.receipts["e1"].record.platform_ids == ("m1",)


async def test_what_was_shown_in_a_place_that_is_dead_is_taken_away() -> None:
    """Nothing is sent there; nobody looks for the preview afterwards."""
    async with staged(GrowingAdapter()) as stage:
        await stage.says("This")
        await until(lambda: bool(stage.bus.shown) and bool(stage.bus.shown["r1"].messages))
        stage.bus.graves[f"{stage.adapter.account}:lane"] = "blocked"
        stage.answers("This is it")
        await until(lambda: "e1" in stage.bus.receipts and not stage.bus.shown)
    assert (stage.adapter.shown, stage.adapter.taken_back) == ({}, ["m1"])
    assert stage.bus.receipts["e1"].record.state is DeliveryState.FAILED


async def test_after_an_unknown_outcome_nothing_more_is_begun() -> None:
    """The delivery of the answer finds out what became of it."""
    async with staged(GrowingAdapter(beginnings=[OutcomeUnknown("cut")])) as stage:
        await stage.says("This")
        await until(lambda: not stage.adapter.beginnings)
        await stage.says("This grows")
        await asyncio.sleep(0.05)
        assert stage.adapter.shown == {}
        assert stage.bus.shown["r1"].opening == "This"
        stage.answers("This is it")
        await until(lambda: "e1" in stage.bus.receipts)
    assert stage.adapter.shown == {"m1": "This is it"}
    assert stage.bus.ambiguous == 1


async def test_a_refused_text_is_tried_a_few_times_and_then_left_to_the_answer() -> None:
    refusals: list[Exception] = [FormatRefused("no") for _ in range(9)]
    async with staged(GrowingAdapter(beginnings=refusals)) as stage:
        for length in range(1, 9):
            await stage.says("This is the end"[: length + 4])
            await until(lambda: len(refusals) <= max(9 - length, 6))  # noqa: B023 - called in this round only
        stage.answers("This is the end.")
        await until(lambda: "e1" in stage.bus.receipts)
    assert len(refusals) == 6
    assert list(stage.adapter.shown.values()) == ["This is the end."]


async def test_a_rate_limit_is_told_to_everybody_who_writes_there() -> None:
    async with staged(GrowingAdapter(beginnings=[RateLimited(0.05)])) as stage:
        await stage.says("This")
        await until(lambda: stage.adapter.shown == {"m1": "This"})
    assert [for_s for _, for_s in stage.bus.paused] == [0.05]


async def test_drafts_spend_only_what_answers_leave_over() -> None:
    bus = MemoryBus(waits_s=[1.0] * 100_000)
    async with staged(GrowingAdapter(), bus) as stage:
        await stage.says("This")
        await until(lambda: len(bus.waits_s) < 100_000)
        assert stage.adapter.shown == {}
        bus.waits_s.clear()
        await until(lambda: stage.adapter.shown == {"m1": "This"})


async def test_what_a_silent_turn_began_is_taken_away() -> None:
    """Its process died, and nobody took it up."""
    preview = Preview(HERE, KEY, "t1", "r1", ("m1", "m2"))
    adapter, bus = GrowingAdapter(shown={"m1": "half", "m2": "an answer"}), MemoryBus(shown={"r1": preview})
    async with staged(adapter, bus) as stage:
        await leftovers(stage, silent_for_s=60.0).look()
        assert len(adapter.shown) == 2
        await leftovers(stage, silent_for_s=-1.0).look()
    assert (adapter.shown, bus.shown) == ({}, {})


async def test_what_the_answer_has_made_its_own_stays() -> None:
    """A process died between two notes; another slept through the whole delivery and began one more."""
    preview = Preview(HERE, KEY, "t1", "r1", ("m1", "m9"))
    adapter, bus = GrowingAdapter(shown={"m1": "the answer", "m9": "half"}), MemoryBus(shown={"r1": preview})
    bus.ledger.append(DeliveryRecord("r1", DeliveryState.SENT, platform_ids=("m1",), updated_at_ms=1))
    async with staged(adapter, bus) as stage:
        await leftovers(stage, silent_for_s=60.0).look()
    assert (adapter.shown, bus.shown) == ({"m1": "the answer"}, {})


async def test_a_turn_that_ends_without_an_answer_leaves_nothing() -> None:
    async with staged(GrowingAdapter()) as stage:
        await stage.says("one|two")
        await until(lambda: len(stage.adapter.shown) == 2)
        stage.streams.heard(Activity(HERE, "t1", 0.0, ended=True))
        await until(lambda: stage.adapter.shown == {})


async def test_a_late_draft_of_a_turn_that_has_ended_begins_nothing() -> None:
    """Drafts and ends come on wires of their own."""
    async with staged(GrowingAdapter()) as stage:
        stage.streams.heard(Activity(HERE, "t1", 0.0, ended=True))
        await stage.says("one", 1)
        await stage.says("other", 2)
        await until(lambda: list(stage.adapter.shown.values()) == ["other"])
    assert list(stage.bus.shown) == ["r2"]


async def test_what_could_not_be_taken_away_at_once_goes_with_the_next_look() -> None:
    """Nobody waits until its turn counts as silent."""
    preview = Preview(HERE, KEY, "t1", "r1", ("m1",))

    class Busy(GrowingAdapter):
        async def withdraw(self, address: ReplyAddress, *, message_id: str) -> bool:
            if not self.taken_back:
                self.taken_back.append(message_id)
                raise RateLimited(0.05)
            return await super().withdraw(address, message_id=message_id)

    adapter, bus = Busy(shown={"m1": "half"}), MemoryBus(shown={"r1": preview})
    async with staged(adapter, bus) as stage:
        left = leftovers(stage, silent_for_s=60.0)
        left.ended("t1")
        await left.take_away("t1")
        assert adapter.shown == {"m1": "half"}
        left.lives("t1")
        await left.look()
    assert (adapter.shown, bus.shown) == ({}, {})


async def test_two_answers_grow_in_one_place_each_in_its_own_message() -> None:
    async with staged(GrowingAdapter()) as stage:
        await stage.says("one", 1)
        await stage.says("other", 2)
        await until(lambda: sorted(stage.adapter.shown.values()) == ["one", "other"])
        stage.answers("the other one", 2)
        stage.answers("the one", 1)
        await until(lambda: len(stage.bus.receipts) == 2)
    assert sorted(stage.adapter.shown.values()) == ["the one", "the other one"]


def leftovers(stage: Stage, *, silent_for_s: float) -> PreviewCleanup:
    """Those of a channel whose turns are silent after that."""
    return PreviewCleanup(stage.streams.parts, lambda reply_id: False, silent_for_s=silent_for_s)
