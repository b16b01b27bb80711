"""What the agent core keeps beside the conversations. Runs before this version starts; `tables.py` says what each
column means."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add columns and tables; what is there stays as it is."""
    _extend_conversations()
    _reply_files()


def _extend_conversations() -> None:
    op.add_column("sessions", sa.Column("model", sa.Text, nullable=False, server_default=""))
    op.add_column("sessions", sa.Column("profile", sa.Text, nullable=False, server_default=""))
    op.add_column("entries", sa.Column("is_undone", sa.Boolean, nullable=False, server_default=sa.false()))


def _reply_files() -> None:
    op.add_column("outbox", sa.Column("files", sa.Text))
    op.create_table(
        "reply_files",
        sa.Column("reply_id", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("reply_id", "position", name="pk_reply_files"),
    )
