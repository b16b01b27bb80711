"""The first schema that steps lead on from. A new database is given today's, so that there is nothing to do."""

from __future__ import annotations

revision = "v1"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Do nothing: nobody stands before this step."""
