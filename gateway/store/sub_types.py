"""What operators changed about the types of sub-agents, and the audit of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection, Executable, bindparam, select

from gateway.contracts.messages import CleanText
from gateway.contracts.subagents import Audited, SubTypeChange
from gateway.store.auditing import add_line
from gateway.store.dialects import InsertInto, per_dialect
from gateway.store.engine import Database
from gateway.store.subagent_rows import from_audited, from_change, to_audited, to_change
from gateway.store.subagent_tables import audit, sub_type_changes

_CHANGES: Final = select(sub_type_changes).order_by(sub_type_changes.c.name)
_AUDIT: Final = select(audit).order_by(audit.c.id.desc()).limit(bindparam("page_limit"))


@per_dialect
def _put(insert: InsertInto) -> Executable:
    statement = insert(sub_type_changes)
    parts = ("label", "description", "tools", "rounds_max", "prompt")
    return statement.on_conflict_do_update(
        index_elements=[sub_type_changes.c.name], set_={part: statement.excluded[part] for part in parts}
    )


def _changes(connection: Connection) -> dict[str, SubTypeChange]:
    return {row.name: to_change(row) for row in connection.execute(_CHANGES)}


def _change(connection: Connection, name: str, change: SubTypeChange, audited: Audited) -> None:
    connection.execute(_put(connection), from_change(name, change))
    add_line(connection, from_audited(audited))


def _audit(connection: Connection, subject: CleanText | None, below: int | None, *, limit: int) -> list[Audited]:
    statement, page = _AUDIT, dict[str, Any](page_limit=max(limit, 0))
    if subject is not None:
        statement, page = statement.where(audit.c.subject == bindparam("about")), page | {"about": subject}
    if below is not None:
        statement, page = statement.where(audit.c.id < bindparam("below")), page | {"below": below}
    return [to_audited(row) for row in connection.execute(statement, page)]


class SqlSubTypes:
    """`gateway.contracts.ports.SubTypeBook`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def changes(self) -> Mapping[str, SubTypeChange]:
        """What is not as the catalog has it, by the name of the type."""
        return await self._database.read(_changes)

    async def put(self, name: str, change: SubTypeChange, *, audited: Audited) -> None:
        """Replace what was changed before, and write it down, both or neither."""
        await self._database.write(partial(_change, name=name, change=change, audited=audited))

    async def audit(
        self, *, subject: CleanText | None = None, below: int | None = None, limit: int
    ) -> Sequence[Audited]:
        """Newest first."""
        return await self._database.read(partial(_audit, subject=subject, below=below, limit=limit))
