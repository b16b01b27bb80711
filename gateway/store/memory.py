"""What belongs to a user across sessions: facts and todos. Every statement names the owner."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

from sqlalchemy import Connection, Select, bindparam, delete, select

from gateway.contracts.entries import Fact, Todo
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.limits import FACT_TERMS_MAX, RECALL_CANDIDATES_MAX, RECALL_TERMS_MAX
from gateway.store import search_postgres, search_sqlite
from gateway.store.rows import to_fact, to_todo
from gateway.store.tables import facts, todos
from gateway.store.terms import fact_terms, query_terms, ranked

_SEARCHES: Final[dict[str, ModuleType]] = {"sqlite": search_sqlite, "postgresql": search_postgres}

_NEWEST: Final = (
    select(facts)
    .where(facts.c.owner == bindparam("owner"))
    .order_by(facts.c.created_at_ms.desc(), facts.c.id.desc())
    .limit(bindparam("page_limit"))
)
_WITH_A_TERM: Final[dict[str, Select[Any]]] = {
    dialect: _NEWEST.where(search.HAS_A_TERM) for dialect, search in _SEARCHES.items()
}
_SAME: Final = select(facts).where(facts.c.owner == bindparam("owner"), facts.c.text == bindparam("same_text")).limit(1)
_REMEMBER: Final = facts.insert().returning(facts)

_TODOS: Final = select(todos).where(todos.c.owner == bindparam("owner")).order_by(todos.c.position)
_CLEAR_TODOS: Final = delete(todos).where(todos.c.owner == bindparam("owner"))
_PUT_TODOS: Final = todos.insert()


def remember(connection: Connection, owner: SessionKey, text: CleanText, *, now_ms: int) -> Fact:
    """Add a fact; one that is known word for word is returned as it is, so that a turn may run again."""
    known = connection.execute(_SAME, {"owner": str(owner), "same_text": text}).one_or_none()
    if known is not None:
        return to_fact(known)
    terms = " ".join(fact_terms(text, count_max=FACT_TERMS_MAX))
    row = {"owner": str(owner), "text": text, "terms": terms, "created_at_ms": now_ms}
    return to_fact(connection.execute(_REMEMBER, row).one())


def recall(connection: Connection, owner: SessionKey, query: str, *, limit: int) -> list[Fact]:
    """The best matches; the newest facts if the question is empty."""
    if not query.strip():
        newest = connection.execute(_NEWEST, {"owner": str(owner), "page_limit": max(limit, 0)})
        return [to_fact(row) for row in newest]
    terms = query_terms(query, count_max=RECALL_TERMS_MAX)
    if not terms:
        return []
    dialect = connection.dialect.name
    rows = connection.execute(
        _WITH_A_TERM[dialect],
        {
            "owner": str(owner),
            "terms_query": _SEARCHES[dialect].terms_query(str(owner), terms),
            "page_limit": RECALL_CANDIDATES_MAX,
        },
    )
    return ranked(terms, [(to_fact(row), row.terms.split(" ")) for row in rows], limit=limit)


def task_list(connection: Connection, owner: SessionKey) -> list[Todo]:
    """The todos of an owner in their order."""
    return [to_todo(row) for row in connection.execute(_TODOS, {"owner": str(owner)})]


def replace_task_list(connection: Connection, owner: SessionKey, tasks: Sequence[Todo]) -> None:
    """The whole list at once."""
    connection.execute(_CLEAR_TODOS, {"owner": str(owner)})
    rows = [
        {"owner": str(owner), "position": task.position, "text": task.text, "state": task.state.value} for task in tasks
    ]
    if rows:
        connection.execute(_PUT_TODOS, rows)
