"""Barriers and wakes, on SQLite and PostgreSQL: what a session is told when its sub-agents are over, once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Session, TurnState
from gateway.contracts.subagents import Barrier, TaskMode, TaskState, WaitMode, Wake
from gateway.store import Store
from tests.contract.store_samples import ANN, BOB, SHARED_GROUP, begin, outcome, says
from tests.contract.subtask_samples import (
    asked,
    conversation,
    current,
    ending,
    finished,
    opened,
    spawned,
    started,
    wake_of,
)


def barrier(session: Session, *ids: str, mode: WaitMode = WaitMode.ALL, needed: int = 0, id_: str = "b1") -> Barrier:
    return Barrier(
        id=id_,
        session_id=session.id,
        turn_id=f"turn-{id_}",
        task_ids=ids,
        mode=mode,
        needed=needed or len(ids),
        wake=wake_of(session.key),
        created_at_ms=13_000,
    )


async def yields(store: Store, to: Barrier, *, state: TurnState = TurnState.DONE, fence: int = 50) -> None:
    """A turn that says it waits."""
    messages = [says(to.wake.key, "wait for them", id_=f"m-{to.id}")]
    start = await begin(store, to.turn_id, messages, fence=fence)
    done = outcome(start, to.turn_id, messages, fence=fence, state=state)
    await store.turns.commit(replace(done, outbox=(), barrier=to))


async def due(store: Store) -> list[Wake]:
    return list(await store.tasks.due_wakes(limit=99))


async def told(store: Store) -> list[tuple[str, list[str]]]:
    """What is due: the id of each wake, and the tasks it tells of."""
    return [(wake.id, [task.id for task in wake.tasks]) for wake in await due(store)]


# --- without a barrier


async def test_a_background_task_that_is_over_wakes_its_session(store: Store) -> None:
    session = await conversation(store)
    [task] = await spawned(store, session, "k1")
    assert await due(store) == []
    await finished(store, "k1")
    over = await current(store, task)
    [wake] = await due(store)
    assert wake == Wake("k1", session.id, wake_of(ANN), (over,))
    assert wake.message_id == "subagent:k1"


async def test_it_wakes_until_the_bus_has_it_and_then_never_again(store: Store) -> None:
    session = await conversation(store)
    await spawned(store, session, "k1")
    await finished(store, "k1")
    [wake] = await due(store)
    assert await due(store) == [wake]
    await store.tasks.wake_sent(wake)
    assert await due(store) == []
    await store.tasks.wake_sent(wake)
    assert await due(store) == []


async def test_an_inline_task_wakes_nobody(store: Store) -> None:
    session = await conversation(store)
    await opened(store, session, "k1")
    await finished(store, "k1")
    assert await due(store) == []


async def test_nobody_is_woken_while_the_turn_that_asked_runs(store: Store) -> None:
    """It may still wait for its tasks, or die and be run again."""
    session = await conversation(store)
    messages = [says(ANN, "in the background, please", id_="m2")]
    start = await begin(store, "t2", messages, fence=2)
    await spawned(store, session, "k1", turn_id="t2")
    await finished(store, "k1")
    assert await told(store) == []
    await store.turns.commit(outcome(start, "t2", messages, fence=2))
    assert await told(store) == [("k1", ["k1"])]


async def test_a_turn_that_was_lost_holds_no_wake_back(store: Store) -> None:
    session = await conversation(store)
    await begin(store, "t2", [says(ANN, "in the background", id_="m2")], fence=2)
    await spawned(store, session, "k1", turn_id="t2")
    await store.tasks.lose(now_ms=99_000)
    assert await told(store) == []
    await begin(store, "t3", [says(ANN, "in the background", id_="m2")], fence=3)
    [wake] = await due(store)
    assert wake.tasks[0].reason == "worker_lost"


async def test_a_collected_task_wakes_nobody(store: Store) -> None:
    """Whether it was over by then, or is told of elsewhere."""
    session = await conversation(store)
    await spawned(store, session, "over", "alive")
    await finished(store, "over")
    await store.tasks.collect(["over", "alive", "nobody"])
    await finished(store, "alive")
    assert await due(store) == []


async def test_wakes_are_due_oldest_first_and_in_portions(store: Store) -> None:
    session = await conversation(store)
    other = await conversation(store, BOB)
    await spawned(store, session, "k1", "k2")
    await spawned(store, other, "o1")
    await finished(store, "k2", "o1", "k1")
    assert [wake.id for wake in await store.tasks.due_wakes(limit=2)] == ["k2", "o1"]
    assert [wake.id for wake in await due(store)] == ["k2", "o1", "k1"]


async def test_the_address_comes_back_whole(store: Store) -> None:
    """In a shared place it is somebody's, too."""
    session = await conversation(store, SHARED_GROUP)
    wake = replace(wake_of(SHARED_GROUP), author_name=CleanText('Ann "the" ☃'), author_id="77")
    await store.tasks.open(replace(asked(session, "k1"), mode=TaskMode.BACKGROUND), wake=wake)
    await finished(store, "k1")
    assert [found.address for found in await due(store)] == [wake]


# --- behind a barrier


@pytest.mark.parametrize(("mode", "needed"), [(WaitMode.ALL, 3), (WaitMode.ANY, 1), (WaitMode.COUNT, 2)])
async def test_a_barrier_is_met_when_enough_are_over(store: Store, mode: WaitMode, needed: int) -> None:
    session = await conversation(store)
    ids = ["k1", "k2", "k3"]
    await spawned(store, session, *ids)
    await yields(store, barrier(session, *ids, mode=mode, needed=needed))
    for number, id_ in enumerate(ids[:needed]):
        assert await told(store) == []
        await finished(store, id_, at_ms=14_000 + number)
    [wake] = await due(store)
    assert (wake.id, wake.barrier_id, wake.session_id, wake.address) == ("b1", "b1", session.id, wake_of(ANN))
    assert [task.id for task in wake.tasks] == ids[:needed]
    await store.tasks.wake_sent(wake)
    assert await told(store) == []


async def test_what_was_over_before_the_turn_yielded_counts(store: Store) -> None:
    """Between the look of the turn and its commit."""
    session = await conversation(store)
    await spawned(store, session, "k1", "k2")
    await finished(store, "k1", "k2")
    await yields(store, barrier(session, "k1", "k2"))
    assert await told(store) == [("b1", ["k1", "k2"])]


async def test_what_ends_behind_a_barrier_that_is_met_wakes_by_itself(store: Store) -> None:
    """What the wake tells never changes, whoever sends it and however late: nobody's result is lost."""
    session = await conversation(store)
    await spawned(store, session, "k1", "k2")
    await yields(store, barrier(session, "k1", "k2", mode=WaitMode.ANY, needed=1))
    await finished(store, "k1")
    [first] = await due(store)
    await finished(store, "k2", at_ms=14_000)
    assert await told(store) == [("b1", ["k1"]), ("k2", ["k2"])]
    await store.tasks.wake_sent(first)
    await store.tasks.wake_sent(first)
    assert await told(store) == [("k2", ["k2"])]


async def test_a_lost_task_counts_as_over(store: Store) -> None:
    """The process that ran the tasks, and that put the barrier, is dead."""
    session = await conversation(store)
    await spawned(store, session, "k1", "k2")
    await finished(store, "k1")
    await yields(store, barrier(session, "k1", "k2"))
    assert await told(store) == []
    await store.tasks.lose(now_ms=99_000)
    [wake] = await due(store)
    assert [(task.id, task.state, task.reason) for task in wake.tasks] == [
        ("k1", TaskState.COMPLETED, ""),
        ("k2", TaskState.FAILED, "worker_lost"),
    ]


async def test_tasks_that_were_told_on_another_way_are_not_told_again(store: Store) -> None:
    session = await conversation(store)
    await spawned(store, session, "k1", "k2")
    await yields(store, barrier(session, "k1", "k2"))
    await finished(store, "k1")
    await store.tasks.collect(["k1"])
    await finished(store, "k2", at_ms=14_000)
    assert await told(store) == [("b1", ["k2"])]


async def test_a_barrier_falls_when_all_behind_it_was_told(store: Store) -> None:
    """The user spoke meanwhile, and that turn fetched the results."""
    session = await conversation(store)
    await spawned(store, session, "k1", "k2")
    await yields(store, barrier(session, "k1", "k2"))
    await finished(store, "k1", "k2")
    await store.tasks.collect(["k1", "k2"])
    assert await told(store) == []


async def test_two_barriers_for_one_task_are_both_met_and_it_is_told_once(store: Store) -> None:
    session = await conversation(store)
    await spawned(store, session, "k1", "k2")
    await yields(store, barrier(session, "k1"))
    await yields(store, barrier(session, "k1", "k2", id_="b2"), fence=51)
    await finished(store, "k1")
    [first] = await due(store)
    assert first.id == "b1"
    await store.tasks.wake_sent(first)
    assert await told(store) == []
    await finished(store, "k2", at_ms=14_000)
    assert await told(store) == [("b2", ["k2"])]


async def test_a_turn_that_waits_for_what_was_told_waits_for_nothing(store: Store) -> None:
    session = await conversation(store)
    await spawned(store, session, "k1")
    await finished(store, "k1")
    [wake] = await due(store)
    await store.tasks.wake_sent(wake)
    await yields(store, barrier(session, "k1"))
    assert await told(store) == []
    await spawned(store, session, "k2")
    await finished(store, "k2", at_ms=14_000)
    assert await told(store) == [("k2", ["k2"])]


async def test_nobody_waits_for_the_tasks_of_somebody_else(store: Store) -> None:
    session, other = await conversation(store), await conversation(store, BOB)
    await spawned(store, session, "k1")
    await spawned(store, other, "o1")
    await yields(store, barrier(session, "k1", "o1"))
    await finished(store, "o1", "k1")
    assert await told(store) == [("o1", ["o1"]), ("b1", ["k1"])]


async def test_a_turn_that_did_not_end_well_waits_for_nothing(store: Store) -> None:
    session = await conversation(store)
    await spawned(store, session, "k1")
    await yields(store, barrier(session, "k1"), state=TurnState.STOPPED)
    await finished(store, "k1")
    assert await told(store) == [("k1", ["k1"])]


async def test_two_processes_that_look_at_once_see_the_same(store: Store) -> None:
    session = await conversation(store)
    await spawned(store, session, "k1", "k2", "k3")
    await yields(store, barrier(session, "k1", "k2", "k3", mode=WaitMode.COUNT, needed=2))
    await finished(store, "k1", "k2")
    last = asyncio.create_task(store.tasks.finish("k3", ending(at_ms=15_000)))
    looks = await asyncio.gather(*(due(store) for _ in range(4)))
    await last
    after = {wake.id: wake for wake in await due(store)}
    assert [wake for look in looks for wake in look if wake.id == "b1"] == [after["b1"]] * 4
    assert {task.id for wake in after.values() for task in wake.tasks} == {"k1", "k2", "k3"}


# --- what the user says


async def test_a_stop_of_all_lets_nobody_be_woken(store: Store) -> None:
    """Neither by what it ended, nor by what had been over a moment before; somebody else's wakes stay."""
    session, other = await conversation(store), await conversation(store, BOB)
    await spawned(store, session, "over", "alive", "alone")
    await spawned(store, other, "o1")
    await yields(store, barrier(session, "over", "alive"))
    await finished(store, "over")
    assert await store.tasks.want_cancelled(ANN) == 2
    await finished(store, "alive", "alone", "o1")
    assert await told(store) == [("o1", ["o1"])]


async def test_ending_one_leaves_the_barrier_to_the_others(store: Store) -> None:
    session = await conversation(store)
    await spawned(store, session, "k1", "k2")
    await yields(store, barrier(session, "k1", "k2"))
    await store.tasks.want_cancelled(ANN, task_ids=["k1"])
    await store.tasks.finish("k1", ending(TaskState.CANCELLED))
    await finished(store, "k2", at_ms=14_000)
    assert await told(store) == [("b1", ["k1", "k2"])]


async def test_what_a_stopped_turn_asked_for_is_to_end_and_wakes_nobody(store: Store) -> None:
    """A tool call may be under way while the user says stop: what it started has nobody who wants it."""
    session = await conversation(store)
    messages = [says(ANN, "in the background", id_="m2")]
    start = await begin(store, "t2", messages, fence=2)
    await store.tasks.want_cancelled(ANN)
    await spawned(store, session, "late", turn_id="t2")
    await spawned(store, session, "earlier")
    await store.turns.commit(outcome(start, "t2", messages, fence=2, state=TurnState.STOPPED))
    assert await store.tasks.unwanted(["late", "earlier"]) == {"late"}
    await finished(store, "late", "earlier")
    assert await told(store) == [("earlier", ["earlier"])]


# --- on the way


async def test_a_wake_on_its_way_is_overtaken_when_all_it_tells_was_told(store: Store) -> None:
    session = await conversation(store)
    await spawned(store, session, "k1", "k2", "k3")
    await yields(store, barrier(session, "k1", "k2"))
    await finished(store, "k1", "k2", "k3")
    for wake in await due(store):
        await store.tasks.wake_sent(wake)
    both = ["subagent:b1", "subagent:k3"]
    assert await store.tasks.overtaken(both) == frozenset()
    await store.tasks.collect(["k1", "k3"])
    assert await store.tasks.overtaken(both) == {"subagent:k3"}
    await store.tasks.want_cancelled(ANN)
    assert await store.tasks.overtaken([*both, "subagent:unknown"]) == frozenset(both)


async def test_a_wake_that_nobody_sent_is_not_overtaken(store: Store) -> None:
    session = await conversation(store)
    await spawned(store, session, "k1")
    assert await store.tasks.overtaken(["subagent:k1"]) == frozenset()
    assert await store.tasks.overtaken([]) == frozenset()


# --- erasing


async def test_nobody_who_was_erased_is_woken(store: Store) -> None:
    session = await conversation(store)
    await spawned(store, session, "k1", "k2")
    await yields(store, barrier(session, "k1"))
    await finished(store, "k1", "k2")
    erased = await store.people.erase(ANN)
    assert (erased["sub_tasks"], erased["barriers"], erased["waits"]) == (2, 1, 1)
    assert await told(store) == []
    assert not await started(store, "k2")
