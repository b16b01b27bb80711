"""The composition root of the admin role: settings, bus, store, scrubber, HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Coroutine, Sequence
from importlib.metadata import version

from fastapi import FastAPI

from gateway.access import AccessService
from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import embedded_url
from gateway.clock import SystemClock
from gateway.config import Loaded, Settings, admin_token, database_url, load, own_hosts
from gateway.contracts.errors import StoreError
from gateway.contracts.ids import WORKSPACES
from gateway.http_guard import http_served
from gateway.ops.admin.app import Parts, create_app
from gateway.ops.admin.sessions import note_queue, take_replies
from gateway.preflight import listen
from gateway.process import guard_streams, run_to_exit
from gateway.scrub.vault import scrubber_of
from gateway.store import Store, open_store
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
    with listen(settings.http.host, settings.http.port, "http.port") as listener:
        async with _store(settings, clock) as store, _bus(settings, store) as bus:
            keeper = AccessService(
                store.access, bus.access, bus.deliveries, settings.access.policy, scrubber.scrub, clock
            )
            parts = Parts(
                store=store,
                figures=bus.operator,
                lanes=bus.lanes,
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
                hosts=own_hosts(settings),
            )
            taking = take_replies(bus.deliveries, consumer=bus.names.named(clock.new_id()), clock=clock)
            noting = note_queue(bus.operator)
            await _until_stopped(create_app(parts, token), listener, stopping, beside=(taking, noting))


async def _until_stopped(
    app: FastAPI, listener: socket.socket, stopping: asyncio.Event, *, beside: Sequence[Coroutine[None, None, None]]
) -> None:
    """Serve until SIGTERM or SIGINT, which set `stopping`: streams never end by themselves, so `stopping` ends them.
    The tasks `beside` run along; if one fails, the role does."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(each) for each in beside]
        async with http_served(app, listener, grace_s=_GRACE_S):
            await stopping.wait()
        for task in running:
            task.cancel()


@contextlib.asynccontextmanager
async def _bus(settings: Settings, store: Store) -> AsyncIterator[RedisBus]:
    """Open the database's own bus. While no database answers, which `/readyz` tells, any bus that names an installation
    is taken."""
    installation: str | None = None
    with contextlib.suppress(StoreError):
        installation = await store.installation()
    bus = await open_bus(settings.redis.url or embedded_url(settings.data_dir), installation=installation)
    try:
        yield bus
    finally:
        await bus.close()


@contextlib.asynccontextmanager
async def _store(settings: Settings, clock: SystemClock) -> AsyncIterator[Store]:
    store = open_store(database_url(settings), clock)
    try:
        yield store
    finally:
        await store.close()


if __name__ == "__main__":
    run_to_exit(main)
