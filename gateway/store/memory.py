"""Facts: keeping, finding, forgetting. Every statement names the owner, and who may be listening.

A fact is read where it was learned, in threads inside of that place, in direct messages with its owner, and
elsewhere only if the owner said so: what somebody says in a direct message never surfaces in a group. What was learned
in a direct message is read in those of every account of the same person; what was learned in a group is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, Final

from sqlalchemy import Boolean, ColumnElement, Row, Select, and_, bindparam, delete, func, or_, select, update

from gateway import limits
from gateway.contracts.errors import MemoryFull
from gateway.contracts.ids import SessionKey
from gateway.contracts.memory import Boundary, Embedding, Fact, Origin, Recollection, Remembered, Vector, unit
from gateway.contracts.messages import CleanText
from gateway.store import passages
from gateway.store.accounts import accounts_of, locked_accounts
from gateway.store.engine import Aggregate, Connection, Values, read, reading, value_of, write, write_unsynced, writing
from gateway.store.search import (
    Search,
    fact_terms,
    from_vector,
    fused,
    normalised,
    query_terms,
    ranked,
    say_the_same,
    similarities,
    telling_terms,
    to_vector,
)
from gateway.store.tables import facts

_IS_OWNERS: Final = facts.c.owner == bindparam("whose")
_IS_PERSONS: Final = facts.c.owner.in_(bindparam("accounts"))
_IS_PRIVATE: Final = bindparam("is_private", type_=Boolean)
_IS_READABLE: Final[ColumnElement[bool]] = and_(
    _IS_PERSONS,
    or_(
        facts.c.is_shared,
        and_(_IS_OWNERS, or_(_IS_PRIVATE, facts.c.place.in_(bindparam("places")))),
        and_(_IS_PRIVATE, facts.c.place == ""),
    ),
)
_READABLE: Final = select(facts).where(_IS_READABLE)
_NEWEST_FIRST: Final = (facts.c.told_at_ms.desc(), facts.c.id.desc())
_NEWEST: Final = _READABLE.order_by(*_NEWEST_FIRST).limit(bindparam("page_limit"))
_WITH_A_TERM: Final = Search(facts, _NEWEST)
_OF_MODEL: Final = facts.c.vector_model == bindparam("model")
_VECTORS: Final[Select[Any]] = (
    select(facts.c.id, facts.c.vector).where(_IS_READABLE, _OF_MODEL).order_by(*_NEWEST_FIRST).limit(limits.FACTS_MAX)
)
_SOME: Final = _READABLE.where(facts.c.id.in_(bindparam("ids")))


def _asking(connection: Connection, key: SessionKey) -> Values:
    """Say whose facts may be read where `key` speaks."""
    places = ["/".join(key.place[:parts]) for parts in range(1, len(key.place) + 1)]
    accounts = accounts_of(connection, key.owner)
    return {"whose": str(key.owner), "accounts": accounts, "is_private": key.is_private, "places": places}


def matching(
    connection: Connection,
    asking: Values,
    terms: Sequence[str],
    *,
    limit: int,
    near: Embedding | None,
    is_asked_for: bool = True,
) -> list[Fact]:
    """Return the best of the facts that one is `asking` for and that share a term or a meaning; of two that say the
    same words, the better one. Unless somebody asks for them, only those that share about as much as the best one, or
    whose meaning stands out."""
    by_words = _by_words(connection, asking, terms, share_min=0.0 if is_asked_for else limits.NEAR_THE_BEST)
    known = {fact.id: fact for fact in by_words}
    alike = _alike(connection, asking, near) if near is not None else {}
    if is_asked_for:
        by_meaning = [
            id_
            for id_, (likeness, above) in alike.items()
            if likeness >= limits.FACT_COSINE_NEAR or above >= limits.STANDS_OUT
        ]
    else:
        by_meaning = [id_ for id_, (_, above) in alike.items() if above >= limits.STANDS_OUT]
    missing = [id_ for id_ in by_meaning if id_ not in known]
    if missing:
        more = connection.execute(_SOME, asking | {"ids": missing})
        known |= {row.id: to_fact(row) for row in more}
    best: dict[str, Fact] = {}
    for id_ in fused([fact.id for fact in by_words], by_meaning):
        if id_ in known:
            best.setdefault(normalised(known[id_].text), known[id_])
    return list(best.values())[: max(limit, 0)]


def _by_words(connection: Connection, asking: Values, terms: Sequence[str], *, share_min: float) -> list[Fact]:
    if not terms:
        return []
    asked = asking | {"page_limit": limits.RECALL_CANDIDATES_MAX}
    rows = _WITH_A_TERM.find(connection, asking["accounts"], terms, asked)
    candidates = [(to_fact(row), row.terms) for row in rows]
    return ranked(terms, candidates, limit=limits.RECALL_CANDIDATES_MAX, share_min=share_min)


def _alike(connection: Connection, asking: Values, near: Embedding) -> dict[int, tuple[float, float]]:
    rows = connection.execute(_VECTORS, asking | {"model": near.model}).all()
    return similarities(near.vector, [(row.id, row.vector) for row in rows])


# --- what a model is always to know
_KNOWN: Final = (
    select(*(column for column in facts.c if column.name not in {"terms", "vector", "vector_model"}))
    .where(_IS_READABLE)
    .limit(bindparam("page_limit"))
)
_IS_TOLD: Final = facts.c.origin == Origin.TOLD.value
_NEWEST_KNOWN: Final = _KNOWN.order_by(_IS_TOLD.desc(), *_NEWEST_FIRST)
_MOST_USED: Final = _KNOWN.where(facts.c.uses > 0).order_by(_IS_TOLD.desc(), facts.c.uses.desc(), *_NEWEST_FIRST)
_COUNT_USES: Final = update(facts).where(_IS_READABLE, facts.c.id.in_(bindparam("ids"))).values(uses=facts.c.uses + 1)


def known(connection: Connection, asking: Values, *, limit: int) -> list[Fact]:
    """Return the newest and the most used of the facts that one is `asking` for, in turn; what somebody asked to be
    kept comes before what a model gathered."""
    if limit <= 0:
        return []
    newest = connection.execute(_NEWEST_KNOWN, asking | {"page_limit": limit}).all()
    if len(newest) < limit:  # these are all
        used = sorted((row for row in newest if row.uses), key=lambda row: -row.uses)[: limits.KNOWN_USED_MAX]
    else:
        used = list(connection.execute(_MOST_USED, asking | {"page_limit": limits.KNOWN_USED_MAX}))
    in_turn = (row for pair in zip_longest(newest, used) for row in pair if row is not None)
    rows = {row.id: row for row in in_turn}.values()
    return [to_fact(row) for row in sorted(rows, key=lambda row: row.origin != Origin.TOLD.value)][:limit]


# --- keeping
_OF_PLACE: Final = (
    select(facts).where(_IS_OWNERS, facts.c.place == bindparam("here")).order_by(*_NEWEST_FIRST).limit(limits.FACTS_MAX)
)
_SIZE: Final = select(func.count().filter(_IS_OWNERS), func.coalesce(func.max(facts.c.number), 0)).where(_IS_PERSONS)
_FIRST_TO_GO: Final = (
    select(facts)
    .where(_IS_OWNERS, facts.c.origin == Origin.GATHERED.value)
    .order_by(facts.c.told_at_ms, facts.c.id)
    .limit(1)
)
_ADD: Final = facts.insert().returning(facts)
_SET: Final = update(facts).where(_IS_OWNERS, facts.c.id == bindparam("fact_id"))
"""Sets the columns that parameters are called like."""
_REWRITE: Final = _SET.returning(facts)
_DROP: Final = delete(facts).where(_IS_OWNERS, facts.c.id == bindparam("fact_id"))


def _same_fact(
    connection: Connection, owner: str, place: str, text: CleanText, embedding: Embedding | None
) -> Row[Any] | None:
    for row in connection.execute(_OF_PLACE, {"whose": owner, "here": place}).all():
        is_comparable = embedding is not None and row.vector_model == embedding.model
        vectors = (embedding.vector, to_vector(row.vector)) if embedding is not None and is_comparable else None
        if say_the_same(text, row.text, vectors):
            return row
    return None


def _reword(
    connection: Connection,
    twin: Row[Any],
    text: CleanText,
    origin: Origin,
    embedding: Embedding | None,
    *,
    helps_with: str,
    former: str,
    now_ms: int,
) -> Fact:
    if origin is Origin.GATHERED and twin.origin == Origin.TOLD.value and not former:
        return to_fact(twin)
    content = _content(text, origin, embedding, helps_with or twin.helps_with)
    new = {"whose": twin.owner, "fact_id": twin.id, "former": former or twin.former, "told_at_ms": now_ms}
    return to_fact(connection.execute(_REWRITE, new | content).one())


def _former(replaced: Fact, text: str) -> str:
    """Return what the new fact replaces; of one that says the same (a tool that is run again), what that one
    replaced."""
    return replaced.former if normalised(replaced.text) == normalised(text) else " ".join(replaced.text.split())


def _make_room(connection: Connection, owner: str) -> Fact:
    """Drop the oldest fact that a model gathered; what somebody told stays until that person says otherwise."""
    oldest = connection.execute(_FIRST_TO_GO, {"whose": owner}).one_or_none()
    if oldest is None:
        raise MemoryFull(f"{owner} has {limits.FACTS_MAX} facts already")
    connection.execute(_DROP, {"whose": owner, "fact_id": oldest.id})
    return to_fact(oldest)


def _content(text: CleanText, origin: Origin, embedding: Embedding | None, helps_with: str) -> Values:
    return {
        "text": text,
        "helps_with": helps_with,
        "terms": " ".join(fact_terms(f"{helps_with}\n{text}", count_max=limits.FACT_TERMS_MAX)),
        "origin": origin.value,
        "vector": None if embedding is None else from_vector(unit(embedding.vector)),
        "vector_model": "" if embedding is None else embedding.model,
    }


# --- forgetting and sharing
_FORGET: Final = delete(facts).where(_IS_READABLE, facts.c.number.in_(bindparam("numbers"))).returning(facts)
_FORGET_HERE: Final = delete(facts).where(_IS_READABLE)
_FORGET_PERSON: Final = delete(facts).where(_IS_PERSONS)
_SHARE: Final = (
    update(facts)
    .where(_IS_READABLE, facts.c.number == bindparam("wanted"))
    .values(is_shared=bindparam("shall_be_shared"))
    .returning(facts)
)


# --- vectors
_HAS_VECTORS: Final = select(or_(_READABLE.where(_OF_MODEL).exists(), passages.HAS_VECTORS))
_WITHOUT_VECTOR: Final = (
    select(facts).where(_IS_OWNERS, ~_OF_MODEL).order_by(*_NEWEST_FIRST).limit(bindparam("page_limit"))
)


def to_fact(row: Row[Any]) -> Fact:
    """Read a row of `facts`."""
    return value_of(Fact, row, key=SessionKey.parse(row.owner))


def recollected(
    connection: Connection,
    key: SessionKey,
    said: str,
    *,
    but_session_id: str,
    known_max: int,
    facts_max: int,
    snippets_max: int,
    near: Embedding | None = None,
) -> Recollection:
    """Find the facts that are always known, and facts and earlier words that have to do with `said`."""
    terms = telling_terms(said, count_max=limits.RECALL_TERMS_MAX)
    asking = _asking(connection, key)
    always = tuple(known(connection, asking, limit=known_max))
    if not terms and near is None:
        return Recollection(known=always)
    has_facts = bool(always) or known_max <= 0
    return Recollection(
        tuple(matching(connection, asking, terms, limit=facts_max, near=near, is_asked_for=False)) if has_facts else (),
        tuple(passages.matching(connection, key, terms, but_session_id=but_session_id, limit=snippets_max, near=near)),
        always,
    )


class MemoryStore(Aggregate):
    """Facts and the index of earlier conversations. Raises `StoreUnavailable`."""

    @write
    def remember(
        self,
        connection: Connection,
        key: SessionKey,
        text: CleanText,
        *,
        now_ms: int,
        origin: Origin = Origin.TOLD,
        embedding: Embedding | None = None,
        helps_with: str = "",
        instead_of: Sequence[int] = (),
    ) -> Remembered:
        """Keep a fact that was learned in the place of `key`, and is also found by the words `helps_with`. What says
        the same as a fact of that place takes that fact's row, and the newest wording stays. The facts with the numbers
        `instead_of`, as far as they may be read there, are deleted; the new one says what they said, and has the
        number of the first, but is read where it was learned alone, whoever could read those. Raises
        `MemoryFull`."""
        owner = str(key.owner)
        accounts = locked_accounts(connection, key.owner)
        place = "/".join(key.place)
        gone = self._deleted(connection, key, instead_of)
        replaced = tuple(to_fact(row) for row in gone)
        former = "\n".join(filter(None, (_former(fact, text) for fact in replaced)))
        twin = _same_fact(connection, owner, place, text, embedding)
        if twin is not None:
            fact = _reword(
                connection, twin, text, origin, embedding, helps_with=helps_with, former=former, now_ms=now_ms
            )
            return Remembered(fact, replaced)
        count, last_number = connection.execute(_SIZE, {"whose": owner, "accounts": accounts}).one()
        dropped = _make_room(connection, owner) if count >= limits.FACTS_MAX else None
        row = _content(text, origin, embedding, helps_with) | {
            "owner": owner,
            "number": replaced[0].number if replaced else last_number + 1,
            "place": place,
            "is_shared": False,
            "created_at_ms": now_ms,
            "told_at_ms": now_ms,
            "uses": max((row.uses for row in gone), default=0),
            "former": former,
        }
        return Remembered(to_fact(connection.execute(_ADD, row).one()), replaced, dropped)

    @write_unsynced
    def use(self, connection: Connection, key: SessionKey, ids: Sequence[int]) -> None:
        """Count that these of the facts that may be read where `key` speaks were of use."""
        if ids:
            connection.execute(_COUNT_USES, _asking(connection, key) | {"ids": list(ids)})

    @read
    def recall(
        self, connection: Connection, key: SessionKey, query: str, *, limit: int, near: Embedding | None = None
    ) -> Sequence[Fact]:
        """Return the facts that may be read where `key` speaks, best match first; an empty query gives the newest."""
        if not query.strip():
            found = connection.execute(_NEWEST, _asking(connection, key) | {"page_limit": max(limit, 0)})
            return [to_fact(row) for row in found]
        terms = query_terms(query, count_max=limits.RECALL_TERMS_MAX)
        return matching(connection, _asking(connection, key), terms, limit=limit, near=near)

    recollect = reading(recollected)

    @write
    def forget(self, connection: Connection, key: SessionKey, numbers: Sequence[int]) -> Sequence[Fact]:
        """Delete these of the facts that may be read where `key` speaks; those that there were."""
        return [to_fact(row) for row in self._deleted(connection, key, numbers)]

    @staticmethod
    def _deleted(connection: Connection, key: SessionKey, numbers: Sequence[int]) -> list[Row[Any]]:
        if not numbers:
            return []
        rows = connection.execute(_FORGET, _asking(connection, key) | {"numbers": list(numbers)}).all()
        return sorted(rows, key=lambda row: row.number)

    @write
    def forget_all(self, connection: Connection, key: SessionKey) -> int:
        """Delete all facts that may be read where `key` speaks, in a direct message all of its person's, and the index
        of what was said there. How many facts there were."""
        passages.drop(connection, key)
        passages.skip(connection, key, now_ms=self.clock.now_ms())
        statement = _FORGET_PERSON if key.is_private else _FORGET_HERE
        return connection.execute(statement, _asking(connection, key)).rowcount

    @write
    def share(self, connection: Connection, key: SessionKey, number: int, *, is_shared: bool) -> Fact | None:
        """Say whether a fact may be read everywhere its owner speaks; None if there is none of that number."""
        wanted = _asking(connection, key) | {"wanted": number, "shall_be_shared": is_shared}
        row = connection.execute(_SHARE, wanted).one_or_none()
        return None if row is None else to_fact(row)

    @read
    def has_vectors(self, connection: Connection, key: SessionKey, model: str) -> bool:
        """Tell whether a search by meaning could find anything."""
        wanted = _asking(connection, key) | {"model": model, "k": str(key)}
        return bool(connection.execute(_HAS_VECTORS, wanted).scalar_one())

    @read
    def without_vector(self, connection: Connection, key: SessionKey, model: str, *, limit: int) -> Sequence[Fact]:
        """Return facts of the owner that `model` has not seen."""
        wanted = {"whose": str(key.owner), "model": model, "page_limit": max(limit, 0)}
        return [to_fact(row) for row in connection.execute(_WITHOUT_VECTOR, wanted)]

    @write
    def put_vectors(self, connection: Connection, key: SessionKey, model: str, vectors: Mapping[int, Vector]) -> None:
        """Keep what `model` made of facts, by their id."""
        rows = [
            {"whose": str(key.owner), "fact_id": id_, "vector": from_vector(unit(vector)), "vector_model": model}
            for id_, vector in vectors.items()
        ]
        if rows:
            connection.execute(_SET, rows)

    async def claim_boundary(self, key: SessionKey | None, *, now_ms: int, for_ms: int) -> Boundary | None:
        """Claim the oldest boundary that is due; it is the caller's for so long."""
        if not await self.database.read(partial(passages.is_any_due, key=key, now_ms=now_ms)):
            return None
        return await self.database.write(partial(passages.claim, key=key, now_ms=now_ms, for_ms=for_ms))

    async def index(self, boundary: Boundary) -> None:
        """Make what was said there findable, page by page: the words are cut outside of any transaction."""
        after_seq = boundary.after_seq
        while rows := await self.database.read(partial(passages.cut, boundary=boundary, after_seq=after_seq)):
            await self.database.write(partial(passages.put, rows=rows), durable=False)
            after_seq = int(rows[-1]["seq"])

    passages_without_vector = reading(passages.without_vector)
    put_passage_vectors = writing(passages.put_vectors)
    finish_boundary = writing(passages.finish)
