"""The suites of the bus run on several arrangements of servers: one, the primary of a Sentinel set, a Cluster. Those of
the store run on a SQLite that gives rows in no order but the one that it was asked for."""

from __future__ import annotations

from typing import Any, Final

import pytest
from sqlalchemy import Executable, Select

from gateway.store.sqlite import SqliteConnection
from gateway.store.statements import FetchedRows

SENTINEL_TOO: Final = frozenset({"test_bus_control", "test_bus_deliveries", "test_bus_lanes"})
"""Sentinels change the way to a server and nothing else: these three suites use every kind of connection."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that looks behind the bus, at keys by name, looks at one shard: it has no place on a Cluster."""
    suite = metafunc.module.__name__.rpartition(".")[2]
    names = metafunc.fixturenames
    if not suite.startswith("test_bus_") or "valkey_url" not in names or "valkey_server" in names:
        return
    arrangements = ["one"]
    if suite in SENTINEL_TOO:
        arrangements.append("sentinel")
    if "raw_redis" not in names and not any(metafunc.definition.iter_markers("one_shard")):
        arrangements.append("cluster")
    metafunc.parametrize("bus_servers", arrangements, indirect=True)


@pytest.fixture(autouse=True)
def _no_order_but_what_was_asked_for(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a statement without ORDER BY come backwards: PostgreSQL may give them so on any day, by another plan."""
    if "store" not in request.fixturenames:
        return
    execute = SqliteConnection.execute

    def backwards(self: SqliteConnection, statement: Executable, parameters: Any = None, /) -> FetchedRows:
        found = execute(self, statement, parameters)
        is_ordered = isinstance(statement, Select) and bool(statement._order_by_clauses)
        return found if is_ordered else FetchedRows(found.all()[::-1], found.rowcount)

    monkeypatch.setattr(SqliteConnection, "execute", backwards)
