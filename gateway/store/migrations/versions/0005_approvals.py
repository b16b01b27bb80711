"""What admins approved for good in a place: it is not asked about any more."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "place_approvals",
        *(sa.Column(name, sa.Text, nullable=False) for name in ("place", "tool", "role", "digest", "approved_by")),
        sa.Column("approved_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("place", "tool", "role", "digest", name="pk_place_approvals"),
    )
