"""Sub-agents' tasks, on SQLite and PostgreSQL: opened once, started nine at a time, ended once, paid by those above."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from sqlalchemy import Connection

from gateway.contracts.entries import SessionStatus, UsagePurpose
from gateway.contracts.errors import StoreError
from gateway.contracts.messages import CleanText, own_code
from gateway.contracts.ports import Span
from gateway.contracts.reasons import Reason
from gateway.contracts.subagents import Doing, Occupation, SubTask, TaskEnding, TaskMode, TaskState
from gateway.limits import SUBAGENT_KEPT_CHARS_MAX, SUBTASK_SHOWN_CHARS_MAX, SUBTASKS_KEPT
from gateway.store import SqlStore, open_store, sessions
from gateway.store.subagent_rows import from_child, from_task
from gateway.store.subagent_tables import sub_tasks
from tests.contract.store_samples import ANN, ANN_IN_GROUP, BOB, begin, says, talk
from tests.contract.subtask_samples import (
    LIVE_MAX,
    WORKER,
    as_started,
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

# --- open


async def test_a_task_comes_back_as_it_was_opened(store: SqlStore) -> None:
    session = await conversation(store)
    task = asked(session)
    assert await store.tasks.open(task, wake=None) == task
    assert await store.tasks.task(task.id) == task
    assert await store.tasks.task("nobody") is None


async def test_a_task_has_a_session_that_is_no_conversation(store: SqlStore) -> None:
    """It belongs to the key, has neither number nor turn in the lane, and is titled already."""
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    child = await store.session(task.session_id)
    assert child is not None
    assert (child.key, child.channel, child.parent_session_id) == (ANN, "subagent:explore", session.id)
    assert (child.title, child.number, child.is_current) == ("label of k1", 0, False)
    assert child.status is SessionStatus.ACTIVE
    assert await store.current_session(ANN) == await store.session(session.id)


async def test_opening_again_changes_nothing(store: SqlStore) -> None:
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    await started(store, task.id)
    again = await store.tasks.open(replace(task, prompt=CleanText("something else")), wake=None)
    assert again == as_started(task)
    assert len(await store.tasks.children(session.id)) == 1


async def test_two_workers_that_open_the_same_task_open_one(store: SqlStore) -> None:
    session = await conversation(store)
    both = await asyncio.gather(*(store.tasks.open(asked(session), wake=None) for _ in range(2)))
    assert both[0] == both[1]
    assert len(await store.tasks.children(session.id)) == 1


async def test_nobody_works_for_a_session_of_somebody_else(store: SqlStore) -> None:
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


async def test_the_tenth_waits_until_one_of_nine_is_over(store: SqlStore) -> None:
    session = await conversation(store)
    ids = [f"k{number}" for number in range(10)]
    await opened(store, session, *ids)
    assert [await started(store, id_) for id_ in ids] == [True] * LIVE_MAX + [False]
    await finished(store, "k3")
    assert await started(store, ids[-1])


async def test_of_many_that_start_the_last_one_exactly_one_does(store: SqlStore) -> None:
    """From two processes at once."""
    session = await conversation(store)
    ids = [f"k{number}" for number in range(6)]
    await opened(store, session, *ids)
    other = open_store(store._database.url.render_as_string(hide_password=False))
    try:
        results = await asyncio.gather(
            *(started(one, id_, live_max=2) for id_, one in zip(ids, [store, other] * 3, strict=True))
        )
    finally:
        await other.close()
    assert sum(results) == 2
    states = [task.state for task in await store.tasks.tasks_of_session(session.id)]
    assert states.count(TaskState.RUNNING) == 2


async def test_the_limit_is_one_for_each_parent(store: SqlStore) -> None:
    """Grandchildren and the children of another conversation do not count."""
    session, other = await conversation(store), await conversation(store, ANN_IN_GROUP)
    [first, _] = await opened(store, session, "k1", "k2")
    await opened(store, other, "o1")
    await opened(store, first, "g1")
    assert [await started(store, id_, live_max=1) for id_ in ("k1", "o1", "g1", "k2")] == [True, True, True, False]


async def test_what_is_over_or_to_end_does_not_start(store: SqlStore) -> None:
    session = await conversation(store)
    await opened(store, session, "k1", "k2")
    await finished(store, "k1")
    await store.tasks.want_cancelled(ANN, task_ids=["k2"])
    assert not await started(store, "k1")
    assert not await started(store, "k2")
    assert not await started(store, "nobody")


# --- finish


async def test_an_ending_is_kept_and_closes_the_session(store: SqlStore) -> None:
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
    child = await store.session(task.session_id)
    assert child is not None
    assert child.status is SessionStatus.CLOSED


async def test_of_all_who_end_a_task_one_is_heard(store: SqlStore) -> None:
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    other = open_store(store._database.url.render_as_string(hide_password=False))
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


async def test_a_queued_task_may_end_without_having_run(store: SqlStore) -> None:
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    assert await store.tasks.finish("k1", ending(TaskState.CANCELLED))
    assert (await current(store, task)).duration_ms == 0


async def test_a_long_answer_is_kept_up_to_its_limit(store: SqlStore) -> None:
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    await store.tasks.finish("k1", ending(result="r" * (SUBAGENT_KEPT_CHARS_MAX + 1)))
    assert len((await current(store, task)).result) == SUBAGENT_KEPT_CHARS_MAX


async def test_what_works_for_a_task_that_is_over_is_to_end(store: SqlStore) -> None:
    session = await conversation(store)
    [task, bystander] = await opened(store, session, "k1", "k2")
    [child] = await opened(store, task, "c1")
    await opened(store, child, "g1")
    await finished(store, "k1")
    assert await store.tasks.unwanted(["c1", "g1", "k2"]) == {"c1", "g1"}
    assert await started(store, bystander.id)


async def test_what_is_opened_for_somebody_who_is_to_end_is_to_end(store: SqlStore) -> None:
    """However the two workers fall over each other, no sub-agent is left without anybody who waits for it."""
    session = await conversation(store)
    [task, over] = await opened(store, session, "k1", "k2")
    await store.tasks.want_cancelled(ANN, task_ids=["k1"])
    await finished(store, "k2")
    await opened(store, task, "c1")
    await opened(store, over, "c2")
    assert await store.tasks.unwanted(["k1", "c1", "c2"]) == {"k1", "c1", "c2"}


async def test_what_a_run_asks_for_that_lost_its_lane_is_to_end_and_tells_nobody(store: SqlStore) -> None:
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


# --- record


async def test_a_childs_transcript_is_numbered_and_read_like_any(store: SqlStore) -> None:
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    await store.tasks.record("k1", entries=[said("one"), said("two")], usage=())
    await store.tasks.record("k1", entries=[said("three")], usage=())
    entries = await store.transcript(task.session_id)
    assert [(entry.seq, entry.text, entry.turn_id) for entry in entries] == [
        (1, "one", turn_of()),
        (2, "two", turn_of()),
        (3, "three", turn_of()),
    ]
    child = await store.session(task.session_id)
    assert child is not None
    assert child.message_count == 3
    parent = await store.session(session.id)
    assert parent is not None
    assert parent.message_count == session.message_count


async def test_what_is_recorded_again_is_recorded_once(store: SqlStore) -> None:
    """Whoever recorded it could not know: the database went away in the middle."""
    session = await conversation(store)
    await opened(store, session, "k1")
    batch = [replace(said("one"), seq=1), replace(said("two"), seq=2)]
    for _ in range(2):
        await store.tasks.record("k1", entries=batch, usage=[model_call(ANN, 100, 10, 0.5)])
    await store.tasks.record("k1", entries=[replace(said("three"), seq=3)], usage=[model_call(ANN, 1, 1, 0.25)])
    assert [entry.text for entry in await store.transcript("s-k1")] == ["one", "two", "three"]
    task = await store.tasks.task("k1")
    assert task is not None
    assert (task.tokens, task.cost_usd) == (112, 0.75)


async def test_what_a_grandchild_costs_is_summed_up_to_the_conversation(store: SqlStore) -> None:
    session = await conversation(store)
    [task, sibling] = await opened(store, session, "k1", "k2")
    [child] = await opened(store, task, "c1")
    await store.tasks.record("c1", entries=(), usage=[model_call(ANN, 100, 10, 0.5), model_call(ANN, 1, 1, 0.25)])
    await store.tasks.record("k1", entries=(), usage=[model_call(ANN, 1000, 100, 1.0)])
    for each, tokens, cost in ((child, (101, 11), 0.75), (task, (1101, 111), 1.75), (sibling, (0, 0), 0.0)):
        now = await current(store, each)
        assert (now.tokens_in, now.tokens_out, now.cost_usd) == (*tokens, cost)
        assert now.tokens == sum(tokens)
        own = await store.session(each.session_id)
        assert own is not None
        assert (own.tokens, own.cost_usd) == (sum(tokens), cost)
    above = await store.session(session.id)
    assert above is not None
    assert (above.tokens, above.cost_usd) == (session.tokens + 1212, 1.75)


async def test_sums_by_day_count_each_call_once(store: SqlStore) -> None:
    """However many sessions have it in their sums; and it is charged to the user, whoever the caller says."""
    session = await conversation(store, ANN_IN_GROUP)
    [task] = await opened(store, session, "k1")
    [_child] = await opened(store, task, "c1")
    await store.tasks.record("c1", entries=(), usage=[model_call(BOB, 100, 10, 0.5)])
    by_purpose = await store.usage.by_purpose(ANN_IN_GROUP.owner, Span(0, 99_000))
    assert by_purpose[UsagePurpose.SUBAGENT].calls == 1
    assert by_purpose[UsagePurpose.SUBAGENT].cost_usd == 0.5
    assert await store.usage.by_purpose(BOB, Span(0, 99_000)) == {}


async def test_calls_recorded_at_once_are_all_counted(store: SqlStore) -> None:
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
    above = await store.session(session.id)
    assert above is not None
    assert above.cost_usd == 6.0


async def test_a_call_that_ends_after_its_task_is_charged(store: SqlStore) -> None:
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    await finished(store, "k1")
    await store.tasks.record("k1", entries=(), usage=[model_call(ANN, 5, 5, 0.1)])
    assert (await current(store, task)).tokens == 10


async def test_the_board_shows_what_a_task_does_while_it_runs(store: SqlStore) -> None:
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


async def test_nothing_is_recorded_for_nobody(store: SqlStore) -> None:
    with pytest.raises(StoreError, match="there is no task k1"):
        await store.tasks.record("k1", entries=[said("x")], usage=())


# --- lists


async def test_tasks_are_found_by_their_turn_and_by_whom_they_work_for(store: SqlStore) -> None:
    session, other = await conversation(store), await conversation(store, BOB)
    [first, second] = await opened(store, session, "k2", "k1")
    [child] = await opened(store, first, "c1", at_ms=20_000)
    await opened(store, other, "o1")
    assert await store.tasks.tasks_of_session(session.id) == [first, second]
    assert await store.tasks.tasks_of_session(first.session_id) == [child]
    assert await store.tasks.tasks_of_turn(turn_of()) == [first, second, child]
    assert await store.tasks.tasks_of_turn("nobody's") == []


async def test_a_persons_own_lists_do_not_show_sub_agents(store: SqlStore) -> None:
    """Neither the list, nor the numbers, nor the next number, nor the current session."""
    session = await conversation(store)
    await opened(store, session, "k1", "k2")
    assert [each.id for each in await store.sessions(key=ANN)] == [session.id]
    assert [each.id for each in await store.sessions()] == [session.id]
    assert await store.session_numbered(ANN, 0) is None
    assert (await store.session_numbered(ANN, 1)) is not None
    assert (await talk(store, ANN, "and on", number=2)).id == session.id
    everybody = await store.sessions(key=ANN, with_sub_agents=True)
    assert [each.id for each in everybody] == ["s-k2", "s-k1", session.id]
    assert [each.id for each in await store.sessions(with_sub_agents=True, limit=1, offset=1)] == ["s-k1"]


async def test_the_board_shows_live_ones_first_then_the_last_that_were_over(store: SqlStore) -> None:
    session = await conversation(store)
    await opened(store, session, "a", "b", "c", "d")
    await started(store, "b")
    await finished(store, "d")
    await finished(store, "a", at_ms=13_000)
    assert [task.id for task in await store.tasks.newest(limit=9)] == ["c", "b", "a", "d"]
    assert [task.id for task in await store.tasks.newest(limit=1)] == ["c"]


async def test_the_board_shows_long_texts_in_short(store: SqlStore) -> None:
    session = await conversation(store)
    [task] = await opened(store, session, "k1")
    await store.tasks.finish("k1", ending(result="r" * 9_000))
    [shown] = await store.tasks.newest(limit=9)
    assert len(shown.result) == SUBTASK_SHOWN_CHARS_MAX
    assert shown == replace(await current(store, task), result=CleanText("r" * SUBTASK_SHOWN_CHARS_MAX))


async def test_each_type_has_its_record(store: SqlStore) -> None:
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


async def test_the_revision_grows_with_what_can_be_seen(store: SqlStore) -> None:
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


async def test_the_last_hundred_that_are_over_are_kept_and_all_that_are_needed(store: SqlStore) -> None:
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


async def have_been(store: SqlStore, tasks: Sequence[SubTask]) -> None:
    """Tasks that are over, written at once."""
    over = [replace(task, state=TaskState.COMPLETED, finished_at_ms=task.created_at_ms) for task in tasks]

    def write(connection: Connection) -> None:
        for task in over:
            sessions.open_child(connection, from_child(task))
        connection.execute(sub_tasks.insert(), [from_task(task, wake=None, is_unwanted=False) for task in over])

    await store._database.write(write)


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


# --- families


async def test_a_tree_has_parents_before_children_and_siblings_by_age(store: SqlStore) -> None:
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


async def test_conversations_with_sub_agents_are_found(store: SqlStore) -> None:
    session, other = await conversation(store), await conversation(store, BOB)
    await conversation(store, ANN_IN_GROUP)
    [task] = await opened(store, session, "k1")
    await opened(store, task, "c1")
    await store.tasks.open(asked(other, "o1"), wake=wake_of(BOB))
    assert {head.id for head in await store.tasks.heads(limit=9)} == {session.id, other.id}
    assert [head.id for head in await store.tasks.heads(key=ANN, limit=9)] == [session.id]
    assert len(await store.tasks.heads(limit=1)) == 1
