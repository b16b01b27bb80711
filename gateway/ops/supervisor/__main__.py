"""The composition root of `trivet up`: settings, embedded Valkey, the plan, signals, the ready line."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any, Final

import structlog

from gateway.bus.embedded import EmbeddedValkey
from gateway.clock import SystemClock
from gateway.config import Loaded, Settings, admin_token, load, process_environment, table_of
from gateway.contracts.errors import ConfigError
from gateway.ops.supervisor.plan import plan
from gateway.ops.supervisor.watch import ProcessSupervisor, keep_server
from gateway.preflight import at, check_port_free, check_redis_answers, http_get
from gateway.process import guard_streams, run_to_exit
from gateway.scrub.vault import scrubber_of
from gateway.telemetry.logs import configure_logs
from gateway.telemetry.spans import check_exporter

_READY_POLL_S: Final = 0.1
_PATIENCE_S: Final = 30.0  # after this long without being ready, the operator is told why

log = structlog.get_logger("trivet.up")


def main() -> None:
    """Run everything until SIGTERM or SIGINT, or until a role cannot start as it is configured."""
    loaded = load()
    log_settings = loaded.settings.log
    configure_logs(scrubber_of(loaded), level=log_settings.level.value, as_json=log_settings.as_json)
    guard_streams()
    sys.exit(asyncio.run(_up(loaded)))


async def _up(loaded: Loaded) -> int:
    settings = loaded.settings
    _check(settings)
    async with _bus_address(settings) as redis_url:
        given = {"TRIVET_REDIS__URL": redis_url}
        if loaded.path:
            given["TRIVET_CONFIG"] = str(loaded.path.absolute())
        watch = ProcessSupervisor(
            plan(settings, process_environment(), given), clock=SystemClock(), chance=random.random, say=_say
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, watch.stop)
        announcing = asyncio.create_task(_announce(settings))
        try:
            return await watch.supervise()
        finally:
            announcing.cancel()


def _check(settings: Settings) -> None:
    """Check everything that an operator has to hear of before a process starts."""
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


@contextlib.asynccontextmanager
async def _bus_address(settings: Settings) -> AsyncIterator[str]:
    """Yield the bus's URL; the embedded server lives as long as the context, and is kept alive in it."""
    if settings.redis.url:
        await check_redis_answers(settings.redis.url)
        yield settings.redis.url
        return
    server = EmbeddedValkey(settings.data_dir, memory_mb=settings.redis.memory_mb)
    url = await server.start()
    keeper = asyncio.create_task(keep_server(server, clock=SystemClock(), chance=random.random, say=_say))
    try:
        yield url
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
        await server.stop()


async def _announce(settings: Settings) -> None:
    """Announce in one line that everything is connected; or give the reasons in one line if that takes suspiciously
    long."""
    clock = SystemClock()
    base = f"http://{at(settings.http.host, settings.http.port)}"
    late_s = clock.monotonic_s() + _PATIENCE_S
    while True:
        answer = await http_get(settings.http.host, settings.http.port, "/readyz")
        if answer is not None and answer.status == 200:
            sys.stdout.write(f"Trivet is ready: {base} (API at {base}/api/docs, metrics at {base}/metrics)\n")
            sys.stdout.flush()
            return
        if clock.monotonic_s() > late_s:
            _say("not ready yet", reasons=answer.body.get("reasons") if answer else "the admin role does not answer")
            late_s = float("inf")
        await asyncio.sleep(_READY_POLL_S)


def _say(event: str, **facts: Any) -> None:
    log.info(event, **facts)


if __name__ == "__main__":
    run_to_exit(main)
