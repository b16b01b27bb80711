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
    _schedules()
    _ask_people()
    _count_spending()
    _claims_of_titles()
    _keep_answers()
    _extend_memory()
    _reply_files()
    _book_of_loans()
    _sub_agents()
    _languages()
    _access_rules()
    _persons()
    _buttons()


def _extend_conversations() -> None:
    op.add_column("sessions", sa.Column("model", sa.Text, nullable=False, server_default=""))
    op.add_column("sessions", sa.Column("profile", sa.Text, nullable=False, server_default=""))
    op.add_column("entries", sa.Column("is_undone", sa.Boolean, nullable=False, server_default=sa.false()))
    op.execute('ALTER TABLE todos RENAME COLUMN owner TO "key"')  # the text of an owner is that of the direct message


def _schedules() -> None:
    op.create_table(
        "calendars",
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("zone", sa.Text, nullable=False),
        sa.Column("last_number", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_calendars"),
    )
    op.create_table(
        "schedules",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("author_id", sa.Text, nullable=False),
        sa.Column("author_name", sa.Text, nullable=False),
        sa.Column("is_private", sa.Boolean, nullable=False),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("recurrence", sa.Text, nullable=False),
        sa.Column("zone", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("next_due_ms", sa.BigInteger, nullable=False),
        sa.Column("held_until_ms", sa.BigInteger, nullable=False),
        sa.Column("firings", sa.Integer, nullable=False),
        sa.Column("fired_at_ms", sa.BigInteger, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_schedules"),
        sa.UniqueConstraint("owner", "number", name="uq_schedules_owner_number"),
    )
    op.create_index(
        "ix_schedules_due",
        "schedules",
        ["next_due_ms"],
        sqlite_where=sa.text("state = 'active'"),
        postgresql_where=sa.text("state = 'active'"),
    )


def _ask_people() -> None:
    op.add_column("outbox", sa.Column("choices", sa.Text, nullable=True))
    op.add_column("outbox", sa.Column("amends", sa.Text, nullable=False, server_default=""))


def _count_spending() -> None:
    op.create_index("ix_usage_day", "usage", ["created_at_ms"])
    op.create_table(
        "spending",
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("nano_usd", sa.BigInteger, nullable=False),
        sa.Column("turns", sa.Integer, nullable=False),
        sa.Column("warned", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner", "day", name="pk_spending"),
    )
    op.create_table(
        "reservations",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("nano_usd", sa.BigInteger, nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_reservations"),
    )
    op.create_index("ix_reservations_owner_day", "reservations", ["owner", "day"])
    op.create_index("ix_reservations_day", "reservations", ["day"])
    op.create_table(
        "counted_turns",
        sa.Column("turn_id", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("turn_id", name="pk_counted_turns"),
    )
    op.create_index("ix_counted_turns_owner_day", "counted_turns", ["owner", "day"])


def _claims_of_titles() -> None:
    op.add_column("sessions", sa.Column("title_claimed_until_ms", sa.BigInteger, nullable=False, server_default="0"))


_PASSAGES_INDEX = {
    "sqlite": (
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
        "CREATE INDEX passages_index ON passages USING gin (array_to_tsvector(string_to_array(terms, ' ')))",
    ),
}


def _extend_memory() -> None:
    """Nobody knows where the facts of before were learned: they stay in direct messages."""
    for column in (
        sa.Column("number", sa.Integer, nullable=False, server_default="0"),
        sa.Column("place", sa.Text, nullable=False, server_default=""),
        sa.Column("is_shared", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("origin", sa.Text, nullable=False, server_default="told"),
        sa.Column("vector", sa.LargeBinary),
        sa.Column("vector_model", sa.Text, nullable=False, server_default=""),
        sa.Column("told_at_ms", sa.BigInteger, nullable=False, server_default="0"),
    ):
        op.add_column("facts", column)
    op.execute(
        "UPDATE facts SET told_at_ms = created_at_ms, number ="
        " (SELECT count(*) FROM facts AS older WHERE older.owner = facts.owner AND older.id <= facts.id)"
    )
    op.drop_index("ix_facts_owner", "facts")
    op.create_index("ix_facts_owner_number", "facts", ["owner", "number"], unique=True)
    _create_passages()
    _create_boundaries()


def _create_passages() -> None:
    op.create_table(
        "passages",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), nullable=False),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("terms", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_passages"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_passages_session_id"),
        sa.UniqueConstraint("session_id", "seq", name="uq_passages_session_id_seq"),
    )
    op.create_index("ix_passages_key", "passages", ["key"])
    for statement in _PASSAGES_INDEX[op.get_bind().dialect.name]:
        op.execute(statement)


def _create_boundaries() -> None:
    op.create_table(
        "boundaries",
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("claimed_until_ms", sa.BigInteger, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("done_at_ms", sa.BigInteger),
        sa.PrimaryKeyConstraint("session_id", "seq", name="pk_boundaries"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_boundaries_session_id"),
    )
    due = sa.text("done_at_ms IS NULL")
    op.create_index("ix_boundaries_due", "boundaries", ["key", "created_at_ms"], sqlite_where=due, postgresql_where=due)


def _keep_answers() -> None:
    op.create_table(
        "answers",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("circumstances", sa.Text, nullable=False),
        sa.Column("asked", sa.Text, nullable=False),
        sa.Column("guard", sa.Text, nullable=False),
        sa.Column("words", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("recalled", sa.Text, nullable=False),
        sa.Column("vector", sa.LargeBinary),
        sa.Column("vector_model", sa.Text, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("used_at_ms", sa.BigInteger, nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_answers"),
        sa.UniqueConstraint("key", "circumstances", "asked", name="uq_answers_key_circumstances_asked"),
    )
    op.create_index("ix_answers_owner_used", "answers", ["owner", "used_at_ms"])
    op.create_index("ix_answers_used_at_ms", "answers", ["used_at_ms"])
    op.create_index("ix_answers_expires_at_ms", "answers", ["expires_at_ms"])


def _reply_files() -> None:
    op.add_column("outbox", sa.Column("files", sa.Text))
    op.create_table(
        "reply_files",
        sa.Column("reply_id", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("reply_id", "position", name="pk_reply_files"),
    )


def _languages() -> None:
    op.add_column("lanes", sa.Column("language", sa.Text, nullable=False, server_default=""))
    op.add_column("outbox", sa.Column("language", sa.Text, nullable=False, server_default=""))


def _book_of_loans() -> None:
    op.create_table(
        "loans",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("placeholder", sa.Text, nullable=False),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("turn_id", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_loans"),
    )
    op.create_index("ix_loans_owner", "loans", ["owner"])


def _buttons() -> None:
    op.create_table(
        "buttons",
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("group_id", sa.Text, nullable=False),
        sa.Column("reply_id", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("command", sa.Text, nullable=False),
        sa.Column("meant_for", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("is_private", sa.Boolean, nullable=False),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("realm", sa.Text, nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger, nullable=False),
        sa.Column("pressed_by", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("token", name="pk_buttons"),
    )
    op.create_index("ix_buttons_group_id", "buttons", ["group_id"])
    op.create_index("ix_buttons_key", "buttons", ["key"])


def _sub_agents() -> None:
    op.add_column("sessions", sa.Column("channel", sa.Text, nullable=False, server_default=""))
    _let_sessions_have_no_number()
    _create_sub_tasks()
    _create_barriers()
    op.create_table(
        "sub_type_changes",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("label", sa.Text),
        sa.Column("description", sa.Text),
        sa.Column("tools", sa.Text),
        sa.Column("rounds_max", sa.Integer),
        sa.Column("prompt", sa.Text),
        sa.PrimaryKeyConstraint("name", name="pk_sub_type_changes"),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("before", sa.Text, nullable=False),
        sa.Column("after", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    op.create_index("ix_audit_subject", "audit", ["subject"])
    op.create_index("ix_audit_actor", "audit", ["actor"])


def _let_sessions_have_no_number() -> None:
    """SQLite cannot alter a column. Building the table anew is no way while others refer to it, inside of a
    transaction; what its documentation names instead for a constraint that is only lifted is to write the definition
    (https://www.sqlite.org/lang_altertable.html, section 7)."""
    if op.get_bind().dialect.name != "sqlite":
        op.alter_column("sessions", "number", nullable=True)
        return
    version = op.get_bind().exec_driver_sql("PRAGMA schema_version").scalar_one()
    op.execute("PRAGMA writable_schema = ON")
    op.execute(
        "UPDATE sqlite_master SET sql = replace(sql, 'number INTEGER NOT NULL', 'number INTEGER')"
        " WHERE type = 'table' AND name = 'sessions'"
    )
    op.execute(f"PRAGMA schema_version = {version + 1}")
    op.execute("PRAGMA writable_schema = OFF")


def _create_sub_tasks() -> None:
    op.create_table(
        "sub_tasks",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("parent_session_id", sa.Text, nullable=False),
        sa.Column("parent_task_id", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("turn_id", sa.Text, nullable=False),
        sa.Column("sub_type", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("prompt", sa.Text, nullable=False),
        sa.Column("mode", sa.Text, nullable=False),
        sa.Column("depth", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("result", sa.Text, nullable=False),
        sa.Column("confinement", sa.Text, nullable=False),
        sa.Column("worker_id", sa.Text, nullable=False),
        sa.Column("alive_until_ms", sa.BigInteger, nullable=False),
        sa.Column("is_cancel_wanted", sa.Boolean, nullable=False),
        sa.Column("wake", sa.Text),
        sa.Column("wake_id", sa.Text, nullable=False),
        sa.Column("is_told", sa.Boolean, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("started_at_ms", sa.BigInteger, nullable=False),
        sa.Column("finished_at_ms", sa.BigInteger, nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger, nullable=False),
        sa.Column("tokens_in", sa.BigInteger, nullable=False),
        sa.Column("tokens_out", sa.BigInteger, nullable=False),
        sa.Column("cost_usd", sa.Float(53), nullable=False),
        sa.Column("doing", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_sub_tasks"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_sub_tasks_session_id"),
        sa.UniqueConstraint("session_id", name="uq_sub_tasks_session_id"),
    )
    op.create_index("ix_sub_tasks_parent_session_id", "sub_tasks", ["parent_session_id"])
    op.create_table(
        "task_workers",
        sa.Column("worker_id", sa.Text, nullable=False),
        sa.Column("alive_until_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("worker_id", name="pk_task_workers"),
    )
    op.create_table(
        "board",
        sa.Column("id", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_board"),
    )


def _create_barriers() -> None:
    op.create_table(
        "barriers",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("turn_id", sa.Text, nullable=False),
        sa.Column("mode", sa.Text, nullable=False),
        sa.Column("needed", sa.Integer, nullable=False),
        sa.Column("is_met", sa.Boolean, nullable=False),
        sa.Column("wake", sa.Text, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_barriers"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_barriers_session_id"),
    )
    op.create_index("ix_barriers_session_id", "barriers", ["session_id"])
    op.create_table(
        "waits",
        sa.Column("barrier_id", sa.Text, nullable=False),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("barrier_id", "task_id", name="pk_waits"),
        sa.ForeignKeyConstraint(["barrier_id"], ["barriers.id"], name="fk_waits_barrier_id"),
    )
    op.create_index("ix_waits_task_id", "waits", ["task_id"])


def _access_rules() -> None:
    op.add_column("grants", sa.Column("reason", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "place_rules",
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("audience", sa.Text),
        sa.Column("lets_guests", sa.Boolean),
        sa.Column("tools", sa.Text),
        sa.Column("profile", sa.Text),
        sa.Column("roles", sa.Text),
        sa.PrimaryKeyConstraint("place", name="pk_place_rules"),
    )
    op.create_table(
        "place_realms",
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("realm", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("place", name="pk_place_realms"),
    )
    op.create_table(
        "limit_rules",
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("tokens", sa.BigInteger),
        sa.Column("nano_usd", sa.BigInteger),
        sa.Column("turns", sa.BigInteger),
        sa.Column("per_minute", sa.Integer),
        sa.PrimaryKeyConstraint("owner", name="pk_limit_rules"),
    )
    op.create_table(
        "access_revision",
        sa.Column("id", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_access_revision"),
    )


def _persons() -> None:
    op.create_table(
        "links",
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("linked_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_links"),
    )
    op.create_index("ix_links_person", "links", ["person"])
    op.create_table(
        "purses",
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("purse", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_purses"),
    )
    op.create_index("ix_purses_purse_day", "purses", ["purse", "day"])
    op.create_table(
        "link_codes",
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("language", sa.Text, nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger, nullable=False),
        sa.Column("taken_by", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_link_codes"),
        sa.UniqueConstraint("digest", name="uq_link_codes_digest"),
    )
    op.create_table(
        "link_tries",
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("until_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_link_tries"),
    )
