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
    _claims_of_titles()


def _extend_conversations() -> None:
    op.add_column("sessions", sa.Column("model", sa.Text, nullable=False, server_default=""))
    op.add_column("sessions", sa.Column("profile", sa.Text, nullable=False, server_default=""))
    op.add_column("entries", sa.Column("is_undone", sa.Boolean, nullable=False, server_default=sa.false()))


def _claims_of_titles() -> None:
    op.add_column("sessions", sa.Column("title_claimed_until_ms", sa.BigInteger, nullable=False, server_default="0"))
