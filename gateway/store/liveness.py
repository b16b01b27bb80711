"""Which sub-agents live, and which are to end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Column, ColumnElement, Connection, Executable, and_, bindparam, delete, exists, func, or_, select

from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import own_code
from gateway.contracts.reasons import Reason
from gateway.contracts.subagents import SubTask, TaskEnding, TaskState
from gateway.limits import SUBTASK_AHEAD_S
from gateway.store import subtasks, wakes
from gateway.store.board import IS_LIVE
from gateway.store.dialects import InsertInto, per_dialect
from gateway.store.locking import lock_lane
from gateway.store.subagent_tables import sub_tasks, task_workers

# --- who lives


@per_dialect
def _keep_alive(insert: InsertInto) -> Executable:
    statement = insert(task_workers)
    return statement.on_conflict_do_update(
        index_elements=[task_workers.c.worker_id], set_={"alive_until_ms": statement.excluded.alive_until_ms}
    )


def _is_ahead(until_ms: Column[int]) -> ColumnElement[bool]:
    """Not by any amount: who writes of next year has a wrong clock, or had, and would live until then."""
    return until_ms.between(bindparam("now_ms"), bindparam("now_ms") + round(SUBTASK_AHEAD_S * 1000))


_LIVES: Final = exists().where(
    task_workers.c.worker_id == sub_tasks.c.worker_id, _is_ahead(task_workers.c.alive_until_ms)
)
_LOST: Final = (
    select(sub_tasks.c.id, sub_tasks.c.key)
    .where(IS_LIVE, ~_is_ahead(sub_tasks.c.alive_until_ms), ~_LIVES)
    .order_by(sub_tasks.c.depth, sub_tasks.c.id)
)
_IS_LOST: Final = _LOST.where(sub_tasks.c.id == bindparam("t"))
_IS_DEAD: Final = ~_is_ahead(task_workers.c.alive_until_ms)
_A_DEAD: Final = select(task_workers.c.worker_id).where(_IS_DEAD).limit(1)
_FORGET_DEAD: Final = delete(task_workers).where(_IS_DEAD)


def keep_alive(connection: Connection, worker_id: str, *, alive_until_ms: int) -> None:
    """`SubTaskBook.keep_alive`."""
    connection.execute(_keep_alive(connection), {"worker_id": worker_id, "alive_until_ms": alive_until_ms})


def lost(connection: Connection, *, now_ms: int) -> list[tuple[str, str]]:
    """Ids and lanes of live tasks that nobody kept alive. To ask costs no lock."""
    return [(row.id, row.key) for row in connection.execute(_LOST, {"now_ms": now_ms})]


def lose(connection: Connection, task_id: str, key: str, *, now_ms: int) -> SubTask | None:
    """End one of them, if it is still so."""
    lock_lane(connection, key)
    if connection.execute(_IS_LOST, {"t": task_id, "now_ms": now_ms}).one_or_none() is None:
        return None
    return subtasks.end(connection, task_id, TaskEnding(TaskState.FAILED, now_ms, own_code(Reason.WORKER_LOST)))


def is_anybody_dead(connection: Connection, *, now_ms: int) -> bool:
    """Whether there is a worker to forget."""
    return connection.execute(_A_DEAD, {"now_ms": now_ms}).one_or_none() is not None


def forget_dead(connection: Connection, *, now_ms: int) -> None:
    """A worker of whom nothing is known is no more alive than one that has not said so."""
    connection.execute(_FORGET_DEAD, {"now_ms": now_ms})


# --- who is to end

_OF_KEY: Final = select(sub_tasks.c.session_id).where(sub_tasks.c.key == bindparam("k"))
_NAMED: Final = _OF_KEY.where(sub_tasks.c.id.in_(bindparam("ids", expanding=True)))
_LIVE_OF_KEY: Final = _OF_KEY.where(IS_LIVE)
_WANTED: Final = select(sub_tasks.c.id).where(
    sub_tasks.c.id.in_(bindparam("ids", expanding=True)), ~sub_tasks.c.is_cancel_wanted, IS_LIVE
)

_SINCE: Final = sub_tasks.c.finished_at_ms >= bindparam("since_ms")
_ENDED: Final = (
    select(func.count())
    .select_from(sub_tasks)
    .where(
        sub_tasks.c.key == bindparam("k"),
        or_(
            and_(sub_tasks.c.is_cancel_wanted, or_(IS_LIVE, _SINCE)),
            and_(sub_tasks.c.state == TaskState.CANCELLED.value, _SINCE),
        ),
    )
)


def want_cancelled(connection: Connection, key: SessionKey, *, task_ids: Sequence[str] | None) -> int:
    """`SubTaskBook.want_cancelled`."""
    if not lock_lane(connection, str(key)):
        return 0
    if task_ids is not None:
        named = connection.execute(_NAMED, {"k": str(key), "ids": list(task_ids)}).scalars().all()
        return subtasks.ask_to_end(connection, named)
    wakes.forget_all(connection, key)
    return subtasks.ask_to_end(connection, connection.execute(_LIVE_OF_KEY, {"k": str(key)}).scalars().all())


def count_ended(connection: Connection, key: SessionKey, *, since_ms: int) -> int:
    """`SubTaskBook.count_ended`."""
    return connection.execute(_ENDED, {"k": str(key), "since_ms": since_ms}).scalar_one()


def unwanted(connection: Connection, task_ids: Sequence[str]) -> frozenset[str]:
    """`SubTaskBook.unwanted`."""
    return frozenset(task_ids).difference(connection.execute(_WANTED, {"ids": list(task_ids)}).scalars())
