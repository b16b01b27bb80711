"""Turns from their messages to their replies, found by the id of any of them or by the reference that a chat shows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import BindParameter, Connection, Row, bindparam, or_, select, union

from gateway.contracts.ids import SessionKey, first_id_of, retry_id_of
from gateway.contracts.messages import MessageTrace, TurnTrace
from gateway.store import outbox as replies
from gateway.store.engine import Aggregate, read
from gateway.store.tables import AnyText, consumed, entries, outbox, turns

TURNS_TRACED_MAX: Final = 20
"""Of one session or lane, the newest: more than that nobody reads hop by hop."""

TRIES_TRACED_MAX: Final = 20
"""Of one message that was tried again and again: each is looked up by an id of its own."""

_WANTED: Final[BindParameter[str]] = bindparam("wanted", type_=AnyText)
_REFERENCE: Final[BindParameter[str]] = bindparam("reference", type_=AnyText)
_IDS: Final[BindParameter[Any]] = bindparam("ids", type_=AnyText, expanding=True)
_OF_WANTED: Final = union(
    select(turns.c.id).where(turns.c.id == _WANTED),
    select(outbox.c.turn_id).where(or_(outbox.c.id == _WANTED, outbox.c.turn_id == _WANTED), outbox.c.turn_id != ""),
    select(turns.c.id).where(turns.c.error_reference == _REFERENCE).where(turns.c.error_reference != ""),
    select(consumed.c.turn_id).where(consumed.c.error_reference == _REFERENCE).where(consumed.c.error_reference != ""),
    select(consumed.c.turn_id).where(consumed.c.letter_id == _WANTED).where(consumed.c.letter_id != ""),
)
_OF_MESSAGES: Final = union(
    select(consumed.c.turn_id).where(consumed.c.message_id.in_(_IDS)),
    select(entries.c.turn_id).where(entries.c.message_id.in_(_IDS)),
)
_NEWEST_OF: Final = (
    select(turns.c.id)
    .where(or_(turns.c.session_id == _WANTED, turns.c.key == _WANTED))
    .order_by(turns.c.started_at_ms.desc())
    .limit(TURNS_TRACED_MAX)
)
_TURN: Final = select(turns).where(turns.c.id == bindparam("turn"))
_SAID: Final = select(entries.c.message_id, entries.c.created_at_ms).where(
    entries.c.turn_id == bindparam("turn"), entries.c.message_id.is_not(None)
)
_ANSWERED: Final = select(consumed).where(consumed.c.turn_id == bindparam("turn"))
_KEY_OF_REPLIES: Final = select(outbox.c.key).where(outbox.c.turn_id == bindparam("turn")).limit(1)


def _turns_of(connection: Connection, message_ids: Collection[str]) -> list[str]:
    """The turns of these messages and of all their tries."""
    ids = set(message_ids)
    for message_id in message_ids:
        tried = first_id_of(message_id)
        for _ in range(TRIES_TRACED_MAX):
            ids.add(tried)
            tried = retry_id_of(tried)
    found = connection.execute(_OF_MESSAGES, {"ids": sorted(ids)}).scalars() if ids else ()
    return list(filter(None, found))  # without a turn there are all notices


def _turn(connection: Connection, turn_id: str) -> TurnTrace | None:
    """One turn; of a message that was given up before any began, only that. None where nothing is kept of it."""
    turn = connection.execute(_TURN, {"turn": turn_id}).one_or_none()
    key = turn.key if turn else connection.execute(_KEY_OF_REPLIES, {"turn": turn_id}).scalar_one_or_none()
    if key is None:
        return None
    began_at_ms = turn.started_at_ms if turn else 0
    said = {row.message_id: row.created_at_ms for row in connection.execute(_SAID, {"turn": turn_id})}
    answered = {row.message_id: row for row in connection.execute(_ANSWERED, {"turn": turn_id})}
    return TurnTrace(
        turn_id=turn_id,
        key=SessionKey.parse(key),
        state=turn.state if turn else "",
        runs=turn.runs if turn else 0,
        error_reference=turn.error_reference if turn else "",
        started_at_ms=began_at_ms,
        finished_at_ms=turn.finished_at_ms or 0 if turn else 0,
        messages=tuple(
            _message(id_, said.get(id_, began_at_ms), answered.get(id_)) for id_ in dict.fromkeys((*said, *answered))
        ),
        replies=tuple(replies.of_turn(connection, turn_id)),
    )


def _is_one_of_several(message: MessageTrace) -> bool:
    return message.is_given_up or message.message_id != first_id_of(message.message_id)


def _message(message_id: str, taken_at_ms: int, answered: Row[Any] | None) -> MessageTrace:
    if answered is None:
        return MessageTrace(message_id, taken_at_ms)
    return MessageTrace(
        message_id, taken_at_ms, answered.consumed_at_ms, answered.is_given_up, answered.error_reference
    )


def _of_no_turn(connection: Connection, reply_id: str) -> list[TurnTrace]:
    found = replies.notice(connection, reply_id)
    return [TurnTrace("", found[0], "", 0, "", 0, 0, (), (found[1],))] if found else []


def _began_at_ms(turn: TurnTrace) -> int:
    return turn.started_at_ms or min((message.answered_at_ms for message in turn.messages), default=0)


class TraceStore(Aggregate):
    """What became of messages, for those who ask. Raises `StoreUnavailable`."""

    @read
    def trace(self, connection: Connection, id_: str) -> Sequence[TurnTrace]:
        """Find turns, oldest first, by the id of an inbound message, a turn or a reply, or by the reference that a
        chat shows; all tries of a message that was tried again. By the id of a session or a session key: its newest.
        """
        named = {"wanted": id_, "reference": id_.upper()}  # as it is read aloud, a reference has no case
        turn_ids = {*connection.execute(_OF_WANTED, named).scalars(), *_turns_of(connection, [id_])}
        found = {turn_id: _turn(connection, turn_id) for turn_id in turn_ids}
        messages = [message for turn in found.values() if turn for message in turn.messages]
        others = _turns_of(connection, {each.message_id for each in messages if _is_one_of_several(each)})
        newest = [] if found else connection.execute(_NEWEST_OF, named).scalars().all()
        found |= {turn_id: _turn(connection, turn_id) for turn_id in (*others, *newest) if turn_id not in found}
        traces = [turn for turn in found.values() if turn is not None] or _of_no_turn(connection, id_)
        return sorted(traces, key=_began_at_ms)
