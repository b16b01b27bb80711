"""The composition root of `trivet up --single`: all roles in one process, for one person's own machine.

It takes half the memory and half the time to start. The price: the secrets of all roles are in one process, and a crash
takes all of them; starting again is for systemd or for the person. Nothing is lost all the same, since every role keeps
its promises as it does alone."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
import sys
from importlib import import_module
from typing import Any, Final

import uvloop

import gateway.telemetry  # noqa: F401 - before anything else loads structlog
from gateway.bus.embedded import EmbeddedValkey
from gateway.clock import SystemClock
from gateway.config import Loaded, admin_token, load, own_hosts, process_environment
from gateway.config.secrets import secrets_in_files
from gateway.limits import ADMIN_IDLE_S
from gateway.ops.supervisor.watch import DormantPort, keep_server, wait_unless
from gateway.preflight import at, listen
from gateway.process import guard_streams, run_to_exit, stop_event
from gateway.scrub import Scrubber
from gateway.scrub.vault import scrubber_of, vault_keys
from gateway.telemetry.logs import configure_logs
from gateway.upgrade import bring_up_to_date

CHANNELS: Final = "channels.__main__"
AGENT: Final = "agent.assembly"
ADMIN: Final = "gateway.ops.admin.__main__"
"""The modules with the roles' `serve`, by name: this side imports neither channels nor agent; admin is loaded at the
first request."""

log = logging.getLogger("trivet.up")


def main() -> None:
    """Run all roles until SIGTERM or SIGINT, or until one of them ends."""
    loaded = load()
    keys = (
        admin_token(loaded.settings),
        *vault_keys(loaded.settings),
        *secrets_in_files(loaded.settings, process_environment()),
    )
    scrubber = scrubber_of(loaded, *keys)
    configure_logs(scrubber, level=loaded.settings.log.level.value, as_json=loaded.settings.log.as_json)
    guard_streams()
    uvloop.run(_up(loaded, scrubber))


async def _up(loaded: Loaded, scrubber: Scrubber) -> None:
    settings, stopping = loaded.settings, stop_event()
    async with contextlib.AsyncExitStack() as stack:
        keeping: list[asyncio.Task[None]] = []
        if not settings.redis.url:
            server = EmbeddedValkey(settings.data_dir, memory_mb=settings.redis.memory_mb)
            await server.start()
            stack.push_async_callback(server.stop)
            keeping.append(
                asyncio.create_task(keep_server(server, clock=SystemClock(), chance=random.random, say=_say))
            )
        await bring_up_to_date(settings)
        listener = listen(settings.http.host, settings.http.port, "http.port")
        port = stack.enter_context(contextlib.closing(DormantPort(listener, own_hosts(settings))))
        try:
            await _serve_all(loaded, scrubber, port, stopping)
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)


async def _serve_all(loaded: Loaded, scrubber: Scrubber, port: DormantPort, stopping: asyncio.Event) -> None:
    """Serve all roles; the first that ends or fails ends the others. They stop in the order in which `trivet up` stops
    them: intake first."""
    settings = loaded.settings
    channels, agent = import_module(CHANNELS), import_module(AGENT)
    agents_stop, admin_stop = asyncio.Event(), asyncio.Event()

    async def intake() -> None:
        try:
            names = channels.chosen(settings, ())
            await channels.serve(settings, names, scrubber, stopping)
        finally:
            agents_stop.set()

    async def work() -> None:
        try:
            await agent.serve(settings, scrubber, agents_stop)
        finally:
            stopping.set()
            admin_stop.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(intake())
        group.create_task(work())
        group.create_task(_serve_admin(loaded, scrubber, port, admin_stop))
        base = f"http://{at(settings.http.host, settings.http.port)}"
        sys.stdout.write(f"Trivet has started, all roles in one process: {base}\n")
        sys.stdout.flush()


async def _serve_admin(loaded: Loaded, scrubber: Scrubber, port: DormantPort, stopping: asyncio.Event) -> None:
    """Serve the operator's port each time somebody asks, until nobody asks any more. What has been loaded stays."""
    while not stopping.is_set():
        await wait_unless(stopping, port.until_asked())
        if stopping.is_set():
            return
        admin = await asyncio.to_thread(import_module, ADMIN)
        listener, *connections = (socket.socket(fileno=os.dup(each)) for each in port.descriptors)
        await admin.serve(
            loaded,
            scrubber,
            listener,
            stopping,
            connections=connections,
            ready=port.hand_over,
            idle_s=ADMIN_IDLE_S if loaded.settings.http.admin_on_demand else None,
        )


def _say(event: str, **facts: Any) -> None:
    log.info(event, extra=facts)


if __name__ == "__main__":
    run_to_exit(main)
