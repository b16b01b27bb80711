"""The two transactions of a turn, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import select

from gateway.contracts.errors import Fenced, StoreError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, DeliveryState, InboundMessage
from gateway.contracts.sessions import Entry, OpenSession, Role, SetTitle, ToolCall, TurnCommit, TurnState
from gateway.store import Store, open_store
from gateway.store.tables import turns, usage
from tests.contract.store_samples import (
    ANN,
    ANN_IN_GROUP,
    BOB,
    SHARED_GROUP,
    answer,
    begin,
    call,
    ended,
    outcome,
    reply,
    rows,
    says,
    talk,
    unsent,
)
from tests.parts.effects import apply_effects


def test_the_sql_store_is_a_store(sqlite_url: str) -> None:
    """mypy holds the store to its Protocol here."""
    port: Store = open_store(sqlite_url)
    assert isinstance(port, Store)


# --- begin


async def test_the_first_message_opens_the_first_session(store: Store) -> None:
    start = await begin(store, "t1", [says(ANN, "hello", id_="m1")])
    assert (start.session.number, start.session.title, start.session.is_current) == (1, "New Chat", True)
    assert start.session.key == ANN
    assert start.fresh_ids == {"m1"}
    assert start.unsent == ()


async def test_what_the_user_said_is_stored_before_any_answer(store: Store) -> None:
    start = await begin(store, "t1", [says(ANN, "one", id_="m1"), says(ANN, "two", id_="m2")])
    stored = await store.transcript.view(start.session.id)
    assert [(entry.seq, entry.role, entry.text, entry.message_id) for entry in stored] == [
        (1, Role.USER, "one", "m1"),
        (2, Role.USER, "two", "m2"),
    ]
    assert start.session.message_count == 2


async def test_an_idle_session_is_followed_by_the_next_message(store: Store) -> None:
    """Once: a begin that is repeated, by its own worker or another after a crash, finds the new session and not a third
    one. The old one is closed and waits to be gone through, as after /new."""
    old = await begin(store, "t1", [says(ANN, "hello", id_="m1")], now_ms=1_000)
    await store.turns.commit(replace(outcome(old, "t1", [says(ANN, "hello", id_="m1")]), finished_at_ms=2_000))
    messages = [says(ANN, "hello again", id_="m2")]
    for turn_id, fence in (("t2", 2), ("t2", 2), ("t3", 3)):
        start = await begin(store, turn_id, messages, fence=fence, now_ms=9_000, idle_since_ms=2_000)
        assert (start.session.number, start.fresh_ids) == (2, frozenset({"m2"}))
        assert [entry.text for entry in await store.transcript.view(start.session.id)] == ["hello again"]
    boundary = await store.memories.claim_boundary(ANN, now_ms=9_000, for_ms=1)
    assert boundary is not None
    assert boundary.session_id == old.session.id
    assert [session.status.value for session in await store.sessions.page(key=ANN)] == ["active", "closed"]


@pytest.mark.parametrize("idle_since_ms", [0, 1_999])
async def test_a_session_that_is_not_idle_goes_on(store: Store, idle_since_ms: int) -> None:
    old = await begin(store, "t1", [says(ANN, "hello", id_="m1")], now_ms=1_000)
    await store.turns.commit(replace(outcome(old, "t1", [says(ANN, "hello", id_="m1")]), finished_at_ms=2_000))
    start = await begin(store, "t2", [says(ANN, "more", id_="m2")], fence=2, now_ms=9_000, idle_since_ms=idle_since_ms)
    assert start.session.id == old.session.id


async def test_nothing_but_the_words_of_a_person_ends_an_idle_session(store: Store) -> None:
    """No command, which is about the session that is there; no message that was answered; nothing while a turn is
    unfinished, for whose answer somebody waits."""
    old = await begin(store, "t1", [says(ANN, "hello", id_="m1")], now_ms=1_000)
    unfinished = await begin(store, "t2", [says(ANN, "hello", id_="m1")], fence=2, now_ms=9_000, idle_since_ms=5_000)
    assert unfinished.session.id == old.session.id
    done = outcome(unfinished, "t2", [says(ANN, "hello", id_="m1")], fence=2)
    await store.turns.commit(replace(done, finished_at_ms=2_000))
    command = await begin(
        store, "t3", [says(ANN, "/undo", id_="m2")], fence=3, now_ms=2_000, is_said=False, idle_since_ms=5_000
    )
    done = outcome(command, "t3", [says(ANN, "/undo", id_="m2")], fence=3)
    await store.turns.commit(replace(done, finished_at_ms=2_000))
    again = await begin(store, "t1", [says(ANN, "hello", id_="m1")], fence=4, now_ms=9_000, idle_since_ms=5_000)
    assert (command.session.id, again.session.id) == (old.session.id, old.session.id)


async def test_a_message_given_twice_in_one_batch_is_one_message(store: Store) -> None:
    message = says(ANN, "hello", id_="m1")
    start = await begin(store, "t1", [message, message])
    assert len(await store.transcript.view(start.session.id)) == 1


async def test_a_crashed_turn_begins_again_without_storing_its_message_twice(store: Store) -> None:
    """Its user entry is there, nobody answered it: it is fresh, and it stays one entry."""
    messages = [says(ANN, "hello", id_="m1")]
    first = await begin(store, "t1", messages, fence=1)
    again = await begin(store, "t2", messages, fence=2)
    assert again.fresh_ids == {"m1"}
    assert again.session.id == first.session.id
    assert [entry.text for entry in await store.transcript.view(first.session.id)] == ["hello"]
    assert again.session.message_count == 1


async def test_the_same_claim_may_begin_again(store: Store) -> None:
    """After a lost connection the worker cannot know whether its begin arrived; its fence has not changed."""
    messages = [says(ANN, "hello", id_="m1")]
    await begin(store, "t1", messages, fence=7)
    again = await begin(store, "t1", messages, fence=7)
    assert again.fresh_ids == {"m1"}
    await store.turns.commit(outcome(again, "t1", messages, fence=7))


async def test_an_older_worker_may_not_begin(store: Store) -> None:
    messages = [says(ANN, "hello", id_="m1")]
    await begin(store, "t1", messages, fence=5)
    with pytest.raises(Fenced):
        await begin(store, "t0", [says(ANN, "late", id_="m0")], fence=4)
    session = await store.sessions.current(ANN)
    assert session is not None
    assert [entry.message_id for entry in await store.transcript.view(session.id)] == ["m1"]


async def test_an_answered_message_is_never_fresh_again(store: Store) -> None:
    messages = [says(ANN, "hello", id_="m1")]
    start = await begin(store, "t1", messages)
    await store.turns.commit(outcome(start, "t1", messages))
    again = await begin(store, "t2", messages, fence=2)
    assert again.fresh_ids == frozenset()
    assert len(await store.transcript.view(start.session.id)) == 2


async def test_a_redelivered_message_brings_back_the_reply_that_was_not_sent(store: Store) -> None:
    messages = [says(ANN, "hello", id_="m1")]
    start = await begin(store, "t1", messages)
    done = outcome(start, "t1", messages, text="hi Ann")
    await store.turns.commit(done)
    assert (await begin(store, "t2", messages, fence=2)).unsent == done.outbox
    await store.outbox.record_receipts([ended("t1:0", DeliveryState.SENT)])
    assert (await begin(store, "t3", messages, fence=3)).unsent == ()


async def test_a_failed_delivery_is_not_sent_again_by_a_redelivery(store: Store) -> None:
    messages = [says(ANN, "hello", id_="m1")]
    start = await begin(store, "t1", messages)
    await store.turns.commit(outcome(start, "t1", messages))
    await store.outbox.record_receipts([ended("t1:0", DeliveryState.FAILED)])
    assert (await begin(store, "t2", messages, fence=2)).unsent == ()


async def test_of_a_mixed_batch_only_the_new_messages_are_fresh(store: Store) -> None:
    """A re-claim may batch differently: identity is per message."""
    old, new = says(ANN, "old", id_="m1"), says(ANN, "new", id_="m2")
    start = await begin(store, "t1", [old])
    done = outcome(start, "t1", [old])
    await store.turns.commit(done)
    again = await begin(store, "t2", [old, new], fence=2)
    assert again.fresh_ids == {"m2"}
    assert again.unsent == done.outbox
    assert [entry.text for entry in await store.transcript.view(start.session.id)] == ["old", "fine", "new"]


async def test_an_unanswered_message_follows_into_the_next_session(store: Store) -> None:
    """The session was closed under a crashed turn: the model must see the message where it answers it."""
    messages = [says(ANN, "hello", id_="m1")]
    first = await begin(store, "t1", messages)
    second = await apply_effects(store, ANN, [OpenSession()], now_ms=1_600)
    again = await begin(store, "t2", messages, fence=2)
    assert again.session.id == second.id
    assert again.fresh_ids == {"m1"}
    assert [entry.message_id for entry in await store.transcript.view(second.id)] == ["m1"]
    assert await store.transcript.view(first.session.id) == []
    closed = await store.sessions.by_id(first.session.id)
    assert closed is not None
    assert (closed.message_count, again.session.message_count) == (0, 1)


async def test_in_a_shared_place_each_message_carries_its_author(store: Store) -> None:
    messages = [says(SHARED_GROUP, "hi", id_="m1", author="Ann"), says(SHARED_GROUP, "yo", id_="m2", author="Bob")]
    start = await begin(store, "t1", messages)
    assert [entry.text for entry in await store.transcript.view(start.session.id)] == ["Ann: hi", "Bob: yo"]


async def test_a_turn_without_messages_is_a_turn(store: Store) -> None:
    """A manual compaction begins one."""
    start = await begin(store, "t1", [], key=ANN)
    assert start.fresh_ids == frozenset()
    assert start.session.message_count == 0


# --- commit


async def test_a_commit_leaves_transcript_sums_and_outbox(store: Store) -> None:
    messages = [says(ANN, "what is 2+2", id_="m1")]
    start = await begin(store, "t1", messages)
    calls = (ToolCall("c1", "calc", CleanText('{"x":"2+2 — «»"}')), ToolCall("c2", "calc", CleanText("{}")))
    entries = (
        Entry(Role.ASSISTANT, CleanText(""), tool_calls=calls),
        Entry(Role.TOOL, CleanText("4"), tool_call_id="c1"),
        Entry(Role.TOOL, CleanText("no"), tool_call_id="c2", is_error=True),
        answer("It is **4** 😀"),
    )
    done = replace(
        outcome(start, "t1", messages, usage=(call(ANN, 100, 20, 0.25), call(ANN, 130, 5, 0.5))), entries=entries
    )
    session = (await store.turns.commit(done)).session
    assert (session.message_count, session.tokens, session.cost_usd) == (5, 255, 0.75)
    assert session.updated_at_ms == 2_000
    stored = await store.transcript.view(session.id)
    assert [entry.seq for entry in stored] == [1, 2, 3, 4, 5]
    assert tuple(replace(entry, seq=0, turn_id="", created_at_ms=0) for entry in stored[1:]) == entries
    assert {entry.turn_id for entry in stored} == {"t1"}
    assert await unsent(store) == list(done.outbox)


async def test_a_commit_repeated_changes_nothing(store: Store) -> None:
    """A lost connection may hide that the first one arrived."""
    messages = [says(ANN, "hello", id_="m1")]
    start = await begin(store, "t1", messages)
    done = outcome(start, "t1", messages, usage=(call(ANN, 10, 1, 0.1),), effects=(SetTitle(CleanText("Hi")),))
    first = (await store.turns.commit(done)).session
    assert (await store.turns.commit(done)).session == first
    assert len(await store.transcript.page(start.session.id)) == 2


async def test_a_commit_repeated_does_not_open_another_session(store: Store) -> None:
    messages = [says(ANN, "/new", id_="m1")]
    start = await begin(store, "t1", messages)
    done = outcome(start, "t1", messages, effects=(OpenSession(),))
    first = (await store.turns.commit(done)).session
    assert (await store.turns.commit(done)).session.id == first.id
    assert len(await store.sessions.page(key=ANN)) == 2


async def test_a_fenced_commit_leaves_nothing(store: Store) -> None:
    messages = [says(ANN, "hello", id_="m1")]
    stale = await begin(store, "t1", messages, fence=1)
    fresh = await begin(store, "t2", messages, fence=2)
    with pytest.raises(Fenced):
        await store.turns.commit(outcome(stale, "t1", messages, fence=1, text="from the dead"))
    session = (await store.turns.commit(outcome(fresh, "t2", messages, fence=2, text="alive"))).session
    assert [entry.text for entry in await store.transcript.view(session.id)] == ["hello", "alive"]
    assert [row.text for row in await unsent(store)] == ["alive"]
    with pytest.raises(Fenced):
        await store.turns.commit(outcome(stale, "t1", messages, fence=1, text="from the dead"))


async def test_a_newer_fence_than_the_lanes_is_no_right_to_commit(store: Store) -> None:
    messages = [says(ANN, "hello", id_="m1")]
    start = await begin(store, "t1", messages, fence=1)
    with pytest.raises(Fenced):
        await store.turns.commit(outcome(start, "t1", messages, fence=2))


async def test_effects_apply_in_order_after_the_entries(store: Store) -> None:
    messages = [says(ANN, "/title A then /new then /title B", id_="m1")]
    start = await begin(store, "t1", messages)
    effects = (SetTitle(CleanText("A")), OpenSession(), SetTitle(CleanText("B")))
    session = (await store.turns.commit(outcome(start, "t1", messages, effects=effects))).session
    assert (session.title, session.number, session.is_current, session.message_count) == ("B", 2, True, 0)
    closed = await store.sessions.by_id(start.session.id)
    assert closed is not None
    assert (closed.title, closed.status, closed.is_current, closed.message_count) == ("A", "closed", False, 2)


async def test_a_turn_committed_with_a_state_keeps_it(store: Store) -> None:
    """A failed turn has answered its messages, too: with an apology."""
    messages = [says(ANN, "hello", id_="m1")]
    start = await begin(store, "t1", messages)
    done = replace(outcome(start, "t1", messages, state=TurnState.FAILED), error_reference="E7")
    await store.turns.commit(done)
    assert (await begin(store, "t2", messages, fence=2)).fresh_ids == frozenset()


async def test_a_turn_taken_over_is_failed_as_worker_lost(store: Store, database_url: str) -> None:
    """Nothing is left running for ever when a worker dies."""
    messages = [says(ANN, "hello", id_="m1")]
    await begin(store, "t1", messages, fence=1)
    await begin(store, "t1", messages, fence=2)
    start = await begin(store, "t2", messages, fence=3)
    await store.turns.commit(outcome(start, "t2", messages, fence=3))
    await begin(store, "t3", [says(ANN, "next", id_="m2")], fence=4)
    states = select(turns.c.id, turns.c.state, turns.c.runs, turns.c.error_reference).order_by(turns.c.id)
    assert await rows(database_url, states) == [
        ("t1", "failed", 2, "worker_lost"),
        ("t2", "done", 1, ""),
        ("t3", "running", 1, ""),
    ]


async def test_usage_is_charged_to_the_owner(store: Store, database_url: str) -> None:
    """What is spent in a group counts for the person."""
    messages = [says(ANN_IN_GROUP, "hello", id_="m1")]
    start = await begin(store, "t1", messages)
    await store.turns.commit(outcome(start, "t1", messages, usage=(call(ANN_IN_GROUP, 10, 1, 0.5),)))
    charged = select(usage.c.owner, usage.c.turn_id, usage.c.session_id, usage.c.prompt_tokens, usage.c.created_at_ms)
    assert await rows(database_url, charged) == [("telegram:1", "t1", start.session.id, 10, 2_000)]


async def test_a_turn_that_found_nothing_new_may_commit(store: Store) -> None:
    messages = [says(ANN, "hello", id_="m1")]
    start = await begin(store, "t1", messages)
    await store.turns.commit(outcome(start, "t1", messages))
    again = await begin(store, "t2", messages, fence=2)
    empty = TurnCommit("t2", again.session.id, ANN, 2, TurnState.DONE, ("m1",))
    session = (await store.turns.commit(empty)).session
    assert session.message_count == 2


async def test_a_commit_into_a_session_of_somebody_else_is_refused(store: Store) -> None:
    foreign = await talk(store, BOB, "private", number=1)
    messages = [says(ANN, "hello", id_="m1")]
    start = await begin(store, "t1", messages)
    done = replace(outcome(start, "t1", messages), session_id=foreign.id)
    with pytest.raises(StoreError):
        await store.turns.commit(done)
    assert len(await store.transcript.view(foreign.id)) == 2
    await store.turns.commit(outcome(start, "t1", messages))


async def test_a_commit_that_fails_half_way_leaves_nothing(store: Store) -> None:
    """Two entries that claim one message break the transaction after the turn was marked as done."""
    messages = [says(ANN, "hello", id_="m1")]
    start = await begin(store, "t1", messages)
    broken = replace(outcome(start, "t1", messages), entries=(replace(answer("x"), message_id="m2"),) * 2)
    with pytest.raises(StoreError):
        await store.turns.commit(broken)
    session = (await store.turns.commit(outcome(start, "t1", messages, text="whole"))).session
    assert [entry.text for entry in await store.transcript.view(session.id)] == ["hello", "whole"]
    assert session.message_count == 2


@pytest.mark.parametrize("ugly", ["a\x00b", "half \ud83d of a pair", "\udc00", "fine 😀 ж 中"])
async def test_text_that_no_database_takes_is_mended_not_lost(store: Store, ugly: str) -> None:
    messages = [says(ANN, ugly, id_="m1")]
    start = await begin(store, "t1", messages)
    done = outcome(start, "t1", messages, text=ugly)
    calls = (ToolCall("c", "t", CleanText(ugly)),)
    await store.turns.commit(replace(done, entries=(replace(answer(ugly), tool_calls=calls),)))
    mended = ugly.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\x00", "\ufffd")
    assert {entry.text for entry in await store.transcript.view(start.session.id)} == {mended}
    assert [row.text for row in await unsent(store)] == [mended]


# --- many at once


async def answer_unless_fenced(store: Store, messages: list[InboundMessage], fence: int) -> bool:
    """One worker's whole turn; True if its answer counts."""
    try:
        start = await begin(store, f"t{fence}", messages, fence=fence)
        if start.fresh_ids:
            await store.turns.commit(outcome(start, f"t{fence}", messages, fence=fence, text=f"a{fence}"))
    except Fenced:
        return False
    return bool(start.fresh_ids)


async def test_of_two_workers_racing_for_a_lane_one_answers(store: Store) -> None:
    """Both begin and commit at once, over and over: every message ends with one answer."""
    for number in range(1, 6):
        messages = [says(ANN, f"q{number}", id_=f"m{number}")]
        older, newer = number * 10, number * 10 + 1
        counted = await asyncio.gather(*(answer_unless_fenced(store, messages, fence) for fence in (older, newer)))
        assert sum(counted) == 1
    session = await store.sessions.current(ANN)
    assert session is not None
    texts = [entry.text for entry in await store.transcript.view(session.id)]
    assert [text for text in texts if text.startswith("q")] == [f"q{number}" for number in range(1, 6)]
    assert len(texts) == session.message_count == 10


async def test_twenty_turns_of_different_people_at_once(store: Store) -> None:
    keys = [SessionKey("telegram", str(1000 + n)) for n in range(20)]
    finished = await asyncio.gather(*(talk(store, key, f"I am {key.user}", number=1) for key in keys))
    assert [session.key for session in finished] == keys
    for key, session in zip(keys, finished, strict=True):
        texts = [entry.text for entry in await store.transcript.view(session.id)]
        assert texts == [f"I am {key.user}", f"re: I am {key.user}"]


async def test_two_stores_on_one_database_share_the_work(store: Store, database_url: str) -> None:
    """Two agent processes: turns of ten people, through either."""
    other = open_store(database_url)
    try:
        keys = [SessionKey("telegram", str(n)) for n in range(1, 11)]
        for number in (1, 2):
            stores = (store, other) if number == 1 else (other, store)
            await asyncio.gather(*(talk(stores[n % 2], key, "hi", number=number) for n, key in enumerate(keys)))
        assert {session.message_count for session in await store.sessions.page()} == {4}
    finally:
        await other.close()


async def test_a_cancelled_turn_leaves_the_store_usable(store: Store) -> None:
    """/stop may cut a turn off inside of any call; whether that call arrived or not, the lane goes on."""
    messages = [says(ANN, "hello", id_="m1")]
    for fence in range(1, 11):
        task = asyncio.create_task(begin(store, f"t{fence}", messages, fence=fence))
        for _ in range(fence):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    start = await begin(store, "t99", messages, fence=99)
    session = (await store.turns.commit(outcome(start, "t99", messages, fence=99))).session
    assert [entry.text for entry in await store.transcript.view(session.id)] == ["hello", "fine"]


async def test_a_private_chat_and_a_group_are_two_lanes(store: Store) -> None:
    await talk(store, ANN, "my secret", number=1)
    group = await talk(store, ANN_IN_GROUP, "hi all", number=1)
    assert [entry.text for entry in await store.transcript.view(group.id)] == ["hi all", "re: hi all"]
    assert [session.key for session in await store.sessions.page(key=ANN_IN_GROUP)] == [ANN_IN_GROUP]


async def test_a_reply_of_another_lane_is_not_brought_back(store: Store) -> None:
    """Even where two lanes were given the same turn id, `unsent` stays inside of the lane."""
    messages = [says(ANN, "hello", id_="m1")]
    start = await begin(store, "t1", messages)
    foreign = reply(BOB, "for Bob", id_="t1:bob", turn_id="t1")
    done = outcome(start, "t1", messages)
    await store.turns.commit(replace(done, outbox=(*done.outbox, foreign)))
    assert (await begin(store, "t2", messages, fence=2)).unsent == done.outbox
