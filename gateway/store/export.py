"""People who are known, and everything that belongs to one owner: handed out, or erased.

What a table has to do with a person is said once, below, for both; a test refuses a table that is not there. An
owner's keys are found through `lanes`; a fact about somebody else (who granted a role, whose secret a
shared place used) loses the name only."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import sqlalchemy as sa

from gateway.contracts.access import KnownPerson
from gateway.contracts.context_blocks import words_in
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, each_text
from gateway.contracts.sessions import GATEWAY, EntryKind, Role
from gateway.store.access import PLACE
from gateway.store.accounts import accounts_of
from gateway.store.audit import USER, has_changed
from gateway.store.board import changed
from gateway.store.engine import Aggregate, Connection, like, read
from gateway.store.search import TIDY
from gateway.store.tables import (
    access_revision,
    audit,
    board,
    consumed,
    entries,
    grants,
    installation,
    lanes,
    link_codes,
    loans,
    metadata,
    place_approvals,
    place_realms,
    place_rules,
    sessions,
    sub_type_changes,
    task_workers,
    turns,
    waits,
)

ERASED: Final = "erased"
"""Stands where the name of somebody stood who was erased."""

_OWNER: Final[sa.BindParameter[str]] = sa.bindparam("whose", type_=sa.Text)
_KEYS: Final = sa.select(lanes.c.key).where(lanes.c.owner == _OWNER)
_SESSIONS: Final = sa.select(sessions.c.id).where(sessions.c.key.in_(_KEYS))
_TURNS: Final = sa.select(turns.c.id).where(turns.c.key.in_(_KEYS))

_OWN_PLACE: Final = sa.func.replace(_OWNER, ":", ":/")
"""The name of a person's direct message as a place."""

_DERIVED: Final = frozenset({"passages", "boundaries"})
"""Tables that follow from the rest: erased with it, but nothing to hand out."""

_OPERATORS: Final = frozenset(
    {access_revision, audit, board, installation, place_realms, place_rules, sub_type_changes, task_workers}
)
"""Tables that belong to the installation, and to no person in it."""

_INTERNAL: Final = frozenset(
    {"terms", "vector_model", "fence", "worker_id", "alive_until_ms", "is_told", "digest", "token", "entered_by"}
)
"""Columns that say nothing to their owner; bytes do not either."""


def whose(table: sa.Table) -> Any:
    """Return the condition under which a row of `table` belongs to the owner. Raises `LookupError` for a table that
    nobody can be found in."""
    columns = table.columns
    if table in _OPERATORS:
        return sa.false()
    if table is consumed:
        return sa.or_(
            consumed.c.turn_id.in_(_TURNS),
            consumed.c.message_id.in_(sa.select(entries.c.message_id).where(entries.c.session_id.in_(_SESSIONS))),
        )
    if table is place_approvals:  # of a direct message alone; other places belong to nobody
        return place_approvals.c.place == _OWN_PLACE
    if "owner" in columns:
        return columns["owner"] == _OWNER
    if "session_id" in columns:
        return columns["session_id"].in_(_SESSIONS)
    if "key" in columns:
        key = columns["key"]
        # Also a key that never had a turn: a command was answered there, or a stranger was. A shared place is
        # a lane of its own, and its threads are others.
        below = sa.func.substr(key, 1, sa.func.length(_OWNER) + 1) == _OWNER.concat("/")
        return sa.or_(key.in_(_KEYS), key == _OWNER, sa.and_(_OWNER.not_like("%/%"), below))
    raise LookupError(table.name)


def _in_order() -> list[sa.Table]:
    """Return every table, those that others are found through last: first what only hangs on a turn or an entry, then
    what refers to sessions, sessions, lanes."""
    rank = {entries: 1, turns: 2, sessions: 3, lanes: 4} | {consumed: -1, waits: -1}
    return sorted(metadata.sorted_tables, key=lambda table: rank.get(table, 0))


_SPEAKER: Final = sa.case((entries.c.kind == EntryKind.NOTE.value, GATEWAY), else_=entries.c.role).label("role")
"""As `Entry.speaker` has it: nobody is handed out as their own words what the gateway told a model."""


def _is_telling(column: sa.Column[Any]) -> bool:
    return column.name not in _INTERNAL and not isinstance(column.type, sa.LargeBinary)


def _told_of(table: sa.Table) -> list[sa.ColumnElement[Any]]:
    return [_SPEAKER if column is entries.c.role else column for column in table.columns if _is_telling(column)]


_CONDITIONS: Final = {table: whose(table) for table in _in_order()}
_HANDED_OUT: Final[dict[str, sa.Select[Any]]] = {
    table.name: sa.select(*_told_of(table)).where(condition).order_by(*table.primary_key.columns)
    for table, condition in _CONDITIONS.items()
    if table.name not in _DERIVED and table not in _OPERATORS
}
_ERASE: Final = {table.name: sa.delete(table).where(condition) for table, condition in _CONDITIONS.items()}
_UNNAME: Final = (
    sa.update(entries).where(entries.c.author == _OWNER).values(author=""),  # from then on a guest, as all unknown are
    sa.update(grants).where(grants.c.granted_by == _OWNER).values(granted_by=ERASED),
    sa.update(link_codes).where(link_codes.c.entered_by == _OWNER).values(entered_by=ERASED),  # worth nothing to others
    sa.update(place_approvals).where(place_approvals.c.approved_by == _OWNER).values(approved_by=ERASED),
    sa.update(loans).where(loans.c.person == _OWNER).values(person=ERASED),
    sa.update(audit).where(audit.c.actor == _OWNER).values(actor=ERASED),
    sa.update(audit)
    .where(audit.c.subject.in_((sa.literal(USER) + _OWNER, sa.literal(PLACE) + _OWN_PLACE)))
    .values(subject=ERASED, before="null", after="null"),
)


def personal_data(connection: Connection, owner: SessionKey) -> dict[str, list[dict[str, Any]]]:
    """Return what is kept of a person, whichever account is named: rows by the name of their table."""
    accounts = accounts_of(connection, owner)
    return {
        name: [row._asdict() for account in accounts for row in connection.execute(statement, {"whose": account})]
        for name, statement in sorted(_HANDED_OUT.items())
    }


def erase(connection: Connection, owner: SessionKey) -> dict[str, int]:
    """Delete every trace of a person, at all accounts. SQLite overwrites what it deletes, in the table and in the
    index."""
    is_sqlite = connection.dialect.name == "sqlite"
    if is_sqlite:
        connection.exec_driver_sql("PRAGMA secure_delete = ON")
    accounts = accounts_of(connection, owner)
    erased = {
        name: sum(connection.execute(statement, {"whose": account}).rowcount for account in accounts)
        for name, statement in _ERASE.items()
    }
    for statement in _UNNAME:
        for account in accounts:
            connection.execute(statement, {"whose": account})
    if erased["sub_tasks"]:
        changed(connection)
    if erased["grants"] or erased["links"] or erased["limit_rules"]:
        has_changed(connection)
    if is_sqlite:
        for tidy in TIDY:
            connection.exec_driver_sql(tidy)
    return {name: count for name, count in sorted(erased.items()) if count}


_SHARED: Final = (
    sa.select(
        entries.c.session_id,
        entries.c.seq,
        entries.c.role,
        entries.c.kind,
        entries.c.text,
        entries.c.turn_id,
        entries.c.author,
        entries.c.created_at_ms,
        entries.c.is_undone,
    )
    .join(sessions, sessions.c.id == entries.c.session_id)
    .where(
        sessions.c.key == sa.bindparam("lane"), sessions.c.channel == "", entries.c.kind != EntryKind.COMPACTION.value
    )
    .order_by(sessions.c.number, entries.c.seq)
)
"""All that was said on a lane, and what its sub-agents brought up; not what they said among themselves."""


def said_by(rows: Iterable[sa.Row[Any]], author: str) -> Iterator[sa.Row[Any]]:
    """Pick of what was said on a lane the words of `author`, and the answers to a turn in which some of these are.
    What answers nobody anew (/retry) answers the last words before it."""
    session_id, turn_id, asked = "", "", set[str]()
    for row in rows:
        if row.role == Role.USER and (row.kind == EntryKind.MESSAGE or row.author):  # else a note of ours
            asked = asked if (row.session_id, row.turn_id) == (session_id, turn_id) else set()
            asked.add(row.author)
            session_id, turn_id = row.session_id, row.turn_id
        is_own = row.author == author if row.role == Role.USER else row.role == Role.ASSISTANT and author in asked
        if is_own and row.session_id == session_id and row.kind == EntryKind.MESSAGE and row.text:
            yield row


_EVERYBODY: Final = sa.union(sa.select(lanes.c.owner), sa.select(grants.c.owner)).subquery("everybody")
_SEEN_AT_MS: Final = sa.func.coalesce(sa.func.max(sessions.c.updated_at_ms), 0)
_PEOPLE: Final = (
    sa.select(
        _EVERYBODY.c.owner,
        grants.c.role,
        _SEEN_AT_MS.label("seen_at_ms"),
        sa.func.count(sa.distinct(lanes.c.key)).label("lanes"),
    )
    .select_from(
        _EVERYBODY.outerjoin(lanes, lanes.c.owner == _EVERYBODY.c.owner)
        .outerjoin(sessions, sessions.c.key == lanes.c.key)
        .outerjoin(grants, grants.c.owner == _EVERYBODY.c.owner)
    )
    .where(
        sa.or_(
            _EVERYBODY.c.owner.in_(sa.bindparam("owners")),
            sa.func.lower(_EVERYBODY.c.owner).like(sa.bindparam("like"), escape="\\"),
        )
    )
    .group_by(_EVERYBODY.c.owner, grants.c.role)
    .order_by(_SEEN_AT_MS.desc(), _EVERYBODY.c.owner)
    .limit(sa.bindparam("page_limit"))
    .offset(sa.bindparam("page_offset"))
)


class PeopleStore(Aggregate):
    """Lists people, hands out what is kept of them, and erases it. Raises `StoreUnavailable`."""

    @read
    def page(
        self, connection: Connection, *, words: str, owners: Sequence[SessionKey] = (), limit: int, offset: int = 0
    ) -> Sequence[KnownPerson]:
        """List the people and shared places that have a conversation or a role, last seen first: those whose key has
        `words` in it, and of `owners` all."""
        asked = {"like": like(words), "owners": [str(owner) for owner in owners]}
        rows = connection.execute(_PEOPLE, asked | {"page_limit": limit, "page_offset": offset})
        return [
            KnownPerson(SessionKey.parse(row.owner), row.role or "", int(row.seen_at_ms), int(row.lanes))
            for row in rows
        ]

    @read
    def export(self, connection: Connection, owner: SessionKey, *, clean: Callable[[str], CleanText]) -> bytes:
        """Write all that is kept of an owner as one JSON document: rows by the name of their table. What was undone
        says so. Every text leaves through `clean` once more: it was clean by what was known when it was kept."""
        now_ms = self.clock.now_ms()
        document = {"owner": str(owner), "exported_at_ms": now_ms, **personal_data(connection, owner)}
        return json.dumps(each_text(document, clean), ensure_ascii=False, indent=1).encode()

    @read
    def export_own(
        self,
        connection: Connection,
        key: SessionKey,
        author: SessionKey,
        *,
        left_out: str,
        clean: Callable[[str], CleanText],
    ) -> bytes:
        """Write what one person said on a lane that several share, and what was answered to it, as one JSON document.
        `left_out` says in it that nothing else is there. Words that came along (quotes, files, a thread's earlier
        messages) are left out, too, and what was said before authors were kept."""
        now_ms = self.clock.now_ms()
        found = said_by(connection.execute(_SHARED, {"lane": str(key)}), str(author))
        document = {
            "owner": str(author),
            "place": str(key),
            "left_out": left_out,
            "exported_at_ms": now_ms,
            "entries": [
                {
                    "session_id": row.session_id,
                    "seq": row.seq,
                    "role": row.role,
                    "text": words_in(CleanText(row.text)),
                    "created_at_ms": row.created_at_ms,
                    "is_undone": row.is_undone,
                }
                for row in found
            ],
        }
        return json.dumps(each_text(document, clean), ensure_ascii=False, indent=1).encode()

    @read
    def keys(self, connection: Connection, owner: SessionKey) -> Sequence[SessionKey]:
        """Return the keys under which an owner has spoken, each with files of its own."""
        found = [connection.execute(_KEYS, {"whose": account}).scalars() for account in accounts_of(connection, owner)]
        return [SessionKey.parse(key) for keys in found for key in keys]

    async def erase(self, owner: SessionKey) -> Mapping[str, int]:
        """Delete every trace of an owner; how many rows there were, by the name of their table."""
        erased = await self.database.write(partial(erase, owner=owner))
        await self.database.forget_pages()
        return erased
