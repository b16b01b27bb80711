"""A turn is found by the id of anything that belongs to it, on SQLite and PostgreSQL."""

from __future__ import annotations

import pytest

from gateway.contracts.messages import DeliveryState
from gateway.store import SqlStore
from tests.contract.store_samples import ANN, begin, ended, outcome, says


@pytest.mark.parametrize("id_", ["m1", "m2", "t1", "t1:0"])
async def test_by_its_messages_its_own_id_and_its_replies(store: SqlStore, id_: str) -> None:
    messages = [says(ANN, "hello", id_="m1"), says(ANN, "again", id_="m2")]
    start = await begin(store, "t1", messages)
    await store.commit_turn(outcome(start, "t1", messages))
    await store.record_receipts([ended("t1:0", DeliveryState.SENT)])
    turn = await store.trace(id_)
    assert turn is not None
    assert (turn.turn_id, turn.key, turn.state, turn.runs) == ("t1", ANN, "done", 1)
    assert [message.message_id for message in turn.messages] == ["m1", "m2"]
    assert all(message.answered_at_ms for message in turn.messages)
    assert [(reply.reply_id, reply.state) for reply in turn.replies] == [("t1:0", DeliveryState.SENT)]


async def test_while_it_runs(store: SqlStore) -> None:
    await begin(store, "t1", [says(ANN, "hello", id_="m1")])
    turn = await store.trace("m1")
    assert turn is not None
    assert (turn.finished_at_ms, turn.replies) == (0, ())
    assert [message.answered_at_ms for message in turn.messages] == [0]


async def test_nothing_is_found_by_an_unknown_id(store: SqlStore) -> None:
    assert await store.trace("nobody") is None
