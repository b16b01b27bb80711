"""A lane knows whether its answers are spoken, too."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v3"
down_revision = "v2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("lanes", sa.Column("is_voiced", sa.Boolean(), nullable=False, server_default=sa.false()))
