"""Turns are found by the id of anything that belongs to them, on SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.contracts.messages import CleanText, DeliveryState, Reply
from gateway.contracts.sessions import TurnState
from gateway.store import Store
from gateway.store.turns import TURNS_TRACED_MAX
from tests.contract.store_samples import ANN, BOB, begin, ended, outcome, reply, says, talk

REFERENCE = "K7QX2M"
LETTER = "1700000000000-0"


async def give_up(store: Store, turn_id: str, message_id: str, sorry: Reply) -> None:
    message = says(ANN, "poison", id_=message_id)
    assert await store.turns.give_up(
        turn_id=turn_id,
        message=message,
        replies=[sorry],
        note=CleanText("(given up)"),
        reference=REFERENCE,
        letter_id=LETTER,
        now_ms=1_900,
    )


def apology(turn_id: str) -> Reply:
    return reply(ANN, f"sorry (Reference {REFERENCE})", id_=f"{turn_id}:dead", turn_id=turn_id)


async def ids_of(store: Store, wanted: str) -> list[str]:
    return [turn.turn_id for turn in await store.turns.trace(wanted)]


@pytest.mark.parametrize("id_", ["m1", "m2", "t1", "t1:0"])
async def test_by_its_messages_its_own_id_and_its_replies(store: Store, id_: str) -> None:
    messages = [says(ANN, "hello", id_="m1"), says(ANN, "again", id_="m2")]
    start = await begin(store, "t1", messages)
    await store.turns.commit(outcome(start, "t1", messages))
    await store.outbox.record_receipts([ended("t1:0", DeliveryState.SENT)])
    (turn,) = await store.turns.trace(id_)
    assert (turn.turn_id, turn.key, turn.state, turn.runs) == ("t1", ANN, "done", 1)
    assert [message.message_id for message in turn.messages] == ["m1", "m2"]
    assert all(message.answered_at_ms and not message.is_given_up for message in turn.messages)
    assert [(reply.reply_id, reply.state) for reply in turn.replies] == [("t1:0", DeliveryState.SENT)]


async def test_while_it_runs(store: Store) -> None:
    await begin(store, "t1", [says(ANN, "hello", id_="m1")])
    (turn,) = await store.turns.trace("m1")
    assert (turn.finished_at_ms, turn.replies) == (0, ())
    assert [message.answered_at_ms for message in turn.messages] == [0]


async def test_by_the_reference_that_its_error_told(store: Store) -> None:
    messages = [says(ANN, "hello", id_="m1")]
    start = await begin(store, "t1", messages)
    failed = replace(outcome(start, "t1", messages), state=TurnState.FAILED, error_reference=REFERENCE)
    await store.turns.commit(failed)
    await talk(store, BOB, "fine", number=2)
    for told in (REFERENCE, REFERENCE.lower()):
        (turn,) = await store.turns.trace(told)
        assert (turn.turn_id, turn.error_reference) == ("t1", REFERENCE)


async def test_a_lost_turn_is_not_found_by_why_it_was_lost(store: Store) -> None:
    """That is no reference, and stands in many turns."""
    await begin(store, "t1", [says(ANN, "hello", id_="m1")], fence=1)
    await begin(store, "t2", [says(ANN, "other", id_="m2")], fence=2)
    (turn,) = await store.turns.trace("t1")
    assert turn.error_reference == "worker_lost"
    assert await store.turns.trace("worker_lost") == []


@pytest.mark.parametrize("wanted", ["m1", "m1~1", "m1~7", "t1", "t2", "t1:dead", REFERENCE, LETTER])
async def test_all_tries_of_a_dead_letter_by_whatever_leads_to_one(store: Store, wanted: str) -> None:
    again = [says(ANN, "poison", id_="m1~1")]
    await begin(store, "t1", [says(ANN, "poison", id_="m1")], fence=1)
    await give_up(store, "t1", "m1", apology("t1"))
    start = await begin(store, "t2", again, fence=2)
    await store.turns.commit(outcome(start, "t2", again, fence=2))
    first, second = sorted(await store.turns.trace(wanted), key=lambda turn: turn.turn_id)
    (given_up,), (answered,) = first.messages, second.messages
    assert (given_up.message_id, given_up.is_given_up, given_up.error_reference) == ("m1", True, REFERENCE)
    assert (answered.message_id, answered.is_given_up, answered.error_reference) == ("m1~1", False, "")
    assert [each.reply_id for each in (*first.replies, *second.replies)] == ["t1:dead", "t2:0"]


@pytest.mark.parametrize("wanted", ["m1", "t1", "t1:dead", REFERENCE, LETTER])
async def test_a_dead_letter_of_which_no_turn_ever_began(store: Store, wanted: str) -> None:
    await give_up(store, "t1", "m1", apology("t1"))
    (turn,) = await store.turns.trace(wanted)
    assert (turn.turn_id, turn.key, turn.state, turn.started_at_ms) == ("t1", ANN, "", 0)
    assert [message.is_given_up for message in turn.messages] == [True]


async def test_the_newest_of_a_session_and_of_a_lane(store: Store) -> None:
    session = await talk(store, ANN, "hello", number=1)
    for number in range(2, TURNS_TRACED_MAX + 3):
        await talk(store, ANN, "hello", number=number)
    await talk(store, BOB, "hello", number=99)
    of_session = await ids_of(store, session.id)
    assert len(of_session) == TURNS_TRACED_MAX
    assert of_session == await ids_of(store, str(ANN))
    assert await ids_of(store, str(BOB)) == [f"turn-{BOB}-99"]


async def test_a_reply_that_no_turn_made(store: Store) -> None:
    """One of the agent's is in the outbox, of a channel's notice there is nothing but the receipt."""
    await store.outbox.put([reply(ANN, "stopped", id_="n1")])
    await store.outbox.record_receipts([ended("n2", DeliveryState.FAILED)])
    found = {id_: await store.turns.trace(id_) for id_ in ("n1", "n2")}
    assert {id_: [(turn.turn_id, turn.key) for turn in turns] for id_, turns in found.items()} == {
        "n1": [("", ANN)],
        "n2": [("", ANN)],
    }
    assert [turn.replies[0].state for (turn,) in found.values()] == [DeliveryState.PENDING, DeliveryState.FAILED]


@pytest.mark.parametrize("wanted", ["nobody", "", "~1", "m~999999999", "with\x00nul", "\ud800", "%", "x" * 10_000])
async def test_nothing_is_found_by_what_is_no_id(store: Store, wanted: str) -> None:
    await talk(store, ANN, "hello", number=1)
    assert await store.turns.trace(wanted) == []
