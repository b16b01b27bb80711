"""Which sub-agents live, which are lost and which are to end, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gateway.contracts.messages import own_code
from gateway.contracts.reasons import Reason
from gateway.contracts.subagents import TaskEnding, TaskState
from gateway.store import SqlStore
from tests.contract.store_samples import ANN, ANN_IN_GROUP, BOB
from tests.contract.subtask_samples import WORKER, asked, conversation, current, ending, finished, opened, started

# --- who lives


async def test_a_task_is_lost_once_nobody_says_that_it_lives(store: SqlStore) -> None:
    session = await conversation(store)
    [running, queued] = await opened(store, session, "k1", "k2")
    await started(store, "k1", at_ms=11_000)
    assert await store.tasks.lose(now_ms=20_001) == []
    [lost] = await store.tasks.lose(now_ms=20_002)
    assert lost == replace(queued, state=TaskState.FAILED, reason=own_code(Reason.WORKER_LOST), finished_at_ms=20_002)
    [lost] = await store.tasks.lose(now_ms=21_001)
    assert (lost.id, lost.started_at_ms) == (running.id, 11_000)
    assert await store.tasks.lose(now_ms=99_000) == []


async def test_a_worker_keeps_all_its_tasks_alive_at_once(store: SqlStore) -> None:
    """Those that it runs and those that it has queued; nobody else's."""
    session = await conversation(store)
    await opened(store, session, "k1", "k2")
    await store.tasks.open(replace(asked(session, "k3"), worker_id="worker-2"), wake=None)
    await started(store, "k1")
    await store.tasks.keep_alive(WORKER, alive_until_ms=50_000)
    await store.tasks.keep_alive(WORKER, alive_until_ms=60_000)
    assert [task.id for task in await store.tasks.lose(now_ms=60_000)] == ["k3"]
    assert {task.id for task in await store.tasks.lose(now_ms=60_001)} == {"k1", "k2"}


async def test_a_lost_task_is_lost_by_one_only(store: SqlStore) -> None:
    session = await conversation(store)
    await opened(store, session, "k1", "k2", "k3")
    both = await asyncio.gather(store.tasks.lose(now_ms=99_000), store.tasks.lose(now_ms=99_000))
    assert sorted(task.id for found in both for task in found) == ["k1", "k2", "k3"]


async def test_nobody_lives_until_next_year(store: SqlStore) -> None:
    """Its clock was wrong, and was set back before it died."""
    session = await conversation(store)
    await opened(store, session, "k1", at_ms=40_000_000_000)
    await store.tasks.keep_alive(WORKER, alive_until_ms=40_000_010_000)
    assert [task.id for task in await store.tasks.lose(now_ms=10_000)] == ["k1"]
    assert await store.tasks.lose(now_ms=40_000_000_000) == []


async def test_a_worker_that_comes_back_late_is_not_heard(store: SqlStore) -> None:
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    await store.tasks.lose(now_ms=99_000)
    assert not await store.tasks.finish("k1", ending())
    assert not await started(store, "k1")
    assert (await current(store, task)).reason == "worker_lost"
    assert await store.tasks.unwanted(["k1"]) == {"k1"}


# --- who is to end


async def test_nobody_wants_what_is_over_or_not_there(store: SqlStore) -> None:
    session = await conversation(store)
    await opened(store, session, "k1", "k2")
    assert await store.tasks.unwanted(["k1", "k2"]) == set()
    await finished(store, "k2")
    assert await store.tasks.unwanted(["k1", "k2", "never"]) == {"k2", "never"}
    await store.people.erase(ANN)
    assert await store.tasks.unwanted(["k1"]) == {"k1"}


async def test_all_of_a_key_are_asked_to_end(store: SqlStore) -> None:
    """Whoever runs them, on whichever machine; nobody else's."""
    session, other = await conversation(store), await conversation(store, BOB)
    [task, _] = await opened(store, session, "k1", "k2")
    await started(store, "k1")
    await store.tasks.open(replace(asked(task, "c1"), worker_id="elsewhere"), wake=None)
    await opened(store, other, "o1")
    await finished(store, "k2")
    assert await store.tasks.want_cancelled(ANN) == 2
    assert await store.tasks.unwanted(["k1", "c1", "o1"]) == {"k1", "c1"}
    assert await store.tasks.want_cancelled(ANN_IN_GROUP) == 0


async def test_what_was_ended_since_a_moment_can_be_counted(store: SqlStore) -> None:
    """Cancelled, or asked to end: not what was done before, nor what was cancelled before, nor what nobody ended."""
    session = await conversation(store)
    await opened(store, session, "k1", "k2", "k3", "k4")
    for id_ in ("k1", "k2", "k3", "k4"):
        await started(store, id_)
    await store.tasks.finish("k1", TaskEnding(TaskState.CANCELLED, 10_000))
    await store.tasks.finish("k2", TaskEnding(TaskState.COMPLETED, 20_000))
    await store.tasks.finish("k3", TaskEnding(TaskState.CANCELLED, 20_000))
    assert await store.tasks.count_ended(ANN, since_ms=20_000) == 1
    await store.tasks.want_cancelled(ANN)
    assert await store.tasks.count_ended(ANN, since_ms=20_000) == 2
    await store.tasks.finish("k4", TaskEnding(TaskState.COMPLETED, 30_000))
    assert await store.tasks.count_ended(ANN, since_ms=20_000) == 2
    assert await store.tasks.count_ended(BOB, since_ms=0) == 0


async def test_one_is_asked_to_end_with_all_below_it(store: SqlStore) -> None:
    session = await conversation(store)
    [task, _] = await opened(store, session, "k1", "k2")
    [child] = await opened(store, task, "c1")
    await opened(store, child, "g1")
    await finished(store, "c1")
    assert await store.tasks.want_cancelled(ANN, task_ids=["k1"]) == 2
    assert await store.tasks.unwanted(["k1", "k2", "g1"]) == {"k1", "g1"}


async def test_nobody_ends_the_tasks_of_somebody_else(store: SqlStore) -> None:
    session = await conversation(store)
    await opened(store, session, "k1")
    await conversation(store, BOB)
    assert await store.tasks.want_cancelled(BOB, task_ids=["k1"]) == 0
    assert await store.tasks.want_cancelled(BOB) == 0
    assert await store.tasks.unwanted(["k1"]) == set()
