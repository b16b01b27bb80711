"""Entries: appending them, what the model sees of them, taking them back; and the task list that a prompt shows.

What is undone stays in the transcript, and leaves every view. A turn is what carries its id: the user's messages, those
that joined it, all that was answered. A summary that was made after the turn began is undone with it; the one before,
or the whole head, is in view again.

Every statement about task lists names the lane: what was set out to be done in private is in no group."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import BigInteger, and_, bindparam, delete, func, select, true, update

from gateway.bounded_dict import BoundedDict
from gateway.contracts.context_blocks import words_in
from gateway.contracts.errors import Fenced
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, Reply
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import (
    Entry,
    EntryKind,
    NewestView,
    PromptQuery,
    PromptStart,
    Role,
    Todo,
    TodoState,
    ToolCall,
    TurnSaid,
)
from gateway.limits import HISTORIES_KEPT, NEWEST_ENTRIES, VIEW_PAGE_ENTRIES
from gateway.store import outbox, passages
from gateway.store.engine import (
    Aggregate,
    Connection,
    Database,
    Values,
    read,
    reading,
    row_of,
    to_json,
    write,
    write_unsynced,
)
from gateway.store.memory import recollected
from gateway.store.schedules import zone_of
from gateway.store.sessions import Growth, count_fewer, forget_count, grow, retitle_untitled
from gateway.store.tables import entries, lanes, todos

_IS_COMPACTION: Final = entries.c.kind == EntryKind.COMPACTION.value
_OF_SESSION: Final = entries.c.session_id == bindparam("s")
_IS_KEPT: Final = and_(_OF_SESSION, ~entries.c.is_undone)
_IS_SAID: Final = and_(entries.c.role == Role.USER.value, entries.c.kind == EntryKind.MESSAGE.value)

_SEQ_MAX: Final = 2**31 - 1
_ALL: Final = 2**63
_WORDLESS_MAX: Final = 20  # messages that are nothing but files, before somebody says a word

_SUMMARY: Final = select(entries).where(_IS_KEPT, _IS_COMPACTION).order_by(entries.c.seq.desc()).limit(1)
_BACKWARDS: Final = (
    select(entries)
    .where(_IS_KEPT, ~_IS_COMPACTION, entries.c.seq >= bindparam("from_seq"), entries.c.seq < bindparam("before_seq"))
    .order_by(entries.c.seq.desc())
    .limit(VIEW_PAGE_ENTRIES)
)
_AFTER: Final = bindparam("after_seq", type_=BigInteger)  # a caller may name any number
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
    .where(_IS_KEPT, _IS_SAID, func.trim(entries.c.text) != "")
    .order_by(entries.c.seq)
    .limit(_WORDLESS_MAX)
)
_INSERT: Final = entries.insert()
_GUARD: Final = (
    update(lanes).where(lanes.c.key == bindparam("k"), lanes.c.fence == bindparam("f")).values(fence=lanes.c.fence)
)


_UNCHANGED: Final = select(func.count(), func.coalesce(func.sum(func.length(entries.c.author)), 0)).where(
    _IS_KEPT, ~_IS_COMPACTION, entries.c.seq.between(bindparam("first_seq"), bindparam("last_seq"))
)


class Histories:
    """The last reading of the long conversations of this process: entries that were not among the newest.

    A stored entry changes in two ways only: it leaves the view for good (undone, withdrawn, erased), or its author is
    erased. Numbers are never given out twice. So the entries between two numbers are what they were if they are still
    as many, and their authors are as long; to count them costs a tenth of reading them. The messages of a turn that
    runs may still be told anew or undone with its transaction: they are among the newest, which are always read."""

    def __init__(self) -> None:
        self._parts: BoundedDict[str, tuple[Entry, ...]] = BoundedDict(HISTORIES_KEPT)
        self._lock = threading.Lock()

    def unchanged(self, connection: Connection, session_id: str, *, from_seq: int) -> tuple[Entry, ...]:
        """Return what is known of the view from `from_seq` on, oldest first and without a gap; empty if it is nothing,
        or not as it was."""
        with self._lock:
            part = self._parts.get(session_id, ())
        if not part:
            return ()
        span = {"s": session_id, "first_seq": part[0].seq, "last_seq": part[-1].seq}
        found = connection.execute(_UNCHANGED, span).one()
        if tuple(found) != (len(part), sum(len(entry.author) for entry in part)):
            return ()
        return part if part[0].seq >= from_seq else tuple(entry for entry in part if entry.seq >= from_seq)

    def keep(self, session_id: str, part: tuple[Entry, ...]) -> None:
        """Keep what was read of a long conversation, oldest first and without a gap."""
        if len(part) <= VIEW_PAGE_ENTRIES:
            return
        with self._lock:
            self._parts[session_id] = part[:-NEWEST_ENTRIES]


def newest_of_view(
    connection: Connection, session_id: str, *, chars_max: int, histories: Histories | None = None
) -> NewestView:
    """Return the newest entries of the view, its newest compaction first: read page by page, backwards, until they hold
    `chars_max` characters, so that a turn begins in time, however long the history is. What `histories` knows is not
    read again."""
    summary = [to_entry(row) for row in connection.execute(_SUMMARY, {"s": session_id})]
    from_seq = summary[0].tail_start_seq if summary else 0
    known = histories.unchanged(connection, session_id, from_seq=from_seq) if histories is not None else ()
    scope = {"s": session_id, "from_seq": known[-1].seq + 1 if known else from_seq, "before_seq": _SEQ_MAX}
    newest: list[Entry] = []
    chars, is_whole = 0, False
    while chars < chars_max and not is_whole:
        found = [to_entry(row) for row in connection.execute(_BACKWARDS, scope)]
        newest += found
        chars += sum(len(entry.text) for entry in found)
        is_whole = len(found) < VIEW_PAGE_ENTRIES
        scope["before_seq"] = newest[-1].seq if newest else 0
        if is_whole and known:
            for entry in reversed(known):
                newest.append(entry)
                chars += len(entry.text)
                if chars >= chars_max:
                    break
            scope |= {"from_seq": from_seq, "before_seq": known[0].seq}
            known, is_whole = (), False
    view = tuple(reversed(newest))
    if histories is not None:
        histories.keep(session_id, view)
    return NewestView((*summary, *view), is_whole)


def first_words(connection: Connection, session_id: str) -> CleanText | None:
    """Return the first words of a person in a session that were not taken back; None while there are none. A message
    may be nothing but a picture."""
    texts = connection.execute(_FIRST_SAID, {"s": session_id}).scalars()
    return next(filter(None, (words_in(CleanText(text)) for text in texts)), None)


def append(connection: Connection, session_id: str, new: Sequence[Entry]) -> None:
    """Write entries that have their `seq`."""
    if new:
        connection.execute(_INSERT, [from_entry(entry, session_id=session_id) for entry in new])


def guard(connection: Connection, key: SessionKey, fence: int) -> None:
    """Lock the lane. Raises `Fenced` unless it is still held under `fence`."""
    if connection.execute(_GUARD, {"k": str(key), "f": fence}).rowcount != 1:
        raise Fenced(f"lane {key} has a newer owner than fence {fence}")


_NEWEST_TURN: Final = (
    select(entries.c.turn_id).where(_IS_KEPT, _IS_SAID).order_by(entries.c.seq.desc()).limit(1).scalar_subquery()
)
_FIRST_SEQ: Final = select(func.min(entries.c.seq)).where(_IS_KEPT, _IS_SAID, entries.c.turn_id == _NEWEST_TURN)
_SAID: Final = select(entries).where(_IS_KEPT, _IS_SAID, entries.c.seq >= bindparam("from_seq")).order_by(entries.c.seq)
_ANSWERS: Final = (_IS_KEPT, ~_IS_SAID, entries.c.seq >= bindparam("from_seq"))
_COUNT: Final = select(func.count()).where(*_ANSWERS, entries.c.kind == EntryKind.MESSAGE.value)
_UNDO_ANSWERS: Final = update(entries).where(*_ANSWERS).values(is_undone=true())
_FIRST_WORDS: Final = (
    select(func.min(entries.c.seq).label("seq"))
    .where(_IS_KEPT, _IS_SAID)
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

_TODOS: Final = select(todos).where(todos.c.key == bindparam("k")).order_by(todos.c.position)
_CLEAR_TODOS: Final = delete(todos).where(todos.c.key == bindparam("k"))
_PUT_TODOS: Final = todos.insert()


def task_list(connection: Connection, key: SessionKey) -> list[Todo]:
    """Return the task list of a key, in its order."""
    rows = connection.execute(_TODOS, {"k": str(key)})
    return [Todo(row.position, CleanText(row.text), TodoState(row.state)) for row in rows]


def prompt_start(
    connection: Connection, session_id: str, key: SessionKey, query: PromptQuery, view: NewestView
) -> PromptStart:
    """Add to a view what else the prompt of a turn in this session is begun with."""
    found = recollected(
        connection,
        key,
        query.said,
        but_session_id=session_id,
        known_max=query.known_max,
        facts_max=query.facts_max,
        snippets_max=query.snippets_max,
    )
    return PromptStart(query, view, tuple(task_list(connection, key)), found, zone_of(connection, key.owner))


_ROLES: Final = {role.value: role for role in Role}
_KINDS: Final = {kind.value: kind for kind in EntryKind}


def from_entry(entry: Entry, *, session_id: str) -> Values:
    """Make a row of `entries`."""
    calls = [[call.id, call.name, call.arguments] for call in entry.tool_calls]
    said = {"tool_calls": to_json(calls) if calls else None, "message_id": entry.message_id or None}
    return row_of(entries, entry, session_id=session_id, **said)


def to_entry(row: Sequence[Any]) -> Entry:
    """Read back, as the inverse of `from_entry`, of a row with all columns in their order.

    A history has thousands of them: unpacked like this, one takes a third of the time that names would take."""
    _, seq, role, kind, text, calls, call_id, is_error, tail_start_seq, message_id, turn_id, at_ms, is_undone, by = row
    return Entry(
        _ROLES[role],
        CleanText(text),
        seq,
        _KINDS[kind],
        tuple(ToolCall(id_, name, CleanText(arguments)) for id_, name, arguments in json.loads(calls)) if calls else (),
        call_id,
        is_error,
        tail_start_seq,
        message_id or "",
        turn_id,
        at_ms,
        is_undone,
        by,
    )


class TranscriptStore(Aggregate):
    """The words of every session, and the task list of every lane. Raises `StoreUnavailable`."""

    def __init__(self, database: Database, clock: Clock, histories: Histories) -> None:
        super().__init__(database, clock)
        self._histories = histories

    @read
    def view(self, connection: Connection, session_id: str) -> Sequence[Entry]:
        """Return the entries from the newest compaction's `tail_start_seq` on, the compaction entry first, in order."""
        return list(newest_of_view(connection, session_id, chars_max=_ALL).entries)

    newest_view = reading(newest_of_view)

    @read
    def prompt_start(self, connection: Connection, session_id: str, key: SessionKey, query: PromptQuery) -> PromptStart:
        """Read what the prompt of a turn in this session is begun with, in one."""
        view = newest_of_view(connection, session_id, chars_max=query.chars_max, histories=self._histories)
        return prompt_start(connection, session_id, key, query, view)

    @read
    def page(
        self,
        connection: Connection,
        session_id: str,
        *,
        after_seq: int = 0,
        before_seq: int | None = None,
        limit: int = 1000,
    ) -> Sequence[Entry]:
        """Return everything ever said, page by page: what follows `after_seq`, or, with `before_seq`, the newest of
        what is between the two. Oldest first in either case."""
        scope = {"s": session_id, "after_seq": after_seq, "page_limit": max(limit, 0)}
        if before_seq is None:
            return [to_entry(row) for row in connection.execute(_PAGE, scope)]
        rows = connection.execute(_PAGE_BEFORE, {**scope, "before_seq": before_seq})
        return [to_entry(row) for row in rows][::-1]

    @read
    def newest_turns(self, connection: Connection, session_id: str, *, limit: int) -> Sequence[TurnSaid]:
        """Return the user-led turns that were not undone, newest first, on both sides of any compaction."""
        rows = connection.execute(_NEWEST_TURNS, {"s": session_id, "page_limit": max(limit, 0)})
        return [TurnSaid(row.seq, words_in(CleanText(row.text))) for row in rows]

    @write
    def append_compaction(
        self, connection: Connection, session_id: str, *, fence: int, key: SessionKey, entry: Entry
    ) -> Entry:
        """Add a summary (guarded by the fence); returns it with its `seq`."""
        now_ms = self.clock.now_ms()
        guard(connection, key, fence)
        row = grow(connection, key, session_id, Growth(entries=1), now_ms=now_ms)
        forget_count(connection, session_id)  # it was of a prompt with what the summary replaces
        stored = replace(
            entry, kind=EntryKind.COMPACTION, seq=row.last_seq, created_at_ms=entry.created_at_ms or now_ms
        )
        append(connection, session_id, [stored])
        if stored.tail_start_seq > 1:
            passages.mark(connection, key, session_id, seq=stored.tail_start_seq - 1, now_ms=now_ms)
        return stored

    @write_unsynced  # the answer that comes instead is; until then the bus has the /retry
    def take_for_retry(
        self, connection: Connection, session_id: str, *, fence: int, key: SessionKey
    ) -> Sequence[Entry]:
        """Take, for /retry (guarded by the fence), of the newest thing the user said all that was answered out of view.
        Returns the user entries, in order; empty if the user has said nothing yet."""
        guard(connection, key, fence)
        first_seq = connection.execute(_FIRST_SEQ, {"s": session_id}).scalar_one()
        if first_seq is None:
            return []
        newest = {"s": session_id, "from_seq": first_seq}
        fewer = connection.execute(_COUNT, newest).scalar_one()
        connection.execute(_UNDO_ANSWERS, newest)
        count_fewer(connection, {session_id: fewer})
        return [to_entry(row) for row in connection.execute(_SAID, newest)]

    first_said = reading(first_words)

    @write
    def set_title_if_untitled(
        self,
        connection: Connection,
        session_id: str,
        title: CleanText,
        *,
        made_of: CleanText,
        telling: Reply | None = None,
    ) -> bool:
        """Set the title by one conditional UPDATE, so that a user's /title always wins. Nothing happens either if the
        first words of the session are not `made_of` any more: a secret may have been taken out of them. `telling` is
        committed with the title, so that whoever is to hear of it does."""
        if first_words(connection, session_id) != made_of or not retitle_untitled(connection, session_id, title):
            return False
        outbox.put_replies(connection, () if telling is None else (telling,))
        return True

    todos = reading(task_list)

    @write
    def replace_todos(self, connection: Connection, key: SessionKey, todos: Sequence[Todo]) -> None:
        """Replace the whole list at once."""
        connection.execute(_CLEAR_TODOS, {"k": str(key)})
        rows = [
            {"key": str(key), "position": task.position, "text": task.text, "state": task.state.value} for task in todos
        ]
        if rows:
            connection.execute(_PUT_TODOS, rows)
