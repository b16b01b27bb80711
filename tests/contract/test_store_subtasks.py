"""The life of sub-agents' tasks, on SQLite and PostgreSQL: opened once, started nine at a time, ended or lost once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.contracts.errors import Reason, StoreError
from gateway.contracts.messages import CleanText, literal_code
from gateway.contracts.sessions import SessionStatus
from gateway.contracts.subagents import TaskEnding, TaskMode, TaskState
from gateway.limits import SUBAGENT_KEPT_CHARS_MAX
from gateway.store import Store, open_store
from tests.contract.store_samples import ANN, ANN_IN_GROUP, BOB, begin, says
from tests.contract.subtask_samples import (
    LIVE_MAX,
    WORKER,
    as_started,
    asked,
    conversation,
    current,
    ending,
    finished,
    opened,
    started,
    wake_of,
)

# --- open


async def test_a_task_comes_back_as_it_was_opened(store: Store) -> None:
    session = await conversation(store)
    task = asked(session)
    assert await store.tasks.open(task, wake=None) == task
    assert await store.tasks.task(task.id) == task
    assert await store.tasks.task("nobody") is None


async def test_a_task_has_a_session_that_is_no_conversation(store: Store) -> None:
    """It belongs to the key, has neither number nor turn in the lane, and is titled already."""
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    child = await store.sessions.by_id(task.session_id)
    assert child is not None
    assert (child.key, child.channel, child.parent_session_id) == (ANN, "subagent:explore", session.id)
    assert (child.title, child.number, child.is_current) == ("label of k1", 0, False)
    assert child.status is SessionStatus.ACTIVE
    assert await store.sessions.current(ANN) == await store.sessions.by_id(session.id)


async def test_opening_again_changes_nothing(store: Store) -> None:
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    await started(store, task.id)
    again = await store.tasks.open(replace(task, prompt=CleanText("something else")), wake=None)
    assert again == as_started(task)
    assert len(await store.tasks.children(session.id)) == 1


async def test_two_workers_that_open_the_same_task_open_one(store: Store) -> None:
    session = await conversation(store)
    both = await asyncio.gather(*(store.tasks.open(asked(session), wake=None) for _ in range(2)))
    assert both[0] == both[1]
    assert len(await store.tasks.children(session.id)) == 1


async def test_nobody_works_for_a_session_of_somebody_else(store: Store) -> None:
    anns, bobs = await conversation(store, ANN), await conversation(store, BOB)
    with pytest.raises(StoreError, match=f"session {anns.id} is not one of {BOB}"):
        await store.tasks.open(replace(asked(anns), key=BOB), wake=None)
    with pytest.raises(StoreError, match="session nowhere is not one of"):
        await store.tasks.open(replace(asked(anns), parent_session_id="nowhere"), wake=None)
    await opened(store, anns, "k1")
    with pytest.raises(StoreError):
        await store.tasks.open(asked(bobs, "k1"), wake=None)
    assert await store.tasks.newest(limit=9) == await store.tasks.tasks_of_session(anns.id)


# --- start


async def test_the_tenth_waits_until_one_of_nine_is_over(store: Store) -> None:
    session = await conversation(store)
    ids = [f"k{number}" for number in range(10)]
    await opened(store, session, *ids)
    assert [await started(store, id_) for id_ in ids] == [True] * LIVE_MAX + [False]
    await finished(store, "k3")
    assert await started(store, ids[-1])


async def test_of_many_that_start_the_last_one_exactly_one_does(store: Store) -> None:
    """From two processes at once."""
    session = await conversation(store)
    ids = [f"k{number}" for number in range(6)]
    await opened(store, session, *ids)
    other = open_store(store.database.url.render_as_string(hide_password=False))
    try:
        results = await asyncio.gather(
            *(started(one, id_, live_max=2) for id_, one in zip(ids, [store, other] * 3, strict=True))
        )
    finally:
        await other.close()
    assert sum(results) == 2
    states = [task.state for task in await store.tasks.tasks_of_session(session.id)]
    assert states.count(TaskState.RUNNING) == 2


async def test_the_limit_is_one_for_each_parent(store: Store) -> None:
    """Grandchildren and the children of another conversation do not count."""
    session, other = await conversation(store), await conversation(store, ANN_IN_GROUP)
    [first, _] = await opened(store, session, "k1", "k2")
    await opened(store, other, "o1")
    await opened(store, first, "g1")
    assert [await started(store, id_, live_max=1) for id_ in ("k1", "o1", "g1", "k2")] == [True, True, True, False]


async def test_what_is_over_or_to_end_does_not_start(store: Store) -> None:
    session = await conversation(store)
    await opened(store, session, "k1", "k2")
    await finished(store, "k1")
    await store.tasks.want_cancelled(ANN, task_ids=["k2"])
    assert not await started(store, "k1")
    assert not await started(store, "k2")
    assert not await started(store, "nobody")


# --- finish


async def test_an_ending_is_kept_and_closes_the_session(store: Store) -> None:
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    await started(store, "k1")
    assert await store.tasks.finish("k1", ending(TaskState.TIMED_OUT))
    over = await current(store, task)
    assert over == replace(
        as_started(task),
        state=TaskState.TIMED_OUT,
        reason=CleanText("because"),
        result=CleanText("found it"),
        confinement="bubblewrap",
        finished_at_ms=12_000,
    )
    assert over.duration_ms == 1_000
    child = await store.sessions.by_id(task.session_id)
    assert child is not None
    assert child.status is SessionStatus.CLOSED


async def test_of_all_who_end_a_task_one_is_heard(store: Store) -> None:
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    other = open_store(store.database.url.render_as_string(hide_password=False))
    states = [TaskState.COMPLETED, TaskState.CANCELLED, TaskState.FAILED, TaskState.TIMED_OUT]
    try:
        heard = await asyncio.gather(
            *(one.tasks.finish("k1", ending(state)) for state, one in zip(states, [store, other] * 2, strict=True))
        )
    finally:
        await other.close()
    assert sum(heard) == 1
    assert (await current(store, task)).state is states[heard.index(True)]
    assert not await store.tasks.finish("k1", ending())
    assert not await store.tasks.finish("nobody", ending())


async def test_a_queued_task_may_end_without_having_run(store: Store) -> None:
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    assert await store.tasks.finish("k1", ending(TaskState.CANCELLED))
    assert (await current(store, task)).duration_ms == 0


async def test_a_long_answer_is_kept_up_to_its_limit(store: Store) -> None:
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    await store.tasks.finish("k1", ending(result="r" * (SUBAGENT_KEPT_CHARS_MAX + 1)))
    assert len((await current(store, task)).result) == SUBAGENT_KEPT_CHARS_MAX


async def test_what_works_for_a_task_that_is_over_is_to_end(store: Store) -> None:
    session = await conversation(store)
    [task, bystander] = await opened(store, session, "k1", "k2")
    [child] = await opened(store, task, "c1")
    await opened(store, child, "g1")
    await finished(store, "k1")
    assert await store.tasks.unwanted(["c1", "g1", "k2"]) == {"c1", "g1"}
    assert await started(store, bystander.id)


async def test_what_is_opened_for_somebody_who_is_to_end_is_to_end(store: Store) -> None:
    """However the two workers fall over each other, no sub-agent is left without anybody who waits for it."""
    session = await conversation(store)
    [task, over] = await opened(store, session, "k1", "k2")
    await store.tasks.want_cancelled(ANN, task_ids=["k1"])
    await finished(store, "k2")
    await opened(store, task, "c1")
    await opened(store, over, "c2")
    assert await store.tasks.unwanted(["k1", "c1", "c2"]) == {"k1", "c1", "c2"}


async def test_what_a_run_asks_for_that_lost_its_lane_is_to_end_and_tells_nobody(store: Store) -> None:
    """Its worker was paused, and its turn was stopped or taken over meanwhile: who would wait?"""
    session = await conversation(store)
    await begin(store, "t2", [says(ANN, "more", id_="m2")], fence=50)
    for id_, fence in (("k1", 49), ("k2", 50), ("k3", 51)):
        task = replace(asked(session, id_), mode=TaskMode.BACKGROUND)
        await store.tasks.open(task, wake=wake_of(ANN), fence=fence)
    assert await store.tasks.unwanted(["k1", "k2", "k3"]) == {"k1", "k3"}
    assert [await started(store, id_) for id_ in ("k1", "k2", "k3")] == [False, True, False]
    await finished(store, "k1", "k3")
    assert await store.tasks.due_wakes(limit=9) == []


# --- who lives


async def test_a_task_is_lost_once_nobody_says_that_it_lives(store: Store) -> None:
    session = await conversation(store)
    [running, queued] = await opened(store, session, "k1", "k2")
    await started(store, "k1", at_ms=11_000)
    assert await store.tasks.lose(now_ms=20_001) == []
    [lost] = await store.tasks.lose(now_ms=20_002)
    assert lost == replace(
        queued, state=TaskState.FAILED, reason=literal_code(Reason.WORKER_LOST), finished_at_ms=20_002
    )
    [lost] = await store.tasks.lose(now_ms=21_001)
    assert (lost.id, lost.started_at_ms) == (running.id, 11_000)
    assert await store.tasks.lose(now_ms=99_000) == []


async def test_a_worker_keeps_all_its_tasks_alive_at_once(store: Store) -> None:
    """Those that it runs and those that it has queued; nobody else's."""
    session = await conversation(store)
    await opened(store, session, "k1", "k2")
    await store.tasks.open(replace(asked(session, "k3"), worker_id="worker-2"), wake=None)
    await started(store, "k1")
    await store.tasks.keep_alive(WORKER, alive_until_ms=50_000)
    await store.tasks.keep_alive(WORKER, alive_until_ms=60_000)
    assert [task.id for task in await store.tasks.lose(now_ms=60_000)] == ["k3"]
    assert {task.id for task in await store.tasks.lose(now_ms=60_001)} == {"k1", "k2"}


async def test_a_lost_task_is_lost_by_one_only(store: Store) -> None:
    session = await conversation(store)
    await opened(store, session, "k1", "k2", "k3")
    both = await asyncio.gather(store.tasks.lose(now_ms=99_000), store.tasks.lose(now_ms=99_000))
    assert sorted(task.id for found in both for task in found) == ["k1", "k2", "k3"]


async def test_nobody_lives_until_next_year(store: Store) -> None:
    """Its clock was wrong, and was set back before it died."""
    session = await conversation(store)
    await opened(store, session, "k1", at_ms=40_000_000_000)
    await store.tasks.keep_alive(WORKER, alive_until_ms=40_000_010_000)
    assert [task.id for task in await store.tasks.lose(now_ms=10_000)] == ["k1"]
    assert await store.tasks.lose(now_ms=40_000_000_000) == []


async def test_a_worker_that_comes_back_late_is_not_heard(store: Store) -> None:
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    await store.tasks.lose(now_ms=99_000)
    assert not await store.tasks.finish("k1", ending())
    assert not await started(store, "k1")
    assert (await current(store, task)).reason == "worker_lost"
    assert await store.tasks.unwanted(["k1"]) == {"k1"}


# --- who is to end


async def test_nobody_wants_what_is_over_or_not_there(store: Store) -> None:
    session = await conversation(store)
    await opened(store, session, "k1", "k2")
    assert await store.tasks.unwanted(["k1", "k2"]) == set()
    await finished(store, "k2")
    assert await store.tasks.unwanted(["k1", "k2", "never"]) == {"k2", "never"}
    await store.people.erase(ANN)
    assert await store.tasks.unwanted(["k1"]) == {"k1"}


async def test_all_of_a_key_are_asked_to_end(store: Store) -> None:
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


async def test_what_was_ended_since_a_moment_can_be_counted(store: Store) -> None:
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


async def test_one_is_asked_to_end_with_all_below_it(store: Store) -> None:
    session = await conversation(store)
    [task, _] = await opened(store, session, "k1", "k2")
    [child] = await opened(store, task, "c1")
    await opened(store, child, "g1")
    await finished(store, "c1")
    assert await store.tasks.want_cancelled(ANN, task_ids=["k1"]) == 2
    assert await store.tasks.unwanted(["k1", "k2", "g1"]) == {"k1", "g1"}


async def test_nobody_ends_the_tasks_of_somebody_else(store: Store) -> None:
    session = await conversation(store)
    await opened(store, session, "k1")
    await conversation(store, BOB)
    assert await store.tasks.want_cancelled(BOB, task_ids=["k1"]) == 0
    assert await store.tasks.want_cancelled(BOB) == 0
    assert await store.tasks.unwanted(["k1"]) == set()
