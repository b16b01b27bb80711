"""What `trivet up` looks at before it starts anything, and what it hands to the supervisor, which loads no settings."""

from __future__ import annotations

import asyncio

import structlog

from gateway.config import Loaded, Settings, admin_token, masked_url, own_hosts, table_of
from gateway.contracts.errors import ConfigError
from gateway.ops.supervisor.plan import UpOptions
from gateway.preflight import check_port_free, check_redis_answers
from gateway.scrub.vault import scrubber_of
from gateway.telemetry.logs import configure_logs
from gateway.telemetry.spans import check_exporter

log = structlog.get_logger("trivet.up")


def checked_options(loaded: Loaded) -> UpOptions:
    """Check everything that an operator has to hear of before a process starts, and return what the supervisor needs.

    Raises `ConfigError`, or `BusUnavailable` when no server of `redis.url` takes a connection.
    """
    settings = loaded.settings
    configure_logs(scrubber_of(loaded), level=settings.log.level.value, as_json=settings.log.as_json)
    if not settings.channels.enabled_names:
        raise ConfigError(
            "no channel is configured: set channels.telegram.token, channels.discord.token or channels.slack.bot_token "
            "and .app_token in trivet.toml, or look at `trivet demo`, which needs none"
        )
    for name in settings.channels.enabled_names:
        if missing := settings.channels.each()[name].missing:
            keys = " and ".join(f"{table_of(name)}.{key}" for key in missing)
            raise ConfigError(f"{table_of(name)} is enabled, but {keys} is empty: set it or disable the channel")
    check_exporter(settings.telemetry)
    check_port_free(settings.http.host, settings.http.port, "http.port")
    admin_token(settings)
    for key in settings.access.open_keys:
        log.warning("%s is open: everybody who finds the bot may talk to the agent", key)
    if settings.redis.url:
        asyncio.run(check_redis_answers(settings.redis.url, masked_url(settings.redis.url)))
    return up_options(settings)


def up_options(settings: Settings) -> UpOptions:
    """Return what the supervisor needs of the settings. An admin role that has to bring the database up to date, since
    no agent runs here, does not wait for a request."""
    return UpOptions(
        channels=tuple(settings.channels.enabled_names),
        agent_processes=settings.agent.processes,
        data_dir=str(settings.data_dir),
        has_own_bus=not settings.redis.url,
        redis_memory_mb=settings.redis.memory_mb,
        http_host=settings.http.host,
        http_port=settings.http.port,
        hosts=tuple(sorted(own_hosts(settings))),
        admin_on_demand=settings.http.admin_on_demand and settings.agent.processes > 0,
        log_level=settings.log.level.value,
        log_as_json=settings.log.as_json,
    )
