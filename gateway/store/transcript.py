"""Entries: appending them, and what the model sees of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import BigInteger, Connection, and_, bindparam, func, select, update

from gateway.contracts.alongside import words_in
from gateway.contracts.entries import Entry, EntryKind, NewestView, Role, Standing
from gateway.contracts.errors import Fenced
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, Reply
from gateway.limits import VIEW_PAGE_ENTRIES
from gateway.store import boundaries, outbox, task_lists
from gateway.store.rows import from_entry, to_entry
from gateway.store.sessions import Growth, grow, retitle_untitled
from gateway.store.tables import entries, lanes

_IS_COMPACTION: Final = entries.c.kind == EntryKind.COMPACTION.value
_OF_SESSION: Final = entries.c.session_id == bindparam("s")
_IS_IN_FORCE: Final = and_(_IS_COMPACTION, ~entries.c.is_undone)

_SEQ_MAX: Final = 2**31 - 1
_ALL: Final = 2**63
_WORDLESS_MAX: Final = 20  # messages that are nothing but files, before somebody says a word

_SUMMARY: Final = select(entries).where(_OF_SESSION, _IS_IN_FORCE).order_by(entries.c.seq.desc()).limit(1)
_BACKWARDS: Final = (
    select(entries)
    .where(
        _OF_SESSION,
        ~entries.c.is_undone,
        ~_IS_COMPACTION,
        entries.c.seq >= bindparam("from_seq"),
        entries.c.seq < bindparam("before_seq"),
    )
    .order_by(entries.c.seq.desc())
    .limit(VIEW_PAGE_ENTRIES)
)
_AFTER: Final = bindparam("after_seq", type_=BigInteger)  # whoever asks may name any number
_BEFORE: Final = bindparam("before_seq", type_=BigInteger)
_PAGE: Final = (
    select(entries).where(_OF_SESSION, entries.c.seq > _AFTER).order_by(entries.c.seq).limit(bindparam("page_limit"))
)
_PAGE_BEFORE: Final = (
    select(entries)
    .where(_OF_SESSION, entries.c.seq > _AFTER, entries.c.seq < _BEFORE)
    .order_by(entries.c.seq.desc())
    .limit(bindparam("page_limit"))
)
_FIRST_SAID: Final = (
    select(entries.c.text)
    .where(
        _OF_SESSION,
        ~entries.c.is_undone,
        entries.c.role == Role.USER.value,
        entries.c.kind == EntryKind.MESSAGE.value,
        func.trim(entries.c.text) != "",
    )
    .order_by(entries.c.seq)
    .limit(_WORDLESS_MAX)
)
_INSERT: Final = entries.insert()
_GUARD: Final = (
    update(lanes).where(lanes.c.key == bindparam("k"), lanes.c.fence == bindparam("f")).values(fence=lanes.c.fence)
)


def view(connection: Connection, session_id: str) -> list[Entry]:
    """The newest compaction, then what it leaves in view, in order."""
    return list(newest_view(connection, session_id, chars_max=_ALL).entries)


def newest_view(connection: Connection, session_id: str, *, chars_max: int) -> NewestView:
    """The newest compaction, then the newest of what it leaves in view, in order: page by page, backwards, until
    they hold `chars_max` characters."""
    summary = [to_entry(row) for row in connection.execute(_SUMMARY, {"s": session_id})]
    scope = {"s": session_id, "from_seq": summary[0].tail_start_seq if summary else 0, "before_seq": _SEQ_MAX}
    newest: list[Entry] = []
    chars, is_whole = 0, False
    while chars < chars_max and not is_whole:
        found = [to_entry(row) for row in connection.execute(_BACKWARDS, scope)]
        newest += found
        chars += sum(len(entry.text) for entry in found)
        is_whole = len(found) < VIEW_PAGE_ENTRIES
        scope["before_seq"] = newest[-1].seq if newest else 0
    return NewestView((*summary, *reversed(newest)), is_whole)


def standing(connection: Connection, session_id: str, *, key: SessionKey, chars_max: int) -> Standing:
    """`Store.standing`."""
    view = newest_view(connection, session_id, chars_max=chars_max)
    return Standing(view, tuple(task_lists.task_list(connection, key)))


def page(connection: Connection, session_id: str, *, after_seq: int, before_seq: int | None, limit: int) -> list[Entry]:
    """Everything, in order, from behind `after_seq`; with `before_seq` the newest of what is before that."""
    scope = {"s": session_id, "after_seq": after_seq, "page_limit": max(limit, 0)}
    if before_seq is None:
        return [to_entry(row) for row in connection.execute(_PAGE, scope)]
    rows = connection.execute(_PAGE_BEFORE, {**scope, "before_seq": before_seq})
    return [to_entry(row) for row in rows][::-1]


def first_said(connection: Connection, session_id: str) -> CleanText | None:
    """The first words of a person that still stand; a message may be nothing but a picture."""
    texts = connection.execute(_FIRST_SAID, {"s": session_id}).scalars()
    return next(filter(None, (words_in(CleanText(text)) for text in texts)), None)


def title_if_untitled(
    connection: Connection, session_id: str, title: CleanText, made_of: CleanText, telling: Reply | None
) -> bool:
    """Set the title unless somebody was faster. What it was made of may have been changed or taken out meanwhile."""
    if first_said(connection, session_id) != made_of or not retitle_untitled(connection, session_id, title):
        return False
    outbox.put(connection, () if telling is None else (telling,))
    return True


def append(connection: Connection, session_id: str, new: Sequence[Entry]) -> None:
    """Write entries that have their `seq`."""
    if new:
        connection.execute(_INSERT, [from_entry(entry, session_id=session_id) for entry in new])


def append_compaction(
    connection: Connection, session_id: str, *, fence: int, key: SessionKey, entry: Entry, now_ms: int
) -> Entry:
    """Write a summary. Raises `Fenced`."""
    guard(connection, key, fence)
    row = grow(connection, key, session_id, Growth(entries=1), now_ms=now_ms)
    stored = replace(entry, kind=EntryKind.COMPACTION, seq=row.last_seq, created_at_ms=entry.created_at_ms or now_ms)
    append(connection, session_id, [stored])
    if stored.tail_start_seq > 1:
        boundaries.mark(connection, key, session_id, seq=stored.tail_start_seq - 1, now_ms=now_ms)
    return stored


def guard(connection: Connection, key: SessionKey, fence: int) -> None:
    """Lock the lane. Raises `Fenced` unless it is still held under `fence`."""
    if connection.execute(_GUARD, {"k": str(key), "f": fence}).rowcount != 1:
        raise Fenced(f"lane {key} has a newer owner than fence {fence}")
