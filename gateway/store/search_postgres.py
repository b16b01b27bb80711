"""Full text on PostgreSQL: for each table with `terms` a GIN index over them as a tsvector.

The vector is built from our terms directly (`array_to_tsvector`) and the query is a cast of quoted
lexemes, so no parser, dictionary or locale of the server has a say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Table, text


def has_a_term(content: Table) -> ColumnElement[Any]:
    """True for a row that has one of the terms of the parameter `terms_query`. The left side is exactly the
    expression of the index."""
    vector = f"array_to_tsvector(string_to_array({content.name}.terms, ' '))"
    return text(f"{vector} @@ CAST(CAST(:terms_query AS text) AS tsquery)")  # type: ignore[return-value]


def terms_query(_content: Table, _whose: Sequence[str], terms: Sequence[str]) -> str:
    """The tsquery for "one of these terms"; terms are letters and digits, and quoted all the same."""
    return " | ".join("'" + term.replace("\\", "\\\\").replace("'", "''") + "'" for term in terms)
