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
    _count_spending()


def _extend_conversations() -> None:
    op.add_column("sessions", sa.Column("model", sa.Text, nullable=False, server_default=""))
    op.add_column("sessions", sa.Column("profile", sa.Text, nullable=False, server_default=""))
    op.add_column("entries", sa.Column("is_undone", sa.Boolean, nullable=False, server_default=sa.false()))


def _count_spending() -> None:
    op.create_index("ix_usage_day", "usage", ["created_at_ms"])
    op.create_table(
        "spending",
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("nano_usd", sa.BigInteger, nullable=False),
        sa.Column("turns", sa.Integer, nullable=False),
        sa.Column("warned", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner", "day", name="pk_spending"),
    )
    op.create_table(
        "reservations",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("nano_usd", sa.BigInteger, nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_reservations"),
    )
    op.create_index("ix_reservations_owner_day", "reservations", ["owner", "day"])
    op.create_index("ix_reservations_day", "reservations", ["day"])
    op.create_table(
        "counted_turns",
        sa.Column("turn_id", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("turn_id", name="pk_counted_turns"),
    )
    op.create_index("ix_counted_turns_owner_day", "counted_turns", ["owner", "day"])
