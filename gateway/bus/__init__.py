"""The bus on Redis: lanes, leases, deliveries. The only importer of `redis`; start at `bus.open_bus`."""

from gateway.process import load_without


def load_redis() -> None:
    """Load redis-py without OpenTelemetry, before anything else does: where that is installed redis-py loads its SDK,
    for metrics that nobody asked it for, which takes as long again."""
    load_without("opentelemetry", "redis.asyncio")
