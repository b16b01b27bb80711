"""The first schema. Runs before this version starts; `tables.py` says what each column means."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_SEARCH = {
    "sqlite": (
        """
        CREATE VIRTUAL TABLE facts_index
        USING fts5(owner, terms, content='facts', content_rowid='id', tokenize='ascii')
        """,
        """
        CREATE TRIGGER facts_added AFTER INSERT ON facts BEGIN
            INSERT INTO facts_index(rowid, owner, terms) VALUES (new.id, new.owner, new.terms);
        END
        """,
        """
        CREATE TRIGGER facts_removed AFTER DELETE ON facts BEGIN
            INSERT INTO facts_index(facts_index, rowid, owner, terms)
            VALUES ('delete', old.id, old.owner, old.terms);
        END
        """,
        """
        CREATE TRIGGER facts_changed AFTER UPDATE ON facts BEGIN
            INSERT INTO facts_index(facts_index, rowid, owner, terms)
            VALUES ('delete', old.id, old.owner, old.terms);
            INSERT INTO facts_index(rowid, owner, terms) VALUES (new.id, new.owner, new.terms);
        END
        """,
    ),
    "postgresql": ("CREATE INDEX facts_index ON facts USING gin (array_to_tsvector(string_to_array(terms, ' ')))",),
}


def _row_number() -> sa.types.TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create everything."""
    _create_conversations()
    _create_work()
    _create_answers()
    _create_users()
    for statement in _SEARCH[op.get_bind().dialect.name]:
        op.execute(statement)


def _create_conversations() -> None:
    op.create_table(
        "lanes",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("session_id", sa.Text),
        sa.Column("turn_id", sa.Text),
        sa.Column("lost_turn_id", sa.Text),
        sa.PrimaryKeyConstraint("key", name="pk_lanes"),
    )
    op.create_index("ix_lanes_owner", "lanes", ["owner"])
    op.create_table(
        "sessions",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("title_tries", sa.Integer, nullable=False),
        sa.Column("prompt_tokens", sa.Integer, nullable=False),
        sa.Column("prompt_seq", sa.Integer, nullable=False),
        sa.Column("parent_session_id", sa.Text),
        sa.Column("last_seq", sa.Integer, nullable=False),
        sa.Column("message_count", sa.Integer, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("cost_usd", sa.Float(53), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
        sa.ForeignKeyConstraint(["key"], ["lanes.key"], name="fk_sessions_key"),
        sa.UniqueConstraint("key", "number", name="uq_sessions_key_number"),
    )
    op.create_index("ix_sessions_newest", "sessions", ["created_at_ms", "id"])
    op.create_index("ix_sessions_parent_session_id", "sessions", ["parent_session_id"])
    op.create_table(
        "entries",
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("tool_calls", sa.Text),
        sa.Column("tool_call_id", sa.Text, nullable=False),
        sa.Column("is_error", sa.Boolean, nullable=False),
        sa.Column("tail_start_seq", sa.Integer, nullable=False),
        sa.Column("message_id", sa.Text),
        sa.Column("turn_id", sa.Text, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("session_id", "seq", name="pk_entries"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_entries_session_id"),
        sa.UniqueConstraint("message_id", name="uq_entries_message_id"),
    )
    compactions = sa.text("kind = 'compaction'")
    op.create_index(
        "ix_entries_compactions",
        "entries",
        ["session_id", "seq"],
        sqlite_where=compactions,
        postgresql_where=compactions,
    )


def _create_work() -> None:
    op.create_table(
        "consumed",
        sa.Column("message_id", sa.Text, nullable=False),
        sa.Column("turn_id", sa.Text, nullable=False),
        sa.Column("consumed_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("message_id", name="pk_consumed"),
    )
    op.create_table(
        "turns",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("runs", sa.Integer, nullable=False),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("error_reference", sa.Text, nullable=False),
        sa.Column("started_at_ms", sa.BigInteger, nullable=False),
        sa.Column("finished_at_ms", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_turns"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_turns_session_id"),
    )
    op.create_index("ix_turns_session_id", "turns", ["session_id"])
    op.create_index("ix_turns_key", "turns", ["key"])
    op.create_table(
        "usage",
        sa.Column("id", _row_number(), sa.Identity(), nullable=False),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger, nullable=False),
        sa.Column("completion_tokens", sa.BigInteger, nullable=False),
        sa.Column("cached_tokens", sa.BigInteger, nullable=False),
        sa.Column("cost_usd", sa.Float(53), nullable=False),
        sa.Column("turn_id", sa.Text, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_usage"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_usage_session_id"),
    )
    op.create_index("ix_usage_session_id", "usage", ["session_id"])
    op.create_index("ix_usage_owner_day", "usage", ["owner", "created_at_ms"])


def _create_answers() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("turn_id", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("title", sa.Text),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
    )
    op.create_index("ix_outbox_turn_id", "outbox", ["turn_id"])
    op.create_index("ix_outbox_key", "outbox", ["key"])
    new = sa.text("state = 'new'")
    op.create_index("ix_outbox_new", "outbox", ["created_at_ms"], sqlite_where=new, postgresql_where=new)
    op.create_table(
        "deliveries",
        sa.Column("reply_id", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("channel", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("chunks", sa.Integer, nullable=False),
        sa.Column("platform_ids", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("reply_id", name="pk_deliveries"),
    )
    op.create_index("ix_deliveries_key", "deliveries", ["key"])


def _create_users() -> None:
    op.create_table(
        "grants",
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("granted_by", sa.Text, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_grants"),
    )
    op.create_table(
        "todos",
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner", "position", name="pk_todos"),
    )
    op.create_table(
        "facts",
        sa.Column("id", _row_number(), sa.Identity(), nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("terms", sa.Text, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_facts"),
        sa.CheckConstraint("owner <> ''", name="ck_facts_owned"),
    )
    op.create_index("ix_facts_owner", "facts", ["owner"])
