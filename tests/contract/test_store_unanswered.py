"""The transcript follows the lane: edits, deletions, joiners, stops and dead letters, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import select

from gateway.contracts.errors import Fenced
from gateway.contracts.messages import DeliveryState, InboundMessage, literal_text
from gateway.contracts.sessions import EntryKind, OpenSession, Role, TurnState
from gateway.store import Store
from gateway.store.tables import turns
from tests.contract.store_samples import (
    ANN,
    SHARED_GROUP,
    answer,
    begin,
    ended,
    outcome,
    reply,
    rows,
    says,
    summary,
    talk,
    unsent,
)
from tests.parts.effects import apply_effects

NOTE = literal_text("(given up)")


async def texts(store: Store) -> list[str]:
    """What stands in Ann's current conversation; its count is checked on the way."""
    session = await store.sessions.current(ANN)
    assert session is not None
    entries = await store.transcript.page(session.id)
    assert session.message_count == sum(entry.kind is EntryKind.MESSAGE for entry in entries)
    return [entry.text for entry in entries]


# --- edits and deletions


async def test_a_rerun_reads_the_edited_words(store: Store) -> None:
    await begin(store, "t1", [says(ANN, "buy milk", id_="m1")], fence=1)
    start = await begin(store, "t1", [says(ANN, "buy bread", id_="m1")], fence=2)
    assert start.fresh_ids == {"m1"}
    assert await texts(store) == ["buy bread"]


async def test_an_edit_of_an_answered_message_changes_no_history(store: Store) -> None:
    await talk(store, ANN, "buy milk", number=1)
    start = await begin(store, "t2", [says(ANN, "buy bread", id_=f"{ANN}#1")], fence=2)
    assert start.fresh_ids == frozenset()
    assert await texts(store) == ["buy milk", "re: buy milk"]


async def test_a_deleted_message_is_gone_from_the_next_turn(store: Store) -> None:
    """Its author took it back while it was being answered; what was said behind it stays, in order."""
    await talk(store, ANN, "hello", number=1)
    batch = [says(ANN, text, id_=text) for text in ("one", "two", "three")]
    await begin(store, "t-one", batch, fence=2)
    start = await begin(store, "t-one", [batch[0], batch[2]], fence=3)
    assert start.fresh_ids == {"one", "three"}
    assert await texts(store) == ["hello", "re: hello", "one", "three"]


async def test_a_deleted_message_does_not_come_back_behind_a_command(store: Store) -> None:
    """The next turn may be one that says nothing: the deleted words leave the transcript all the same."""
    await begin(store, "t1", [says(ANN, "my secret", id_="m1")], fence=1)
    command = [says(ANN, "/status", id_="m2")]
    start = await store.turns.begin(turn_id="t2", key=ANN, fence=2, messages=command, now_ms=1, is_said=False)
    await store.turns.commit(replace(outcome(start, "t2", command, fence=2), entries=()))
    assert await texts(store) == []


async def test_a_message_that_was_first_now_comes_second(store: Store) -> None:
    """Whatever the lane holds now is what the transcript says."""
    one, two = says(ANN, "one", id_="m1"), says(ANN, "two", id_="m2")
    await begin(store, "t1", [one], fence=1)
    await begin(store, "t2", [two, one], fence=2)
    assert await texts(store) == ["two", "one"]


async def test_a_rerun_with_more_messages_keeps_what_stands(store: Store) -> None:
    one, two = says(ANN, "one", id_="m1"), says(ANN, "two", id_="m2")
    first = await begin(store, "t1", [one], fence=1)
    await begin(store, "t1", [one, two], fence=2)
    stored = await store.transcript.view(first.session.id)
    assert [(entry.seq, entry.text) for entry in stored] == [(1, "one"), (2, "two")]


async def test_a_last_try_alone_leaves_the_others_for_later(store: Store) -> None:
    one, two = says(ANN, "one", id_="m1"), says(ANN, "two", id_="m2")
    await begin(store, "t1", [one, two], fence=1)
    start = await begin(store, "t1", [one], fence=2)
    await store.turns.commit(outcome(start, "t1", [one], fence=2))
    start = await begin(store, "t2", [two], fence=3)
    await store.turns.commit(outcome(start, "t2", [two], fence=3, text="done"))
    assert await texts(store) == ["one", "fine", "two", "done"]


async def test_deleted_words_leave_a_session_that_was_closed_meanwhile(store: Store) -> None:
    start = await begin(store, "t1", [says(ANN, "my secret", id_="m1")], fence=1)
    await apply_effects(store, ANN, [OpenSession()], now_ms=1_600)
    await begin(store, "t2", [says(ANN, "hello", id_="m2")], fence=2)
    assert await store.transcript.page(start.session.id) == []
    assert await texts(store) == ["hello"]


async def test_a_summary_made_by_a_lost_turn_does_not_hide_what_it_left(store: Store) -> None:
    """The turn compacted, then its worker died: its own messages are still provisional."""
    await talk(store, ANN, "hello", number=1)
    start = await begin(store, "t1", [says(ANN, "buy milk", id_="m1")], fence=2)
    entry = summary("greetings", tail_start_seq=3)
    await store.transcript.append_compaction(start.session.id, fence=2, key=ANN, entry=entry)
    again = await begin(store, "t1", [says(ANN, "buy bread", id_="m1")], fence=3)
    assert [entry.text for entry in await store.transcript.view(again.session.id)] == ["greetings", "buy bread"]


# --- steer


async def join(store: Store, turn_id: str, *messages: InboundMessage, fence: int = 1) -> list[str]:
    """Join a running turn; the ids of the messages that count."""
    key = messages[0].key
    joined = await store.turns.join(turn_id=turn_id, key=key, fence=fence, messages=messages, now_ms=1_700)
    return [entry.message_id for entry in joined]


async def test_what_joins_a_turn_stands_where_the_model_read_it(store: Store) -> None:
    """At once at the end of the transcript, so that no crash loses it; in its place with the commit."""
    said, more = says(ANN, "count", id_="m1"), says(ANN, "faster", id_="m2")
    start = await begin(store, "t1", [said])
    (joined,) = await store.turns.join(turn_id="t1", key=ANN, fence=1, messages=[more], now_ms=1_700)
    assert (joined.text, joined.role, joined.message_id, joined.turn_id) == ("faster", Role.USER, "m2", "t1")
    assert await texts(store) == ["count", "faster"]
    done = outcome(start, "t1", [said, more])
    await store.turns.commit(replace(done, entries=(answer("1, 2"), replace(joined, seq=0), answer("3, 4"))))
    assert await texts(store) == ["count", "1, 2", "faster", "3, 4"]
    assert (await begin(store, "t2", [said, more], fence=2)).fresh_ids == frozenset()


async def test_what_joined_a_lost_turn_is_part_of_the_next(store: Store) -> None:
    said, more = says(ANN, "count", id_="m1"), says(ANN, "faster", id_="m2")
    await begin(store, "t1", [said])
    assert await join(store, "t1", more) == ["m2"]
    again = await begin(store, "t1", [said, more], fence=2)
    assert again.fresh_ids == {"m1", "m2"}
    assert await texts(store) == ["count", "faster"]


async def test_joining_twice_is_joining_once(store: Store) -> None:
    """After a lost connection the worker cannot know whether the first call arrived."""
    await begin(store, "t1", [says(ANN, "count", id_="m1")])
    more = says(ANN, "faster", id_="m2")
    assert await join(store, "t1", more) == await join(store, "t1", more) == ["m2"]
    assert await texts(store) == ["count", "faster"]


async def test_a_message_that_was_answered_before_does_not_join(store: Store) -> None:
    await talk(store, ANN, "hello", number=1)
    await begin(store, "t2", [says(ANN, "count", id_="m1")], fence=2)
    assert await join(store, "t2", says(ANN, "hello", id_=f"{ANN}#1"), fence=2) == []
    assert await texts(store) == ["hello", "re: hello", "count"]


async def test_nobody_joins_a_turn_that_is_over_or_taken_over(store: Store) -> None:
    said, more = says(ANN, "count", id_="m1"), says(ANN, "faster", id_="m2")
    start = await begin(store, "t1", [said])
    with pytest.raises(Fenced):
        await join(store, "t1", more, fence=2)
    await store.turns.commit(outcome(start, "t1", [said]))
    with pytest.raises(Fenced):
        await join(store, "t1", more)
    assert await texts(store) == ["count", "fine"]


async def test_who_joins_in_a_shared_place_is_named(store: Store) -> None:
    await begin(store, "t1", [says(SHARED_GROUP, "hi", id_="m1", author="Ann")])
    joined = await store.turns.join(
        turn_id="t1", key=SHARED_GROUP, fence=1, messages=[says(SHARED_GROUP, "yo", id_="m2", author="Bob")], now_ms=1
    )
    assert [entry.text for entry in joined] == ["Bob: yo"]


# --- stops


async def test_a_fenced_off_turn_commits_no_more_and_the_next_one_does(store: Store) -> None:
    messages = [says(ANN, "hello", id_="m1")]
    start = await begin(store, "t1", messages, fence=5)
    assert await store.turns.fence_off(ANN, 5) == ()
    with pytest.raises(Fenced):
        await store.turns.commit(outcome(start, "t1", messages, fence=5))
    with pytest.raises(Fenced):
        await begin(store, "t1", messages, fence=5)
    again = await begin(store, "t1", messages, fence=6)
    await store.turns.commit(outcome(again, "t1", messages, fence=6, state=TurnState.STOPPED, text="(stopped)"))
    assert await texts(store) == ["hello", "(stopped)"]


async def test_a_stop_that_came_after_the_commit_brings_the_answer_back(store: Store) -> None:
    """Its worker died before it could publish: the answer is sent, and before the stop is acknowledged."""
    messages = [says(ANN, "hello", id_="m1")]
    start = await begin(store, "t1", messages, fence=5)
    done = outcome(start, "t1", messages, fence=5)
    await store.turns.commit(done)
    assert await store.turns.fence_off(ANN, 5) == done.outbox
    await store.outbox.record_receipts([ended("t1:0", DeliveryState.SENT)])
    assert await store.turns.fence_off(ANN, 5) == ()


async def test_fencing_off_a_turn_leaves_a_newer_one_alone(store: Store) -> None:
    messages = [says(ANN, "hello", id_="m1")]
    start = await begin(store, "t1", messages, fence=6)
    await store.turns.fence_off(ANN, 5)
    await store.turns.commit(outcome(start, "t1", messages, fence=6))


async def test_a_lane_that_never_began_can_be_fenced_off(store: Store) -> None:
    assert await store.turns.fence_off(ANN, 5) == ()


async def test_a_stop_and_a_commit_at_once_leave_one_of_the_two(store: Store) -> None:
    """Whichever is first: the answer is known to the stop, or it is never written."""
    for number in range(1, 9):
        messages = [says(ANN, f"q{number}", id_=f"m{number}")]
        start = await begin(store, f"t{number}", messages, fence=number * 10)
        done = outcome(start, f"t{number}", messages, fence=number * 10)
        told, committed = await asyncio.gather(
            store.turns.fence_off(ANN, number * 10), store.turns.commit(done), return_exceptions=True
        )
        left = await unsent(store)
        assert not isinstance(told, BaseException)
        if isinstance(committed, Fenced):
            assert (list(told), left) == ([], [])
        else:
            assert left == list(done.outbox)


# --- dead letters


async def give_up(store: Store, turn_id: str, message: InboundMessage) -> bool:
    sorry = reply(message.key, "sorry", id_=f"{turn_id}:dead", turn_id=turn_id)
    return await store.turns.give_up(
        turn_id=turn_id, message=message, replies=[sorry], note=NOTE, reference="K7QX2M", letter_id="5-0", now_ms=1_900
    )


async def test_a_message_that_is_given_up_leaves_a_note(store: Store, database_url: str) -> None:
    """Or the next prompt would ask for it once more; what waits behind it comes in its own turn."""
    one, two = says(ANN, "one", id_="m1"), says(ANN, "two", id_="m2")
    await begin(store, "t1", [one, two], fence=1)
    assert await give_up(store, "t1", one)
    assert await texts(store) == ["one", "(given up)"]
    start = await begin(store, "t2", [two], fence=2)
    await store.turns.commit(outcome(start, "t2", [two], fence=2))
    assert await texts(store) == ["one", "(given up)", "two", "fine"]
    assert (await begin(store, "t3", [one], fence=3)).fresh_ids == frozenset()
    states = select(turns.c.id, turns.c.state).order_by(turns.c.id)
    assert await rows(database_url, states) == [("t1", "failed"), ("t2", "done")]


async def test_a_run_that_outlives_its_dead_letter_commits_nothing(store: Store) -> None:
    """The last try was only paused: its author has been told that there is no answer."""
    messages = [says(ANN, "one", id_="m1")]
    start = await begin(store, "t1", messages, fence=1)
    assert await give_up(store, "t1", messages[0])
    with pytest.raises(Fenced):
        await store.turns.commit(outcome(start, "t1", messages))
    assert [row.text for row in await unsent(store)] == ["sorry"]


async def test_a_message_that_was_answered_after_all_is_not_given_up(store: Store) -> None:
    messages = [says(ANN, "one", id_="m1")]
    start = await begin(store, "t1", messages, fence=1)
    await store.turns.commit(outcome(start, "t1", messages))
    assert not await give_up(store, "t1", messages[0])
    assert [row.text for row in await unsent(store)] == ["fine"]


async def test_giving_up_late_does_not_disturb_the_turn_that_runs(store: Store) -> None:
    one, two = says(ANN, "one", id_="m1"), says(ANN, "two", id_="m2")
    await begin(store, "t1", [one, two], fence=1)
    start = await begin(store, "t2", [two], fence=2)
    assert await give_up(store, "t1", one)
    await store.turns.commit(outcome(start, "t2", [two], fence=2))
    assert await texts(store) == ["two", "fine"]


async def test_a_message_that_no_turn_ever_began_can_be_given_up(store: Store) -> None:
    assert await give_up(store, "t1", says(ANN, "one", id_="m1"))
    assert not await give_up(store, "t1", says(ANN, "one", id_="m1"))
    assert [row.text for row in await unsent(store)] == ["sorry"]


async def test_a_given_up_command_leaves_no_note(store: Store) -> None:
    """It was never part of the conversation."""
    await talk(store, ANN, "hello", number=1)
    command = says(ANN, "/compact", id_="m2")
    await store.turns.begin(turn_id="t2", key=ANN, fence=2, messages=[command], now_ms=1, is_said=False)
    assert await give_up(store, "t2", command)
    assert await texts(store) == ["hello", "re: hello"]


async def test_a_given_up_message_that_is_tried_again_is_new(store: Store) -> None:
    """And once it is answered it is so for ever, also for those who would still apologise."""
    one, again = says(ANN, "one", id_="m1"), says(ANN, "one", id_="m1~1")
    await begin(store, "t1", [one], fence=1)
    assert await give_up(store, "t1", one)
    start = await begin(store, "t2", [again], fence=2)
    assert start.fresh_ids == {"m1~1"}
    await store.turns.commit(outcome(start, "t2", [again], fence=2))
    assert (await begin(store, "t3", [again], fence=3)).fresh_ids == frozenset()
    assert await texts(store) == ["one", "(given up)", "one", "fine"]


async def test_an_apology_that_comes_after_the_answer_is_left_out(store: Store) -> None:
    one, again = says(ANN, "one", id_="m1"), says(ANN, "one", id_="m1~1")
    await begin(store, "t1", [one], fence=1)
    start = await begin(store, "t2", [again], fence=2)
    await store.turns.commit(outcome(start, "t2", [again], fence=2))
    assert not await give_up(store, "t1", one)
    assert await texts(store) == ["one", "fine"]


async def test_what_an_earlier_try_answered_after_all_is_not_answered_again(store: Store) -> None:
    """Its last run committed and died before the bus heard of it: the dead letter was none."""
    one = says(ANN, "one", id_="m1")
    start = await begin(store, "t1", [one], fence=1)
    await store.turns.commit(outcome(start, "t1", [one], fence=1))
    again = await begin(store, "t2", [says(ANN, "one", id_="m1~1")], fence=2)
    assert again.fresh_ids == frozenset()
    assert [row.text for row in again.unsent] == ["fine"]
