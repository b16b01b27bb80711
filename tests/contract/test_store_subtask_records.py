"""What a sub-agent says, does and costs, on SQLite and PostgreSQL: kept once, summed up to its conversation."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.contracts.budgets import Period
from gateway.contracts.errors import StoreError
from gateway.contracts.sessions import UsagePurpose
from gateway.contracts.subagents import Doing, Occupation
from gateway.store import Store
from tests.contract.store_samples import ANN, ANN_IN_GROUP, BOB
from tests.contract.subtask_samples import conversation, current, finished, model_call, opened, said, started, turn_of


async def test_a_childs_transcript_is_numbered_and_read_like_any(store: Store) -> None:
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    await store.tasks.record("k1", entries=[said("one"), said("two")], usage=())
    await store.tasks.record("k1", entries=[said("three")], usage=())
    entries = await store.transcript.page(task.session_id)
    assert [(entry.seq, entry.text, entry.turn_id) for entry in entries] == [
        (1, "one", turn_of()),
        (2, "two", turn_of()),
        (3, "three", turn_of()),
    ]
    child = await store.sessions.by_id(task.session_id)
    assert child is not None
    assert child.message_count == 3
    parent = await store.sessions.by_id(session.id)
    assert parent is not None
    assert parent.message_count == session.message_count


async def test_what_is_recorded_again_is_recorded_once(store: Store) -> None:
    """Whoever recorded it could not know: the database went away in the middle."""
    session = await conversation(store)
    await opened(store, session, "k1")
    batch = [replace(said("one"), seq=1), replace(said("two"), seq=2)]
    for _ in range(2):
        await store.tasks.record("k1", entries=batch, usage=[model_call(ANN, 100, 10, 0.5)])
    await store.tasks.record("k1", entries=[replace(said("three"), seq=3)], usage=[model_call(ANN, 1, 1, 0.25)])
    assert [entry.text for entry in await store.transcript.page("s-k1")] == ["one", "two", "three"]
    task = await store.tasks.task("k1")
    assert task is not None
    assert (task.tokens, task.cost_usd) == (112, 0.75)


async def test_what_a_grandchild_costs_is_summed_up_to_the_conversation(store: Store) -> None:
    session = await conversation(store)
    [task, sibling] = await opened(store, session, "k1", "k2")
    [child] = await opened(store, task, "c1")
    await store.tasks.record("c1", entries=(), usage=[model_call(ANN, 100, 10, 0.5), model_call(ANN, 1, 1, 0.25)])
    await store.tasks.record("k1", entries=(), usage=[model_call(ANN, 1000, 100, 1.0)])
    for each, tokens, cost in ((child, (101, 11), 0.75), (task, (1101, 111), 1.75), (sibling, (0, 0), 0.0)):
        now = await current(store, each)
        assert (now.tokens_in, now.tokens_out, now.cost_usd) == (*tokens, cost)
        assert now.tokens == sum(tokens)
        own = await store.sessions.by_id(each.session_id)
        assert own is not None
        assert (own.tokens, own.cost_usd) == (sum(tokens), cost)
    above = await store.sessions.by_id(session.id)
    assert above is not None
    assert (above.tokens, above.cost_usd) == (session.tokens + 1212, 1.75)


async def test_sums_by_day_count_each_call_once(store: Store) -> None:
    """However many sessions have it in their sums; and it is charged to the user, whoever the caller says."""
    session = await conversation(store, ANN_IN_GROUP)
    [task] = await opened(store, session, "k1")
    [_child] = await opened(store, task, "c1")
    await store.tasks.record("c1", entries=(), usage=[model_call(BOB, 100, 10, 0.5)])
    by_purpose = await store.usage.by_purpose(ANN_IN_GROUP.owner, Period(0, 99_000))
    assert by_purpose[UsagePurpose.SUBAGENT].calls == 1
    assert by_purpose[UsagePurpose.SUBAGENT].cost_usd == 0.5
    assert await store.usage.by_purpose(BOB, Period(0, 99_000)) == {}


async def test_calls_recorded_at_once_are_all_counted(store: Store) -> None:
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    children = await opened(store, task, "c1", "c2", "c3")
    await asyncio.gather(
        *(
            store.tasks.record(child.id, entries=[said("x")], usage=[model_call(ANN, 2, 1, 0.5)])
            for child in children * 4
        )
    )
    assert (await current(store, task)).tokens == 36
    above = await store.sessions.by_id(session.id)
    assert above is not None
    assert above.cost_usd == 6.0


async def test_a_call_that_ends_after_its_task_is_charged(store: Store) -> None:
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    await finished(store, "k1")
    await store.tasks.record("k1", entries=(), usage=[model_call(ANN, 5, 5, 0.1)])
    assert (await current(store, task)).tokens == 10


async def test_the_board_shows_what_a_task_does_while_it_runs(store: Store) -> None:
    """What is no news changes nothing there, and what comes late is not shown."""
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    assert (await current(store, task)).doing is None
    assert await started(store, "k1")
    for doing in (Doing(Occupation.MODEL), Doing(Occupation.TOOLS, ("file_read", "shell")), Doing(Occupation.APPROVAL)):
        before = await store.tasks.revision()
        await store.tasks.record("k1", entries=[said("x")], usage=(), doing=doing)
        assert await store.tasks.revision() == before + 1
        await store.tasks.record("k1", entries=(), usage=(), doing=doing)
        await store.tasks.record("k1", entries=[said("y")], usage=())
        assert await store.tasks.revision() == before + 1
        (shown,) = await store.tasks.newest(limit=1)
        assert shown.doing == doing
    await finished(store, "k1")
    over = await store.tasks.revision()
    await store.tasks.record("k1", entries=[said("z")], usage=(), doing=Doing(Occupation.MODEL))
    assert (await current(store, task)).doing is None
    assert await store.tasks.revision() == over


async def test_nothing_is_recorded_for_nobody(store: Store) -> None:
    with pytest.raises(StoreError, match="there is no task k1"):
        await store.tasks.record("k1", entries=[said("x")], usage=())
