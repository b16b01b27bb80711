"""Which messages were given up rather than answered: only those may be tried again. And what leads back to a turn: what
an apology or an error told to quote, and the id of a dead letter."""

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
    op.add_column("consumed", sa.Column("letter_id", sa.Text, nullable=False, server_default=""))
    op.execute(
        "UPDATE consumed SET is_given_up = true WHERE EXISTS "
        "(SELECT 1 FROM outbox WHERE outbox.id = consumed.turn_id || '\\:dead')"  # escaped: no parameter
    )
    op.create_index("ix_consumed_turn_id", "consumed", ["turn_id"])
    for table, name in (("consumed", "error_reference"), ("consumed", "letter_id"), ("turns", "error_reference")):
        where = sa.text(f"{name} <> ''")
        op.create_index(f"ix_{table}_{name}", table, [name], sqlite_where=where, postgresql_where=where)
