"""Who wrote what is said in a shared place: a second answer to it is made with that person's rights."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of older entries nobody knows the author, who counts as a guest."""
    op.add_column("entries", sa.Column("author", sa.Text, nullable=False, server_default=""))
