"""Takes the first half of a secret out of the database again, once its second half was there.

The message that brought the second half says by whose id, and by how many characters at its end, the earlier one
is known (`Mend`); what these characters are is nowhere but in the entry itself. From there they are looked for in
all that was written for the same owner since: an answer that quoted them, a title, a fact, a cached answer, whole
or in part.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, Table, bindparam, select, true, update

from gateway.contracts.alongside import words_in
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, InboundMessage, Mend
from gateway.limits import FACT_TERMS_MAX, PASSAGE_TERMS_MAX
from gateway.store.belongings import whose
from gateway.store.ends import ends_of
from gateway.store.search_sqlite import TIDY
from gateway.store.tables import AnyText, entries, facts, metadata, passages
from gateway.store.terms import fact_terms

PIECE_CHARS_MIN: Final = 8
"""A shorter piece of a secret says nothing, and may stand in any text."""

CLOCKS_APART_MS: Final = 60_000
"""Machines that write to one database do not agree on the time to the millisecond."""

_TEXTS: Final = {
    table: [column for column in table.columns if isinstance(column.type, AnyText)]
    for table in metadata.sorted_tables
    if any(isinstance(column.type, AnyText) for column in table.columns)
}
_TIMES: Final = ("updated_at_ms", "told_at_ms", "created_at_ms")


def _written_since(table: Table) -> Select[Any]:
    written = next((table.columns[name] >= bindparam("since_ms") for name in _TIMES if name in table.columns), true())
    return select(*table.primary_key.columns, *_TEXTS[table]).where(whose(table), written)


_SINCE: Final = {table: _written_since(table) for table in _TEXTS}
_ENTRY: Final = select(entries.c.session_id, entries.c.seq, entries.c.text, entries.c.created_at_ms).where(
    entries.c.message_id == bindparam("m")
)
_REWRITE: Final = (
    update(entries)
    .where(entries.c.session_id == bindparam("s"), entries.c.seq == bindparam("n"))
    .values(text=bindparam("whole"))
)
_REINDEX: Final = (
    update(passages)
    .where(passages.c.session_id == bindparam("s"), passages.c.seq == bindparam("n"))
    .values(terms=bindparam("new_terms"))
)


def mend(connection: Connection, key: SessionKey, messages: Iterable[InboundMessage]) -> None:
    """Do what these messages say of earlier ones. What was mended before is left alone."""
    mends = [each for message in messages for each in message.mends]
    if not mends:
        return
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete = ON")
    for each in mends:
        row = connection.execute(_ENTRY, {"m": each.message_id}).one_or_none()
        if row is not None and (end := each.torn_end(row.text)):
            text = each.mended(CleanText(row.text))
            connection.execute(_REWRITE, {"s": row.session_id, "n": row.seq, "whole": text})
            _take_out(connection, key.owner, end, each, since_ms=row.created_at_ms)
            _reindex(connection, row.session_id, row.seq, text)
    if connection.dialect.name == "sqlite":
        for statement in TIDY:
            connection.exec_driver_sql(statement)


def without(text: str, half: str, stand_in: str) -> str:
    """`text` with `stand_in` in the place of every piece of `half` that is long enough to tell something."""
    size = PIECE_CHARS_MIN
    pieces = {half[at : at + size] for at in range(len(half) - size + 1)}
    hits = [at for at in range(len(text) - size + 1) if text[at : at + size] in pieces]
    kept, done = [], 0
    for _, run in groupby(enumerate(hits), key=lambda hit: hit[1] - hit[0]):
        positions = [at for _, at in run]
        if positions[0] >= done:
            kept += [text[done : positions[0]], stand_in]
        done = positions[-1] + size
    return "".join(kept) + text[done:]


def _take_out(connection: Connection, owner: SessionKey, half: str, each: Mend, *, since_ms: int) -> None:
    if len(half) < PIECE_CHARS_MIN:
        return
    asked = [{"whose": end, "since_ms": since_ms - CLOCKS_APART_MS} for end in ends_of(connection, owner)]
    for table, statement in _SINCE.items():
        for row in [row for end in asked for row in connection.execute(statement, end).all()]:
            changed = _changed(table, row, half, each.placeholder)
            if changed:
                _write(connection, table, row, changed)


def _changed(table: Table, row: Row[Any], half: str, stand_in: str) -> dict[str, str]:
    texts = {column.name: getattr(row, column.name) for column in _TEXTS[table]}
    whole = {name: without(text, half, stand_in) for name, text in texts.items() if text}
    return {name: text for name, text in whole.items() if text != texts[name]}


def _write(connection: Connection, table: Table, row: Row[Any], changed: dict[str, str]) -> None:
    if table is facts and "text" in changed:
        changed["terms"] = " ".join(fact_terms(changed["text"], count_max=FACT_TERMS_MAX))
    is_it = [column == getattr(row, column.name) for column in table.primary_key.columns]
    connection.execute(update(table).where(*is_it).values(**changed))
    if table is entries and "text" in changed:
        _reindex(connection, row.session_id, row.seq, changed["text"])


def _reindex(connection: Connection, session_id: str, seq: int, text: str) -> None:
    terms = " ".join(fact_terms(words_in(CleanText(text)), count_max=PASSAGE_TERMS_MAX))
    connection.execute(_REINDEX, {"s": session_id, "n": seq, "new_terms": terms})
