"""Who works for whom: the sessions above one, and those below it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import CTE, Connection, bindparam, case, func, select

from gateway.contracts.entries import Session
from gateway.contracts.ids import SessionKey
from gateway.contracts.subagents import SubTask
from gateway.limits import FAMILY_SESSIONS_MAX
from gateway.store.board import in_short
from gateway.store.rows import to_session
from gateway.store.sessions import with_lane
from gateway.store.subagent_rows import to_task
from gateway.store.subagent_tables import sub_tasks
from gateway.store.tables import sessions

_PARENTS: Final = sessions.alias("parents")
_CHILDREN: Final = sessions.alias("children")


def _upwards() -> CTE:
    """A session and those it works for."""
    above = (
        select(sessions.c.id, sessions.c.parent_session_id)
        .where(sessions.c.id == bindparam("s"))
        .cte("above", recursive=True)
    )
    return above.union(
        select(_PARENTS.c.id, _PARENTS.c.parent_session_id).where(_PARENTS.c.id == above.c.parent_session_id)
    )


def _downwards() -> CTE:
    """Some sessions and those that work for them."""
    below = (
        select(sessions.c.id).where(sessions.c.id.in_(bindparam("ids", expanding=True))).cte("below", recursive=True)
    )
    return below.union(select(_CHILDREN.c.id).where(_CHILDREN.c.parent_session_id == below.c.id))


_ABOVE: Final = select(_upwards().c.id)
BELOW: Final = _downwards()
"""Parameter `ids`: these sessions and all that work for them."""

_NEWEST_FIRST: Final = (sessions.c.created_at_ms.desc(), sessions.c.id.desc())
_FAMILY: Final = (
    with_lane()
    .where(sessions.c.id.in_(select(BELOW.c.id)))
    .order_by(case((sessions.c.id.in_(bindparam("ids", expanding=True)), 0), else_=1), *_NEWEST_FIRST)
    .limit(FAMILY_SESSIONS_MAX)
)
_OF_PARENT: Final = (
    with_lane()
    .where(sessions.c.parent_session_id == bindparam("s"))
    .order_by(*_NEWEST_FIRST)
    .limit(FAMILY_SESSIONS_MAX)
)
_COUNTS: Final = (
    select(sessions.c.parent_session_id, func.count().label("children"))
    .where(sessions.c.parent_session_id.in_(bindparam("ids", expanding=True)))
    .group_by(sessions.c.parent_session_id)
)
_HEADS: Final = (
    with_lane()
    .where(
        sessions.c.number.is_not(None),
        sessions.c.id.in_(select(_CHILDREN.c.parent_session_id).where(_CHILDREN.c.number.is_(None))),
    )
    .order_by(*_NEWEST_FIRST)
    .limit(bindparam("page_limit"))
)
_TASKS_BELOW: Final = (
    in_short().where(sub_tasks.c.session_id.in_(select(BELOW.c.id))).order_by(sub_tasks.c.created_at_ms, sub_tasks.c.id)
)


def above(connection: Connection, session_id: str) -> list[str]:
    """The ids of a session and of all it works for, up to the conversation."""
    return list(connection.execute(_ABOVE, {"s": session_id}).scalars())


def children(connection: Connection, session_id: str) -> list[Session]:
    """Sessions that work for this one directly, oldest first."""
    return [_session(row) for row in connection.execute(_OF_PARENT, {"s": session_id})][::-1]


def counts(connection: Connection, session_ids: Sequence[str]) -> dict[str, int]:
    """How many work directly for each of these; those without any are left out."""
    rows = connection.execute(_COUNTS, {"ids": list(session_ids)})
    return {row.parent_session_id: row.children for row in rows}


def tree(connection: Connection, session_id: str) -> list[Session]:
    """A session and all below it, parents before their children, siblings oldest first."""
    found = [_session(row) for row in connection.execute(_FAMILY, {"ids": [session_id]})][::-1]
    return in_tree_order(session_id, found)


def tasks_below(connection: Connection, session_id: str) -> list[SubTask]:
    """The tasks of a session and of all below it, as far as the board still has them."""
    return [to_task(row) for row in connection.execute(_TASKS_BELOW, {"ids": [session_id]})]


def heads(connection: Connection, key: SessionKey | None, *, limit: int) -> list[Session]:
    """Conversations that sub-agents worked for, newest first."""
    statement, parameters = _HEADS, dict[str, Any](page_limit=max(limit, 0))
    if key is not None:
        statement, parameters = statement.where(sessions.c.key == bindparam("k")), parameters | {"k": str(key)}
    return [_session(row) for row in connection.execute(statement, parameters)]


def in_tree_order(root_id: str, family: Sequence[Session]) -> list[Session]:
    """These sessions as a tree is read: each behind its parent, before the next sibling of that parent. Siblings keep
    their order; one whose parent is missing is left out."""
    by_parent: Mapping[str | None, list[Session]] = defaultdict(list)
    for session in family:
        by_parent[session.parent_session_id].append(session)
    ordered: list[Session] = []
    waiting = [session for session in family if session.id == root_id]
    while waiting:
        session = waiting.pop()
        ordered.append(session)
        waiting += reversed(by_parent.get(session.id, []))
    return ordered


def _session(row: Any) -> Session:
    return to_session(row, current_id=row.current_id, language=row.language)
