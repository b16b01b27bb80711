"""Task lists. Every statement names the lane: what was set out to be done in private stands in no group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, bindparam, delete, select

from gateway.contracts.entries import Todo
from gateway.contracts.ids import SessionKey
from gateway.store.rows import to_todo
from gateway.store.tables import todos

_TODOS: Final = select(todos).where(todos.c.key == bindparam("k")).order_by(todos.c.position)
_CLEAR_TODOS: Final = delete(todos).where(todos.c.key == bindparam("k"))
_PUT_TODOS: Final = todos.insert()


def task_list(connection: Connection, key: SessionKey) -> list[Todo]:
    """The todos of a lane in their order."""
    return [to_todo(row) for row in connection.execute(_TODOS, {"k": str(key)})]


def replace_task_list(connection: Connection, key: SessionKey, tasks: Sequence[Todo]) -> None:
    """The whole list at once."""
    connection.execute(_CLEAR_TODOS, {"k": str(key)})
    rows = [
        {"key": str(key), "position": task.position, "text": task.text, "state": task.state.value} for task in tasks
    ]
    if rows:
        connection.execute(_PUT_TODOS, rows)
