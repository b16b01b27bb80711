"""What was said in a lane and is not answered yet.

A message stands in the transcript from the moment a turn begins, so that no crash loses it. Until that turn
is committed the entry is provisional: its author may change or delete the message, the lane may give it up,
another run may take other messages along. So whoever begins, joins or gives up compares what is there with
what the lane still holds, and the transcript follows the lane.

By the order in which turns begin, everything unanswered was written by the lane's last turn that was not
committed (`lanes.turn_id`), and stands at the end of that turn's session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, delete, exists, false, func, literal, select, union_all, update

from gateway.contracts.alongside import told
from gateway.contracts.entries import Entry, EntryKind, Role
from gateway.contracts.ids import earlier_ids_of
from gateway.contracts.messages import InboundMessage
from gateway.contracts.subagents import is_wake, is_wake_id
from gateway.store.tables import consumed, entries, sessions, turns

_SPOKEN: Final = entries.alias("spoken")
_LAST_ANSWER: Final = (
    select(_SPOKEN.c.seq)
    .where(
        _SPOKEN.c.session_id == turns.c.session_id,
        _SPOKEN.c.role != Role.USER.value,
        _SPOKEN.c.kind == EntryKind.MESSAGE.value,
    )
    .order_by(_SPOKEN.c.seq.desc())
    .limit(1)
    .correlate(turns)
    .scalar_subquery()
)
_LEFT_BY: Final = (
    select(entries.c.session_id, entries.c.seq, entries.c.message_id, entries.c.text)
    .join(turns, turns.c.session_id == entries.c.session_id)
    .where(turns.c.id == bindparam("t"), entries.c.message_id.is_not(None))
    .where(entries.c.seq > func.coalesce(_LAST_ANSWER, 0))
    .where(~exists().where(consumed.c.message_id == entries.c.message_id).correlate(entries))
    .order_by(entries.c.seq)
)
_KNOWN: Final = union_all(
    select(
        consumed.c.message_id,
        consumed.c.turn_id.label("answered_by"),
        consumed.c.is_given_up,
        literal("").label("session_id"),
    ).where(consumed.c.message_id.in_(bindparam("ids", expanding=True))),
    select(
        entries.c.message_id, literal("").label("answered_by"), false().label("is_given_up"), entries.c.session_id
    ).where(entries.c.message_id.in_(bindparam("ids", expanding=True))),
)
_WITHDRAW: Final = delete(entries).where(entries.c.message_id == bindparam("m"))
_UNCOUNT: Final = (
    update(sessions)
    .where(sessions.c.id == bindparam("s"))
    .values(message_count=sessions.c.message_count - bindparam("fewer"))
)


def known(connection: Connection, ids: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Of these messages: the turn that answered each, and the session that holds each unanswered one. What is tried
    again is answered where an earlier try of it was after all; that it was given up is no answer."""
    tries = {earlier: id_ for id_ in ids for earlier in earlier_ids_of(id_)} | {id_: id_ for id_ in ids}
    answered: dict[str, str] = {}
    homes: dict[str, str] = {}
    for row in connection.execute(_KNOWN, {"ids": list(tries)}) if ids else ():
        id_ = tries[row.message_id]
        if row.session_id:
            if row.message_id == id_:
                homes[id_] = row.session_id
        elif row.message_id == id_ or not row.is_given_up:
            answered[id_] = row.answered_by
    return answered, {message_id: home for message_id, home in homes.items() if message_id not in answered}


def left_by(connection: Connection, turn_id: str | None) -> list[Row[Any]]:
    """What the turn that was not committed left behind, in order; nothing where there is no such turn."""
    return list(connection.execute(_LEFT_BY, {"t": turn_id})) if turn_id is not None else []


def reconcile(
    connection: Connection,
    session_id: str,
    wanted: Sequence[Entry],
    *,
    left: Sequence[Row[Any]],
    homes: dict[str, str],
) -> Sequence[Entry]:
    """Make the unanswered part of the transcript begin as `wanted` does; the entries that have to be added.

    `left` stays if it is what `wanted` begins with, word for word. Else all of it goes: a message was
    changed, deleted, given up, or waits for a later turn. `homes` may name places outside of `left`.
    """
    placed = [(row.session_id, row.message_id, row.text) for row in left]
    expected = [(session_id, entry.message_id, entry.text) for entry in wanted]
    strays = {message_id: home for message_id, home in homes.items() if message_id not in {row[1] for row in placed}}
    if not strays and placed == expected[: len(placed)]:
        return wanted[len(placed) :]
    withdraw(connection, {message_id: home for home, message_id, _ in placed} | strays)
    return wanted


def withdraw(connection: Connection, homes: dict[str, str]) -> None:
    """Take these messages out of the transcripts that hold them."""
    if homes:
        connection.execute(_WITHDRAW, [{"m": message_id} for message_id in homes])
    count_fewer(connection, Counter(home for message_id, home in homes.items() if not is_wake_id(message_id)))


def count_fewer(connection: Connection, fewer: Mapping[str, int]) -> None:
    """So many messages less are in view in these sessions."""
    if fewer:
        connection.execute(_UNCOUNT, [{"s": session_id, "fewer": fewer[session_id]} for session_id in sorted(fewer)])


def user_entries(messages: Iterable[InboundMessage], *, turn_id: str, now_ms: int) -> list[Entry]:
    """What these messages say in a transcript, not yet numbered."""
    return [_user_entry(message, turn_id, now_ms) for message in messages]


def _user_entry(message: InboundMessage, turn_id: str, now_ms: int) -> Entry:
    return Entry(
        role=Role.USER,
        kind=EntryKind.NOTE if is_wake(message) else EntryKind.MESSAGE,
        text=told(message),
        message_id=message.id,
        turn_id=turn_id,
        created_at_ms=now_ms,
        author="" if message.key.user else str(message.author),
    )
