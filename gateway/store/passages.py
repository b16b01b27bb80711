"""Words of earlier sessions: where they left the model's view, and how later sessions find them again.

A boundary is written in the transaction that makes it, so that no crash loses one, and done once: a worker that goes
through it claims it for a while; if the worker dies, another may try again, not for ever.

A passage has the key of its lane, and the key says it all: what was said in a direct message is found in no group, and
the other way round. A session is indexed when it is left, not while it is spoken in: a commit pays nothing. The words
stay in `entries`; what was undone or taken out there is found no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Row, and_, bindparam, delete, exists, func, select, update

from gateway import limits
from gateway.contracts.context_blocks import words_in
from gateway.contracts.ids import SessionKey
from gateway.contracts.memory import Boundary, Embedding, Snippet, Vector, unit
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import EntryKind, Role
from gateway.store.accounts import is_of_person
from gateway.store.engine import Connection, Values, insert_new
from gateway.store.search import Search, fact_terms, from_vector, fused, normalised, ranked, similarities
from gateway.store.tables import boundaries, entries, lanes, passages, sessions

_HOUR_MS: Final = 3_600_000
_mark: Final = insert_new(boundaries)


_LAST_SEQ: Final = select(sessions.c.last_seq).where(sessions.c.id == bindparam("s"))


def mark(connection: Connection, key: SessionKey, session_id: str, *, seq: int, now_ms: int) -> None:
    """Mark that what lies before `seq` has left the view; marking it again changes nothing."""
    row = {
        "session_id": session_id,
        "seq": seq,
        "key": str(key),
        "created_at_ms": now_ms,
        "claimed_until_ms": 0,
        "tries": 0,
        "done_at_ms": None,
    }
    connection.execute(_mark(connection), row)


def mark_end(connection: Connection, key: SessionKey, session_id: str, *, now_ms: int) -> None:
    """Mark that the session is left, with all that was said in it."""
    last_seq = connection.execute(_LAST_SEQ, {"s": session_id}).scalar_one()
    if last_seq:
        mark(connection, key, session_id, seq=last_seq, now_ms=now_ms)


_IS_DUE: Final = (
    boundaries.c.done_at_ms.is_(None),
    boundaries.c.claimed_until_ms < bindparam("now_ms"),
    boundaries.c.tries < limits.BOUNDARY_TRIES_MAX,
)
_DUE: Final = (
    select(boundaries)
    .where(*_IS_DUE, boundaries.c.created_at_ms > bindparam("since_ms"))
    .order_by(boundaries.c.created_at_ms, boundaries.c.seq)
    .limit(1)
)
IS_ANY_DUE_OF_KEY: Final = (
    exists()
    .where(*_IS_DUE, boundaries.c.created_at_ms > bindparam("since_ms"), boundaries.c.key == bindparam("k"))
    .label("is_any_due")
)
"""Of a key `k`, as a column of another statement; with what `at` gives."""
_DUE_OF_KEY: Final = _DUE.where(boundaries.c.key == bindparam("k"))
_CLAIM: Final = (
    update(boundaries)
    .where(boundaries.c.session_id == bindparam("s"), boundaries.c.seq == bindparam("claimed_seq"), *_IS_DUE)
    .values(claimed_until_ms=bindparam("until_ms"), tries=boundaries.c.tries + 1)
)
_BEFORE: Final = select(func.coalesce(func.max(boundaries.c.seq), 0)).where(
    boundaries.c.session_id == bindparam("s"), boundaries.c.seq < bindparam("claimed_seq")
)


def at(now_ms: int) -> Values:
    """Return the parameters of what is due at that time."""
    return {"now_ms": now_ms, "since_ms": now_ms - limits.BOUNDARIES_KEPT_H * _HOUR_MS}


def _due(connection: Connection, key: SessionKey | None, now_ms: int) -> Row[Any] | None:
    wanted = at(now_ms)
    if key is None:
        return connection.execute(_DUE, wanted).one_or_none()
    return connection.execute(_DUE_OF_KEY, wanted | {"k": str(key)}).one_or_none()


def is_any_due(connection: Connection, key: SessionKey | None, *, now_ms: int) -> bool:
    """Tell whether a claim could find anything: to ask costs no lock."""
    return _due(connection, key, now_ms) is not None


def claim(connection: Connection, key: SessionKey | None, *, now_ms: int, for_ms: int) -> Boundary | None:
    """Claim the oldest boundary that is due. Of two who see the same row one gets it; the other comes again with the
    next occasion."""
    due = _due(connection, key, now_ms)
    if due is None:
        return None
    which = {"s": due.session_id, "claimed_seq": due.seq}
    claimed = connection.execute(_CLAIM, which | {"now_ms": now_ms, "until_ms": now_ms + for_ms})
    if claimed.rowcount != 1:
        return None
    return Boundary(due.session_id, SessionKey.parse(due.key), connection.execute(_BEFORE, which).scalar_one(), due.seq)


_FINISH: Final = update(boundaries).where(
    boundaries.c.session_id == bindparam("s"), boundaries.c.seq == bindparam("finished_seq")
)


def finish(connection: Connection, boundary: Boundary, *, now_ms: int) -> None:
    """Finish a boundary: nobody need go through it again."""
    connection.execute(_FINISH, {"s": boundary.session_id, "finished_seq": boundary.seq, "done_at_ms": now_ms})


_SKIP: Final = update(boundaries).where(boundaries.c.done_at_ms.is_(None))
_SKIP_OF_KEY: Final = _SKIP.where(boundaries.c.key == bindparam("k"))
_KEYS_OF_OWNER: Final = select(lanes.c.key).where(is_of_person(lanes.c.owner))
_SKIP_OF_OWNER: Final = _SKIP.where(boundaries.c.key.in_(_KEYS_OF_OWNER))


def skip(connection: Connection, key: SessionKey, *, now_ms: int) -> None:
    """Skip what was said before: under this key, in a direct message under any of its person's."""
    if key.is_private:
        connection.execute(_SKIP_OF_OWNER, {"account_": str(key.owner), "done_at_ms": now_ms})
    else:
        connection.execute(_SKIP_OF_KEY, {"k": str(key), "done_at_ms": now_ms})


_SPARE: Final = 3  # candidates looked up for each that is wanted: some were undone, some say the same

# --- finding
_CANDIDATES: Final = Search(
    passages,
    select(passages.c.id, passages.c.terms)
    .where(passages.c.key == bindparam("k"), passages.c.session_id != bindparam("but_session_id"))
    .order_by(passages.c.id.desc())
    .limit(limits.PASSAGE_CANDIDATES_MAX),
)
_IS_SAID: Final = (
    entries.c.kind == EntryKind.MESSAGE.value,
    entries.c.role.in_([Role.USER.value, Role.ASSISTANT.value]),
    ~entries.c.is_undone,
)
_WORDS: Final = (
    select(passages.c.id, entries.c.session_id, entries.c.seq, entries.c.role, entries.c.text, entries.c.created_at_ms)
    .join(entries, and_(entries.c.session_id == passages.c.session_id, entries.c.seq == passages.c.seq))
    .where(passages.c.key == bindparam("k"), passages.c.id.in_(bindparam("ids")), *_IS_SAID)
)


_OF_MODEL: Final = passages.c.vector_model == bindparam("model")
HAS_VECTORS: Final = exists().where(passages.c.key == bindparam("k"), _OF_MODEL)
"""True where there is something of a key `k` to compare with a vector of `model`."""
_VECTORS: Final = (
    select(passages.c.id, passages.c.vector)
    .where(passages.c.key == bindparam("k"), passages.c.session_id != bindparam("but_session_id"), _OF_MODEL)
    .order_by(passages.c.id.desc())
    .limit(limits.PASSAGE_VECTORS_MAX)
)


def matching(
    connection: Connection,
    key: SessionKey,
    terms: Sequence[str],
    *,
    but_session_id: str,
    limit: int,
    near: Embedding | None = None,
) -> list[Snippet]:
    """Return the best of what shares a term, or stands out by its meaning, each saying something of its own."""
    if limit <= 0:
        return []
    parameters = {"k": str(key), "but_session_id": but_session_id}
    rows = _CANDIDATES.find(connection, [str(key)], terms, parameters) if terms else ()
    by_words = ranked(terms, [(row.id, row.terms) for row in rows], limit=limit * _SPARE)
    by_meaning: list[int] = []
    if near is not None:
        kept = connection.execute(_VECTORS, parameters | {"model": near.model}).all()
        alike = similarities(near.vector, [(row.id, row.vector) for row in kept])
        by_meaning = [id_ for id_, (_, above) in alike.items() if above >= limits.STANDS_OUT]
    ids = fused(by_words, by_meaning)[: limit * _SPARE]
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
    .limit(limits.PASSAGES_INDEXED_AT_ONCE)
)
_put: Final = insert_new(passages)


def cut(connection: Connection, boundary: Boundary, *, after_seq: int) -> list[Values]:
    """Cut the next rows for what was said in a boundary after `after_seq`; none when that was all. One without terms
    is never found, and tells where to go on."""
    asked = {"s": boundary.session_id, "after_seq": after_seq, "up_to_seq": boundary.seq}
    return [
        {
            "session_id": boundary.session_id,
            "seq": row.seq,
            "key": str(boundary.key),
            "terms": " ".join(fact_terms(words_in(CleanText(row.text)), count_max=limits.PASSAGE_TERMS_MAX)),
        }
        for row in connection.execute(_SAID_BETWEEN, asked).all()
    ]


def put(connection: Connection, rows: Sequence[Values]) -> None:
    """Add rows to the index; those that it has stay."""
    connection.execute(_put(connection), list(rows))


_WITHOUT_VECTOR: Final = (
    select(passages.c.id, entries.c.text)
    .join(entries, and_(entries.c.session_id == passages.c.session_id, entries.c.seq == passages.c.seq))
    .where(
        passages.c.session_id == bindparam("s"),
        passages.c.seq <= bindparam("up_to_seq"),
        passages.c.id > bindparam("after_id"),
        passages.c.vector_model != bindparam("model"),
        passages.c.terms != "",
        func.length(entries.c.text) >= limits.PASSAGE_EMBEDDED_CHARS_MIN,
        *_IS_SAID,
    )
    .order_by(passages.c.id)
    .limit(bindparam("page_limit"))
)
_SET: Final = update(passages).where(passages.c.id == bindparam("passage_id"), passages.c.key == bindparam("k"))


def without_vector(
    connection: Connection, boundary: Boundary, model: str, *, after_id: int, limit: int
) -> Mapping[int, CleanText]:
    """Return words of a boundary that are indexed and that `model` has not seen, by the id of their passage."""
    wanted = {
        "s": boundary.session_id,
        "up_to_seq": boundary.seq,
        "after_id": after_id,
        "model": model,
        "page_limit": limit,
    }
    return {row.id: words_in(CleanText(row.text)) for row in connection.execute(_WITHOUT_VECTOR, wanted)}


def put_vectors(connection: Connection, key: SessionKey, model: str, vectors: Mapping[int, Vector]) -> None:
    """Keep what `model` made of passages, by their id; what is not there any more stays away."""
    rows = [
        {"k": str(key), "passage_id": id_, "vector": from_vector(unit(vector)), "vector_model": model}
        for id_, vector in vectors.items()
    ]
    if rows:
        connection.execute(_SET, rows)


_DROP_OF_KEY: Final = delete(passages).where(passages.c.key == bindparam("k"))
_DROP_OF_OWNER: Final = delete(passages).where(passages.c.key.in_(_KEYS_OF_OWNER))


def drop(connection: Connection, key: SessionKey) -> None:
    """Drop the index of what was said before: under this key, in a direct message under any of its person's."""
    if key.is_private:
        connection.execute(_DROP_OF_OWNER, {"account_": str(key.owner)})
    else:
        connection.execute(_DROP_OF_KEY, {"k": str(key)})
