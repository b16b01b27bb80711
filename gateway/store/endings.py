"""How a turn ends without its worker: fenced off after a stop, given up after too many tries.

A worker that was paused or cut off may come back at any time and commit what it has. Whoever tells a user
that a turn has ended makes sure here, under the lane's lock, that it has.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, bindparam, select, update

from gateway.contracts.entries import Entry, Role
from gateway.contracts.ids import SessionKey, retry_id_of
from gateway.contracts.messages import CleanText, InboundMessage, Reply
from gateway.store import outbox, turns, unanswered
from gateway.store.tables import lanes
from gateway.store.tables import turns as turns_table

_FENCE_OFF: Final = (
    update(lanes).where(lanes.c.key == bindparam("k"), lanes.c.fence <= bindparam("f")).values(fence=bindparam("f") + 1)
)
_TURNS_OF: Final = select(turns_table.c.id).where(
    turns_table.c.key == bindparam("k"), turns_table.c.fence == bindparam("f")
)
_LOCK: Final = (
    update(lanes)
    .where(lanes.c.key == bindparam("k"))
    .values(fence=lanes.c.fence)
    .returning(lanes.c.turn_id, lanes.c.session_id)
)
_CLOSE_LANE: Final = update(lanes).where(lanes.c.key == bindparam("k")).values(fence=lanes.c.fence + 1, turn_id=None)


def fence_off(connection: Connection, key: SessionKey, fence: int) -> tuple[Reply, ...]:
    """`Store.fence_off` in one transaction. The next owner's fence is above the one that is left here, or
    equal to it: both may write."""
    connection.execute(_FENCE_OFF, {"k": str(key), "f": fence})
    turn_ids = list(connection.execute(_TURNS_OF, {"k": str(key), "f": fence}).scalars())
    return outbox.unsent(connection, key, turn_ids) if turn_ids else ()


def give_up(
    connection: Connection,
    *,
    turn_id: str,
    message: InboundMessage,
    reply: Reply,
    note: CleanText,
    reference: str,
    letter_id: str,
    now_ms: int,
) -> bool:
    """`Store.give_up` in one transaction."""
    lane = connection.execute(_LOCK, {"k": str(message.key)}).one_or_none()
    # The operator may have it tried again before its author was told: an apology behind the answer would mislead.
    answered, _ = unanswered.known(connection, [message.id, retry_id_of(message.id)])
    if answered:
        return False
    if lane is not None and lane.turn_id == turn_id:
        # Nobody has begun since the last try, which may still be alive somewhere: it commits no more.
        connection.execute(_CLOSE_LANE, {"k": str(message.key)})
        connection.execute(turns.LOSE_TURN, {"t": turn_id, "reference": turns.WORKER_LOST, "now_ms": now_ms})
        _note(connection, turn_id, message, note, now_ms=now_ms)
    turns.give_up(connection, message.id, turn_id=turn_id, reference=reference, letter_id=letter_id, now_ms=now_ms)
    outbox.put(connection, [reply])
    return True


def _note(connection: Connection, turn_id: str, message: InboundMessage, note: CleanText, *, now_ms: int) -> None:
    """Let the transcript say what became of the message, if it was part of the conversation. What was said
    behind it joins the transcript again when its own turn begins."""
    left = unanswered.left_by(connection, turn_id)
    unanswered.withdraw(connection, {row.message_id: row.session_id for row in left})
    home = next((row.session_id for row in left if row.message_id == message.id), None)
    if home is not None:
        said = unanswered.user_entries([message], turn_id=turn_id, now_ms=now_ms)
        noted = Entry(Role.ASSISTANT, note, turn_id=turn_id, created_at_ms=now_ms)
        turns.append(connection, message.key, home, [*said, noted], now_ms=now_ms)
