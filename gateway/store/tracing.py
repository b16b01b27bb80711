"""One turn from its messages to its replies, found by the id of any of them."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BindParameter, Connection, bindparam, select, union_all

from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import MessageTrace, TurnTrace
from gateway.store import outbox as replies
from gateway.store.tables import consumed, entries, outbox, turns

_WANTED: Final[BindParameter[str]] = bindparam("wanted")
_TURN_OF: Final = union_all(
    select(turns.c.id).where(turns.c.id == _WANTED),
    select(consumed.c.turn_id).where(consumed.c.message_id == _WANTED),
    select(entries.c.turn_id).where(entries.c.message_id == _WANTED),
    select(outbox.c.turn_id).where(outbox.c.id == _WANTED),
).limit(1)
_TURN: Final = select(turns).where(turns.c.id == bindparam("turn"))
_SAID: Final = select(entries.c.message_id, entries.c.created_at_ms).where(
    entries.c.turn_id == bindparam("turn"), entries.c.message_id.is_not(None)
)
_ANSWERED: Final = select(consumed.c.message_id, consumed.c.consumed_at_ms).where(
    consumed.c.turn_id == bindparam("turn")
)


def trace(connection: Connection, *, wanted: str) -> TurnTrace | None:
    """The turn that an inbound message, a turn id or a reply belongs to."""
    turn_id = connection.execute(_TURN_OF, {"wanted": wanted}).scalar()
    turn = connection.execute(_TURN, {"turn": turn_id}).first()
    if turn is None:
        return None
    said = {row.message_id: row.created_at_ms for row in connection.execute(_SAID, {"turn": turn_id})}
    answered = {row.message_id: row.consumed_at_ms for row in connection.execute(_ANSWERED, {"turn": turn_id})}
    return TurnTrace(
        turn_id=turn.id,
        key=SessionKey.parse(turn.key),
        state=turn.state,
        runs=turn.runs,
        error_reference=turn.error_reference,
        started_at_ms=turn.started_at_ms,
        finished_at_ms=turn.finished_at_ms or 0,
        messages=tuple(
            MessageTrace(message_id, said.get(message_id, turn.started_at_ms), answered.get(message_id, 0))
            for message_id in dict.fromkeys((*said, *answered))
        ),
        replies=tuple(replies.of_turn(connection, turn.id)),
    )
