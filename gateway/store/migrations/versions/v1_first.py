"""The schema. `trivet migrate` builds it before this version starts; `tables.py` says what each column means."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "v1"
down_revision = None
branch_labels = None
depends_on = None

_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_FULL_TEXT = {
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
        """
        CREATE VIRTUAL TABLE passages_index
        USING fts5(key, terms, content = 'passages', content_rowid = 'id', tokenize = 'ascii')
        """,
        """
        CREATE TRIGGER passages_added AFTER INSERT ON passages BEGIN
            INSERT INTO passages_index(rowid, key, terms) VALUES (new.id, new.key, new.terms);
        END
        """,
        """
        CREATE TRIGGER passages_removed AFTER DELETE ON passages BEGIN
            INSERT INTO passages_index(passages_index, rowid, key, terms)
            VALUES ('delete', old.id, old.key, old.terms);
        END
        """,
    ),
    "postgresql": (
        "CREATE INDEX facts_index ON facts USING gin (array_to_tsvector(string_to_array(terms, ' ')))",
        "CREATE INDEX passages_index ON passages USING gin (array_to_tsvector(string_to_array(terms, ' ')))",
    ),
}


def upgrade() -> None:
    """Create everything."""
    _create_conversations()
    _create_turns()
    _create_people()
    _create_allowances_and_schedules()
    _create_sub_agents()
    for statement in _FULL_TEXT[op.get_bind().dialect.name]:
        op.execute(statement)


def _columns(kind: Any, *names: str, nullable: bool = False, default: Any = None) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=nullable, server_default=default) for name in names]


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def _create_conversations() -> None:
    op.create_table(
        "lanes",
        *_columns(sa.Text, "key", "owner"),
        *_columns(sa.BigInteger, "fence"),
        *_columns(sa.Text, "session_id", "turn_id", "lost_turn_id", nullable=True),
        *_columns(sa.Text, "language", default=""),
        sa.PrimaryKeyConstraint("key", name="pk_lanes"),
    )
    op.create_index("ix_lanes_owner", "lanes", ["owner"])
    op.create_table(
        "sessions",
        *_columns(sa.Text, "id", "key"),
        *_columns(sa.Integer, "number", nullable=True),
        *_columns(sa.Text, "title", "status"),
        *_columns(sa.Integer, "title_tries", "prompt_tokens", "prompt_seq"),
        *_columns(sa.Text, "parent_session_id", nullable=True),
        *_columns(sa.Integer, "last_seq", "message_count"),
        *_columns(sa.BigInteger, "tokens"),
        *_columns(sa.Float(53), "cost_usd"),
        *_columns(sa.BigInteger, "created_at_ms", "updated_at_ms"),
        *_columns(sa.Text, "model", "profile", default=""),
        *_columns(sa.BigInteger, "title_claimed_until_ms", default="0"),
        *_columns(sa.Text, "channel", default=""),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
        sa.ForeignKeyConstraint(["key"], ["lanes.key"], name="fk_sessions_key"),
        sa.UniqueConstraint("key", "number", name="uq_sessions_key_number"),
    )
    op.create_index("ix_sessions_newest", "sessions", ["created_at_ms", "id"])
    op.create_index("ix_sessions_parent_session_id", "sessions", ["parent_session_id"])
    op.create_table(
        "entries",
        *_columns(sa.Text, "session_id"),
        *_columns(sa.Integer, "seq"),
        *_columns(sa.Text, "role", "kind", "text"),
        *_columns(sa.Text, "tool_calls", nullable=True),
        *_columns(sa.Text, "tool_call_id"),
        *_columns(sa.Boolean, "is_error"),
        *_columns(sa.Integer, "tail_start_seq"),
        *_columns(sa.Text, "message_id", nullable=True),
        *_columns(sa.Text, "turn_id"),
        *_columns(sa.BigInteger, "created_at_ms"),
        *_columns(sa.Boolean, "is_undone", default=sa.false()),
        *_columns(sa.Text, "author", default=""),
        sa.PrimaryKeyConstraint("session_id", "seq", name="pk_entries"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_entries_session_id"),
        sa.UniqueConstraint("message_id", name="uq_entries_message_id"),
    )
    op.create_index("ix_entries_compactions", "entries", ["session_id", "seq"], **_where("kind = 'compaction'"))
    op.create_table(
        "boundaries",
        *_columns(sa.Text, "session_id"),
        *_columns(sa.Integer, "seq"),
        *_columns(sa.Text, "key"),
        *_columns(sa.BigInteger, "created_at_ms", "claimed_until_ms"),
        *_columns(sa.Integer, "tries"),
        *_columns(sa.BigInteger, "done_at_ms", nullable=True),
        sa.PrimaryKeyConstraint("session_id", "seq", name="pk_boundaries"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_boundaries_session_id"),
    )
    op.create_index("ix_boundaries_due", "boundaries", ["key", "created_at_ms"], **_where("done_at_ms IS NULL"))
    op.create_table(
        "passages",
        sa.Column("id", _ROW_NUMBER, sa.Identity(), nullable=False),
        *_columns(sa.Text, "session_id"),
        *_columns(sa.Integer, "seq"),
        *_columns(sa.Text, "key", "terms"),
        sa.PrimaryKeyConstraint("id", name="pk_passages"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_passages_session_id"),
        sa.UniqueConstraint("session_id", "seq", name="uq_passages_session_id_seq"),
    )
    op.create_index("ix_passages_key", "passages", ["key"])
    op.create_table(
        "todos",
        *_columns(sa.Text, "key"),
        *_columns(sa.Integer, "position"),
        *_columns(sa.Text, "text", "state"),
        sa.PrimaryKeyConstraint("key", "position", name="pk_todos"),
    )
    op.create_table(
        "facts",
        sa.Column("id", _ROW_NUMBER, sa.Identity(), nullable=False),
        *_columns(sa.Text, "owner", "text", "terms"),
        *_columns(sa.BigInteger, "created_at_ms"),
        *_columns(sa.Integer, "number", default="0"),
        *_columns(sa.Text, "place", default=""),
        *_columns(sa.Boolean, "is_shared", default=sa.false()),
        *_columns(sa.Text, "origin", default="told"),
        *_columns(sa.LargeBinary, "vector", nullable=True),
        *_columns(sa.Text, "vector_model", default=""),
        *_columns(sa.BigInteger, "told_at_ms", default="0"),
        sa.PrimaryKeyConstraint("id", name="pk_facts"),
        sa.CheckConstraint("owner <> ''", name="ck_facts_owned"),
    )
    op.create_index("ix_facts_owner_number", "facts", ["owner", "number"], unique=True)


def _create_turns() -> None:
    op.create_table(
        "turns",
        *_columns(sa.Text, "id", "session_id", "key", "state"),
        *_columns(sa.Integer, "runs"),
        *_columns(sa.BigInteger, "fence"),
        *_columns(sa.Text, "error_reference"),
        *_columns(sa.BigInteger, "started_at_ms"),
        *_columns(sa.BigInteger, "finished_at_ms", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_turns"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_turns_session_id"),
    )
    op.create_index("ix_turns_error_reference", "turns", ["error_reference"], **_where("error_reference <> ''"))
    op.create_index("ix_turns_key", "turns", ["key"])
    op.create_index("ix_turns_session_id", "turns", ["session_id"])
    op.create_table(
        "consumed",
        *_columns(sa.Text, "message_id", "turn_id"),
        *_columns(sa.BigInteger, "consumed_at_ms"),
        *_columns(sa.Boolean, "is_given_up", default=sa.false()),
        *_columns(sa.Text, "error_reference", "letter_id", default=""),
        sa.PrimaryKeyConstraint("message_id", name="pk_consumed"),
    )
    op.create_index("ix_consumed_error_reference", "consumed", ["error_reference"], **_where("error_reference <> ''"))
    op.create_index("ix_consumed_letter_id", "consumed", ["letter_id"], **_where("letter_id <> ''"))
    op.create_index("ix_consumed_turn_id", "consumed", ["turn_id"])
    op.create_table(
        "usage",
        sa.Column("id", _ROW_NUMBER, sa.Identity(), nullable=False),
        *_columns(sa.Text, "session_id", "key", "owner", "purpose", "model"),
        *_columns(sa.BigInteger, "prompt_tokens", "completion_tokens", "cached_tokens"),
        *_columns(sa.Float(53), "cost_usd"),
        *_columns(sa.Text, "turn_id"),
        *_columns(sa.BigInteger, "created_at_ms"),
        sa.PrimaryKeyConstraint("id", name="pk_usage"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_usage_session_id"),
    )
    op.create_index("ix_usage_day", "usage", ["created_at_ms"])
    op.create_index("ix_usage_owner_day", "usage", ["owner", "created_at_ms"])
    op.create_index("ix_usage_session_id", "usage", ["session_id"])
    op.create_table(
        "outbox",
        *_columns(sa.Text, "id", "turn_id", "key"),
        *_columns(sa.Integer, "position"),
        *_columns(sa.Text, "address", "text", "kind"),
        *_columns(sa.Text, "title", nullable=True),
        *_columns(sa.Text, "state"),
        *_columns(sa.BigInteger, "created_at_ms", "updated_at_ms"),
        *_columns(sa.Text, "choices", nullable=True),
        *_columns(sa.Text, "amends", default=""),
        *_columns(sa.Text, "files", nullable=True),
        *_columns(sa.Text, "language", default=""),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
    )
    op.create_index("ix_outbox_key", "outbox", ["key"])
    op.create_index("ix_outbox_new", "outbox", ["created_at_ms"], **_where("state = 'new'"))
    op.create_index("ix_outbox_turn_id", "outbox", ["turn_id"])
    op.create_table(
        "reply_files",
        *_columns(sa.Text, "reply_id"),
        *_columns(sa.Integer, "position"),
        *_columns(sa.Text, "key"),
        *_columns(sa.LargeBinary, "content"),
        sa.PrimaryKeyConstraint("reply_id", "position", name="pk_reply_files"),
    )
    op.create_table(
        "deliveries",
        *_columns(sa.Text, "reply_id", "key", "channel", "state"),
        *_columns(sa.Integer, "attempts", "chunks"),
        *_columns(sa.Text, "platform_ids", "reason"),
        *_columns(sa.BigInteger, "updated_at_ms"),
        sa.PrimaryKeyConstraint("reply_id", name="pk_deliveries"),
    )
    op.create_index("ix_deliveries_key", "deliveries", ["key"])
    op.create_table(
        "buttons",
        *_columns(sa.Text, "token", "group_id", "reply_id", "label", "command", "meant_for", "key", "address"),
        *_columns(sa.Boolean, "is_private"),
        *_columns(sa.Text, "place", "realm"),
        *_columns(sa.BigInteger, "expires_at_ms"),
        *_columns(sa.Text, "pressed_by"),
        sa.PrimaryKeyConstraint("token", name="pk_buttons"),
    )
    op.create_index("ix_buttons_group_id", "buttons", ["group_id"])
    op.create_index("ix_buttons_key", "buttons", ["key"])
    op.create_table(
        "loans",
        sa.Column("id", _ROW_NUMBER, sa.Identity(), nullable=False),
        *_columns(sa.BigInteger, "at_ms"),
        *_columns(sa.Text, "owner", "key", "person", "placeholder", "tool", "turn_id"),
        sa.PrimaryKeyConstraint("id", name="pk_loans"),
    )
    op.create_index("ix_loans_owner", "loans", ["owner"])


def _create_people() -> None:
    op.create_table(
        "grants",
        *_columns(sa.Text, "owner", "role", "granted_by"),
        *_columns(sa.BigInteger, "created_at_ms"),
        *_columns(sa.Text, "reason", default=""),
        sa.PrimaryKeyConstraint("owner", name="pk_grants"),
    )
    op.create_table(
        "place_rules",
        *_columns(sa.Text, "place"),
        *_columns(sa.Text, "audience", nullable=True),
        *_columns(sa.Boolean, "lets_guests", nullable=True),
        *_columns(sa.Text, "tools", "profile", "roles", nullable=True),
        sa.PrimaryKeyConstraint("place", name="pk_place_rules"),
    )
    op.create_table(
        "place_approvals",
        *_columns(sa.Text, "place", "tool", "role", "digest", "approved_by"),
        *_columns(sa.BigInteger, "approved_at_ms"),
        sa.PrimaryKeyConstraint("place", "tool", "role", "digest", name="pk_place_approvals"),
    )
    op.create_table(
        "place_realms", *_columns(sa.Text, "place", "realm"), sa.PrimaryKeyConstraint("place", name="pk_place_realms")
    )
    op.create_table(
        "limit_rules",
        *_columns(sa.Text, "owner"),
        *_columns(sa.BigInteger, "tokens", "nano_usd", "turns", nullable=True),
        *_columns(sa.Integer, "per_minute", nullable=True),
        sa.PrimaryKeyConstraint("owner", name="pk_limit_rules"),
    )
    op.create_table(
        "access_revision",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        *_columns(sa.BigInteger, "revision"),
        sa.PrimaryKeyConstraint("id", name="pk_access_revision"),
    )
    op.create_table(
        "links",
        *_columns(sa.Text, "owner", "person"),
        *_columns(sa.BigInteger, "linked_at_ms"),
        sa.PrimaryKeyConstraint("owner", name="pk_links"),
    )
    op.create_index("ix_links_person", "links", ["person"])
    op.create_table(
        "purses",
        *_columns(sa.Text, "owner"),
        *_columns(sa.Integer, "day"),
        *_columns(sa.Text, "purse"),
        sa.PrimaryKeyConstraint("owner", name="pk_purses"),
    )
    op.create_index("ix_purses_purse_day", "purses", ["purse", "day"])
    op.create_table(
        "link_codes",
        *_columns(sa.Text, "owner", "digest", "address", "language"),
        *_columns(sa.BigInteger, "expires_at_ms"),
        *_columns(sa.Text, "entered_by"),
        *_columns(sa.Text, "name", default=""),
        sa.PrimaryKeyConstraint("owner", name="pk_link_codes"),
        sa.UniqueConstraint("digest", name="uq_link_codes_digest"),
    )
    op.create_table(
        "link_tries",
        *_columns(sa.Text, "owner"),
        *_columns(sa.Integer, "tries"),
        *_columns(sa.BigInteger, "until_ms"),
        sa.PrimaryKeyConstraint("owner", name="pk_link_tries"),
    )
    op.create_table(
        "audit",
        sa.Column("id", _ROW_NUMBER, sa.Identity(), nullable=False),
        *_columns(sa.BigInteger, "at_ms"),
        *_columns(sa.Text, "actor", "action", "subject", "before", "after"),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    op.create_index("ix_audit_actor", "audit", ["actor"])
    op.create_index("ix_audit_subject", "audit", ["subject"])
    op.create_table(
        "installation",
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        *_columns(sa.Text, "id"),
        sa.PrimaryKeyConstraint("number", name="pk_installation"),
        sa.CheckConstraint("number = 1", name="ck_installation_only"),
    )


def _create_allowances_and_schedules() -> None:
    op.create_table(
        "spending",
        *_columns(sa.Text, "owner"),
        *_columns(sa.Integer, "day"),
        *_columns(sa.BigInteger, "tokens", "nano_usd"),
        *_columns(sa.Integer, "turns"),
        *_columns(sa.Text, "warned"),
        sa.PrimaryKeyConstraint("owner", "day", name="pk_spending"),
    )
    op.create_table(
        "reservations",
        *_columns(sa.Text, "id", "owner"),
        *_columns(sa.Integer, "day"),
        *_columns(sa.BigInteger, "tokens", "nano_usd", "expires_at_ms"),
        sa.PrimaryKeyConstraint("id", name="pk_reservations"),
    )
    op.create_index("ix_reservations_day", "reservations", ["day"])
    op.create_index("ix_reservations_owner_day", "reservations", ["owner", "day"])
    op.create_table(
        "counted_turns",
        *_columns(sa.Text, "turn_id", "owner"),
        *_columns(sa.Integer, "day"),
        sa.PrimaryKeyConstraint("turn_id", name="pk_counted_turns"),
    )
    op.create_index("ix_counted_turns_owner_day", "counted_turns", ["owner", "day"])
    op.create_table(
        "calendars",
        *_columns(sa.Text, "owner", "zone"),
        *_columns(sa.Integer, "last_number"),
        sa.PrimaryKeyConstraint("owner", name="pk_calendars"),
    )
    op.create_table(
        "schedules",
        *_columns(sa.Text, "id", "owner"),
        *_columns(sa.Integer, "number"),
        *_columns(sa.Text, "key", "address", "author_id", "author_name"),
        *_columns(sa.Boolean, "is_private"),
        *_columns(sa.Text, "place", "kind", "text", "recurrence", "zone", "state"),
        *_columns(sa.BigInteger, "next_due_ms", "held_until_ms"),
        *_columns(sa.Integer, "firings"),
        *_columns(sa.BigInteger, "fired_at_ms", "created_at_ms"),
        sa.PrimaryKeyConstraint("id", name="pk_schedules"),
        sa.UniqueConstraint("owner", "number", name="uq_schedules_owner_number"),
    )
    op.create_index("ix_schedules_due", "schedules", ["next_due_ms"], **_where("state = 'active'"))


def _create_sub_agents() -> None:
    op.create_table(
        "sub_tasks",
        *_columns(
            sa.Text,
            "id",
            "session_id",
            "parent_session_id",
            "parent_task_id",
            "key",
            "turn_id",
            "sub_type",
            "label",
            "prompt",
            "mode",
        ),
        *_columns(sa.Integer, "depth"),
        *_columns(sa.Text, "state", "reason", "result", "confinement", "worker_id"),
        *_columns(sa.BigInteger, "alive_until_ms"),
        *_columns(sa.Boolean, "is_cancel_wanted"),
        *_columns(sa.Text, "wake", nullable=True),
        *_columns(sa.Text, "wake_id"),
        *_columns(sa.Boolean, "is_told"),
        *_columns(
            sa.BigInteger,
            "created_at_ms",
            "started_at_ms",
            "finished_at_ms",
            "updated_at_ms",
            "tokens_in",
            "tokens_out",
        ),
        *_columns(sa.Float(53), "cost_usd"),
        *_columns(sa.Text, "doing", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_sub_tasks"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_sub_tasks_session_id"),
        sa.UniqueConstraint("session_id", name="uq_sub_tasks_session_id"),
    )
    op.create_index("ix_sub_tasks_parent_session_id", "sub_tasks", ["parent_session_id"])
    op.create_table(
        "barriers",
        *_columns(sa.Text, "id", "session_id", "key", "turn_id", "mode"),
        *_columns(sa.Integer, "needed"),
        *_columns(sa.Boolean, "is_met"),
        *_columns(sa.Text, "wake"),
        *_columns(sa.BigInteger, "created_at_ms"),
        sa.PrimaryKeyConstraint("id", name="pk_barriers"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_barriers_session_id"),
    )
    op.create_index("ix_barriers_session_id", "barriers", ["session_id"])
    op.create_table(
        "waits",
        *_columns(sa.Text, "barrier_id", "task_id", "key"),
        sa.PrimaryKeyConstraint("barrier_id", "task_id", name="pk_waits"),
        sa.ForeignKeyConstraint(["barrier_id"], ["barriers.id"], name="fk_waits_barrier_id"),
    )
    op.create_index("ix_waits_task_id", "waits", ["task_id"])
    op.create_table(
        "task_workers",
        *_columns(sa.Text, "worker_id"),
        *_columns(sa.BigInteger, "alive_until_ms"),
        sa.PrimaryKeyConstraint("worker_id", name="pk_task_workers"),
    )
    op.create_table(
        "board",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        *_columns(sa.BigInteger, "revision"),
        sa.PrimaryKeyConstraint("id", name="pk_board"),
    )
    op.create_table(
        "sub_type_changes",
        *_columns(sa.Text, "name"),
        *_columns(sa.Text, "label", "description", "tools", nullable=True),
        *_columns(sa.Integer, "rounds_max", nullable=True),
        *_columns(sa.Text, "prompt", nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_sub_type_changes"),
    )
