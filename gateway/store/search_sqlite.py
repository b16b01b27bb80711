"""Full text on SQLite: for each table with `terms` an FTS5 table over them, kept by triggers.

Its `ascii` tokenizer takes every character beyond ASCII for a part of a word: our terms stay whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Table, column, select, table, text

from gateway.store.tables import facts, passages

INDEXES: Final = ("facts_index", "passages_index")
"""The FTS5 tables; SQLite adds `facts_index_data` and others of its own."""

TIDY: Final = (
    "INSERT INTO facts_index(facts_index) VALUES ('optimize')",
    "INSERT INTO passages_index(passages_index) VALUES ('optimize')",
)
"""Merges the parts of each index: what was deleted is gone from it, not only crossed out."""

_SCOPES: Final = {facts.name: "owner", passages.name: "key"}
"""Which column says whose a row is: it is indexed, too."""


def has_a_term(content: Table) -> ColumnElement[Any]:
    """True for a row that has one of the terms of the parameter `terms_query`."""
    index = table(f"{content.name}_index", column("rowid"))
    return content.c.id.in_(select(index.c.rowid).where(text(f"{index.name} MATCH :terms_query")))


def terms_query(content: Table, whose: Sequence[str], terms: Sequence[str]) -> str:
    """The FTS5 expression for "of one of these owners or keys, with one of these terms". Every part is a quoted
    string, so nothing in it is read as syntax."""
    wanted = " OR ".join(_quoted(term) for term in terms)
    scope = " OR ".join(map(_quoted, whose))
    return f"{_SCOPES[content.name]} : ({scope}) AND terms : ({wanted})"


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"'
