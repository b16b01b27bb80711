"""What is to be told to sessions: barriers that are met, and tasks that are over and that nobody waited for.

A task is told once. What a barrier's wake tells is settled when the barrier is met, before anybody sends it: two
workers that send it say the same, and a task that ends a moment later has a wake of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, Text, and_, bindparam, case, delete, exists, func, or_, select, true, update

from gateway.contracts.entries import TurnState
from gateway.contracts.ids import SessionKey
from gateway.contracts.subagents import Barrier, TaskMode, Wake, wake_id_of
from gateway.store.board import IS_OVER, IS_UNTOLD, IS_WAITED_FOR
from gateway.store.locking import lock_lane, lock_lanes_of
from gateway.store.subagent_rows import from_barrier, to_task, to_wake
from gateway.store.subagent_tables import barriers, sub_tasks, waits
from gateway.store.tables import turns

# --- waiting

_BEHIND: Final = select(sub_tasks.c.id, IS_UNTOLD.label("is_untold")).where(
    sub_tasks.c.key == bindparam("k"), sub_tasks.c.id.in_(bindparam("ids", expanding=True))
)
_PUT: Final = barriers.insert()
_PUT_WAIT: Final = waits.insert()


def put(connection: Connection, key: SessionKey, barrier: Barrier) -> None:
    """Have a session of a locked lane wait. Where all was told meanwhile there is nothing to wait for."""
    behind = connection.execute(_BEHIND, {"k": str(key), "ids": list(barrier.task_ids)}).all()
    if not any(task.is_untold for task in behind):
        return
    connection.execute(_PUT, from_barrier(barrier, key, needed=min(barrier.needed, len(behind))))
    connection.execute(_PUT_WAIT, [{"barrier_id": barrier.id, "task_id": task.id, "key": str(key)} for task in behind])


# --- telling

_NAMED: Final = sub_tasks.c.id.in_(bindparam("ids", expanding=True))
_TELL: Final = update(sub_tasks).where(_NAMED).values(is_told=true())
_SEND: Final = update(sub_tasks).where(_NAMED, IS_UNTOLD).values(wake_id=bindparam("w"))
_UNTOLD_BEHIND: Final = exists().where(
    waits.c.barrier_id == barriers.c.id, waits.c.task_id == sub_tasks.c.id, IS_UNTOLD
)
_IDLE: Final = (
    select(barriers.c.id)
    .where(barriers.c.id.in_(select(waits.c.barrier_id).where(waits.c.task_id.in_(bindparam("ids", expanding=True)))))
    .where(~_UNTOLD_BEHIND)
)
_DROP_WAITS: Final = delete(waits).where(waits.c.barrier_id.in_(bindparam("ids", expanding=True)))
_DROP: Final = delete(barriers).where(barriers.c.id.in_(bindparam("ids", expanding=True)))
_BARRIERS_OF_KEY: Final = select(barriers.c.id).where(barriers.c.key == bindparam("k"))
_OVERTAKEN: Final = (
    select(sub_tasks.c.wake_id)
    .where(sub_tasks.c.wake_id.in_(bindparam("ids", expanding=True)))
    .group_by(sub_tasks.c.wake_id)
    .having(func.sum(case((sub_tasks.c.is_told, 0), else_=1)) == 0)
)
_FORGET_TURN: Final = (
    update(sub_tasks).where(sub_tasks.c.turn_id == bindparam("turn")).values(is_told=true(), is_cancel_wanted=true())
)
_TELL_ALL: Final = update(sub_tasks).where(sub_tasks.c.key == bindparam("k")).values(is_told=true())


def collect(connection: Connection, task_ids: Sequence[str]) -> None:
    """`SubTaskBook.collect`. A barrier behind which nothing is left to be told falls."""
    lock_lanes_of(connection, task_ids)
    connection.execute(_TELL, {"ids": list(task_ids)})
    _drop_idle(connection, task_ids)


def sent(connection: Connection, wake: Wake) -> None:
    """`SubTaskBook.wake_sent`."""
    task_ids = [task.id for task in wake.tasks]
    lock_lanes_of(connection, task_ids)
    if wake.barrier_id:
        _drop(connection, [wake.barrier_id])
    connection.execute(_SEND, {"ids": task_ids, "w": wake.id})
    _drop_idle(connection, task_ids)


def overtaken(connection: Connection, message_ids: Sequence[str]) -> frozenset[str]:
    """`SubTaskBook.overtaken`. Of a wake whose tasks the board has forgotten nobody can say so."""
    by_id = {wake_id_of(message_id): message_id for message_id in message_ids}
    return frozenset(by_id[id_] for id_ in connection.execute(_OVERTAKEN, {"ids": list(by_id)}).scalars())


def forget_all(connection: Connection, key: SessionKey) -> None:
    """Nothing of a locked lane's tasks is to be told any more, and nobody waits."""
    _drop(connection, connection.execute(_BARRIERS_OF_KEY, {"k": str(key)}).scalars().all())
    connection.execute(_TELL_ALL, {"k": str(key)})


def disown(connection: Connection, key: SessionKey, turn_id: str) -> None:
    """`SubTaskBook.disown`."""
    lock_lane(connection, str(key))
    forget_turn(connection, turn_id)


def forget_turn(connection: Connection, turn_id: str) -> None:
    """Nothing of what a stopped turn asked for is to go on, or to be told: it may have asked a moment after the user
    said stop."""
    connection.execute(_FORGET_TURN, {"turn": turn_id})


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
    waits.c.barrier_id == barriers.c.id, waits.c.task_id == sub_tasks.c.id, IS_OVER, IS_UNTOLD
)
_IS_TO_SETTLE: Final = and_(~barriers.c.is_met, barriers.c.needed <= _OVER_BEHIND, _UNTOLD_OVER_BEHIND)
_MET: Final = select(barriers.c.id, barriers.c.key).where(_IS_TO_SETTLE)
_SETTLE: Final = update(barriers).where(barriers.c.id == bindparam("b"), _IS_TO_SETTLE).values(is_met=true())
_LET_GO: Final = delete(waits).where(
    waits.c.barrier_id == bindparam("b"),
    waits.c.task_id.not_in(select(sub_tasks.c.id).where(IS_OVER, IS_UNTOLD)),
)
_WITHOUT: Final = bindparam("without", expanding=True, type_=Text)
_OF_BARRIERS: Final = (
    select(
        barriers.c.id.label("barrier_id"),
        barriers.c.session_id.label("woken_id"),
        barriers.c.wake.label("barrier_wake"),
        sub_tasks,
    )
    .join(waits, waits.c.barrier_id == barriers.c.id)
    .join(sub_tasks, sub_tasks.c.id == waits.c.task_id)
    .where(barriers.c.is_met, IS_UNTOLD, barriers.c.key.not_in(_WITHOUT))
    .order_by(barriers.c.created_at_ms, barriers.c.id, sub_tasks.c.created_at_ms, sub_tasks.c.id)
)
_TURN_RUNS: Final = exists().where(turns.c.id == sub_tasks.c.turn_id, turns.c.state == TurnState.RUNNING.value)
_SINGLE: Final = (
    select(sub_tasks)
    .where(
        IS_OVER,
        IS_UNTOLD,
        sub_tasks.c.mode == TaskMode.BACKGROUND.value,
        sub_tasks.c.wake.is_not(None),
        ~IS_WAITED_FOR,
        ~_TURN_RUNS,
        sub_tasks.c.key.not_in(_WITHOUT),
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


def due(connection: Connection, *, limit: int, without: Collection[SessionKey]) -> list[Wake]:
    """Every wake that is settled, oldest first, but for these lanes."""
    left_out = [str(key) for key in without]
    found = [*_of_barriers(connection, left_out), *_of_single(connection, left_out, limit=limit)]
    return sorted(found, key=lambda wake: (_since_ms(wake), wake.id))[: max(limit, 0)]


def _of_barriers(connection: Connection, without: Sequence[str]) -> list[Wake]:
    by_barrier: dict[str, list[Row[Any]]] = {}
    for row in connection.execute(_OF_BARRIERS, {"without": without}):
        by_barrier.setdefault(row.barrier_id, []).append(row)
    return [_of_barrier(rows) for rows in by_barrier.values()]


def _of_barrier(rows: Sequence[Row[Any]]) -> Wake:
    first = rows[0]
    tasks = tuple(to_task(row) for row in rows)
    return Wake(first.barrier_id, first.woken_id, to_wake(first.barrier_wake), tasks, first.barrier_id)


def _of_single(connection: Connection, without: Sequence[str], *, limit: int) -> list[Wake]:
    rows = connection.execute(_SINGLE, {"page_limit": max(limit, 0), "without": without}).all()
    return [Wake(row.id, row.parent_session_id, to_wake(row.wake), (to_task(row),)) for row in rows]


def _since_ms(wake: Wake) -> int:
    return max(task.finished_at_ms for task in wake.tasks)
