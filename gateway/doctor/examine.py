"""All checks, in the order in which a start would stumble over them."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.config import Loaded
from gateway.doctor.findings import Finding
from gateway.doctor.machine import (
    check_configuration,
    check_confinement,
    check_data_dir,
    check_memory,
    check_model,
    check_ports,
    check_scrubber,
    check_telemetry,
)
from gateway.doctor.platforms import check_platforms
from gateway.doctor.servers import check_database, check_redis


async def examine(loaded: Loaded, environ: Mapping[str, str]) -> list[Finding]:
    """Look at everything; takes as long as the slowest server that does not answer."""
    settings = loaded.settings
    platforms = await check_platforms(settings)
    return [
        *check_configuration(loaded),
        check_data_dir(settings),
        *await check_redis(settings),
        await check_database(settings),
        *await check_ports(settings),
        check_model(settings, environ),
        check_scrubber(),
        check_memory(),
        check_telemetry(settings),
        await check_confinement(settings, environ),
        *platforms,
    ]
