"""Answers kept to be given again. Every statement but the one for room names the key or the owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Delete, Executable, bindparam, delete, select, update

from gateway.contracts.ids import SessionKey
from gateway.contracts.memory import CachedAnswer, CachedQuestion, Embedding
from gateway.contracts.messages import CleanText
from gateway.store.accounts import is_of_person
from gateway.store.engine import Aggregate, Connection, InsertInto, per_dialect, read, write, write_unsynced
from gateway.store.search import from_vector, to_vector
from gateway.store.tables import answers

_SAME: Final = (answers.c.key == bindparam("k"), answers.c.circumstances == bindparam("circumstances"))
_ALIVE: Final = answers.c.expires_at_ms > bindparam("now_ms")
_KEPT: Final = select(answers.c.id, answers.c.text, answers.c.recalled, answers.c.vector, answers.c.vector_model)
_FIND: Final = _KEPT.where(*_SAME, answers.c.asked == bindparam("asked"), _ALIVE)
_LIKE: Final = (
    _KEPT.where(
        *_SAME,
        _ALIVE,
        answers.c.guard == bindparam("guard"),
        answers.c.words != bindparam("words"),
        answers.c.vector_model == bindparam("vector_model"),
    )
    .order_by(answers.c.created_at_ms.desc(), answers.c.id.desc())
    .limit(bindparam("page_limit"))
)
_USE: Final = (
    update(answers)
    .where(answers.c.id == bindparam("answer_id"), answers.c.key == bindparam("k"))
    .values(used_at_ms=bindparam("now_ms"))
)
_FORGET: Final = delete(answers).where(is_of_person(answers.c.owner))
_DROP_EXPIRED: Final = delete(answers).where(answers.c.expires_at_ms <= bindparam("now_ms"))


def _all_but_the_newest(*of: Any) -> Delete:
    by_use = (answers.c.used_at_ms.desc(), answers.c.id.desc())
    rest = select(answers.c.id).where(*of).order_by(*by_use).offset(bindparam("kept"))
    return delete(answers).where(answers.c.id.in_(rest))


_TRIM_OWNER: Final = _all_but_the_newest(answers.c.owner == bindparam("o"))
_TRIM_ALL: Final = _all_but_the_newest()


@per_dialect
def _keep(insert: InsertInto) -> Executable:
    statement = insert(answers)
    renewed = ("text", "recalled", "vector", "vector_model", "created_at_ms", "used_at_ms", "expires_at_ms")
    return statement.on_conflict_do_update(
        index_elements=[answers.c.key, answers.c.circumstances, answers.c.asked],
        set_={name: statement.excluded[name] for name in renewed},
    )


def _kept(row: Any) -> CachedAnswer:
    embedding = Embedding(row.vector_model, to_vector(row.vector)) if row.vector else None
    return CachedAnswer(row.id, CleanText(row.text), row.recalled, embedding)


def _place(question: CachedQuestion) -> dict[str, Any]:
    return {"k": str(question.key), "circumstances": question.circumstances}


def _row(question: CachedQuestion, text: CleanText) -> dict[str, Any]:
    embedding = question.embedding
    return {
        "owner": str(question.key.owner),
        "key": str(question.key),
        "circumstances": question.circumstances,
        "asked": question.asked,
        "guard": question.guard,
        "words": question.words,
        "text": text,
        "vector": None if embedding is None else from_vector(embedding.vector),
        "vector_model": "" if embedding is None else embedding.model,
    }


class AnswerStore(Aggregate):
    """Every look-up names the key that asks: nobody finds what another was answered. Raises `StoreUnavailable`."""

    @read
    def find(self, connection: Connection, question: CachedQuestion, *, now_ms: int) -> CachedAnswer | None:
        """Find the answer to this very question, if one is kept and has not expired."""
        parameters = _place(question) | {"asked": question.asked, "now_ms": now_ms}
        row = connection.execute(_FIND, parameters).one_or_none()
        return None if row is None else _kept(row)

    @read
    def like(
        self, connection: Connection, question: CachedQuestion, *, now_ms: int, limit: int
    ) -> Sequence[CachedAnswer]:
        """Find answers to other questions of the same key, circumstances and guard, in other words than these in
        another order, which the same model embedded; the newest first."""
        if question.embedding is None:
            return []
        parameters = _place(question) | {
            "now_ms": now_ms,
            "guard": question.guard,
            "words": question.words,
            "vector_model": question.embedding.model,
            "page_limit": limit,
        }
        return [_kept(row) for row in connection.execute(_LIKE, parameters)]

    @write_unsynced
    def use(self, connection: Connection, question: CachedQuestion, id_: int, *, now_ms: int) -> None:
        """Note that an answer that was found is given again."""
        key = question.key
        connection.execute(_USE, {"answer_id": id_, "k": str(key), "now_ms": now_ms})

    @write_unsynced
    def put(
        self,
        connection: Connection,
        question: CachedQuestion,
        text: CleanText,
        *,
        recalled: str,
        now_ms: int,
        ttl_s: int,
        owner_max: int,
        all_max: int,
    ) -> None:
        """Keep an answer in place of the one before. Of an owner and of all no more than so many are kept: those
        used last."""
        times = {"created_at_ms": now_ms, "used_at_ms": now_ms, "expires_at_ms": now_ms + ttl_s * 1000}
        row = _row(question, text) | {"recalled": recalled} | times
        connection.execute(_DROP_EXPIRED, {"now_ms": row["created_at_ms"]})
        connection.execute(_keep(connection), row)
        connection.execute(_TRIM_OWNER, {"o": row["owner"], "kept": owner_max})
        connection.execute(_TRIM_ALL, {"kept": all_max})

    @write
    def forget(self, connection: Connection, owner: SessionKey) -> int:
        """Delete all that is kept of an owner, wherever he asked; how many answers there were."""
        return connection.execute(_FORGET, {"end_": str(owner)}).rowcount
