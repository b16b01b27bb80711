"""A code that joins two accounts is kept for whoever entered it, who is shown the name of the other account first."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Say who entered a code in the place of the turn that used it up; codes of older releases name nobody, and end
    within minutes."""
    op.execute("ALTER TABLE link_codes RENAME COLUMN taken_by TO entered_by")
    op.add_column("link_codes", sa.Column("name", sa.Text, nullable=False, server_default=""))
