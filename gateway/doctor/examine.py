"""All checks, in the order in which a start would stumble over them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from gateway.config import Loaded
from gateway.config.loading import CONFIG_VARIABLE
from gateway.doctor.findings import Finding
from gateway.doctor.machine import (
    check_configuration,
    check_confinement,
    check_data_dir,
    check_disk,
    check_limits,
    check_mcp,
    check_memory,
    check_model,
    check_models,
    check_ports,
    check_scrubber,
    check_telemetry,
)
from gateway.doctor.platforms import check_platforms
from gateway.doctor.servers import check_database, check_foreign, check_installation, check_redis


async def examine(loaded: Loaded, environ: Mapping[str, str], *, is_offline: bool = False) -> list[Finding]:
    """Look at everything; takes as long as the slowest server that does not answer. Neither platforms nor models are
    called when `is_offline`."""
    settings = loaded.settings
    if loaded.path is not None:
        environ = {**environ, CONFIG_VARIABLE: str(loaded.path.absolute())}
    models: Sequence[Finding] = ()
    platforms: Sequence[Finding] = ()
    if not is_offline:
        models, platforms = await asyncio.gather(check_models(environ), check_platforms(settings))
    return [
        *check_configuration(loaded),
        check_data_dir(settings),
        check_disk(settings),
        *await check_redis(settings),
        await check_database(settings),
        *await check_installation(settings),
        *await check_foreign(settings),
        *await check_ports(settings),
        check_model(settings, environ),
        *models,
        check_scrubber(),
        check_memory(),
        *check_limits(settings),
        check_telemetry(settings),
        await check_confinement(settings, environ),
        *await check_mcp(settings, environ),
        *platforms,
    ]
