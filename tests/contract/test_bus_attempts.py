"""An attempt at a reply: all that speaks for and against it is judged, and only then the ledger says `sending`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

import pytest

from channels.core.attempt import SendRules
from channels.core.delivery import ReplyDelivery
from channels.core.lease import LeaseValidity
from channels.core.places import AddressResolver
from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.heartbeat import ProcessName
from gateway.bus.scripts import Word, all_scripts
from gateway.bus.shards import Shard
from gateway.clock import SystemClock
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.messages import DeliveryRecord, DeliveryState, Preview, Receipt, Reply
from gateway.contracts.ports import Beginning, Destination, PendingReply, SendAttempt, SentMessages, TokenWish
from gateway.scrub import Scrubber
from tests.parts.bus_samples import address, reply
from tests.parts.scripted_adapters import EditableAdapter, ScriptedAdapter
from tests.unit.test_streaming import GrowingAdapter

ACCOUNT: Final = "telegram:7"
HERE: Final = Destination(ACCOUNT, f"{ACCOUNT}:-100", f"{ACCOUNT}:100")
CHAT: Final = TokenWish("chat", per_s=0.01, burst=3)
BOT: Final = TokenWish("bot", per_s=0.01, burst=30)
PREVIEW: Final = Preview(address(), reply(1).key, reply(1).turn_id, reply(1).id, ("11", "12"))


async def taken(bus: RedisBus, *replies: Reply) -> Sequence[PendingReply]:
    """What is published and handed out."""
    await bus.deliveries.publish(replies)
    return await bus.deliveries.replies("telegram", "c1", count=10, wait_s=5)


def first(pending: PendingReply, number: int = 1, *, wishes: tuple[TokenWish, ...] = (CHAT, BOT)) -> SendAttempt:
    """An attempt by somebody who knows nothing of the reply."""
    sending = replace(pending.record, state=DeliveryState.SENDING, chunks=1, begun_at_ms=1, updated_at_ms=number)
    return SendAttempt(f"attempt-{number}", pending.reply.id, HERE, sending, wishes, is_first=True)


async def begun(bus: RedisBus, pending: PendingReply, attempt: SendAttempt) -> Beginning:
    """What became of it, by whoever has the entry."""
    beginning = await bus.deliveries.begin("telegram", pending.entry_id, attempt)
    assert beginning is not None
    return beginning


async def row(bus: RedisBus, pending: PendingReply) -> DeliveryRecord:
    return await bus.deliveries.delivered(pending.reply.key, pending.reply.id)


async def tokens_left(bus: RedisBus, wish: TokenWish = CHAT) -> int:
    """How many tokens the bucket still has for answers; none are left behind."""
    left = 0
    while await bus.deliveries.take_send_tokens(ACCOUNT, [wish]) == 0:
        left += 1
    return left


async def test_it_begins_at_once_where_nothing_is_known(bus: RedisBus) -> None:
    (pending,) = await taken(bus, reply(1))
    beginning = await begun(bus, pending, first(pending))
    assert (beginning.has_begun, beginning.wait_s, beginning.dead_because) == (True, 0.0, "")
    assert await row(bus, pending) == beginning.record == first(pending).record
    assert await tokens_left(bus) == 2


async def test_who_comes_later_finds_that_it_was_begun_and_spends_nothing(bus: RedisBus) -> None:
    (pending,) = await taken(bus, reply(1))
    await begun(bus, pending, first(pending))
    found = await begun(bus, pending, first(pending, 2))
    assert (found.has_begun, found.record) == (False, first(pending).record)
    assert await tokens_left(bus) == 2


async def test_the_same_attempt_begins_once_however_often_it_is_asked_for(bus: RedisBus) -> None:
    """Its answer was lost, so the same call is made again."""
    (pending,) = await taken(bus, reply(1))
    for _ in range(3):
        beginning = await begun(bus, pending, first(pending))
        assert (beginning.has_begun, beginning.record) == (True, first(pending).record)
    assert await tokens_left(bus) == 2


async def test_a_look_writes_and_spends_nothing(bus: RedisBus) -> None:
    (pending,) = await taken(bus, reply(1))
    found = await begun(bus, pending, replace(first(pending), record=None))
    assert (found.has_begun, found.record, found.preview) == (False, pending.record, None)
    assert await row(bus, pending) == DeliveryRecord(reply(1).id, DeliveryState.PENDING)
    assert await tokens_left(bus) == 3


async def test_a_dead_place_is_not_written_to_until_somebody_speaks_there(bus: RedisBus) -> None:
    (pending,) = await taken(bus, reply(1))
    await bus.places.mark_dead(ACCOUNT, HERE.place, reason="blocked")
    found = await begun(bus, pending, first(pending))
    assert (found.has_begun, found.dead_because, found.is_account_unsure) == (False, "blocked", False)
    await bus.places.mark_alive(HERE.place)
    assert (await begun(bus, pending, first(pending))).has_begun
    assert await tokens_left(bus) == 2


async def test_an_account_in_doubt_is_told_of_and_no_other(bus: RedisBus) -> None:
    """Its sends go out in another way, which the caller has to choose."""
    (pending,) = await taken(bus, reply(1))
    await bus.places.mark_unsure(ACCOUNT)
    found = await begun(bus, pending, first(pending))
    assert (found.has_begun, found.dead_because, found.is_account_unsure) == (False, "", True)
    elsewhere = replace(first(pending), destination=replace(HERE, account="telegram:8"))
    assert (await begun(bus, pending, elsewhere)).has_begun


async def test_who_knows_all_that_begins_nevertheless(bus: RedisBus) -> None:
    """What was cut off is finished, whatever the place is said to be."""
    (pending,) = await taken(bus, reply(1))
    await begun(bus, pending, first(pending))
    await bus.places.mark_dead(ACCOUNT, HERE.place, reason="blocked")
    await bus.places.mark_unsure(ACCOUNT)
    assert (await begun(bus, pending, replace(first(pending, 2), is_first=False))).has_begun
    assert (await row(bus, pending)).updated_at_ms == 2


async def test_without_a_token_of_each_bucket_nothing_is_written_or_spent(bus: RedisBus) -> None:
    (pending,) = await taken(bus, reply(1))
    empty = replace(CHAT, bucket="other chat", burst=1)
    assert await tokens_left(bus, empty) == 1
    waiting = await begun(bus, pending, first(pending, wishes=(empty, BOT)))
    assert not waiting.has_begun
    assert 90 < waiting.wait_s <= 100
    assert await row(bus, pending) == DeliveryRecord(reply(1).id, DeliveryState.PENDING)
    assert await tokens_left(bus, BOT) == 30


async def test_an_answer_never_waits_for_what_may_be_left_out(bus: RedisBus) -> None:
    """Edits spend what is over; answers pass as if there had been none; then edits wait until that is made up for."""
    edit = replace(CHAT, spare=1.0)
    take = bus.deliveries.take_send_tokens
    assert [await take(ACCOUNT, [edit]) for _ in range(2)] == [0, 0]
    assert 90 < await take(ACCOUNT, [edit]) <= 100
    assert await tokens_left(bus) == 3
    assert 390 < await take(ACCOUNT, [edit]) <= 400


async def test_indicators_are_left_out_before_edits(bus: RedisBus) -> None:
    edit, indicator = replace(CHAT, spare=1.0), replace(CHAT, spare=2.0)
    take = bus.deliveries.take_send_tokens
    assert await take(ACCOUNT, [indicator]) == 0
    assert await take(ACCOUNT, [indicator]) > 90
    assert await take(ACCOUNT, [edit]) == 0


async def test_a_preview_is_shown_to_whoever_comes_first_and_then_adopted(bus: RedisBus) -> None:
    (pending,) = await taken(bus, reply(1))
    assert await bus.deliveries.note_preview("telegram", PREVIEW)
    found = await begun(bus, pending, first(pending))
    assert (found.has_begun, found.preview) == (False, PREVIEW)
    assert (await begun(bus, pending, adopting(pending, found))).has_begun
    assert (await row(bus, pending)).shown == ("11", "12")
    assert await bus.deliveries.preview("telegram", PREVIEW.key, PREVIEW.reply_id) is None
    assert await bus.places.sent_lately(HERE.sent_place) == {"11", "12"}
    assert not await bus.deliveries.note_preview("telegram", PREVIEW)


async def test_a_preview_that_has_changed_meanwhile_is_not_adopted(bus: RedisBus) -> None:
    """Somebody who was suspended has begun one more message, which nobody may forget."""
    (pending,) = await taken(bus, reply(1))
    await bus.deliveries.note_preview("telegram", PREVIEW)
    found = await begun(bus, pending, first(pending))
    longer = replace(PREVIEW, messages=("11", "12", "13"))
    await bus.deliveries.note_preview("telegram", longer)
    late = await begun(bus, pending, adopting(pending, found))
    assert (late.has_begun, late.preview) == (False, longer)
    assert (await row(bus, pending)).shown == ()
    assert await bus.places.sent_lately(HERE.sent_place) == frozenset()


async def test_who_lost_a_reply_to_another_process_begins_nothing(bus: RedisBus, valkey_url: str) -> None:
    successor = await open_bus(valkey_url, process=ProcessName("elsewhere", 1, 1))
    (pending,) = await taken(bus, reply(1))
    (again,) = await successor.deliveries.replies("telegram", "c1", count=10, wait_s=5)
    assert await bus.deliveries.begin("telegram", pending.entry_id, first(pending)) is None
    assert await tokens_left(bus) == 3
    assert (await begun(successor, again, first(again, 2, wishes=()))).has_begun
    await successor.close()


async def test_what_has_arrived_is_remembered_with_the_row_that_says_so(bus: RedisBus) -> None:
    (pending,) = await taken(bus, reply(1))
    await begun(bus, pending, first(pending))
    arrived = replace(pending.record, next_chunk=1, chunks=2, platform_ids=("21",), updated_at_ms=3)
    sent = SentMessages(HERE.sent_place, ("21",))
    assert await bus.deliveries.record("telegram", pending.entry_id, arrived, sent=sent)
    assert await row(bus, pending) == arrived
    assert await bus.places.sent_lately(HERE.sent_place) == {"21"}
    end = Receipt(replace(arrived, state=DeliveryState.SENT, platform_ids=("21", "22")), pending.reply.key, "telegram")
    for _ in range(2):
        finished = SentMessages(HERE.sent_place, ("21", "22"))
        await bus.deliveries.finish("telegram", pending.entry_id, end, sent=finished)
    assert await row(bus, pending) == end.record
    assert await bus.places.sent_lately(HERE.sent_place) == {"21", "22"}
    assert await receipts(bus) == [end]


def adopting(pending: PendingReply, found: Beginning) -> SendAttempt:
    """The next attempt of somebody who found a preview."""
    assert found.preview is not None
    attempt = first(pending, 2)
    assert attempt.record is not None
    record = replace(attempt.record, shown=found.preview.messages)
    return replace(attempt, record=record, is_first=False, adopts=found.preview_row)


async def receipts(bus: RedisBus) -> list[Receipt]:
    await bus.lanes.register("w1", lease_ttl_s=60)
    found = await bus.deliveries.take_receipts("w1", count=10, wait_s=0)
    await bus.deliveries.finish_receipts([entry_id for entry_id, _ in found])
    return [receipt for _, receipt in found]


# --- deaths and cut connections between the steps: one on a single server, several on a Cluster

STEPS_MAX: Final = 4


@asynccontextmanager
async def cut_at(monkeypatch: pytest.MonkeyPatch, step: int, *, is_done: bool) -> AsyncIterator[list[str]]:
    """The names of the scripts that are run; the one at `step` fails, and the server has done it or not."""
    run, names = Shard.run_script, list[str]()

    async def run_or_cut(shard: Shard, name: str, keys: Sequence[str] = (), arguments: Sequence[Word] = ()) -> Any:
        names.append(name)
        is_struck = len(names) == step + 1
        if is_struck and not is_done:
            raise BusUnavailable("cut before")
        answer = await run(shard, name, keys, arguments)
        if is_struck:
            raise BusUnavailable("cut after")
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(Shard, "run_script", run_or_cut)
        yield names


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
async def test_a_connection_that_is_cut_at_any_step_begins_one_attempt(
    bus: RedisBus, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    """The caller asks again, by the same id, and has begun: nothing looks like the attempt of somebody who died."""
    for step in range(STEPS_MAX):
        (pending,) = await taken(bus, reply(step))
        attempt = first(pending, wishes=(replace(CHAT, bucket=f"chat-{step}"),))
        async with cut_at(monkeypatch, step, is_done=is_done) as names:
            try:
                await begun(bus, pending, attempt)
            except BusUnavailable:
                assert names[-1] in ("begin_delivery", "take_tokens", "note_sent")
        assert (await begun(bus, pending, attempt)).has_begun
        assert await row(bus, pending) == attempt.record


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
async def test_a_death_at_any_step_leaves_no_message_that_is_known_and_yet_looked_for(
    bus: RedisBus, valkey_url: str, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    """Whoever takes over finds a row that is to be looked up, or one that says what has arrived; and ends it once."""
    successor = await open_bus(valkey_url, process=ProcessName("elsewhere", 1, 1))
    for step in range(STEPS_MAX):
        (pending,) = await taken(bus, reply(step))
        await begun(bus, pending, first(pending, wishes=()))
        ended = replace(pending.record, state=DeliveryState.SENT, next_chunk=1, platform_ids=(f"m{step}",))
        end = Receipt(ended, pending.reply.key, "telegram")
        async with cut_at(monkeypatch, step, is_done=is_done):
            try:
                sent = SentMessages(HERE.sent_place, ended.platform_ids)
                await bus.deliveries.finish("telegram", pending.entry_id, end, sent=sent)
            except BusUnavailable:
                pass
        now = await row(bus, pending)
        is_remembered = f"m{step}" in await bus.places.sent_lately(HERE.sent_place)
        assert now.platform_ids or not is_remembered
        for again in await successor.deliveries.replies("telegram", f"c{step}", count=10, wait_s=0):
            assert now.state in (DeliveryState.SENDING, DeliveryState.PENDING)
            assert not (await begun(successor, again, first(again, 2, wishes=()))).has_begun
            await successor.deliveries.finish("telegram", again.entry_id, end)
        assert await receipts(bus) == [end]
    await successor.close()


# --- how often the server is asked

GREETINGS: Final = ("AUTH", "CLIENT")  # of the connection by which the test says that it is over


async def asked_for(bus: RedisBus, raw_redis: Any, adapter: ScriptedAdapter, pending: PendingReply) -> list[str]:
    """The scripts and commands of one delivery, as the server saw them."""
    addresses, validity = AddressResolver(adapter, bus.places), LeaseValidity()
    validity.until_s = float("inf")
    delivery = ReplyDelivery(
        adapter,
        bus.deliveries,
        bus.places,
        bus.files,
        Scrubber(),
        SystemClock(),
        addresses,
        validity,
        rules=SendRules(),
    )
    scripts, heard = {script.sha: script.name for script in all_scripts()}, list[str]()
    with raw_redis.monitor() as monitor:
        await delivery.deliver(pending)
        raw_redis.echo("over")
        while (told := monitor.next_command())["command"] != "ECHO over":
            name, *rest = told["command"].split()
            if told["client_type"] != "lua" and name not in GREETINGS:
                heard.append(scripts.get(rest[0], name))
    return heard


@pytest.mark.parametrize(
    "adapter",
    [ScriptedAdapter(name="telegram"), EditableAdapter(name="telegram")],
    ids=["found by asking", "found by editing"],
)
async def test_an_answer_costs_two_trips(bus: RedisBus, raw_redis: Any, adapter: ScriptedAdapter) -> None:
    (pending,) = await taken(bus, reply(1))
    assert await asked_for(bus, raw_redis, adapter, pending) == ["begin_delivery", "end_delivery"]


async def test_an_answer_that_was_shown_while_it_grew_costs_three(bus: RedisBus, raw_redis: Any) -> None:
    (pending,) = await taken(bus, reply(1))
    await bus.deliveries.note_preview("telegram", replace(PREVIEW, messages=("m1",)))
    adapter = GrowingAdapter(name="telegram", shown={"m1": "hello"})
    asked = await asked_for(bus, raw_redis, adapter, pending)
    assert asked == ["begin_delivery", "begin_delivery", "end_delivery"]
    assert adapter.shown == {"m1": "hello yourself"}
