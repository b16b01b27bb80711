"""The composition root of the admin role: settings, bus, store, scrubber, HTTP.

    python -m gateway.ops.admin [--migrate] [--inherited=DESCRIPTOR …]

On demand it is given the operator's port, and ends when nobody has asked for ADMIN_IDLE_S."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.access import AccessService
from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import embedded_url
from gateway.clock import SystemClock
from gateway.config import Loaded, Settings, admin_token, client_key, database_url, load, own_hosts, process_environment
from gateway.config.catalog import catalog
from gateway.config.show import rows
from gateway.contracts.errors import StoreError
from gateway.contracts.ids import WORKSPACES
from gateway.http_guard import HttpService, http_served
from gateway.limits import ADMIN_IDLE_S, BUS_WAIT_S
from gateway.ops.admin.app import Parts, create_app
from gateway.ops.admin.health import SettingView
from gateway.ops.admin.sessions import take_replies
from gateway.preflight import listen, said_by_agent
from gateway.process import INHERITED, MIGRATE, end_loading, guard_streams, report_ready, run_to_exit, stop_event
from gateway.scrub import Scrubber
from gateway.scrub.vault import scrubber_of
from gateway.store import Store, open_store
from gateway.tasks import RetryPolicy, retry_until_available, wait_at_most
from gateway.telemetry.logs import configure_logs, send_lines
from gateway.upgrade import bring_up_to_date

_SKILLS: Final = ("agent.trial", "skills")
_SKILLS_WITHIN_S: Final = 20.0  # a process is started for it
_GRACE_S: Final = 2  # less than the supervisor gives
_LOOK_EVERY_S: Final = 0.2  # for the last caller to hang up


def main() -> None:
    """Serve until SIGTERM or SIGINT, on demand until nobody asks any more."""
    loaded = load()
    scrubber = scrubber_of(loaded, admin_token(loaded.settings))
    configure_logs(scrubber, level=loaded.settings.log.level.value, as_json=loaded.settings.log.as_json)
    guard_streams()
    asyncio.run(_serve_until_signalled(loaded, scrubber))


async def _serve_until_signalled(loaded: Loaded, scrubber: Scrubber) -> None:
    settings, stopping = loaded.settings, stop_event()
    if MIGRATE in sys.argv[1:]:
        await bring_up_to_date(settings)
    told = [int(word.removeprefix(INHERITED)) for word in sys.argv[1:] if word.startswith(INHERITED)]
    inherited = [socket.socket(fileno=descriptor) for descriptor in told]
    listener = inherited[0] if inherited else listen(settings.http.host, settings.http.port, "http.port")
    idle_s = ADMIN_IDLE_S if inherited else None
    await serve(loaded, scrubber, listener, stopping, connections=inherited[1:], ready=report_ready, idle_s=idle_s)


async def serve(
    loaded: Loaded,
    scrubber: Scrubber,
    listener: socket.socket,
    stopping: asyncio.Event,
    *,
    connections: Sequence[socket.socket] = (),
    ready: Callable[[], None],
    idle_s: float | None = None,
) -> None:
    """Serve the operator's port until `stopping`, or until nobody has asked for `idle_s`. `connections` were accepted
    before, and are ours as soon as `ready` is called. Closes the listener."""
    clock, settings = SystemClock(), loaded.settings
    with listener:
        async with open_store(database_url(settings), clock) as store, await _bus(settings, store) as bus:
            keeper = AccessService(
                store.access, bus.access, bus.deliveries, settings.access.policy, scrubber.scrub, clock
            )
            parts = Parts(
                store=store,
                figures=bus.operator,
                lanes=bus.lanes,
                intake=bus.intake,
                deliveries=bus.deliveries,
                keeper=keeper,
                vault=bus.vault,
                scrubber=scrubber,
                clock=clock,
                client_key=client_key(settings),
                channels=settings.channels.enabled_names,
                version=version("trivet"),
                sub_types=settings.subagents.rows(scrubber.scrub),
                workspaces=settings.data_dir / WORKSPACES,
                stopping=stopping,
                hosts=own_hosts(settings),
                settings=_settings_shown(loaded),
                skills=partial(said_by_agent, *_SKILLS, environ=process_environment(), within_s=_SKILLS_WITHIN_S),
            )
            app = ActivityWatch(create_app(parts, admin_token(settings)))
            async with asyncio.TaskGroup() as group:
                loops = [
                    group.create_task(
                        take_replies(bus.deliveries, consumer=bus.names.named(clock.new_id()), clock=clock)
                    ),
                    group.create_task(send_lines(bus.operator)),
                ]
                async with http_served(app, listener, grace_s=_GRACE_S, connections=connections) as service:
                    end_loading()
                    ready()
                    if idle_s is None:
                        await stopping.wait()
                    else:
                        await _until_idle(app, service, stopping, idle_s)
                for task in loops:
                    task.cancel()


def _settings_shown(loaded: Loaded) -> list[SettingView]:
    meanings = {setting.key: setting.description for setting in catalog().values()}
    return [
        SettingView(key=key, value=value, source=source, meaning=meanings.get(key, ""))
        for key, value, source in rows(loaded)
    ]


class ActivityWatch:
    """An ASGI application that knows for how long nobody has asked for anything. A stream of events is being asked for
    as long as it lasts."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open = 0
        self._ended_s = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._open += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._open -= 1
            self._ended_s = time.monotonic()

    @property
    def idle_s(self) -> float:
        return 0.0 if self._open else time.monotonic() - self._ended_s


async def _until_idle(app: ActivityWatch, service: HttpService, stopping: asyncio.Event, idle_s: float) -> None:
    """Wait until nobody has asked for `idle_s` and nobody is connected; then accept nobody any more, and serve who came
    in that moment. Who comes now waits at the listener for the next process."""
    while not stopping.is_set() and (app.idle_s < idle_s or service.has_callers):
        await wait_at_most(stopping, max(idle_s - app.idle_s, _LOOK_EVERY_S))
    service.stop_listening()
    while not stopping.is_set() and service.has_callers:
        await wait_at_most(stopping, _LOOK_EVERY_S)


async def _bus(settings: Settings, store: Store) -> RedisBus:
    """Open the database's own bus. While no database answers, which `/readyz` tells, any bus that names an installation
    is taken."""
    installation: str | None = None
    with contextlib.suppress(StoreError):
        installation = await store.installation()
    return await retry_until_available(
        lambda: open_bus(settings.redis.url or embedded_url(settings.data_dir), installation=installation),
        RetryPolicy(for_s=BUS_WAIT_S),
    )


if __name__ == "__main__":
    run_to_exit(main)
