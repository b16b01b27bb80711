"""Full text on SQLite: an FTS5 table over `facts.owner` and `facts.terms`, kept by triggers.

Its `ascii` tokenizer takes every character beyond ASCII for a part of a word: our terms stay whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, column, select, table, text

from gateway.store.tables import facts

INDEX: Final = "facts_index"
"""The FTS5 table; SQLite adds `facts_index_data` and others of its own."""

_index: Final = table(INDEX, column("rowid"))

HAS_A_TERM: Final[ColumnElement[Any]] = facts.c.id.in_(
    select(_index.c.rowid).where(text(f"{INDEX} MATCH :terms_query"))
)
"""True for a fact that has one of the terms of the parameter `terms_query`."""


def terms_query(owner: str, terms: Sequence[str]) -> str:
    """The FTS5 expression for "of this owner, with one of these terms". Every part is a quoted string, so
    nothing in it is read as syntax."""
    wanted = " OR ".join(_quoted(term) for term in terms)
    return f"owner : {_quoted(owner)} AND terms : ({wanted})"


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"'
