"""The agent role: what a process that answers messages consists of, from its bus to its worker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from functools import partial

from agent.assembly import access_service, announcing, assembled, control_lane, suggesting
from agent.concurrency import run_aside
from agent.features.access import showing_access
from agent.model_clients import model_clients
from agent.runtime.relay import FileServer, Relay
from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import embedded_url
from gateway.bus.operator import Operator
from gateway.clock import SystemClock
from gateway.config import Settings, database_url
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ports import Clock
from gateway.limits import BUS_WAIT_S, QUEUE_NOTED_EVERY_S
from gateway.process import end_loading, report_ready
from gateway.retry import RetryPolicy, retry_until_available
from gateway.scrub import Scrubber
from gateway.store import open_store
from gateway.telemetry.spans import open_spans


async def serve(settings: Settings, scrubber: Scrubber, stopping: asyncio.Event) -> None:
    """Answer messages until `stopping`."""
    clock = SystemClock()
    async with contextlib.AsyncExitStack() as stack:
        spans = stack.enter_context(open_spans(settings.telemetry, role="agent"))
        clients = model_clients(settings)
        stack.push_async_callback(clients.provider.close)
        store = open_store(database_url(settings), clock)
        stack.push_async_callback(store.close)
        await store.check_schema()
        installation = await store.installation()
        bus = await retry_until_available(lambda: _open_bus(settings, installation), RetryPolicy(for_s=BUS_WAIT_S))
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
                group.create_task(note_queue(bus.operator)),
                group.create_task(run_aside(partial(_serve_control, worker_id, settings, scrubber, clock))),
            ]
            end_loading()
            report_ready()
            await worker.serve(stopping)
            for task in beside:
                task.cancel()


async def note_queue(bus: Operator) -> None:
    """Record the length of the queue again and again for the operator's plots, until cancelled. While the bus is away,
    moments are missing."""
    while True:
        with contextlib.suppress(BusUnavailable):
            await bus.note_queue(await bus.figures())
        await asyncio.sleep(QUEUE_NOTED_EVERY_S)


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
