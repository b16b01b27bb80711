"""What is to be told to sessions: barriers that are met, and tasks that are over and that nobody waited for.

A task is told once. What a barrier's wake tells is settled when the barrier is met, before anybody sends it: two
workers that send it say the same, and a task that ends a moment later has a wake of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, bindparam, delete, exists, func, or_, select, true, update

from gateway.contracts.entries import TurnState
from gateway.contracts.ids import SessionKey
from gateway.contracts.subagents import Barrier, TaskMode, Wake
from gateway.store.board import IS_OVER, IS_WAITED_FOR
from gateway.store.locking import lock_lane, lock_lanes_of
from gateway.store.subagent_rows import from_barrier, to_task, to_wake
from gateway.store.subagent_tables import barriers, sub_tasks, waits
from gateway.store.tables import turns

# --- waiting

_BEHIND: Final = select(sub_tasks.c.id, sub_tasks.c.is_told).where(
    sub_tasks.c.key == bindparam("k"), sub_tasks.c.id.in_(bindparam("ids", expanding=True))
)
_PUT: Final = barriers.insert()
_PUT_WAIT: Final = waits.insert()


def put(connection: Connection, key: SessionKey, barrier: Barrier) -> None:
    """Have a session of a locked lane wait. Where all was told meanwhile there is nothing to wait for."""
    behind = connection.execute(_BEHIND, {"k": str(key), "ids": list(barrier.task_ids)}).all()
    if all(task.is_told for task in behind):
        return
    connection.execute(_PUT, from_barrier(barrier, key, needed=min(barrier.needed, len(behind))))
    connection.execute(_PUT_WAIT, [{"barrier_id": barrier.id, "task_id": task.id, "key": str(key)} for task in behind])


# --- telling

_THOSE_OVER: Final = update(sub_tasks).where(sub_tasks.c.id.in_(bindparam("ids", expanding=True)), IS_OVER)
_COLLECT: Final = _THOSE_OVER.values(is_told=true(), is_collected=true())
_TELL_BY_WAKE: Final = _THOSE_OVER.values(is_told=true(), wake_id=bindparam("by_wake"))
_UNTOLD_BEHIND: Final = exists().where(
    waits.c.barrier_id == barriers.c.id, waits.c.task_id == sub_tasks.c.id, ~sub_tasks.c.is_told
)
_IDLE: Final = (
    select(barriers.c.id)
    .where(barriers.c.id.in_(select(waits.c.barrier_id).where(waits.c.task_id.in_(bindparam("ids", expanding=True)))))
    .where(~_UNTOLD_BEHIND)
)
_DROP_WAITS: Final = delete(waits).where(waits.c.barrier_id.in_(bindparam("ids", expanding=True)))
_DROP: Final = delete(barriers).where(barriers.c.id.in_(bindparam("ids", expanding=True)))
_BARRIERS_OF_KEY: Final = select(barriers.c.id).where(barriers.c.key == bindparam("k"))
_COLLECT_ALL: Final = (
    update(sub_tasks).where(sub_tasks.c.key == bindparam("k")).values(is_told=true(), is_collected=true())
)
_SENT: Final = select(sub_tasks.c.wake_id).where(sub_tasks.c.wake_id.in_(bindparam("ids", expanding=True))).distinct()
_OPEN: Final = _SENT.where(~sub_tasks.c.is_collected)


def collect(connection: Connection, task_ids: Sequence[str]) -> None:
    """`SubTaskBook.collect`. A barrier behind which nothing is left to be told falls."""
    lock_lanes_of(connection, task_ids)
    connection.execute(_COLLECT, {"ids": list(task_ids)})
    _drop_idle(connection, task_ids)


def sent(connection: Connection, wake: Wake) -> None:
    """`SubTaskBook.wake_sent`."""
    task_ids = [task.id for task in wake.tasks]
    lock_lanes_of(connection, task_ids)
    if wake.barrier_id:
        _drop(connection, [wake.barrier_id])
    connection.execute(_TELL_BY_WAKE, {"ids": task_ids, "by_wake": wake.id})
    _drop_idle(connection, task_ids)


def overtaken(connection: Connection, wake_ids: Sequence[str]) -> frozenset[str]:
    """Of these wakes that were sent, those all of whose tasks were collected since. One that nobody knows any more has
    something to tell."""
    ids = {"ids": list(wake_ids)}
    return frozenset(connection.execute(_SENT, ids).scalars()) - frozenset(connection.execute(_OPEN, ids).scalars())


def forget_all(connection: Connection, key: SessionKey) -> None:
    """Nothing of a locked lane's tasks is to be told any more, and nobody waits."""
    _drop(connection, connection.execute(_BARRIERS_OF_KEY, {"k": str(key)}).scalars().all())
    connection.execute(_COLLECT_ALL, {"k": str(key)})


def _drop_idle(connection: Connection, task_ids: Sequence[str]) -> None:
    _drop(connection, connection.execute(_IDLE, {"ids": list(task_ids)}).scalars().all())


def _drop(connection: Connection, barrier_ids: Sequence[str]) -> None:
    connection.execute(_DROP_WAITS, {"ids": list(barrier_ids)})
    connection.execute(_DROP, {"ids": list(barrier_ids)})


# --- what is due

_OVER_BEHIND: Final = (
    select(func.count())
    .select_from(waits.outerjoin(sub_tasks, sub_tasks.c.id == waits.c.task_id))
    .where(waits.c.barrier_id == barriers.c.id, or_(sub_tasks.c.id.is_(None), IS_OVER))
    .correlate(barriers)
    .scalar_subquery()
)
_UNTOLD_OVER_BEHIND: Final = exists().where(
    waits.c.barrier_id == barriers.c.id, waits.c.task_id == sub_tasks.c.id, IS_OVER, ~sub_tasks.c.is_told
)
_IS_TO_SETTLE: Final = and_(~barriers.c.is_met, barriers.c.needed <= _OVER_BEHIND, _UNTOLD_OVER_BEHIND)
_MET: Final = select(barriers.c.id, barriers.c.key).where(_IS_TO_SETTLE)
_SETTLE: Final = update(barriers).where(barriers.c.id == bindparam("b"), _IS_TO_SETTLE).values(is_met=true())
_LET_GO: Final = delete(waits).where(
    waits.c.barrier_id == bindparam("b"),
    waits.c.task_id.not_in(select(sub_tasks.c.id).where(IS_OVER, ~sub_tasks.c.is_told)),
)
_OF_BARRIERS: Final = (
    select(
        barriers.c.id.label("barrier_id"),
        barriers.c.session_id.label("woken_id"),
        barriers.c.wake.label("barrier_wake"),
        sub_tasks,
    )
    .join(waits, waits.c.barrier_id == barriers.c.id)
    .join(sub_tasks, sub_tasks.c.id == waits.c.task_id)
    .where(barriers.c.is_met, ~sub_tasks.c.is_told)
    .order_by(barriers.c.created_at_ms, barriers.c.id, sub_tasks.c.created_at_ms, sub_tasks.c.id)
)
_TURN_RUNS: Final = exists().where(turns.c.id == sub_tasks.c.turn_id, turns.c.state == TurnState.RUNNING.value)
_SINGLE: Final = (
    select(sub_tasks)
    .where(
        IS_OVER,
        ~sub_tasks.c.is_told,
        sub_tasks.c.mode == TaskMode.BACKGROUND.value,
        sub_tasks.c.wake.is_not(None),
        ~IS_WAITED_FOR,
        ~_TURN_RUNS,
    )
    .order_by(sub_tasks.c.finished_at_ms, sub_tasks.c.id)
    .limit(bindparam("page_limit"))
)


def met(connection: Connection) -> list[tuple[str, str]]:
    """Ids and lanes of barriers that are met and not settled. To ask costs no lock."""
    return [(row.id, row.key) for row in connection.execute(_MET)]


def settle(connection: Connection, barrier_id: str, key: str) -> None:
    """Say once and for all what the wake of a barrier that is met tells: what is over by now. The rest is let go."""
    lock_lane(connection, key)
    if connection.execute(_SETTLE, {"b": barrier_id}).rowcount == 1:
        connection.execute(_LET_GO, {"b": barrier_id})


def due(connection: Connection, *, limit: int) -> list[Wake]:
    """Every wake that is settled, oldest first."""
    found = [*_of_barriers(connection), *_of_single(connection, limit=limit)]
    return sorted(found, key=lambda wake: (_since_ms(wake), wake.id))[: max(limit, 0)]


def _of_barriers(connection: Connection) -> list[Wake]:
    by_barrier: dict[str, list[Row[Any]]] = {}
    for row in connection.execute(_OF_BARRIERS):
        by_barrier.setdefault(row.barrier_id, []).append(row)
    return [_of_barrier(rows) for rows in by_barrier.values()]


def _of_barrier(rows: Sequence[Row[Any]]) -> Wake:
    first = rows[0]
    tasks = tuple(to_task(row) for row in rows)
    return Wake(first.barrier_id, first.woken_id, to_wake(first.barrier_wake), tasks, first.barrier_id)


def _of_single(connection: Connection, *, limit: int) -> list[Wake]:
    rows = connection.execute(_SINGLE, {"page_limit": max(limit, 0)}).all()
    return [Wake(row.id, row.parent_session_id, to_wake(row.wake), (to_task(row),)) for row in rows]


def _since_ms(wake: Wake) -> int:
    return max(task.finished_at_ms for task in wake.tasks)
