"""Looking up terms in a table that has them, on either database."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, Table

from gateway.store import search_postgres, search_sqlite

_ENGINES: Final[dict[str, ModuleType]] = {"sqlite": search_sqlite, "postgresql": search_postgres}


class Search:
    """A statement on `content`, narrowed to the rows that have one of some terms; built once per database."""

    def __init__(self, content: Table, among: Select[Any]) -> None:
        self._content = content
        self._statements = {name: among.where(engine.has_a_term(content)) for name, engine in _ENGINES.items()}

    def run(
        self, connection: Connection, whose: Sequence[str], terms: Sequence[str], parameters: dict[str, Any]
    ) -> Sequence[Row[Any]]:
        """The rows. `whose` (owners or keys) narrows the look-up, the statement has to name them all the same."""
        dialect = connection.dialect.name
        query = _ENGINES[dialect].terms_query(self._content, whose, terms)
        return connection.execute(self._statements[dialect], parameters | {"terms_query": query}).all()
