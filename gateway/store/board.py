"""The board of sub-agents' tasks: what it shows, how it tells that it changed, what it forgets."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, Executable, Select, and_, bindparam, case, delete, exists, func, or_, select

from gateway.contracts.subagents import SubTask, TaskState, TypeRecord
from gateway.limits import SUBTASK_SHOWN_CHARS_MAX, SUBTASKS_KEPT
from gateway.store.dialects import InsertInto, per_dialect
from gateway.store.subagent_rows import to_task
from gateway.store.subagent_tables import board, sub_tasks, waits

_LIVE_STATES: Final = [state.value for state in TaskState if not state.is_over]
IS_LIVE: Final = sub_tasks.c.state.in_(_LIVE_STATES)
IS_OVER: Final = sub_tasks.c.state.not_in(_LIVE_STATES)
IS_UNTOLD: Final = and_(~sub_tasks.c.is_told, sub_tasks.c.wake_id == "")
IS_WAITED_FOR: Final = exists().where(waits.c.task_id == sub_tasks.c.id)

# --- showing

_CUT: Final = (sub_tasks.c.prompt, sub_tasks.c.result)


def in_short() -> Select[Any]:
    """Tasks for a list: long texts are cut, where they lie."""
    columns = [column for column in sub_tasks.columns if column not in _CUT]
    return select(*columns, *(func.substr(long, 1, SUBTASK_SHOWN_CHARS_MAX).label(long.name) for long in _CUT))


_NEWEST: Final = (
    in_short()
    .order_by(
        case((IS_LIVE, 0), else_=1),
        sub_tasks.c.finished_at_ms.desc(),
        sub_tasks.c.created_at_ms.desc(),
        sub_tasks.c.id.desc(),
    )
    .limit(bindparam("page_limit"))
)
_RECORDS: Final = (
    select(sub_tasks.c.sub_type, sub_tasks.c.state, func.count().label("tasks"))
    .group_by(sub_tasks.c.sub_type, sub_tasks.c.state)
    .order_by(sub_tasks.c.sub_type)
)


def newest(connection: Connection, *, limit: int) -> list[SubTask]:
    """Live ones first, then what was over last."""
    return [to_task(row) for row in connection.execute(_NEWEST, {"page_limit": max(limit, 0)})]


def records(connection: Connection) -> list[TypeRecord]:
    """How each type does, by name."""
    counts: dict[str, dict[str, int]] = {}
    for row in connection.execute(_RECORDS):
        counts.setdefault(row.sub_type, {})[row.state] = row.tasks
    return [_record(sub_type, by_state) for sub_type, by_state in counts.items()]


def _record(sub_type: str, by_state: dict[str, int]) -> TypeRecord:
    return TypeRecord(
        sub_type=sub_type,
        running=sum(by_state.get(state, 0) for state in _LIVE_STATES),
        completed=by_state.get(TaskState.COMPLETED.value, 0),
        failed=by_state.get(TaskState.FAILED.value, 0),
        cancelled=by_state.get(TaskState.CANCELLED.value, 0),
        timed_out=by_state.get(TaskState.TIMED_OUT.value, 0),
    )


# --- changing


@per_dialect
def _count_up(insert: InsertInto) -> Executable:
    return insert(board).on_conflict_do_update(index_elements=[board.c.id], set_={"revision": board.c.revision + 1})


_REVISION: Final = select(board.c.revision)
_IS_NEEDED: Final = or_(and_(sub_tasks.c.wake.is_not(None), IS_UNTOLD), IS_WAITED_FOR)
_LAST_OVER: Final = (
    select(sub_tasks.c.id)
    .where(IS_OVER)
    .order_by(sub_tasks.c.finished_at_ms.desc(), sub_tasks.c.created_at_ms.desc(), sub_tasks.c.id.desc())
    .limit(SUBTASKS_KEPT)
)
_PRUNE: Final = delete(sub_tasks).where(
    sub_tasks.c.id.in_(
        select(sub_tasks.c.id)
        .where(IS_OVER, ~_IS_NEEDED, sub_tasks.c.id.not_in(_LAST_OVER))
        .with_for_update(skip_locked=True)  # whoever has one of them prunes it with his next
    )
)


def prune(connection: Connection) -> None:
    """Keep the last that are over, and those that somebody still has to be told of."""
    connection.execute(_PRUNE)


def changed(connection: Connection) -> None:
    """What this transaction did can be seen. It is said last: everybody waits for this row."""
    connection.execute(_count_up(connection), {"id": 1, "revision": 1})


def revision(connection: Connection) -> int:
    """How often the board has changed."""
    return connection.execute(_REVISION).scalar_one_or_none() or 0
