"""What operators decided about users."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, Executable, select

from gateway.contracts.entries import Grant
from gateway.store.dialects import InsertInto, per_dialect
from gateway.store.rows import from_grant, to_grant
from gateway.store.tables import grants

_ALL: Final = select(grants).order_by(grants.c.created_at_ms, grants.c.owner)


@per_dialect
def _put(insert: InsertInto) -> Executable:
    statement = insert(grants)
    return statement.on_conflict_do_update(
        index_elements=[grants.c.owner],
        set_={name: statement.excluded[name] for name in ("role", "granted_by", "created_at_ms")},
    )


def everything(connection: Connection) -> list[Grant]:
    """All grants, oldest first."""
    return [to_grant(row) for row in connection.execute(_ALL)]


def put(connection: Connection, grant: Grant) -> None:
    """The newest decision about a user replaces the one before."""
    connection.execute(_put(connection), from_grant(grant))
