"""Facts know what they replaced, what they help with and how often they were of use; passages have vectors."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v2"
down_revision = "v1"
branch_labels = None
depends_on = None

_ON_SQLITE = (
    "DROP TRIGGER facts_changed",
    # not of every column: a fact is counted each time that it is of use, and its words stay as they are
    """
    CREATE TRIGGER facts_changed AFTER UPDATE OF owner, terms ON facts BEGIN
        INSERT INTO facts_index(facts_index, rowid, owner, terms)
        VALUES ('delete', old.id, old.owner, old.terms);
        INSERT INTO facts_index(rowid, owner, terms) VALUES (new.id, new.owner, new.terms);
    END
    """,
)


def upgrade() -> None:
    """Add the columns."""
    op.add_column("facts", sa.Column("uses", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("facts", sa.Column("former", sa.Text(), nullable=False, server_default=""))
    op.add_column("facts", sa.Column("helps_with", sa.Text(), nullable=False, server_default=""))
    op.add_column("passages", sa.Column("vector", sa.LargeBinary(), nullable=True))
    op.add_column("passages", sa.Column("vector_model", sa.Text(), nullable=False, server_default=""))
    if op.get_bind().dialect.name == "sqlite":
        for statement in _ON_SQLITE:
            op.execute(statement)
