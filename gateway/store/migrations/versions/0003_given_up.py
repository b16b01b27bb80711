"""Which messages were given up rather than answered: only those may be tried again. And what the apology of one, or the
error of a turn, told to quote leads back to it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns and the indexes; the apology of an older dead letter tells that it was one."""
    op.add_column("consumed", sa.Column("is_given_up", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("consumed", sa.Column("error_reference", sa.Text, nullable=False, server_default=""))
    op.execute(
        "UPDATE consumed SET is_given_up = true WHERE EXISTS "
        "(SELECT 1 FROM outbox WHERE outbox.id = consumed.turn_id || '\\:dead')"  # escaped: no parameter
    )
    op.create_index("ix_consumed_turn_id", "consumed", ["turn_id"])
    for table in ("consumed", "turns"):
        op.create_index(
            f"ix_{table}_error_reference",
            table,
            ["error_reference"],
            sqlite_where=sa.text("error_reference <> ''"),
            postgresql_where=sa.text("error_reference <> ''"),
        )
