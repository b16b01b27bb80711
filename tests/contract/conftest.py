"""The suites of the bus run on several arrangements of servers: one, the primary of a Sentinel set, a Cluster."""

from __future__ import annotations

from typing import Final

import pytest

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
