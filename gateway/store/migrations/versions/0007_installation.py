"""Whose the database is: the bus and all that others on its server could hear carry the same name."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table; the first start writes the name."""
    op.create_table(
        "installation",
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.CheckConstraint("number = 1", name="ck_installation_only"),
        sa.PrimaryKeyConstraint("number", name="pk_installation"),
    )
