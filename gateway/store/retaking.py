"""Taking an answer back, so that another can be given to the same words."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, and_, bindparam, func, select, true, update

from gateway.contracts.entries import Entry, EntryKind, Role
from gateway.contracts.ids import SessionKey
from gateway.store.rows import to_entry
from gateway.store.tables import entries
from gateway.store.transcript import guard
from gateway.store.unanswered import count_fewer

_IN_FORCE: Final = and_(entries.c.session_id == bindparam("s"), ~entries.c.is_undone)
_IS_SAID: Final = and_(entries.c.role == Role.USER.value, entries.c.kind == EntryKind.MESSAGE.value)
_NEWEST_TURN: Final = (
    select(entries.c.turn_id).where(_IN_FORCE, _IS_SAID).order_by(entries.c.seq.desc()).limit(1).scalar_subquery()
)
_FIRST_SEQ: Final = select(func.min(entries.c.seq)).where(_IN_FORCE, _IS_SAID, entries.c.turn_id == _NEWEST_TURN)
_SAID: Final = (
    select(entries).where(_IN_FORCE, _IS_SAID, entries.c.seq >= bindparam("from_seq")).order_by(entries.c.seq)
)
_ANSWERS: Final = (_IN_FORCE, ~_IS_SAID, entries.c.seq >= bindparam("from_seq"))
_COUNT: Final = select(func.count()).where(*_ANSWERS, entries.c.kind == EntryKind.MESSAGE.value)
_UNDO_ANSWERS: Final = update(entries).where(*_ANSWERS).values(is_undone=true())


def retake(connection: Connection, session_id: str, *, fence: int, key: SessionKey) -> list[Entry]:
    """`Store.retake` in one transaction.

    The turn that the user began with the newest words counts, whichever turns have answered them since; a
    summary that was made after them is taken back, too.
    """
    guard(connection, key, fence)
    first_seq = connection.execute(_FIRST_SEQ, {"s": session_id}).scalar_one()
    if first_seq is None:
        return []
    newest = {"s": session_id, "from_seq": first_seq}
    fewer = connection.execute(_COUNT, newest).scalar_one()
    connection.execute(_UNDO_ANSWERS, newest)
    count_fewer(connection, {session_id: fewer})
    return [to_entry(row) for row in connection.execute(_SAID, newest)]
