"""The bus on Redis: lanes, leases, deliveries. The only importer of `redis`; start at `bus.open_bus`."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def load_redis() -> None:
    """Load redis-py without OpenTelemetry, before anything else of a role does: wherever that is installed redis-py
    loads its SDK, for metrics that nobody asked it for, which takes as long again."""
    loaded: dict[str, Any] = sys.modules
    if "redis" not in loaded and "opentelemetry" not in loaded:
        loaded["opentelemetry"] = None  # the import system's own way to say that there is no such module
        import_module("redis.asyncio")
        del loaded["opentelemetry"]
