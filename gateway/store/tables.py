"""Every table and column, once. `sqlite.sql` and the migrations come to exactly this; a test compares them.

    lanes 1 ── n sessions 1 ── n entries          consumed   which turn answered which inbound message
                         1 ── n turns             outbox     committed replies, deliveries: how they ended
                         1 ── n usage             grants, todos, facts, schedules: what belongs to a user
                                                  spending, reservations, counted_turns: what a day costs
                         1 ── n boundaries, passages: what memory makes of sessions
                                                  reply_files: bytes on their way out
                                                  loans: which tool was given which secret, without it
                         1 ── 1 sub_tasks         a sub-agent's own session, and its line of the board
                         1 ── n barriers 1 ── n waits (task ids)

Times are Unix milliseconds. A session key is stored in its text form; `owner` is the text of `key.owner`.
All text has been through the scrubber.

The condition of a partial index is told to SQLite's dialect only, or every process would load the other one;
`gateway.store.migrations` tells both."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.types import TypeDecorator

KNOWN_REVISIONS: Final = ("v1", "v2", "v3")
"""Every step of the schema up to ours, oldest first."""

SCHEMA_REVISION: Final = KNOWN_REVISIONS[-1]
"""The step this code is written for."""

OLD_REVISIONS: Final = frozenset({"0001", "0002", "0003", "0004", "0005", "0006", "0007"})
"""Revisions before the schema was counted from v1. Any other revision was made by a newer Trivet."""

VERSION_TABLE: Final = "schema_version"
"""Alembic's table of the revision (column `version_num`)."""


class AnyText(TypeDecorator[str]):
    """Text from people, models and tools, which may hold what no database takes.

    PostgreSQL refuses NUL, both refuse half of a surrogate pair. Each such character becomes U+FFFD:
    a message is never lost for one bad character."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """Return what is stored for `value`."""
        if value is None or (value.isascii() and "\x00" not in value):
            return value
        whole = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return whole.replace("\x00", "\ufffd")


metadata: Final = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

ROW_NUMBER: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""SQLite counts up only a plain INTEGER key."""


def column(name: str, type_: Any, *rest: Any, doc: str, nullable: bool = False, **options: Any) -> sa.Column[Any]:
    """Make a column that says what it is for, and holds a value unless it says otherwise."""
    return sa.Column(name, type_, *rest, doc=doc, nullable=nullable, **options)


lanes: Final = sa.Table(
    "lanes",
    metadata,
    column("key", sa.Text, doc="the session key", primary_key=True),
    column("owner", sa.Text, doc="whom budget, memory and erasure belong to", index=True),
    column("fence", sa.BigInteger, doc="the newest fencing token seen; an older one may write nothing"),
    column("session_id", sa.Text, doc="the current session; null until the first one opens", nullable=True),
    column("turn_id", sa.Text, doc="the turn that began and has not been committed", nullable=True),
    column("lost_turn_id", sa.Text, doc="what `turn_id` held when that turn began: its worker died", nullable=True),
    column("language", sa.Text, doc="what was last known of who speaks here; empty for nothing", server_default=""),
    column("is_voiced", sa.Boolean, doc="whether answers are spoken, too, as /voice says", server_default=sa.false()),
)
"""One row per session key: the lock under which a lane's turns are written, one worker at a time."""

sessions: Final = sa.Table(
    "sessions",
    metadata,
    column("id", sa.Text, doc="a ULID", primary_key=True),
    column("key", sa.Text, sa.ForeignKey(lanes.c.key), doc="the lane it belongs to"),
    column("number", sa.Integer, doc="counts the conversations of a key from 1; null for a sub-agent's", nullable=True),
    column("channel", sa.Text, doc="`subagent:<type>` for a sub-agent's; empty for a conversation", server_default=""),
    column("title", AnyText, doc="`New Chat` until the titler or the user names it"),
    column("status", sa.Text, doc="a SessionStatus"),
    column("title_tries", sa.Integer, doc="calls of the titler paid so far"),
    column(
        "title_claimed_until_ms",
        sa.BigInteger,
        doc="until when a worker that titles it is left alone",
        server_default="0",
    ),
    column("parent_session_id", sa.Text, doc="the session a sub-agent works for", nullable=True),
    column("last_seq", sa.Integer, doc="the highest `entries.seq` given out"),
    column("message_count", sa.Integer, doc="entries of kind message"),
    column("tokens", sa.BigInteger, doc="prompt and completion tokens of all its model calls"),
    column("cost_usd", sa.Float(53), doc="what its model calls cost"),
    column("model", sa.Text, doc="the model chosen with /model; empty for the configured one", server_default=""),
    column("profile", sa.Text, doc="the agent profile chosen with /agent; empty for none", server_default=""),
    column("prompt_tokens", sa.Integer, doc="the provider's count of its last prompt; 0 for unknown"),
    column("prompt_seq", sa.Integer, doc="the last entry that prompt held"),
    column("created_at_ms", sa.BigInteger, doc="when it was opened"),
    column("updated_at_ms", sa.BigInteger, doc="when something was last said or done in it"),
    sa.UniqueConstraint("key", "number"),
    sa.Index("ix_sessions_newest", "created_at_ms", "id"),
    sa.Index("ix_sessions_parent_session_id", "parent_session_id"),
)
"""Conversations, with the sums that lists show, kept in the transaction that changes them."""

entries: Final = sa.Table(
    "entries",
    metadata,
    column("session_id", sa.Text, sa.ForeignKey(sessions.c.id), doc="whose transcript", primary_key=True),
    column("seq", sa.Integer, doc="the order of the transcript, from 1", primary_key=True),
    column("role", sa.Text, doc="a Role"),
    column("kind", sa.Text, doc="an EntryKind"),
    column("text", AnyText, doc="what was said"),
    column("tool_calls", AnyText, doc="JSON [[id, name, arguments], …]; null for none", nullable=True),
    column("tool_call_id", AnyText, doc="the call a tool entry answers; empty for others"),
    column("is_error", sa.Boolean, doc="the flag of a tool result"),
    column("tail_start_seq", sa.Integer, doc="of a compaction: the first entry that stays in view; else 0"),
    column("message_id", sa.Text, doc="the inbound message of a user entry", nullable=True),
    column("turn_id", sa.Text, doc="the turn that wrote it"),
    column("created_at_ms", sa.BigInteger, doc="when it was written"),
    column("is_undone", sa.Boolean, doc="taken out of every view by /undo or /retry", server_default=sa.false()),
    column("author", sa.Text, doc="the owner key of who wrote it in a shared place; else empty", server_default=""),
    sa.UniqueConstraint("message_id"),
)
"""Transcripts. Append-only; a compaction or an undo changes what is in view, never what was said."""

sa.Index("ix_entries_compactions", entries.c.session_id, entries.c.seq, sqlite_where=sa.text("kind = 'compaction'"))

consumed: Final = sa.Table(
    "consumed",
    metadata,
    column("message_id", sa.Text, doc="the inbound message", primary_key=True),
    column("turn_id", sa.Text, doc="the turn that answered it", index=True),
    column("consumed_at_ms", sa.BigInteger, doc="when"),
    column("is_given_up", sa.Boolean, doc="answered with an apology: it may be tried again", server_default=sa.false()),
    column("error_reference", sa.Text, doc="what the apology told to quote; empty for an answer", server_default=""),
    column("letter_id", sa.Text, doc="the dead letter, also when it is gone; empty for an answer", server_default=""),
)
"""Answered messages, for ever: a redelivery is never answered twice."""

turns: Final = sa.Table(
    "turns",
    metadata,
    column("id", sa.Text, doc="the turn id on every log line", primary_key=True),
    column("session_id", sa.Text, sa.ForeignKey(sessions.c.id), doc="the session it began in", index=True),
    column("key", sa.Text, doc="the lane", index=True),
    column("state", sa.Text, doc="a TurnState"),
    column("runs", sa.Integer, doc="how often it was begun"),
    column("fence", sa.BigInteger, doc="the fencing token of the last run"),
    column("error_reference", sa.Text, doc="what the user was told to quote; `worker_lost` after a takeover"),
    column("started_at_ms", sa.BigInteger, doc="when its last run began"),
    column("finished_at_ms", sa.BigInteger, doc="when it was committed", nullable=True),
)
"""One row per turn, from its first run to its commit."""

for _sought in (consumed.c.error_reference, consumed.c.letter_id, turns.c.error_reference):
    sa.Index(f"ix_{_sought.table.name}_{_sought.name}", _sought, sqlite_where=sa.text(f"{_sought.name} <> ''"))

usage: Final = sa.Table(
    "usage",
    metadata,
    column("id", ROW_NUMBER, sa.Identity(), doc="row number", primary_key=True),
    column("session_id", sa.Text, sa.ForeignKey(sessions.c.id), doc="the session it is summed into", index=True),
    column("key", sa.Text, doc="the lane"),
    column("owner", sa.Text, doc="who is charged"),
    column("purpose", sa.Text, doc="a UsagePurpose"),
    column("model", sa.Text, doc="the model that answered"),
    column("prompt_tokens", sa.BigInteger, doc="tokens in, cached ones included"),
    column("completion_tokens", sa.BigInteger, doc="tokens out"),
    column("cached_tokens", sa.BigInteger, doc="tokens in that came from the provider's prompt cache"),
    column("cost_usd", sa.Float(53), doc="US dollars"),
    column("turn_id", sa.Text, doc="the turn; empty outside of one"),
    column("created_at_ms", sa.BigInteger, doc="when the call ended"),
    sa.Index("ix_usage_owner_day", "owner", "created_at_ms"),
    sa.Index("ix_usage_day", "created_at_ms"),
)
"""Every model call, whatever it was for."""

outbox: Final = sa.Table(
    "outbox",
    metadata,
    column("id", sa.Text, doc="the reply id, equal for every repetition of the answer", primary_key=True),
    column("turn_id", sa.Text, doc="the turn that answered; empty for a notice", index=True),
    column("key", sa.Text, doc="the lane", index=True),
    column("position", sa.Integer, doc="the order of the replies of one commit"),
    column("address", AnyText, doc="the reply address as JSON"),
    column("text", AnyText, doc="the answer, CommonMark"),
    column("kind", sa.Text, doc="a ReplyKind"),
    column("title", AnyText, doc="of a TITLE: what the conversation is called", nullable=True),
    column("choices", AnyText, doc="JSON [[label, command], …]; null for none", nullable=True),
    column("amends", sa.Text, doc="the reply whose place it takes; empty for a message of its own", server_default=""),
    column("files", AnyText, doc="JSON list of the files behind the text; null for none", nullable=True),
    column("language", sa.Text, doc="what its reader is spoken to in; empty for unknown", server_default=""),
    column("state", sa.Text, doc="`new`, or the DeliveryState of its receipt"),
    column("created_at_ms", sa.BigInteger, doc="when the answer was made"),
    column("updated_at_ms", sa.BigInteger, doc="when `state` last changed, or the relay last looked at it"),
)
"""Committed replies: the truth about what has to be sent."""

sa.Index("ix_outbox_new", outbox.c.created_at_ms, sqlite_where=sa.text("state = 'new'"))

reply_files: Final = sa.Table(
    "reply_files",
    metadata,
    column("reply_id", sa.Text, doc="the reply it goes out with", primary_key=True),
    column("position", sa.Integer, doc="its place in `outbox.files`", primary_key=True),
    column("key", sa.Text, doc="the lane; nobody else ever reads it"),
    column("content", sa.LargeBinary, doc="the bytes"),
)
"""The bytes of files on their way; gone once the receipt of their reply is written."""

deliveries: Final = sa.Table(
    "deliveries",
    metadata,
    column("reply_id", sa.Text, doc="the reply; a notice of a channel has no outbox row", primary_key=True),
    column("key", sa.Text, doc="the lane", index=True),
    column("channel", sa.Text, doc="the channel that sent it"),
    column("state", sa.Text, doc="a DeliveryState"),
    column("attempts", sa.Integer, doc="platform calls that were begun"),
    column("chunks", sa.Integer, doc="into how many messages it was split"),
    column("platform_ids", AnyText, doc="JSON list of the messages on the platform"),
    column("reason", AnyText, doc="why it failed; empty otherwise"),
    column("updated_at_ms", sa.BigInteger, doc="when the delivery ended"),
)
"""Receipts: how the delivery of each reply ended."""

grants: Final = sa.Table(
    "grants",
    metadata,
    column("owner", sa.Text, doc="the user", primary_key=True),
    column("role", sa.Text, doc="a GrantRole"),
    column("granted_by", sa.Text, doc="the admin's key, or how it was decided"),
    column("created_at_ms", sa.BigInteger, doc="when it was decided"),
    column("reason", AnyText, doc="why, in the operator's words; empty for none", server_default=""),
)
"""Operators' decisions about users. The bus holds a projection of it."""

todos: Final = sa.Table(
    "todos",
    metadata,
    column("key", sa.Text, doc="the lane whose list it is", primary_key=True),
    column("position", sa.Integer, doc="the order of the list", primary_key=True),
    column("text", AnyText, doc="the task"),
    column("state", sa.Text, doc="a TodoState"),
)
"""Task lists."""

facts: Final = sa.Table(
    "facts",
    metadata,
    column("id", ROW_NUMBER, sa.Identity(), doc="row number", primary_key=True),
    column("owner", sa.Text, doc="whose fact; nobody else ever reads it"),
    column("number", sa.Integer, doc="counts the facts of an owner from 1", server_default="0"),
    column("place", sa.Text, doc="where it was learned; empty for a direct message", server_default=""),
    column("is_shared", sa.Boolean, doc="its owner lets it be read outside of its place", server_default=sa.false()),
    column("origin", sa.Text, doc="an Origin", server_default="told"),
    column("text", AnyText, doc="the fact"),
    column("terms", sa.Text, doc="its search terms (search.py), separated by spaces; what the full-text index holds"),
    column("vector", sa.LargeBinary, doc="what an embedding model made of it, as 32-bit floats", nullable=True),
    column("vector_model", sa.Text, doc="that model; empty for none", server_default=""),
    column("created_at_ms", sa.BigInteger, doc="when it was remembered"),
    column("told_at_ms", sa.BigInteger, doc="when it was last said", server_default="0"),
    column("uses", sa.Integer, doc="how often it was looked for, or had to do with what was said", server_default="0"),
    column(
        "helps_with", AnyText, doc="words that later questions may have; it is found by them, too", server_default=""
    ),
    column("former", AnyText, doc="what it replaced, a line each; empty for nothing", server_default=""),
    sa.CheckConstraint("owner <> ''", name="owned"),
    sa.Index("ix_facts_owner_number", "owner", "number", unique=True),
)
"""Facts about users."""

passages: Final = sa.Table(
    "passages",
    metadata,
    column("id", ROW_NUMBER, sa.Identity(), doc="row number", primary_key=True),
    column("session_id", sa.Text, sa.ForeignKey(sessions.c.id), doc="where the entry is"),
    column("seq", sa.Integer, doc="the entry"),
    column("key", sa.Text, doc="the lane; nobody else ever finds it", index=True),
    column("terms", sa.Text, doc="search terms of the entry, as in `facts`"),
    column("vector", sa.LargeBinary, doc="what an embedding model made of it, as in `facts`", nullable=True),
    column("vector_model", sa.Text, doc="that model; empty for none", server_default=""),
    sa.UniqueConstraint("session_id", "seq"),
)
"""Words of sessions that are over, as the full-text index has them. The words themselves are in `entries`."""

boundaries: Final = sa.Table(
    "boundaries",
    metadata,
    column("session_id", sa.Text, sa.ForeignKey(sessions.c.id), doc="the session", primary_key=True),
    column("seq", sa.Integer, doc="the last entry that left the model's view", primary_key=True),
    column("key", sa.Text, doc="the lane"),
    column("created_at_ms", sa.BigInteger, doc="when it left"),
    column("claimed_until_ms", sa.BigInteger, doc="until when somebody goes through what lies before it"),
    column("tries", sa.Integer, doc="how often somebody began to"),
    column("done_at_ms", sa.BigInteger, doc="when somebody had gone through it", nullable=True),
)
"""Compactions and ends of sessions: what memory has to go through, once each."""

sa.Index("ix_boundaries_due", boundaries.c.key, boundaries.c.created_at_ms, sqlite_where=sa.text("done_at_ms IS NULL"))

spending: Final = sa.Table(
    "spending",
    metadata,
    column("owner", sa.Text, doc="whose day; empty or a number for a part of the pot that all share", primary_key=True),
    column("day", sa.Integer, doc="the UTC day, counted from 1970", primary_key=True),
    column("tokens", sa.BigInteger, doc="tokens settled"),
    column("nano_usd", sa.BigInteger, doc="nanodollars settled"),
    column("turns", sa.Integer, doc="turns that were allowed to call a model"),
    column("warned", sa.Text, doc="the Measures whose owner was told that little is left, separated by spaces"),
)
"""The cost of each day's model calls, where caps are in force. Yesterday's rows go when an owner begins a new day."""

reservations: Final = sa.Table(
    "reservations",
    metadata,
    column("id", sa.Text, doc="a ULID", primary_key=True),
    column("owner", sa.Text, doc="who is charged"),
    column("day", sa.Integer, doc="the UTC day that is charged"),
    column("tokens", sa.BigInteger, doc="tokens set aside"),
    column("nano_usd", sa.BigInteger, doc="nanodollars set aside"),
    column("expires_at_ms", sa.BigInteger, doc="from then on it counts no more: its worker died"),
    sa.Index("ix_reservations_owner_day", "owner", "day"),
    sa.Index("ix_reservations_day", "day"),
)
"""Model calls under way, and what they may cost at most."""

counted_turns: Final = sa.Table(
    "counted_turns",
    metadata,
    column("turn_id", sa.Text, doc="a turn that counts against a cap", primary_key=True),
    column("owner", sa.Text, doc="whose turn"),
    column("day", sa.Integer, doc="the UTC day it was counted on"),
    sa.Index("ix_counted_turns_owner_day", "owner", "day"),
)
"""Each turn is counted once, however many workers run it."""

calendars: Final = sa.Table(
    "calendars",
    metadata,
    column("owner", sa.Text, doc="the user", primary_key=True),
    column("zone", sa.Text, doc="the name of the time zone; empty: never said"),
    column("last_number", sa.Integer, doc="the highest `schedules.number` given out"),
)
"""One row per owner of schedules: the lock under which they are counted."""

schedules: Final = sa.Table(
    "schedules",
    metadata,
    column("id", sa.Text, doc="named after what asked for it, so that a repetition adds nothing", primary_key=True),
    column("owner", sa.Text, doc="whose schedule; nobody else sees it"),
    column("number", sa.Integer, doc="what its owner calls it; never used twice"),
    column("key", sa.Text, doc="the lane its firings go to"),
    column("address", AnyText, doc="where it was asked for, as JSON"),
    column("author_id", sa.Text, doc="who asked, in the platform's words"),
    column("author_name", AnyText, doc="how that person was called"),
    column("is_private", sa.Boolean, doc="asked for in a direct message"),
    column("place", sa.Text, doc="the ids of the place it was asked for in, where the key lacks them, as JSON"),
    column("kind", sa.Text, doc="a ScheduleKind"),
    column("text", AnyText, doc="the reminder, or the prompt of the task"),
    column("recurrence", sa.Text, doc="the text form of the rule; empty: once"),
    column("zone", sa.Text, doc="the time zone whose wall clock the rule reads"),
    column("state", sa.Text, doc="a ScheduleState"),
    column("next_due_ms", sa.BigInteger, doc="when it is due; of one that is over, when it was due last"),
    column("held_until_ms", sa.BigInteger, doc="until then its firing is one worker's, or put off; 0 for nobody's"),
    column("firings", sa.Integer, doc="how often it has fired"),
    column("fired_at_ms", sa.BigInteger, doc="when it last fired; 0 for never"),
    column("created_at_ms", sa.BigInteger, doc="when it was asked for"),
    sa.UniqueConstraint("owner", "number"),
)
"""Reminders and tasks with a time."""

sa.Index("ix_schedules_due", schedules.c.next_due_ms, sqlite_where=sa.text("state = 'active'"))

loans: Final = sa.Table(
    "loans",
    metadata,
    column("id", ROW_NUMBER, sa.Identity(), doc="row number", primary_key=True),
    column("at_ms", sa.BigInteger, doc="when a tool was given a secret"),
    column("owner", sa.Text, doc="whose lane it was", index=True),
    column("key", sa.Text, doc="that lane"),
    column("person", sa.Text, doc="who had sent the secret and asked for the call"),
    column("placeholder", sa.Text, doc="what stands for the secret in this lane; the secret itself is nowhere"),
    column("tool", sa.Text, doc="the tool"),
    column("turn_id", sa.Text, doc="the turn"),
)
"""One row for each use of a secret that was kept for tools."""

installation: Final = sa.Table(
    "installation",
    metadata,
    column("number", sa.Integer, doc="1: there is one", primary_key=True, autoincrement=False),
    column("id", sa.Text, doc="the name that the bus, pub/sub and leases carry"),
    sa.CheckConstraint("number = 1", name="only"),
)
"""Whose the database is, made at the first start."""

buttons: Final = sa.Table(
    "buttons",
    metadata,
    column("token", sa.Text, doc="what the platform holds of it", primary_key=True),
    column("group_id", sa.Text, doc="buttons that exclude each other share it", index=True),
    column("reply_id", sa.Text, doc="the reply that it hangs under"),
    column("label", AnyText, doc="its words"),
    column("command", AnyText, doc="what is said with it"),
    column("meant_for", sa.Text, doc="the owner key of the only person who may press it"),
    column("key", sa.Text, doc="the lane where it is said", index=True),
    column("address", AnyText, doc="where it is answered, as JSON"),
    column("is_private", sa.Boolean, doc="it hangs in a direct message"),
    column("place", sa.Text, doc="the ids of the chat and of the thread in it, as JSON"),
    column("realm", sa.Text, doc="the server or workspace of the place; empty for none"),
    column("expires_at_ms", sa.BigInteger, doc="from then on it is worth nothing"),
    column("pressed_by", sa.Text, doc="the message id of the press that used up its group; empty while nobody has"),
)
"""One row for each button that says a command."""

links: Final = sa.Table(
    "links",
    metadata,
    column("owner", sa.Text, doc="an end of a person who has several", primary_key=True),
    column("person", sa.Text, doc="the same for all ends of one person", index=True),
    column("linked_at_ms", sa.BigInteger, doc="when it was linked"),
)
"""An owner who is not in it is a person of his own."""

purses: Final = sa.Table(
    "purses",
    metadata,
    column("owner", sa.Text, doc="an end that was linked or parted on that day", primary_key=True),
    column("day", sa.Integer, doc="the UTC day, as in `spending`"),
    column("purse", sa.Text, doc="the same for all whose day is one"),
    sa.Index("ix_purses_purse_day", "purse", "day"),
)
"""Within a day purses only ever grow together: no order of linking and parting makes a cap larger."""

link_codes: Final = sa.Table(
    "link_codes",
    metadata,
    column("owner", sa.Text, doc="to whom it was given; he has one at a time", primary_key=True),
    column("digest", sa.Text, doc="SHA-256 of the code; the code itself is nowhere", unique=True),
    column("address", AnyText, doc="where he asked for it, as JSON"),
    column("language", sa.Text, doc="his language"),
    column("expires_at_ms", sa.BigInteger, doc="from then on it is worth nothing"),
    column("name", AnyText, doc="what that account calls itself", server_default=""),
    column("entered_by", sa.Text, doc="the owner who entered it, and may join; empty: nobody yet"),
)
"""Codes that join two accounts."""

link_tries: Final = sa.Table(
    "link_tries",
    metadata,
    column("owner", sa.Text, doc="who entered wrong codes", primary_key=True),
    column("tries", sa.Integer, doc="how many"),
    column("until_ms", sa.BigInteger, doc="when they are forgotten"),
)
"""Bounds guessing."""

place_rules: Final = sa.Table(
    "place_rules",
    metadata,
    column("place", sa.Text, doc="the key that all who speak there would share", primary_key=True),
    column("audience", sa.Text, doc="an Audience; null: as the configuration says, as with the others", nullable=True),
    column("lets_guests", sa.Boolean, doc="strangers may speak there", nullable=True),
    column("tools", sa.Text, doc="JSON list of the tools that may be used there", nullable=True),
    column("profile", sa.Text, doc="who the agent is there until somebody chooses", nullable=True),
    column("roles", sa.Text, doc="JSON list of the platform's roles, of which strangers there need one", nullable=True),
)
"""Operators' changes of places. The bus holds a projection of it."""

place_approvals: Final = sa.Table(
    "place_approvals",
    metadata,
    column("place", sa.Text, doc="as in `place_rules`; a person's own is named after the person", primary_key=True),
    column("tool", sa.Text, doc="what is not asked about", primary_key=True),
    column("role", sa.Text, doc="the least GrantRole for whom that holds", primary_key=True),
    column("digest", sa.Text, doc="of the one call that was approved; empty: every call", primary_key=True),
    column("approved_by", sa.Text, doc="the admin who said so"),
    column("approved_at_ms", sa.BigInteger, doc="when"),
)
"""Admins' lasting approvals. The agent reads them whenever it would ask."""

place_realms: Final = sa.Table(
    "place_realms",
    metadata,
    column("place", sa.Text, doc="a chat, as in `place_rules`", primary_key=True),
    column("realm", sa.Text, doc="the id of the server or workspace it belongs to"),
)
"""For what is said there later by nobody: schedules, and sub-agents that report."""

limit_rules: Final = sa.Table(
    "limit_rules",
    metadata,
    column("owner", sa.Text, doc="the user, or the GrantRole of all whom it is for", primary_key=True),
    column(
        "tokens",
        sa.BigInteger,
        doc="of one UTC day; 0: no limit; null: as configured, as with the others",
        nullable=True,
    ),
    column("nano_usd", sa.BigInteger, doc="of one UTC day", nullable=True),
    column("turns", sa.BigInteger, doc="of one UTC day", nullable=True),
    column("per_minute", sa.Integer, doc="messages", nullable=True),
)
"""Admins' changes of limits. The bus holds a projection of it."""

access_revision: Final = sa.Table(
    "access_revision",
    metadata,
    column("id", sa.Integer, doc="always 1", primary_key=True, autoincrement=False),
    column("revision", sa.BigInteger, doc="counts the changes of what the bus is shown"),
)
"""One row: a projection with a lower number is out of date."""

sub_tasks: Final = sa.Table(
    "sub_tasks",
    metadata,
    column("id", sa.Text, doc="a ULID", primary_key=True),
    column("session_id", sa.Text, sa.ForeignKey(sessions.c.id), doc="its own session"),
    column("parent_session_id", sa.Text, doc="the session it works for"),
    column("parent_task_id", sa.Text, doc="the task of that session; empty for a conversation"),
    column("key", sa.Text, doc="the lane; nobody else ever reads it"),
    column("turn_id", sa.Text, doc="the turn it was asked for in"),
    column("sub_type", sa.Text, doc="a row of the catalog"),
    column("label", AnyText, doc="a few words for people"),
    column("prompt", AnyText, doc="what it was asked"),
    column("mode", sa.Text, doc="a TaskMode"),
    column("depth", sa.Integer, doc="how many sub-agents are between it and the user, itself included"),
    column("state", sa.Text, doc="a TaskState"),
    column("reason", AnyText, doc="why it did not complete; else empty"),
    column("result", AnyText, doc="its answer"),
    column("confinement", sa.Text, doc="what held its process"),
    column("worker_id", sa.Text, doc="the process that runs it, or has it queued"),
    column("alive_until_ms", sa.BigInteger, doc="until then it lives, whatever `task_workers` says"),
    column("is_cancel_wanted", sa.Boolean, doc="the process that runs it is to end it"),
    column("wake", AnyText, doc="JSON of a WakeAddress; null where nobody is to be woken", nullable=True),
    column("wake_id", sa.Text, doc="the wake that was sent to tell of it; empty for none"),
    column("is_told", sa.Boolean, doc="its session knows how it ended without any wake, or does not want to"),
    column("created_at_ms", sa.BigInteger, doc="when it was asked for"),
    column("started_at_ms", sa.BigInteger, doc="when it began to run; 0: not yet"),
    column("finished_at_ms", sa.BigInteger, doc="when it was over; 0: not yet"),
    column("updated_at_ms", sa.BigInteger, doc="when something was last written here"),
    column("tokens_in", sa.BigInteger, doc="of its model calls and of those below it"),
    column("tokens_out", sa.BigInteger, doc="likewise"),
    column("cost_usd", sa.Float(53), doc="likewise"),
    column("doing", sa.Text, doc="JSON of a Doing; null unless it runs", nullable=True),
    sa.UniqueConstraint("session_id"),
    sa.Index("ix_sub_tasks_parent_session_id", "parent_session_id"),
)
"""The board: all live tasks, those that somebody still has to be told of, and the last that are over."""

barriers: Final = sa.Table(
    "barriers",
    metadata,
    column("id", sa.Text, doc="a ULID; the wake's id", primary_key=True),
    column("session_id", sa.Text, sa.ForeignKey(sessions.c.id), doc="the session that waits", index=True),
    column("key", sa.Text, doc="its lane"),
    column("turn_id", sa.Text, doc="the turn that yielded"),
    column("mode", sa.Text, doc="a WaitMode"),
    column("needed", sa.Integer, doc="how many tasks have to be over"),
    column("is_met", sa.Boolean, doc="enough were over: what its wake says is settled"),
    column("wake", AnyText, doc="JSON of a WakeAddress"),
    column("created_at_ms", sa.BigInteger, doc="when the turn yielded"),
)
"""Conditions that yielded turns wait for; gone once their session is woken."""

waits: Final = sa.Table(
    "waits",
    metadata,
    column("barrier_id", sa.Text, sa.ForeignKey(barriers.c.id), doc="the barrier", primary_key=True),
    column("task_id", sa.Text, doc="a task behind it", primary_key=True, index=True),
    column("key", sa.Text, doc="the lane of both"),
)
"""The tasks behind a barrier; of one that is met, those that its wake tells of."""

task_workers: Final = sa.Table(
    "task_workers",
    metadata,
    column("worker_id", sa.Text, doc="a process that runs sub-agents", primary_key=True),
    column("alive_until_ms", sa.BigInteger, doc="until then its tasks live"),
)
"""One row for each worker, so that staying alive costs one write, however many tasks it has."""

board: Final = sa.Table(
    "board",
    metadata,
    column("id", sa.Integer, doc="always 1", primary_key=True, autoincrement=False),
    column("revision", sa.BigInteger, doc="counts the changes of `sub_tasks` that can be seen"),
)
"""One row: who watches the board asks for this number."""

sub_type_changes: Final = sa.Table(
    "sub_type_changes",
    metadata,
    column("name", sa.Text, doc="a row of the catalog", primary_key=True),
    column("label", AnyText, doc="null: as in the catalog, as with the others", nullable=True),
    column("description", AnyText, doc="what it is for", nullable=True),
    column("tools", sa.Text, doc="JSON list of the tools it may use", nullable=True),
    column("rounds_max", sa.Integer, doc="rounds of tools", nullable=True),
    column("prompt", AnyText, doc="its system prompt", nullable=True),
)
"""Operators' changes of the types of sub-agents."""

audit: Final = sa.Table(
    "audit",
    metadata,
    column("id", ROW_NUMBER, sa.Identity(), doc="row number", primary_key=True),
    column("at_ms", sa.BigInteger, doc="when"),
    column("actor", sa.Text, doc="who changed something", index=True),
    column("action", sa.Text, doc="what was done"),
    column("subject", sa.Text, doc="what it was done to", index=True),
    column("before", AnyText, doc="how it read before, as JSON"),
    column("after", AnyText, doc="how it reads since"),
)
"""The audit, the last lines of each actor (`AUDIT_KEPT`). Nothing here is changed, but for the name of somebody who was
erased."""
