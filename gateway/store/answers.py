"""Answers kept to be given again. Every statement but the one for room names the key or the owner."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection, Delete, Executable, bindparam, delete, select, update

from gateway.contracts.answers import KeptAnswer, Question
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.vectors import Embedding
from gateway.store.dialects import InsertInto, per_dialect
from gateway.store.ends import is_of_person
from gateway.store.engine import Database
from gateway.store.rows import from_vector, to_vector
from gateway.store.tables import answers


class SqlAnswers:
    """`gateway.contracts.ports.AnswerShelf` on SQL. Nothing here is durable: what a power cut takes is asked again."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, question: Question, *, now_ms: int) -> KeptAnswer | None:
        """The answer to this very question."""
        return await self._database.read(partial(_find, question=question, now_ms=now_ms))

    async def like(self, question: Question, *, now_ms: int, limit: int) -> Sequence[KeptAnswer]:
        """Answers to questions that may mean the same."""
        return await self._database.read(partial(_like, question=question, now_ms=now_ms, limit=limit))

    async def use(self, question: Question, id_: int, *, now_ms: int) -> None:
        """It was given again."""
        await self._database.write(partial(_use, key=question.key, id_=id_, now_ms=now_ms), durable=False)

    async def put(
        self,
        question: Question,
        text: CleanText,
        *,
        recalled: str,
        now_ms: int,
        ttl_s: int,
        owner_max: int,
        all_max: int,
    ) -> None:
        """Keep an answer, and let go of those that were not used for longest."""
        times = {"created_at_ms": now_ms, "used_at_ms": now_ms, "expires_at_ms": now_ms + ttl_s * 1000}
        row = _row(question, text) | {"recalled": recalled} | times
        await self._database.write(partial(_put, row=row, owner_max=owner_max, all_max=all_max), durable=False)

    async def forget(self, owner: SessionKey) -> int:
        """Delete all that is kept of a person: facts of one end shape the answers of another."""
        return await self._database.write(partial(_forget, owner=owner))


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


def _find(connection: Connection, question: Question, *, now_ms: int) -> KeptAnswer | None:
    parameters = _place(question) | {"asked": question.asked, "now_ms": now_ms}
    row = connection.execute(_FIND, parameters).one_or_none()
    return None if row is None else _kept(row)


def _like(connection: Connection, question: Question, *, now_ms: int, limit: int) -> list[KeptAnswer]:
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


def _kept(row: Any) -> KeptAnswer:
    embedding = Embedding(row.vector_model, to_vector(row.vector)) if row.vector else None
    return KeptAnswer(row.id, CleanText(row.text), row.recalled, embedding)


def _use(connection: Connection, key: SessionKey, id_: int, *, now_ms: int) -> None:
    connection.execute(_USE, {"answer_id": id_, "k": str(key), "now_ms": now_ms})


def _put(connection: Connection, row: dict[str, Any], *, owner_max: int, all_max: int) -> None:
    connection.execute(_DROP_EXPIRED, {"now_ms": row["created_at_ms"]})
    connection.execute(_keep(connection), row)
    connection.execute(_TRIM_OWNER, {"o": row["owner"], "kept": owner_max})
    connection.execute(_TRIM_ALL, {"kept": all_max})


def _forget(connection: Connection, owner: SessionKey) -> int:
    return connection.execute(_FORGET, {"end_": str(owner)}).rowcount


def _place(question: Question) -> dict[str, Any]:
    return {"k": str(question.key), "circumstances": question.circumstances}


def _row(question: Question, text: CleanText) -> dict[str, Any]:
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
