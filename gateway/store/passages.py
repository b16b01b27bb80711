"""What was said in earlier sessions, found again from later ones of the same key. The key says it all: what was
said in a direct message is found in no group, and the other way round.

A session is indexed when it is left, not while it is spoken in: a commit pays nothing. The words stay in
`entries`; what was undone or taken out there is found no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, Executable, and_, bindparam, delete, select

from gateway.contracts.alongside import words_in
from gateway.contracts.entries import EntryKind, Role
from gateway.contracts.ids import SessionKey
from gateway.contracts.memories import Boundary, Snippet
from gateway.contracts.messages import CleanText
from gateway.limits import PASSAGE_CANDIDATES_MAX, PASSAGE_TERMS_MAX, PASSAGES_INDEXED_AT_ONCE
from gateway.store.dialects import InsertInto, per_dialect
from gateway.store.ends import is_of_person
from gateway.store.likeness import normalised
from gateway.store.rows import Values
from gateway.store.search import Search
from gateway.store.tables import entries, lanes, passages
from gateway.store.terms import fact_terms, ranked

_SPARE: Final = 3  # candidates looked up for each that is wanted: some were undone, some say the same

# --- finding

_CANDIDATES: Final = Search(
    passages,
    select(passages.c.id, passages.c.terms)
    .where(passages.c.key == bindparam("k"), passages.c.session_id != bindparam("but_session_id"))
    .order_by(passages.c.id.desc())
    .limit(PASSAGE_CANDIDATES_MAX),
)
_IS_SAID: Final = (
    entries.c.kind == EntryKind.MESSAGE.value,
    entries.c.role.in_([Role.USER.value, Role.ASSISTANT.value]),
    ~entries.c.is_undone,
)
_WORDS: Final = (
    select(passages.c.id, entries.c.session_id, entries.c.seq, entries.c.role, entries.c.text, entries.c.created_at_ms)
    .join(entries, and_(entries.c.session_id == passages.c.session_id, entries.c.seq == passages.c.seq))
    .where(passages.c.key == bindparam("k"), passages.c.id.in_(bindparam("ids", expanding=True)), *_IS_SAID)
)


def matching(
    connection: Connection, key: SessionKey, terms: Sequence[str], *, but_session_id: str, limit: int
) -> list[Snippet]:
    """The best of what shares a term, each saying something of its own."""
    if not terms or limit <= 0:
        return []
    parameters = {"k": str(key), "but_session_id": but_session_id}
    rows = _CANDIDATES.run(connection, [str(key)], terms, parameters)
    ids = ranked(terms, [(row.id, row.terms) for row in rows], limit=limit * _SPARE)
    if not ids:
        return []
    words = {
        row.id: Snippet(row.session_id, row.seq, Role(row.role), words_in(CleanText(row.text)), row.created_at_ms)
        for row in connection.execute(_WORDS, {"k": str(key), "ids": ids})
    }
    best: dict[str, Snippet] = {}
    for snippet in (words[id_] for id_ in ids if id_ in words):
        best.setdefault(normalised(snippet.text), snippet)
    return list(best.values())[:limit]


# --- indexing

_SAID_BETWEEN: Final = (
    select(entries.c.seq, entries.c.text)
    .where(
        entries.c.session_id == bindparam("s"),
        entries.c.seq > bindparam("after_seq"),
        entries.c.seq <= bindparam("up_to_seq"),
        *_IS_SAID,
    )
    .order_by(entries.c.seq)
    .limit(PASSAGES_INDEXED_AT_ONCE)
)


@per_dialect
def _put(insert: InsertInto) -> Executable:
    return insert(passages).on_conflict_do_nothing(index_elements=[passages.c.session_id, passages.c.seq])


def cut(connection: Connection, boundary: Boundary, *, after_seq: int) -> list[Values]:
    """The next rows for what was said in a boundary behind `after_seq`; none when that was all. One without
    terms is never found, and tells where to go on."""
    asked = {"s": boundary.session_id, "after_seq": after_seq, "up_to_seq": boundary.seq}
    return [
        {
            "session_id": boundary.session_id,
            "seq": row.seq,
            "key": str(boundary.key),
            "terms": " ".join(fact_terms(words_in(CleanText(row.text)), count_max=PASSAGE_TERMS_MAX)),
        }
        for row in connection.execute(_SAID_BETWEEN, asked).all()
    ]


def put(connection: Connection, rows: Sequence[Values]) -> None:
    """Add rows to the index; those that it has stay."""
    connection.execute(_put(connection), list(rows))


_DROP_OF_KEY: Final = delete(passages).where(passages.c.key == bindparam("k"))
_DROP_OF_OWNER: Final = delete(passages).where(
    passages.c.key.in_(select(lanes.c.key).where(is_of_person(lanes.c.owner)))
)


def drop(connection: Connection, key: SessionKey) -> None:
    """Nothing that was said before is found any more: under this key, in a direct message under any of its
    person's."""
    if key.is_private:
        connection.execute(_DROP_OF_OWNER, {"end_": str(key.owner)})
    else:
        connection.execute(_DROP_OF_KEY, {"k": str(key)})
