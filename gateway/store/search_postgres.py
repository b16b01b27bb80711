"""Full text on PostgreSQL: a GIN index over `facts.terms` as a tsvector.

The vector is built from our terms directly (`array_to_tsvector`) and the query is a cast of quoted
lexemes, so no parser, dictionary or locale of the server has a say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, text

INDEX: Final = "facts_index"

_VECTOR: Final = "array_to_tsvector(string_to_array(terms, ' '))"
"""Exactly the expression of the index."""

HAS_A_TERM: Final[ColumnElement[Any]] = text(f"{_VECTOR} @@ CAST(CAST(:terms_query AS text) AS tsquery)")  # type: ignore[assignment]
"""True for a fact that has one of the terms of the parameter `terms_query`."""


def terms_query(_owner: str, terms: Sequence[str]) -> str:
    """The tsquery for "one of these terms"; terms are letters and digits, and quoted all the same."""
    return " | ".join("'" + term.replace("\\", "\\\\").replace("'", "''") + "'" for term in terms)
