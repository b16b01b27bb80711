"""Taking turns back: what is undone stays in the transcript, and leaves every view.

A turn is what carries its id: the user's messages, those that joined it, all that was answered. A summary that was
made after the turn began is undone with it; the one before, or the whole head, is in view again.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, bindparam, func, select, update

from gateway.contracts.alongside import words_in
from gateway.contracts.entries import EntryKind, Role, TurnSaid
from gateway.contracts.messages import CleanText
from gateway.store.tables import entries, sessions

_IN_FORCE: Final = (entries.c.session_id == bindparam("s"), ~entries.c.is_undone)
_FIRST_WORDS: Final = (
    select(func.min(entries.c.seq).label("seq"))
    .where(*_IN_FORCE, entries.c.role == Role.USER.value, entries.c.kind == EntryKind.MESSAGE.value)
    .group_by(entries.c.turn_id)
    .order_by(func.min(entries.c.seq).desc())
    .limit(bindparam("page_limit"))
    .subquery()
)
_NEWEST_TURNS: Final = (
    select(entries.c.seq, entries.c.text)
    .join(_FIRST_WORDS, _FIRST_WORDS.c.seq == entries.c.seq)
    .where(entries.c.session_id == bindparam("s"))
    .order_by(entries.c.seq.desc())
)
_FROM: Final = (*_IN_FORCE, entries.c.seq >= bindparam("from_seq"))
_COUNT: Final = select(func.count()).where(*_FROM, entries.c.kind == EntryKind.MESSAGE.value)
_UNDO: Final = update(entries).where(*_FROM).values(is_undone=True)
_FORGET_SIZE: Final = (
    update(sessions)
    .where(sessions.c.id == bindparam("s"))
    .values(message_count=sessions.c.message_count - bindparam("fewer"), prompt_tokens=0, prompt_seq=0)
)
"""What the provider counted held what is now undone. Tokens and money stay: they were spent."""


def newest_turns(connection: Connection, session_id: str, *, limit: int) -> list[TurnSaid]:
    """`Store.newest_turns`."""
    rows = connection.execute(_NEWEST_TURNS, {"s": session_id, "page_limit": max(limit, 0)})
    return [TurnSaid(row.seq, words_in(CleanText(row.text))) for row in rows]


def undo(connection: Connection, session_id: str, *, from_seq: int) -> None:
    """Take everything from `from_seq` on out of view."""
    scope = {"s": session_id, "from_seq": from_seq}
    fewer = connection.execute(_COUNT, scope).scalar_one()
    if connection.execute(_UNDO, scope).rowcount:
        connection.execute(_FORGET_SIZE, {"s": session_id, "fewer": fewer})
