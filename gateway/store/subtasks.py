"""One sub-agent's task from its opening to its end: each function is one transaction under the lock of its lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, func, null, select, true, update

from gateway.contracts.entries import Entry, EntryKind, Usage
from gateway.contracts.errors import StoreError
from gateway.contracts.subagents import Doing, SubTask, TaskEnding, TaskState, WakeAddress
from gateway.store import board, kinship, sessions, transcript
from gateway.store.board import IS_LIVE
from gateway.store.locking import lock_lane
from gateway.store.rows import Values
from gateway.store.sessions import Growth
from gateway.store.subagent_rows import from_child, from_doing, from_task, kept_result, to_task
from gateway.store.subagent_tables import sub_tasks
from gateway.store.tables import lanes
from gateway.store.tables import sessions as sessions_table
from gateway.store.turns import numbered_to

_BY_ID: Final = select(sub_tasks).where(sub_tasks.c.id == bindparam("t"))
_BY_AGE: Final = (sub_tasks.c.created_at_ms, sub_tasks.c.id)
_OF_TURN: Final = select(sub_tasks).where(sub_tasks.c.turn_id == bindparam("turn")).order_by(*_BY_AGE)
_OF_PARENT: Final = select(sub_tasks).where(sub_tasks.c.parent_session_id == bindparam("s")).order_by(*_BY_AGE)


def by_id(connection: Connection, task_id: str) -> SubTask | None:
    """The task of that id, if the board still has it."""
    row = connection.execute(_BY_ID, {"t": task_id}).one_or_none()
    return None if row is None else to_task(row)


def of_turn(connection: Connection, turn_id: str) -> list[SubTask]:
    """Those that a turn asked for, oldest first."""
    return [to_task(row) for row in connection.execute(_OF_TURN, {"turn": turn_id})]


def of_session(connection: Connection, parent_session_id: str) -> list[SubTask]:
    """Those that work for a session directly, oldest first."""
    return [to_task(row) for row in connection.execute(_OF_PARENT, {"s": parent_session_id})]


# --- open

_KEY_OF_PARENT: Final = select(sessions_table.c.key).where(sessions_table.c.id == bindparam("s"))
_HOLDS_LANE: Final = select(lanes.c.key).where(lanes.c.key == bindparam("k"), lanes.c.fence == bindparam("f"))
_PARENT_IS_ENDING: Final = (
    select(func.count())
    .select_from(sub_tasks)
    .where(sub_tasks.c.session_id == bindparam("s"), sub_tasks.c.is_cancel_wanted | ~IS_LIVE)
)
_ADD: Final = sub_tasks.insert().returning(sub_tasks)


def open_task(connection: Connection, task: SubTask, *, wake: WakeAddress | None, fence: int) -> SubTask:
    """`SubTaskBook.open`. What is opened for somebody who is about to end is to end, too, and what a worker asks for
    that was paused while its turn was stopped, or taken over."""
    lock_lane(connection, str(task.key))
    known = connection.execute(_BY_ID, {"t": task.id}).one_or_none()
    if known is not None and known.key == str(task.key):
        return to_task(known)
    parent = {"s": task.parent_session_id}
    if connection.execute(_KEY_OF_PARENT, parent).scalar_one_or_none() != str(task.key):
        raise StoreError(f"session {task.parent_session_id} is not one of {task.key}")
    holds_lane = not fence or connection.execute(_HOLDS_LANE, {"k": str(task.key), "f": fence}).one_or_none()
    is_unwanted = not holds_lane or connection.execute(_PARENT_IS_ENDING, parent).scalar_one() > 0
    sessions.open_child(connection, from_child(task))
    row = connection.execute(_ADD, from_task(task, wake=wake, is_unwanted=is_unwanted)).one()
    board.changed(connection)
    return to_task(row)


# --- start

_SIBLINGS: Final = sub_tasks.alias("siblings")
_RUNNING_SIBLINGS: Final = (
    select(func.count())
    .where(
        _SIBLINGS.c.parent_session_id == sub_tasks.c.parent_session_id,
        _SIBLINGS.c.state == TaskState.RUNNING.value,
    )
    .correlate(sub_tasks)
    .scalar_subquery()
)
_START: Final = (
    update(sub_tasks)
    .where(
        sub_tasks.c.id == bindparam("t"),
        sub_tasks.c.state == TaskState.QUEUED.value,
        ~sub_tasks.c.is_cancel_wanted,
        bindparam("live_max") > _RUNNING_SIBLINGS,
    )
    .values(
        state=TaskState.RUNNING.value,
        worker_id=bindparam("worker"),
        alive_until_ms=bindparam("until_ms"),
        started_at_ms=bindparam("now_ms"),
        updated_at_ms=bindparam("now_ms"),
    )
)


def start(
    connection: Connection, task_id: str, *, worker_id: str, alive_until_ms: int, now_ms: int, live_max: int
) -> bool:
    """`SubTaskBook.start`."""
    if _locked(connection, task_id) is None:
        return False
    run = {"t": task_id, "worker": worker_id, "until_ms": alive_until_ms, "now_ms": now_ms, "live_max": live_max}
    is_started = connection.execute(_START, run).rowcount == 1
    if is_started:
        board.changed(connection)
    return is_started


# --- record

_LAST_SEQ: Final = select(sessions_table.c.last_seq).where(sessions_table.c.id == bindparam("s"))
_CHARGE: Final = (
    update(sub_tasks)
    .where(sub_tasks.c.session_id.in_(bindparam("ids", expanding=True)))
    .values(
        tokens_in=sub_tasks.c.tokens_in + bindparam("more_in"),
        tokens_out=sub_tasks.c.tokens_out + bindparam("more_out"),
        cost_usd=sub_tasks.c.cost_usd + bindparam("more_usd"),
        updated_at_ms=bindparam("now_ms"),
    )
)

_SHOW: Final = update(sub_tasks).where(sub_tasks.c.id == bindparam("t"), IS_LIVE).values(doing=bindparam("does"))


def record(
    connection: Connection,
    task_id: str,
    *,
    entries: Sequence[Entry],
    usage: Sequence[Usage],
    doing: Doing | None,
    now_ms: int,
) -> None:
    """`SubTaskBook.record`. A call that ends when its task is over costs money all the same."""
    task = _locked(connection, task_id)
    if task is None:
        raise StoreError(f"there is no task {task_id}")
    if entries and 0 < entries[0].seq <= connection.execute(_LAST_SEQ, {"s": task.session_id}).scalar_one():
        return
    _append(connection, task, entries, now_ms=now_ms)
    if usage:
        _charge(connection, task, [replace(call, key=task.key) for call in usage], now_ms=now_ms)
    is_shown = _show(connection, task, doing)
    if usage or is_shown:
        board.changed(connection)


def _show(connection: Connection, task: SubTask, doing: Doing | None) -> bool:
    """Show what it does. False: that is no news."""
    if doing is None or doing == task.doing or task.state.is_over:
        return False
    connection.execute(_SHOW, {"t": task.id, "does": from_doing(doing)})
    return True


def _append(connection: Connection, task: SubTask, entries: Sequence[Entry], *, now_ms: int) -> None:
    messages = sum(entry.kind is EntryKind.MESSAGE for entry in entries)
    row = sessions.grow(connection, task.key, task.session_id, Growth(len(entries), messages), now_ms=now_ms)
    placed = [
        replace(entry, turn_id=entry.turn_id or task.turn_id, created_at_ms=entry.created_at_ms or now_ms)
        for entry in numbered_to(row.last_seq, entries)
    ]
    transcript.append(connection, task.session_id, placed)


def _charge(connection: Connection, task: SubTask, calls: Sequence[Usage], *, now_ms: int) -> None:
    """The calls are its own; every session and every task above has their sum."""
    above = kinship.above(connection, task.session_id)
    tokens, cost_usd = sessions.spent(calls)
    for session_id in above:
        connection.execute(sessions.CHARGE, {"s": session_id, "more_tokens": tokens, "more_usd": cost_usd})
    sums: Values = {
        "ids": above,
        "more_in": sum(call.prompt_tokens for call in calls),
        "more_out": sum(call.completion_tokens for call in calls),
        "more_usd": cost_usd,
        "now_ms": now_ms,
    }
    connection.execute(_CHARGE, sums)
    sessions.write_usage(connection, calls, session_id=task.session_id, turn_id=task.turn_id, now_ms=now_ms)


# --- end

_END: Final = (
    update(sub_tasks)
    .where(sub_tasks.c.id == bindparam("t"), IS_LIVE)
    .values(
        state=bindparam("new_state"),
        reason=bindparam("why"),
        result=bindparam("answer"),
        confinement=func.coalesce(bindparam("held_by"), sub_tasks.c.confinement),
        doing=null(),
        finished_at_ms=bindparam("now_ms"),
        updated_at_ms=bindparam("now_ms"),
    )
    .returning(sub_tasks)
)
_ASK_BELOW: Final = (
    update(sub_tasks)
    .where(sub_tasks.c.session_id.in_(select(kinship.BELOW.c.id)), IS_LIVE)
    .values(is_cancel_wanted=true())
    .returning(sub_tasks.c.id)
)


def finish(connection: Connection, task_id: str, ending: TaskEnding) -> bool:
    """`SubTaskBook.finish`."""
    return _locked(connection, task_id) is not None and end(connection, task_id, ending) is not None


def end(connection: Connection, task_id: str, ending: TaskEnding) -> SubTask | None:
    """End a task of a locked lane, unless it is over. What works for it is to end with it: nobody waits any more."""
    ended = {
        "t": task_id,
        "new_state": ending.state.value,
        "why": ending.reason,
        "answer": kept_result(ending.result),
        "held_by": ending.confinement or None,
        "now_ms": ending.finished_at_ms,
    }
    row = connection.execute(_END, ended).one_or_none()
    if row is None:
        return None
    connection.execute(sessions.CLOSE, {"s": row.session_id, "now_ms": ending.finished_at_ms})
    ask_to_end(connection, [row.session_id])
    board.prune(connection)
    board.changed(connection)
    return to_task(row)


def ask_to_end(connection: Connection, session_ids: Sequence[str]) -> int:
    """Those who run the live tasks of these sessions, and of all below them, are to end them; how many there are."""
    return len(connection.execute(_ASK_BELOW, {"ids": list(session_ids)}).all())


def _locked(connection: Connection, task_id: str) -> SubTask | None:
    """The task, its lane locked."""
    row: Row[Any] | None = connection.execute(_BY_ID, {"t": task_id}).one_or_none()
    if row is None or not lock_lane(connection, row.key):
        return None
    return to_task(row)
