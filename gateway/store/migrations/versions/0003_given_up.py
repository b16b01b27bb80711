"""Which messages were given up rather than answered: only those may be tried again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; the apology of an older dead letter tells that it was one."""
    op.add_column("consumed", sa.Column("is_given_up", sa.Boolean, nullable=False, server_default=sa.false()))
    op.execute(
        "UPDATE consumed SET is_given_up = true WHERE EXISTS "
        "(SELECT 1 FROM outbox WHERE outbox.id = consumed.turn_id || '\\:dead')"  # escaped: no parameter
    )
