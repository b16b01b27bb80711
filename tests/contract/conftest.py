"""The suites of the bus run on each arrangement of servers: one, the primary of a Sentinel set, a Cluster."""

from __future__ import annotations

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that looks behind the bus, at keys by name, looks at one shard: it has no place on a Cluster."""
    names = metafunc.fixturenames
    if (
        "valkey_url" not in names
        or "valkey_server" in names
        or not metafunc.module.__name__.split(".")[-1].startswith("test_bus_")
    ):
        return
    is_spread = "raw_redis" not in names and not any(metafunc.definition.iter_markers("one_shard"))
    arrangements = ["one", "sentinel", *(["cluster"] if is_spread else [])]
    metafunc.parametrize("bus_servers", arrangements, indirect=True)
