"""Every table and column, once. The migrations build exactly this; a test compares the two on both databases.

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

The condition of a partial index is told to SQLite's dialect only, or every process would load the other one; the
migrations tell both.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.types import TypeDecorator

SCHEMA_REVISION: Final = "v3"
"""The migration this code is written for."""

KNOWN_REVISIONS: Final = frozenset({"v1", "v2", "v3"})
"""Every migration up to ours."""

OLD_REVISIONS: Final = frozenset({"0001", "0002", "0003", "0004", "0005", "0006", "0007"})
"""Revisions before the schema was counted from v1. Any other revision was made by a newer Trivet."""

VERSION_TABLE: Final = "schema_version"
"""Alembic's table of the revision (column `version_num`)."""


class AnyText(TypeDecorator[str]):
    """Text from people, models and tools, which may hold what no database takes.

    PostgreSQL refuses NUL, both refuse half of a surrogate pair. Each such character becomes U+FFFD:
    a message is never lost for one bad character.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return what is stored for `value`."""
        if value is None or (value.isascii() and "\x00" not in value):
            return value
        whole = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return whole.replace("\x00", "\ufffd")


metadata: Final = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

ROW_NUMBER: Final = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite counts up only a plain INTEGER key."""


def column(name: str, type_: Any, *rest: Any, doc: str, nullable: bool = False, **options: Any) -> Column[Any]:
    """Make a column that says what it is for, and holds a value unless it says otherwise."""
    return Column(name, type_, *rest, doc=doc, nullable=nullable, **options)


lanes: Final = Table(
    "lanes",
    metadata,
    column("key", Text, doc="the session key", primary_key=True),
    column("owner", Text, doc="whom budget, memory and erasure belong to", index=True),
    column("fence", BigInteger, doc="the newest fencing token seen; an older one may write nothing"),
    column("session_id", Text, doc="the current session; null until the first one opens", nullable=True),
    column("turn_id", Text, doc="the turn that began and has not been committed", nullable=True),
    column("lost_turn_id", Text, doc="what `turn_id` held when that turn began: its worker died", nullable=True),
    column("language", Text, doc="what was last known of who speaks here; empty for nothing", server_default=""),
    column("is_voiced", Boolean, doc="whether answers are spoken, too, as /voice says", server_default=false()),
)
"""One row per session key: the lock under which a lane's turns are written, one worker at a time."""

sessions: Final = Table(
    "sessions",
    metadata,
    column("id", Text, doc="a ULID", primary_key=True),
    column("key", Text, ForeignKey(lanes.c.key), doc="the lane it belongs to"),
    column("number", Integer, doc="counts the conversations of a key from 1; null for a sub-agent's", nullable=True),
    column("channel", Text, doc="`subagent:<type>` for a sub-agent's; empty for a conversation", server_default=""),
    column("title", AnyText, doc="`New Chat` until the titler or the user names it"),
    column("status", Text, doc="a SessionStatus"),
    column("title_tries", Integer, doc="calls of the titler paid so far"),
    column(
        "title_claimed_until_ms", BigInteger, doc="until when a worker that titles it is left alone", server_default="0"
    ),
    column("parent_session_id", Text, doc="the session a sub-agent works for", nullable=True),
    column("last_seq", Integer, doc="the highest `entries.seq` given out"),
    column("message_count", Integer, doc="entries of kind message"),
    column("tokens", BigInteger, doc="prompt and completion tokens of all its model calls"),
    column("cost_usd", Float(53), doc="what its model calls cost"),
    column("model", Text, doc="the model chosen with /model; empty for the configured one", server_default=""),
    column("profile", Text, doc="the agent profile chosen with /agent; empty for none", server_default=""),
    column("prompt_tokens", Integer, doc="the provider's count of its last prompt; 0 for unknown"),
    column("prompt_seq", Integer, doc="the last entry that prompt held"),
    column("created_at_ms", BigInteger, doc="when it was opened"),
    column("updated_at_ms", BigInteger, doc="when something was last said or done in it"),
    UniqueConstraint("key", "number"),
    Index("ix_sessions_newest", "created_at_ms", "id"),
    Index("ix_sessions_parent_session_id", "parent_session_id"),
)
"""Conversations, with the sums that lists show, kept in the transaction that changes them."""

entries: Final = Table(
    "entries",
    metadata,
    column("session_id", Text, ForeignKey(sessions.c.id), doc="whose transcript", primary_key=True),
    column("seq", Integer, doc="the order of the transcript, from 1", primary_key=True),
    column("role", Text, doc="a Role"),
    column("kind", Text, doc="an EntryKind"),
    column("text", AnyText, doc="what was said"),
    column("tool_calls", AnyText, doc="JSON [[id, name, arguments], …]; null for none", nullable=True),
    column("tool_call_id", AnyText, doc="the call a tool entry answers; empty for others"),
    column("is_error", Boolean, doc="the flag of a tool result"),
    column("tail_start_seq", Integer, doc="of a compaction: the first entry that stays in view; else 0"),
    column("message_id", Text, doc="the inbound message of a user entry", nullable=True),
    column("turn_id", Text, doc="the turn that wrote it"),
    column("created_at_ms", BigInteger, doc="when it was written"),
    column("is_undone", Boolean, doc="taken out of every view by /undo or /retry", server_default=false()),
    column("author", Text, doc="the owner key of who wrote it in a shared place; else empty", server_default=""),
    UniqueConstraint("message_id"),
)
"""Transcripts. Append-only; a compaction or an undo changes what is in view, never what was said."""

Index(
    "ix_entries_compactions",
    entries.c.session_id,
    entries.c.seq,
    sqlite_where=text("kind = 'compaction'"),
)

consumed: Final = Table(
    "consumed",
    metadata,
    column("message_id", Text, doc="the inbound message", primary_key=True),
    column("turn_id", Text, doc="the turn that answered it", index=True),
    column("consumed_at_ms", BigInteger, doc="when"),
    column("is_given_up", Boolean, doc="answered with an apology: it may be tried again", server_default=false()),
    column("error_reference", Text, doc="what the apology told to quote; empty for an answer", server_default=""),
    column("letter_id", Text, doc="the dead letter, also when it is gone; empty for an answer", server_default=""),
)
"""Answered messages, for ever: a redelivery is never answered twice."""

turns: Final = Table(
    "turns",
    metadata,
    column("id", Text, doc="the turn id on every log line", primary_key=True),
    column("session_id", Text, ForeignKey(sessions.c.id), doc="the session it began in", index=True),
    column("key", Text, doc="the lane", index=True),
    column("state", Text, doc="a TurnState"),
    column("runs", Integer, doc="how often it was begun"),
    column("fence", BigInteger, doc="the fencing token of the last run"),
    column("error_reference", Text, doc="what the user was told to quote; `worker_lost` after a takeover"),
    column("started_at_ms", BigInteger, doc="when its last run began"),
    column("finished_at_ms", BigInteger, doc="when it was committed", nullable=True),
)
"""One row per turn, from its first run to its commit."""

for _sought in (consumed.c.error_reference, consumed.c.letter_id, turns.c.error_reference):
    Index(
        f"ix_{_sought.table.name}_{_sought.name}",
        _sought,
        sqlite_where=text(f"{_sought.name} <> ''"),
    )

usage: Final = Table(
    "usage",
    metadata,
    column("id", ROW_NUMBER, Identity(), doc="row number", primary_key=True),
    column("session_id", Text, ForeignKey(sessions.c.id), doc="the session it is summed into", index=True),
    column("key", Text, doc="the lane"),
    column("owner", Text, doc="who is charged"),
    column("purpose", Text, doc="a UsagePurpose"),
    column("model", Text, doc="the model that answered"),
    column("prompt_tokens", BigInteger, doc="tokens in, cached ones included"),
    column("completion_tokens", BigInteger, doc="tokens out"),
    column("cached_tokens", BigInteger, doc="tokens in that came from the provider's prompt cache"),
    column("cost_usd", Float(53), doc="US dollars"),
    column("turn_id", Text, doc="the turn; empty outside of one"),
    column("created_at_ms", BigInteger, doc="when the call ended"),
    Index("ix_usage_owner_day", "owner", "created_at_ms"),
    Index("ix_usage_day", "created_at_ms"),
)
"""Every model call, whatever it was for."""

outbox: Final = Table(
    "outbox",
    metadata,
    column("id", Text, doc="the reply id, equal for every repetition of the answer", primary_key=True),
    column("turn_id", Text, doc="the turn that answered; empty for a notice", index=True),
    column("key", Text, doc="the lane", index=True),
    column("position", Integer, doc="the order of the replies of one commit"),
    column("address", AnyText, doc="the reply address as JSON"),
    column("text", AnyText, doc="the answer, CommonMark"),
    column("kind", Text, doc="a ReplyKind"),
    column("title", AnyText, doc="of a TITLE: what the conversation is called", nullable=True),
    column("choices", AnyText, doc="JSON [[label, command], …]; null for none", nullable=True),
    column("amends", Text, doc="the reply whose place it takes; empty for a message of its own", server_default=""),
    column("files", AnyText, doc="JSON list of the files behind the text; null for none", nullable=True),
    column("language", Text, doc="what its reader is spoken to in; empty for unknown", server_default=""),
    column("state", Text, doc="`new`, or the DeliveryState of its receipt"),
    column("created_at_ms", BigInteger, doc="when the answer was made"),
    column("updated_at_ms", BigInteger, doc="when `state` last changed, or the relay last looked at it"),
)
"""Committed replies: the truth about what has to be sent."""

Index(
    "ix_outbox_new",
    outbox.c.created_at_ms,
    sqlite_where=text("state = 'new'"),
)

reply_files: Final = Table(
    "reply_files",
    metadata,
    column("reply_id", Text, doc="the reply it goes out with", primary_key=True),
    column("position", Integer, doc="its place in `outbox.files`", primary_key=True),
    column("key", Text, doc="the lane; nobody else ever reads it"),
    column("content", LargeBinary, doc="the bytes"),
)
"""The bytes of files on their way; gone once the receipt of their reply is written."""

deliveries: Final = Table(
    "deliveries",
    metadata,
    column("reply_id", Text, doc="the reply; a notice of a channel has no outbox row", primary_key=True),
    column("key", Text, doc="the lane", index=True),
    column("channel", Text, doc="the channel that sent it"),
    column("state", Text, doc="a DeliveryState"),
    column("attempts", Integer, doc="platform calls that were begun"),
    column("chunks", Integer, doc="into how many messages it was split"),
    column("platform_ids", AnyText, doc="JSON list of the messages on the platform"),
    column("reason", AnyText, doc="why it failed; empty otherwise"),
    column("updated_at_ms", BigInteger, doc="when the delivery ended"),
)
"""Receipts: how the delivery of each reply ended."""

grants: Final = Table(
    "grants",
    metadata,
    column("owner", Text, doc="the user", primary_key=True),
    column("role", Text, doc="a GrantRole"),
    column("granted_by", Text, doc="the admin's key, or how it was decided"),
    column("created_at_ms", BigInteger, doc="when it was decided"),
    column("reason", AnyText, doc="why, in the operator's words; empty for none", server_default=""),
)
"""Operators' decisions about users. The bus holds a projection of it."""

todos: Final = Table(
    "todos",
    metadata,
    column("key", Text, doc="the lane whose list it is", primary_key=True),
    column("position", Integer, doc="the order of the list", primary_key=True),
    column("text", AnyText, doc="the task"),
    column("state", Text, doc="a TodoState"),
)
"""Task lists."""

facts: Final = Table(
    "facts",
    metadata,
    column("id", ROW_NUMBER, Identity(), doc="row number", primary_key=True),
    column("owner", Text, doc="whose fact; nobody else ever reads it"),
    column("number", Integer, doc="counts the facts of an owner from 1", server_default="0"),
    column("place", Text, doc="where it was learned; empty for a direct message", server_default=""),
    column("is_shared", Boolean, doc="its owner lets it be read outside of its place", server_default=false()),
    column("origin", Text, doc="an Origin", server_default="told"),
    column("text", AnyText, doc="the fact"),
    column("terms", Text, doc="its search terms (search.py), separated by spaces; what the full-text index holds"),
    column("vector", LargeBinary, doc="what an embedding model made of it, as 32-bit floats", nullable=True),
    column("vector_model", Text, doc="that model; empty for none", server_default=""),
    column("created_at_ms", BigInteger, doc="when it was remembered"),
    column("told_at_ms", BigInteger, doc="when it was last said", server_default="0"),
    column("uses", Integer, doc="how often it was looked for, or had to do with what was said", server_default="0"),
    column(
        "helps_with", AnyText, doc="words that later questions may have; it is found by them, too", server_default=""
    ),
    column("former", AnyText, doc="what it replaced, a line each; empty for nothing", server_default=""),
    CheckConstraint("owner <> ''", name="owned"),
    Index("ix_facts_owner_number", "owner", "number", unique=True),
)
"""Facts about users."""

passages: Final = Table(
    "passages",
    metadata,
    column("id", ROW_NUMBER, Identity(), doc="row number", primary_key=True),
    column("session_id", Text, ForeignKey(sessions.c.id), doc="where the entry is"),
    column("seq", Integer, doc="the entry"),
    column("key", Text, doc="the lane; nobody else ever finds it", index=True),
    column("terms", Text, doc="search terms of the entry, as in `facts`"),
    column("vector", LargeBinary, doc="what an embedding model made of it, as in `facts`", nullable=True),
    column("vector_model", Text, doc="that model; empty for none", server_default=""),
    UniqueConstraint("session_id", "seq"),
)
"""Words of sessions that are over, as the full-text index has them. The words themselves are in `entries`."""

boundaries: Final = Table(
    "boundaries",
    metadata,
    column("session_id", Text, ForeignKey(sessions.c.id), doc="the session", primary_key=True),
    column("seq", Integer, doc="the last entry that left the model's view", primary_key=True),
    column("key", Text, doc="the lane"),
    column("created_at_ms", BigInteger, doc="when it left"),
    column("claimed_until_ms", BigInteger, doc="until when somebody goes through what lies before it"),
    column("tries", Integer, doc="how often somebody began to"),
    column("done_at_ms", BigInteger, doc="when somebody had gone through it", nullable=True),
)
"""Compactions and ends of sessions: what memory has to go through, once each."""

Index(
    "ix_boundaries_due",
    boundaries.c.key,
    boundaries.c.created_at_ms,
    sqlite_where=text("done_at_ms IS NULL"),
)

spending: Final = Table(
    "spending",
    metadata,
    column("owner", Text, doc="whose day; empty for the pot that all share", primary_key=True),
    column("day", Integer, doc="the UTC day, counted from 1970", primary_key=True),
    column("tokens", BigInteger, doc="tokens settled"),
    column("nano_usd", BigInteger, doc="nanodollars settled"),
    column("turns", Integer, doc="turns that were allowed to call a model"),
    column("warned", Text, doc="the Measures whose owner was told that little is left, separated by spaces"),
)
"""The cost of each day's model calls, where caps are in force. Yesterday's rows go when an owner begins a new day."""

reservations: Final = Table(
    "reservations",
    metadata,
    column("id", Text, doc="a ULID", primary_key=True),
    column("owner", Text, doc="who is charged"),
    column("day", Integer, doc="the UTC day that is charged"),
    column("tokens", BigInteger, doc="tokens set aside"),
    column("nano_usd", BigInteger, doc="nanodollars set aside"),
    column("expires_at_ms", BigInteger, doc="from then on it counts no more: its worker died"),
    Index("ix_reservations_owner_day", "owner", "day"),
    Index("ix_reservations_day", "day"),
)
"""Model calls under way, and what they may cost at most."""

counted_turns: Final = Table(
    "counted_turns",
    metadata,
    column("turn_id", Text, doc="a turn that counts against a cap", primary_key=True),
    column("owner", Text, doc="whose turn"),
    column("day", Integer, doc="the UTC day it was counted on"),
    Index("ix_counted_turns_owner_day", "owner", "day"),
)
"""Each turn is counted once, however many workers run it."""

calendars: Final = Table(
    "calendars",
    metadata,
    column("owner", Text, doc="the user", primary_key=True),
    column("zone", Text, doc="the name of the time zone; empty: never said"),
    column("last_number", Integer, doc="the highest `schedules.number` given out"),
)
"""One row per owner of schedules: the lock under which they are counted."""

schedules: Final = Table(
    "schedules",
    metadata,
    column("id", Text, doc="named after what asked for it, so that a repetition adds nothing", primary_key=True),
    column("owner", Text, doc="whose schedule; nobody else sees it"),
    column("number", Integer, doc="what its owner calls it; never used twice"),
    column("key", Text, doc="the lane its firings go to"),
    column("address", AnyText, doc="where it was asked for, as JSON"),
    column("author_id", Text, doc="who asked, in the platform's words"),
    column("author_name", AnyText, doc="how that person was called"),
    column("is_private", Boolean, doc="asked for in a direct message"),
    column("place", Text, doc="the ids of the place it was asked for in, where the key lacks them, as JSON"),
    column("kind", Text, doc="a ScheduleKind"),
    column("text", AnyText, doc="the reminder, or the prompt of the task"),
    column("recurrence", Text, doc="the text form of the rule; empty: once"),
    column("zone", Text, doc="the time zone whose wall clock the rule reads"),
    column("state", Text, doc="a ScheduleState"),
    column("next_due_ms", BigInteger, doc="when it is due; of one that is over, when it was due last"),
    column("held_until_ms", BigInteger, doc="until then its firing is one worker's, or put off; 0 for nobody's"),
    column("firings", Integer, doc="how often it has fired"),
    column("fired_at_ms", BigInteger, doc="when it last fired; 0 for never"),
    column("created_at_ms", BigInteger, doc="when it was asked for"),
    UniqueConstraint("owner", "number"),
)
"""Reminders and tasks with a time."""

Index(
    "ix_schedules_due",
    schedules.c.next_due_ms,
    sqlite_where=text("state = 'active'"),
)

loans: Final = Table(
    "loans",
    metadata,
    column("id", ROW_NUMBER, Identity(), doc="row number", primary_key=True),
    column("at_ms", BigInteger, doc="when a tool was given a secret"),
    column("owner", Text, doc="whose lane it was", index=True),
    column("key", Text, doc="that lane"),
    column("person", Text, doc="who had sent the secret and asked for the call"),
    column("placeholder", Text, doc="what stands for the secret in this lane; the secret itself is nowhere"),
    column("tool", Text, doc="the tool"),
    column("turn_id", Text, doc="the turn"),
)
"""One row for each use of a secret that was kept for tools."""

installation: Final = Table(
    "installation",
    metadata,
    column("number", Integer, doc="1: there is one", primary_key=True, autoincrement=False),
    column("id", Text, doc="the name that the bus, pub/sub and leases carry"),
    CheckConstraint("number = 1", name="only"),
)
"""Whose the database is, made at the first start."""

buttons: Final = Table(
    "buttons",
    metadata,
    column("token", Text, doc="what the platform holds of it", primary_key=True),
    column("group_id", Text, doc="buttons that exclude each other share it", index=True),
    column("reply_id", Text, doc="the reply that it hangs under"),
    column("label", AnyText, doc="its words"),
    column("command", AnyText, doc="what is said with it"),
    column("meant_for", Text, doc="the owner key of the only person who may press it"),
    column("key", Text, doc="the lane where it is said", index=True),
    column("address", AnyText, doc="where it is answered, as JSON"),
    column("is_private", Boolean, doc="it hangs in a direct message"),
    column("place", Text, doc="the ids of the chat and of the thread in it, as JSON"),
    column("realm", Text, doc="the server or workspace of the place; empty for none"),
    column("expires_at_ms", BigInteger, doc="from then on it is worth nothing"),
    column("pressed_by", Text, doc="the message id of the press that used up its group; empty while nobody has"),
)
"""One row for each button that says a command."""

links: Final = Table(
    "links",
    metadata,
    column("owner", Text, doc="an end of a person who has several", primary_key=True),
    column("person", Text, doc="the same for all ends of one person", index=True),
    column("linked_at_ms", BigInteger, doc="when it was linked"),
)
"""An owner who is not in it is a person of his own."""

purses: Final = Table(
    "purses",
    metadata,
    column("owner", Text, doc="an end that was linked or parted on that day", primary_key=True),
    column("day", Integer, doc="the UTC day, as in `spending`"),
    column("purse", Text, doc="the same for all whose day is one"),
    Index("ix_purses_purse_day", "purse", "day"),
)
"""Within a day purses only ever grow together: no order of linking and parting makes a cap larger."""

link_codes: Final = Table(
    "link_codes",
    metadata,
    column("owner", Text, doc="to whom it was given; he has one at a time", primary_key=True),
    column("digest", Text, doc="SHA-256 of the code; the code itself is nowhere", unique=True),
    column("address", AnyText, doc="where he asked for it, as JSON"),
    column("language", Text, doc="his language"),
    column("expires_at_ms", BigInteger, doc="from then on it is worth nothing"),
    column("name", AnyText, doc="what that account calls itself", server_default=""),
    column("entered_by", Text, doc="the owner who entered it, and may join; empty: nobody yet"),
)
"""Codes that join two accounts."""

link_tries: Final = Table(
    "link_tries",
    metadata,
    column("owner", Text, doc="who entered wrong codes", primary_key=True),
    column("tries", Integer, doc="how many"),
    column("until_ms", BigInteger, doc="when they are forgotten"),
)
"""Bounds guessing."""

place_rules: Final = Table(
    "place_rules",
    metadata,
    column("place", Text, doc="the key that all who speak there would share", primary_key=True),
    column("audience", Text, doc="an Audience; null: as the configuration says, as with the others", nullable=True),
    column("lets_guests", Boolean, doc="strangers may speak there", nullable=True),
    column("tools", Text, doc="JSON list of the tools that may be used there", nullable=True),
    column("profile", Text, doc="who the agent is there until somebody chooses", nullable=True),
    column("roles", Text, doc="JSON list of the platform's roles, of which strangers there need one", nullable=True),
)
"""Operators' changes of places. The bus holds a projection of it."""

place_approvals: Final = Table(
    "place_approvals",
    metadata,
    column("place", Text, doc="as in `place_rules`; a person's own is named after the person", primary_key=True),
    column("tool", Text, doc="what is not asked about", primary_key=True),
    column("role", Text, doc="the least GrantRole for whom that holds", primary_key=True),
    column("digest", Text, doc="of the one call that was approved; empty: every call", primary_key=True),
    column("approved_by", Text, doc="the admin who said so"),
    column("approved_at_ms", BigInteger, doc="when"),
)
"""Admins' lasting approvals. The agent reads them whenever it would ask."""

place_realms: Final = Table(
    "place_realms",
    metadata,
    column("place", Text, doc="a chat, as in `place_rules`", primary_key=True),
    column("realm", Text, doc="the id of the server or workspace it belongs to"),
)
"""For what is said there later by nobody: schedules, and sub-agents that report."""

limit_rules: Final = Table(
    "limit_rules",
    metadata,
    column("owner", Text, doc="the user, or the GrantRole of all whom it is for", primary_key=True),
    column(
        "tokens", BigInteger, doc="of one UTC day; 0: no limit; null: as configured, as with the others", nullable=True
    ),
    column("nano_usd", BigInteger, doc="of one UTC day", nullable=True),
    column("turns", BigInteger, doc="of one UTC day", nullable=True),
    column("per_minute", Integer, doc="messages", nullable=True),
)
"""Admins' changes of limits. The bus holds a projection of it."""

access_revision: Final = Table(
    "access_revision",
    metadata,
    column("id", Integer, doc="always 1", primary_key=True, autoincrement=False),
    column("revision", BigInteger, doc="counts the changes of what the bus is shown"),
)
"""One row: a projection with a lower number is out of date."""

sub_tasks: Final = Table(
    "sub_tasks",
    metadata,
    column("id", Text, doc="a ULID", primary_key=True),
    column("session_id", Text, ForeignKey(sessions.c.id), doc="its own session"),
    column("parent_session_id", Text, doc="the session it works for"),
    column("parent_task_id", Text, doc="the task of that session; empty for a conversation"),
    column("key", Text, doc="the lane; nobody else ever reads it"),
    column("turn_id", Text, doc="the turn it was asked for in"),
    column("sub_type", Text, doc="a row of the catalog"),
    column("label", AnyText, doc="a few words for people"),
    column("prompt", AnyText, doc="what it was asked"),
    column("mode", Text, doc="a TaskMode"),
    column("depth", Integer, doc="how many sub-agents are between it and the user, itself included"),
    column("state", Text, doc="a TaskState"),
    column("reason", AnyText, doc="why it did not complete; else empty"),
    column("result", AnyText, doc="its answer"),
    column("confinement", Text, doc="what held its process"),
    column("worker_id", Text, doc="the process that runs it, or has it queued"),
    column("alive_until_ms", BigInteger, doc="until then it lives, whatever `task_workers` says"),
    column("is_cancel_wanted", Boolean, doc="whoever runs it is to end it"),
    column("wake", AnyText, doc="JSON of a WakeAddress; null where nobody is to be woken", nullable=True),
    column("wake_id", Text, doc="the wake that was sent to tell of it; empty for none"),
    column("is_told", Boolean, doc="its session knows how it ended without any wake, or does not want to"),
    column("created_at_ms", BigInteger, doc="when it was asked for"),
    column("started_at_ms", BigInteger, doc="when it began to run; 0: not yet"),
    column("finished_at_ms", BigInteger, doc="when it was over; 0: not yet"),
    column("updated_at_ms", BigInteger, doc="when something was last written here"),
    column("tokens_in", BigInteger, doc="of its model calls and of those below it"),
    column("tokens_out", BigInteger, doc="likewise"),
    column("cost_usd", Float(53), doc="likewise"),
    column("doing", Text, doc="JSON of a Doing; null unless it runs", nullable=True),
    UniqueConstraint("session_id"),
    Index("ix_sub_tasks_parent_session_id", "parent_session_id"),
)
"""The board: all live tasks, those that somebody still has to be told of, and the last that are over."""

barriers: Final = Table(
    "barriers",
    metadata,
    column("id", Text, doc="a ULID; the wake's id", primary_key=True),
    column("session_id", Text, ForeignKey(sessions.c.id), doc="the session that waits", index=True),
    column("key", Text, doc="its lane"),
    column("turn_id", Text, doc="the turn that yielded"),
    column("mode", Text, doc="a WaitMode"),
    column("needed", Integer, doc="how many tasks have to be over"),
    column("is_met", Boolean, doc="enough were over: what its wake says is settled"),
    column("wake", AnyText, doc="JSON of a WakeAddress"),
    column("created_at_ms", BigInteger, doc="when the turn yielded"),
)
"""Conditions that yielded turns wait for; gone once their session is woken."""

waits: Final = Table(
    "waits",
    metadata,
    column("barrier_id", Text, ForeignKey(barriers.c.id), doc="the barrier", primary_key=True),
    column("task_id", Text, doc="a task behind it", primary_key=True, index=True),
    column("key", Text, doc="the lane of both"),
)
"""The tasks behind a barrier; of one that is met, those that its wake tells of."""

task_workers: Final = Table(
    "task_workers",
    metadata,
    column("worker_id", Text, doc="a process that runs sub-agents", primary_key=True),
    column("alive_until_ms", BigInteger, doc="until then its tasks live"),
)
"""One row for each worker, so that staying alive costs one write, however many tasks it has."""

board: Final = Table(
    "board",
    metadata,
    column("id", Integer, doc="always 1", primary_key=True, autoincrement=False),
    column("revision", BigInteger, doc="counts the changes of `sub_tasks` that can be seen"),
)
"""One row: who watches the board asks for this number."""

sub_type_changes: Final = Table(
    "sub_type_changes",
    metadata,
    column("name", Text, doc="a row of the catalog", primary_key=True),
    column("label", AnyText, doc="null: as in the catalog, as with the others", nullable=True),
    column("description", AnyText, doc="what it is for", nullable=True),
    column("tools", Text, doc="JSON list of the tools it may use", nullable=True),
    column("rounds_max", Integer, doc="rounds of tools", nullable=True),
    column("prompt", AnyText, doc="its system prompt", nullable=True),
)
"""Operators' changes of the types of sub-agents."""

audit: Final = Table(
    "audit",
    metadata,
    column("id", ROW_NUMBER, Identity(), doc="row number", primary_key=True),
    column("at_ms", BigInteger, doc="when"),
    column("actor", Text, doc="who changed something", index=True),
    column("action", Text, doc="what was done"),
    column("subject", Text, doc="what it was done to", index=True),
    column("before", AnyText, doc="how it read before, as JSON"),
    column("after", AnyText, doc="how it reads since"),
)
"""The audit, the last lines of each actor (`AUDIT_KEPT`). Nothing here is changed, but for the name of somebody who was
erased."""
