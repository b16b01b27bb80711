"""The tables of sub-agents: their tasks, who waits for them, what operators changed about their types.

    sessions 1 ── 1 sub_tasks      a sub-agent's own session, and its line of the board
             1 ── n barriers       1 ── n waits (task ids)
    task_workers                   who lives                board    how often the board has changed
    sub_type_changes               the catalog as changed   audit    who changed it

Every change of a task is made under the lock of its lane (`locking`), so that two workers never both end it.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Boolean, Float, ForeignKey, Identity, Index, Integer, Table, Text, UniqueConstraint

from gateway.store.tables import ROW_NUMBER, AnyText, column, metadata, sessions

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
    column("depth", Integer, doc="how many sub-agents stand between it and the user, itself included"),
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
"""What turns that have yielded wait for; gone once their session is woken."""

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
"""What operators changed about the types of sub-agents."""

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
"""Who changed what, the last lines of each actor (`AUDIT_KEPT`). Nothing here is changed, but for the name of somebody
who was erased."""
