"""The agent role: composition root of the process that answers messages."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from functools import partial

import uvloop

from agent.assembly import access_service, announcing, assembled, control_lane, suggesting
from agent.concurrency import run_aside
from agent.features.access import showing_access
from agent.model_clients import ModelClients, model_clients
from agent.runtime.relay import FileServer, Relay
from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import embedded_url
from gateway.clock import SystemClock
from gateway.config import Settings, database_url, load
from gateway.config.features import keys_in_files
from gateway.contracts.ports import Clock, SpanSink
from gateway.process import guard_streams, run_to_exit
from gateway.scrub import Scrubber
from gateway.scrub.vault import scrubber_of, vault_keys
from gateway.store import open_store
from gateway.telemetry.logs import configure_logs
from gateway.telemetry.spans import open_spans


def main() -> None:
    """Run `python -m agent`; it ends with one sentence and the code that the supervisor understands."""
    run_to_exit(_program)


def _program() -> None:
    loaded = load()
    keys = (*vault_keys(loaded.settings), *keys_in_files(loaded.settings.models))
    scrubber = scrubber_of(loaded, *keys)
    configure_logs(scrubber, level=loaded.settings.log.level.value, as_json=loaded.settings.log.as_json)
    guard_streams()
    with open_spans(loaded.settings.telemetry, role="agent") as spans:
        uvloop.run(_serve(loaded.settings, scrubber, model_clients(loaded.settings), spans))


async def _serve(settings: Settings, scrubber: Scrubber, clients: ModelClients, spans: SpanSink) -> None:
    """Work until SIGTERM or SIGINT."""
    clock = SystemClock()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(clients.provider.close)
        store = open_store(database_url(settings), clock)
        stack.push_async_callback(store.close)
        await store.check_schema()
        bus = await _open_bus(settings, await store.installation())
        stack.push_async_callback(bus.close)
        keeper = access_service(settings, bus=bus, store=store, scrubber=scrubber, clock=clock)
        await keeper.project()
        worker_id = bus.names.named(f"{socket.gethostname()}:{os.getpid()}:{clock.code(6)}")
        worker = await stack.enter_async_context(
            assembled(
                worker_id,
                settings,
                bus=bus,
                store=store,
                clients=clients,
                scrubber=scrubber,
                clock=clock,
                spans=spans,
            )
        )
        async with asyncio.TaskGroup() as group:
            beside = [
                group.create_task(
                    Relay(worker_id, bus.deliveries, store, clock, spans, clients.health.tally).relay_receipts()
                ),
                group.create_task(FileServer(bus.files, store).serve()),
                group.create_task(showing_access(keeper, bus.keep_named)),
                group.create_task(announcing(settings, bus=bus, store=store, scrubber=scrubber, clock=clock).watch()),
                group.create_task(run_aside(partial(_serve_control, worker_id, settings, scrubber, clock))),
            ]
            await worker.serve(stopping)
            for task in beside:
                task.cancel()


async def _serve_control(worker_id: str, settings: Settings, scrubber: Scrubber, clock: Clock) -> None:
    """Serve the control lane and suggestions, with connections of their own: a busy or stuck event loop of the worker
    must not hold them up."""
    async with contextlib.AsyncExitStack() as stack:
        store = open_store(database_url(settings), clock)
        stack.push_async_callback(store.close)
        bus = await _open_bus(settings, await store.installation())
        stack.push_async_callback(bus.close)
        async with asyncio.TaskGroup() as group:
            group.create_task(suggesting(settings, bus=bus, store=store, scrubber=scrubber, clock=clock).serve())
            lane = control_lane(worker_id, settings, bus=bus, store=store, scrubber=scrubber, clock=clock)
            group.create_task(lane.serve())


async def _open_bus(settings: Settings, installation: str) -> RedisBus:
    return await open_bus(
        settings.redis.url or embedded_url(settings.data_dir),
        installation=installation,
        user_turns_max=settings.queue.user_turns_max,
        turns_max=settings.queue.turns_max,
        wait_replicas=settings.redis.wait_replicas,
    )


if __name__ == "__main__":
    main()
