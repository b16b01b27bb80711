"""The composition root of the admin role: settings, bus, store, scrubber, HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Coroutine, Iterator
from importlib.metadata import version

import uvicorn
from fastapi import FastAPI

from gateway.admin.app import Parts, create_app
from gateway.admin.operator_channel import take_replies
from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import embedded_url
from gateway.clock import SystemClock
from gateway.config import Loaded, Settings, admin_token, database_url, load
from gateway.contracts.errors import StoreError
from gateway.contracts.ports import Store
from gateway.contracts.workspaces import WORKSPACES
from gateway.doorkeeper import Doorkeeper
from gateway.exits import run_to_exit
from gateway.preflight import cannot_listen
from gateway.secrecy import scrubber_of
from gateway.store import SqlStore, open_store
from gateway.telemetry.crashes import guard_streams
from gateway.telemetry.logs import configure_logs

_GRACE_S = 2  # less than the supervisor gives


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    asyncio.run(_serve(load()))


async def _serve(loaded: Loaded) -> None:
    settings = loaded.settings
    token = admin_token(settings)
    scrubber = scrubber_of(loaded, token)
    configure_logs(scrubber, level=settings.log.level.value, as_json=settings.log.as_json)
    guard_streams()
    clock, stopping = SystemClock(), asyncio.Event()
    with _listener(settings) as listener:
        async with _store(settings, clock) as store, _bus(settings, store) as bus:
            keeper = Doorkeeper(store.access, bus.access, bus.deliveries, settings.access.policy, scrubber.scrub, clock)
            parts = Parts(
                store=store,
                figures=bus.operator,
                intake=bus.intake,
                keeper=keeper,
                vault=bus.vault,
                scrubber=scrubber,
                clock=clock,
                channels=settings.channels.enabled_names,
                version=version("trivet"),
                sub_types=settings.subagents.rows(scrubber.scrub),
                workspaces=settings.data_dir / WORKSPACES,
                stopping=stopping,
            )
            taking = take_replies(bus.deliveries, consumer=bus.names.named(clock.new_id()), clock=clock)
            await _until_stopped(create_app(parts, token), listener, stopping, beside=taking)


async def _until_stopped(
    app: FastAPI, listener: socket.socket, stopping: asyncio.Event, *, beside: Coroutine[None, None, None]
) -> None:
    """Serve until SIGTERM or SIGINT, which set `stopping`. `beside` runs along; if it fails, the role does."""
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=_GRACE_S)
    server = _Server(config, stopping)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, server.leave)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(beside)
        await server.serve(sockets=[listener])
        running.cancel()


class _Server(uvicorn.Server):
    """uvicorn, but the signals are ours: it would end the process before bus and store are closed."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def leave(self) -> None:
        """Finish what is being answered, then return from `serve`. Streams would never be finished: they are told."""
        self._stopping.set()
        self.should_exit = True


@contextlib.asynccontextmanager
async def _bus(settings: Settings, store: Store) -> AsyncIterator[RedisBus]:
    """The database's own bus. While no database answers, which `/readyz` tells, any that says whose it is."""
    installation: str | None = None
    with contextlib.suppress(StoreError):
        installation = await store.installation()
    bus = await open_bus(settings.redis.url or embedded_url(settings.data_dir), installation=installation)
    try:
        yield bus
    finally:
        await bus.close()


@contextlib.asynccontextmanager
async def _store(settings: Settings, clock: SystemClock) -> AsyncIterator[SqlStore]:
    store = open_store(database_url(settings), clock)
    try:
        yield store
    finally:
        await store.close()


def _listener(settings: Settings) -> socket.socket:
    """The listening socket. Raises `ConfigError` when somebody else has the port."""
    http = settings.http
    family = socket.AF_INET6 if ":" in http.host else socket.AF_INET
    try:
        return socket.create_server((http.host, http.port), family=family)
    except OSError as error:
        raise cannot_listen(http.host, http.port, "http.port", error) from error


if __name__ == "__main__":
    run_to_exit(main)
