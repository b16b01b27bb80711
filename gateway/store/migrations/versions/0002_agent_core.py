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
    _schedules()
    _ask_people()


def _extend_conversations() -> None:
    op.add_column("sessions", sa.Column("model", sa.Text, nullable=False, server_default=""))
    op.add_column("sessions", sa.Column("profile", sa.Text, nullable=False, server_default=""))
    op.add_column("entries", sa.Column("is_undone", sa.Boolean, nullable=False, server_default=sa.false()))


def _schedules() -> None:
    op.create_table(
        "calendars",
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("zone", sa.Text, nullable=False),
        sa.Column("last_number", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_calendars"),
    )
    op.create_table(
        "schedules",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("author_id", sa.Text, nullable=False),
        sa.Column("author_name", sa.Text, nullable=False),
        sa.Column("is_private", sa.Boolean, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("recurrence", sa.Text, nullable=False),
        sa.Column("zone", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("next_due_ms", sa.BigInteger, nullable=False),
        sa.Column("held_until_ms", sa.BigInteger, nullable=False),
        sa.Column("firings", sa.Integer, nullable=False),
        sa.Column("fired_at_ms", sa.BigInteger, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_schedules"),
        sa.UniqueConstraint("owner", "number", name="uq_schedules_owner_number"),
    )
    op.create_index(
        "ix_schedules_due",
        "schedules",
        ["next_due_ms"],
        sqlite_where=sa.text("state = 'active'"),
        postgresql_where=sa.text("state = 'active'"),
    )


def _ask_people() -> None:
    op.add_column("outbox", sa.Column("choices", sa.Text, nullable=True))
    op.add_column("outbox", sa.Column("amends", sa.Text, nullable=False, server_default=""))
