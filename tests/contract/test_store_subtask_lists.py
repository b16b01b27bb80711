"""Lists of sub-agents' tasks, on SQLite and PostgreSQL: the board, a person's own lists, families."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gateway.contracts.messages import CleanText
from gateway.contracts.subagents import SubTask, TaskState
from gateway.limits import SUBTASK_SHOWN_CHARS_MAX, SUBTASKS_KEPT
from gateway.store import Store, sessions
from gateway.store.board import from_task
from gateway.store.engine import Connection
from gateway.store.subagents import from_child
from gateway.store.tables import sub_tasks
from tests.contract.store_samples import ANN, ANN_IN_GROUP, BOB, talk
from tests.contract.subtask_samples import (
    WORKER,
    asked,
    conversation,
    current,
    ending,
    finished,
    model_call,
    opened,
    said,
    spawned,
    started,
    turn_of,
    wake_of,
)

# --- lists


async def test_tasks_are_found_by_their_turn_and_by_whom_they_work_for(store: Store) -> None:
    session, other = await conversation(store), await conversation(store, BOB)
    [first, second] = await opened(store, session, "k2", "k1")
    [child] = await opened(store, first, "c1", at_ms=20_000)
    await opened(store, other, "o1")
    assert await store.tasks.tasks_of_session(session.id) == [first, second]
    assert await store.tasks.tasks_of_session(first.session_id) == [child]
    assert await store.tasks.tasks_of_turn(turn_of()) == [first, second, child]
    assert await store.tasks.tasks_of_turn("nobody's") == []


async def test_a_persons_own_lists_do_not_show_sub_agents(store: Store) -> None:
    """Neither the list, nor the numbers, nor the next number, nor the current session."""
    session = await conversation(store)
    await opened(store, session, "k1", "k2")
    assert [each.id for each in await store.sessions.page(key=ANN)] == [session.id]
    assert [each.id for each in await store.sessions.page()] == [session.id]
    assert await store.sessions.numbered(ANN, 0) is None
    assert (await store.sessions.numbered(ANN, 1)) is not None
    assert (await talk(store, ANN, "and on", number=2)).id == session.id
    everybody = await store.sessions.page(key=ANN, with_sub_agents=True)
    assert [each.id for each in everybody] == ["s-k2", "s-k1", session.id]
    assert [each.id for each in await store.sessions.page(with_sub_agents=True, limit=1, offset=1)] == ["s-k1"]


async def test_the_board_shows_live_ones_first_then_the_last_that_were_over(store: Store) -> None:
    session = await conversation(store)
    await opened(store, session, "a", "b", "c", "d")
    await started(store, "b")
    await finished(store, "d")
    await finished(store, "a", at_ms=13_000)
    assert [task.id for task in await store.tasks.newest(limit=9)] == ["c", "b", "a", "d"]
    assert [task.id for task in await store.tasks.newest(limit=1)] == ["c"]


async def test_the_board_shows_long_texts_in_short(store: Store) -> None:
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    await store.tasks.finish("k1", ending(result="r" * 9_000))
    [shown] = await store.tasks.newest(limit=9)
    assert len(shown.result) == SUBTASK_SHOWN_CHARS_MAX
    assert shown == replace(await current(store, task), result=CleanText("r" * SUBTASK_SHOWN_CHARS_MAX))


async def test_each_type_has_its_record(store: Store) -> None:
    session = await conversation(store)
    states = [*[TaskState.COMPLETED] * 3, TaskState.FAILED, TaskState.CANCELLED, TaskState.TIMED_OUT]
    for number, state in enumerate(states):
        await store.tasks.open(asked(session, f"c{number}", sub_type="code"), wake=None)
        await store.tasks.finish(f"c{number}", ending(state))
    await opened(store, session, "e1", "e2")
    await started(store, "e1")
    code, explore = await store.tasks.records()
    assert (code.sub_type, code.completed, code.failed, code.cancelled, code.timed_out) == ("code", 3, 1, 1, 1)
    assert code.success_rate == 0.6
    assert (explore.sub_type, explore.running, explore.success_rate) == ("explore", 2, None)


async def test_the_revision_grows_with_what_can_be_seen(store: Store) -> None:
    session = await conversation(store)
    seen = [await store.tasks.revision()]

    async def look() -> bool:
        seen.append(await store.tasks.revision())
        return seen[-1] > seen[-2]

    assert seen == [0]
    await opened(store, session, "k1")
    assert await look()
    await opened(store, session, "k1")
    assert not await look()
    await started(store, "k1")
    assert await look()
    await store.tasks.keep_alive(WORKER, alive_until_ms=99_000)
    await store.tasks.record("k1", entries=[said("x")], usage=())
    assert not await look()
    await store.tasks.record("k1", entries=(), usage=[model_call(ANN, 1, 1, 0.1)])
    assert await look()
    await finished(store, "k1")
    assert await look()
    await store.tasks.finish("k1", ending())
    assert not await look()
    await store.people.erase(ANN)
    assert await look()


async def test_the_last_hundred_that_are_over_are_kept_and_all_that_are_needed(store: Store) -> None:
    """What lives, and what somebody still has to be told of, is kept however old it is; sessions always are."""
    session = await conversation(store)
    await spawned(store, session, "told", "untold", "alive")
    await finished(store, "told", "untold")
    await store.tasks.collect(["told"])
    before = [f"k{number:03}" for number in range(SUBTASKS_KEPT)]
    await have_been(store, [asked(session, id_, at_ms=20_000 + number) for number, id_ in enumerate(before)])
    assert len(await store.tasks.newest(limit=500)) == SUBTASKS_KEPT + 3
    await opened(store, session, "last", at_ms=30_000)
    await finished(store, "last", at_ms=30_000)
    kept = [task.id for task in await store.tasks.newest(limit=500)]
    assert kept == ["alive", "last", *reversed(before[1:]), "untold"]
    assert len(await store.tasks.children(session.id)) == SUBTASKS_KEPT + 4


async def have_been(store: Store, tasks: Sequence[SubTask]) -> None:
    """Tasks that are over, written at once."""
    over = [replace(task, state=TaskState.COMPLETED, finished_at_ms=task.created_at_ms) for task in tasks]

    def write(connection: Connection) -> None:
        for task in over:
            sessions.open_child(connection, from_child(task))
        connection.execute(sub_tasks.insert(), [from_task(task, wake=None, is_unwanted=False) for task in over])

    await store.database.write(write)


# --- families


async def test_a_tree_has_parents_before_children_and_siblings_by_age(store: Store) -> None:
    session = await conversation(store)
    [first, second] = await opened(store, session, "k1", "k2")
    [_, child] = await opened(store, second, "c2", "c1", at_ms=20_000)
    await opened(store, first, "c3", at_ms=30_000)
    await opened(store, child, "g1", at_ms=40_000)
    names = [each.id for each in await store.tasks.tree(session.id)]
    assert names == [session.id, "s-k1", "s-c3", "s-k2", "s-c2", "s-c1", "s-g1"]
    assert [each.id for each in await store.tasks.tree("s-c1")] == ["s-c1", "s-g1"]
    assert await store.tasks.tree("nobody") == []
    assert [each.id for each in await store.tasks.children(session.id)] == ["s-k1", "s-k2"]
    assert await store.tasks.count_children([session.id, "s-k2", "s-g1"]) == {session.id: 2, "s-k2": 2}
    assert [task.id for task in await store.tasks.tasks_below("s-k2")] == ["k2", "c2", "c1", "g1"]


async def test_conversations_with_sub_agents_are_found(store: Store) -> None:
    session, other = await conversation(store), await conversation(store, BOB)
    await conversation(store, ANN_IN_GROUP)
    [task] = await opened(store, session, "k1")
    await opened(store, task, "c1")
    await store.tasks.open(asked(other, "o1"), wake=wake_of(BOB))
    assert {head.id for head in await store.tasks.heads(limit=9)} == {session.id, other.id}
    assert [head.id for head in await store.tasks.heads(key=ANN, limit=9)] == [session.id]
    assert len(await store.tasks.heads(limit=1)) == 1
