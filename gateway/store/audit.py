"""The audit: who changed what, and which tool was given which secret. Nothing here is changed afterwards."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from sqlalchemy import bindparam, delete, select

from gateway.contracts.messages import SecretUse
from gateway.limits import AUDIT_KEPT
from gateway.store.engine import Aggregate, Connection, Values, upsert, write
from gateway.store.tables import access_revision, audit, loans

USER: Final = "user:"
"""The audit's prefix for a person; the key follows."""

_ONE: Final = {"id": 1}
_WRITE_DOWN: Final = audit.insert()
_FIRST_TOO_MANY: Final = (
    select(audit.c.id)
    .where(audit.c.actor == bindparam("who"))
    .order_by(audit.c.id.desc())
    .offset(AUDIT_KEPT)
    .limit(1)
    .scalar_subquery()
)
_FORGET: Final = delete(audit).where(audit.c.actor == bindparam("who"), audit.c.id <= _FIRST_TOO_MANY)


_count: Final = upsert(access_revision, revision=access_revision.c.revision + 1)


def has_changed(connection: Connection) -> None:
    """Count a change. It also makes changes wait for each other, so that each begins with what the last one left."""
    connection.execute(_count(connection), _ONE | {"revision": 1})


def write_down(
    connection: Connection,
    actor: str,
    action: str,
    subject: str,
    before: Values | None,
    after: Values | None,
    now_ms: int,
) -> None:
    """Add a line to the audit about something that has such parts."""
    texts = {"before": json.dumps(before, ensure_ascii=False), "after": json.dumps(after, ensure_ascii=False)}
    line = {"at_ms": now_ms, "actor": actor, "action": action, "subject": subject, **texts}
    add_line(connection, line)


def add_line(connection: Connection, line: Values) -> None:
    """Add a row of `audit`. The oldest of its actor go, once there are too many of them."""
    connection.execute(_WRITE_DOWN, line)
    connection.execute(_FORGET, {"who": line["actor"]})


class AuditStore(Aggregate):
    """Operators' actions that change no rule of ours: those have lines of their own. Raises `StoreUnavailable`."""

    @write
    def note(self, connection: Connection, actor: str, action: str, subject: str, done: Values | None = None) -> None:
        """Add a line about something that was done, and what came of it."""
        write_down(connection, actor, action, subject, None, done, self.clock.now_ms())


_RECORD: Final = loans.insert()


class SecretAudit(Aggregate):
    """Says of every secret that a tool was given who had it given to which tool, never what it was. Raises
    `StoreUnavailable`."""

    @write
    def record(self, connection: Connection, lent: Sequence[SecretUse]) -> None:
        """Write it down, before it happens."""
        connection.execute(
            _RECORD,
            [
                {
                    "at_ms": loan.at_ms,
                    "owner": str(loan.name.key.owner),
                    "key": str(loan.name.key),
                    "person": str(loan.name.sent_by),
                    "placeholder": loan.name.placeholder,
                    "tool": loan.tool,
                    "turn_id": loan.turn_id,
                }
                for loan in lent
            ],
        )
