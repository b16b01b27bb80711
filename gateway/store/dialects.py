"""Statements that SQLAlchemy spells per dialect: INSERT … ON CONFLICT.

Both dialects offer the same `insert` with `on_conflict_do_update` and `on_conflict_do_nothing`, each from
its own module. A statement is described once, as a function of that `insert`, and built once per dialect.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Protocol, TypeAlias

from sqlalchemy import Connection, Executable, Table
from sqlalchemy.dialects import postgresql, sqlite

Insert: TypeAlias = sqlite.Insert | postgresql.Insert


class InsertInto(Protocol):
    """`sqlalchemy.dialects.<dialect>.insert`."""

    def __call__(self, table: Table, /) -> Insert: ...


_INSERTS: dict[str, InsertInto] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


def per_dialect(describe: Callable[[InsertInto], Executable]) -> Callable[[Connection], Executable]:
    """The statement that `describe` builds, for the dialect of a connection."""

    @cache
    def built(dialect: str) -> Executable:
        return describe(_INSERTS[dialect])

    @wraps(describe)
    def for_connection(connection: Connection) -> Executable:
        return built(connection.dialect.name)

    return for_connection
