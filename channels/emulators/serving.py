"""Serves emulators and the playground on loopback, inside a running event loop.

    async with serve({"telegram": TelegramEmulator(token=...)}, playground=True) as served:
        served.url_of("telegram")    # http://127.0.0.1:<port>, where that vendor's API now lives
        served.url_of("playground")

Each emulator gets a server and port of its own, so that its paths are exactly the vendor's. Anything that has
an ASGI `app` and the methods of `Stage` can be served."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, cast

import uvicorn
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from channels.emulators.playground.site import NOTHING, Installation, Playground
from channels.emulators.stage import Stage

# --- cutting a connection as a network fault would: no status line, no close frame, not one byte; or half of that
#
# ASGI has no word for it, so the server puts it into the scope of every request and websocket, as the extension
# `emulators.sever`.


Cut: TypeAlias = Callable[[], None]

_EXTENSION: Final = "emulators.sever"


def offer_cut(scope: Scope, cut: Cut) -> None:
    """Put into a scope what `cut_of` finds there, on the server's side."""
    scope.setdefault("extensions", {})[_EXTENSION] = cut


def cut_of(scope: Scope) -> Cut:
    """Return what resets the connection of this request or websocket. It raises under a server that cannot."""
    return cast("Cut", scope.get("extensions", {}).get(_EXTENSION, _cannot_cut))


class NoAnswer(Response):
    """Given instead of an answer: the client sees a reset, and cannot know whether anything was done."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        cut_of(scope)()
        while (await receive())["type"] != "http.disconnect":
            pass


class LossyTransport:
    """A connection on a link that may be half dead: both ends believe in it, and nothing arrives.

    Once it has lost a byte it loses all that follow, as a connection does whose router forgot it."""

    def __init__(self, transport: asyncio.Transport, is_half_dead: Callable[[], bool]) -> None:
        self._transport = transport
        self._is_half_dead = is_half_dead
        self._has_lost = False

    def loses_bytes(self) -> bool:
        """Tell whether bytes are lost; asked once for whatever comes or goes."""
        self._has_lost = self._has_lost or self._is_half_dead()
        return self._has_lost

    def write(self, data: bytes) -> None:
        if not self.loses_bytes():
            self._transport.write(data)

    def writelines(self, parts: Iterable[bytes]) -> None:
        self.write(b"".join(parts))

    def close(self) -> None:
        """Close, unless bytes are lost: then the other side does not hear of it."""
        if not self.loses_bytes():
            self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _cannot_cut() -> None:
    raise RuntimeError("Cutting a connection needs the server of channels.emulators.serving.")


# --- servers


LOOPBACK: Final = "127.0.0.1"
PLAYGROUND: Final = "playground"
SHUTDOWN_GRACE_S: Final = 1  # open long polls are ended first; what is left after this is cut


def _alive() -> bool:
    return False


class Emulator(Stage, Protocol):
    """A stage whose vendor API can be served."""

    @property
    def app(self) -> ASGIApp: ...


@dataclass(frozen=True, slots=True)
class Served:
    """The things that are served, by name, and their addresses."""

    stages: Mapping[str, Emulator]
    ports: Mapping[str, int]

    def url_of(self, name: str) -> str:
        """Return the root URL of an emulator or of `playground`, without a trailing slash."""
        return f"http://{LOOPBACK}:{self.ports[name]}"


@contextlib.asynccontextmanager
async def serve(
    stages: Mapping[str, Emulator],
    *,
    playground: bool = False,
    playground_port: int = 0,
    installation: Installation = NOTHING,
) -> AsyncIterator[Served]:
    """Serve until the block ends; then every connection is closed and every port is free again.

    `installation` is the Trivet that answers. Raises `OSError` when `playground_port` is taken; port 0 takes any free
    one."""
    site = Playground(stages, installation)
    apps: dict[str, ASGIApp] = {name: stage.app for name, stage in stages.items()}
    if playground:
        apps[PLAYGROUND] = site.app
    async with contextlib.AsyncExitStack() as stack:
        ports = {}
        for name, app in apps.items():
            port = playground_port if name == PLAYGROUND else 0
            is_half_dead = _half_dead(stages[name]) if name in stages else _alive
            ports[name] = await stack.enter_async_context(listening(app, port, is_half_dead=is_half_dead))
        try:
            yield Served(stages, ports)
        finally:
            site.closing.set()
            for stage in stages.values():
                await stage.cut_connections()


@contextlib.asynccontextmanager
async def listening(app: ASGIApp, port: int = 0, *, is_half_dead: Callable[[], bool] = _alive) -> AsyncIterator[int]:
    """Serve one application on loopback; the port it got. While `is_half_dead`, bytes vanish on their way."""
    # With its protocol named: only then does asyncio switch off Nagle's algorithm, which holds back the second part
    # of an answer for 40 ms.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        server = _EmbeddedServer(_config(app, is_half_dead))
        running = asyncio.create_task(server.serve(sockets=[listener]))
        ready = asyncio.create_task(server.is_ready.wait())
        try:
            await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                await running
            yield listener.getsockname()[1]
        finally:
            ready.cancel()
            for guest in server.server_state.connections:
                if _line(guest).loses_bytes():  # it would not hear that we close
                    guest.transport.abort()
            server.is_stopping.set()
            await running


def _half_dead(stage: Stage) -> Callable[[], bool]:
    return lambda: stage.faults.half_dead


class _Config(uvicorn.Config):
    """uvicorn's, with what the protocols ask before each byte."""

    is_half_dead: Callable[[], bool] = staticmethod(_alive)


def _config(app: ASGIApp, is_half_dead: Callable[[], bool]) -> _Config:
    config = _Config(
        app,
        http=_Http,
        ws=_Websocket,
        loop="none",
        lifespan="on",
        log_config=None,
        log_level="critical",
        access_log=False,
        timeout_graceful_shutdown=SHUTDOWN_GRACE_S,
    )
    config.is_half_dead = is_half_dead
    return config


class _EmbeddedServer(uvicorn.Server):
    """A server in somebody else's event loop: the signals of the process are not its business."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_ready = asyncio.Event()
        self.is_stopping = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_ready.set()

    async def main_loop(self) -> None:
        await self.is_stopping.wait()


class _Http(H11Protocol):
    """uvicorn's HTTP, with a way to cut the connection, and one to let it lose what goes over it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.app = _with_cut(self.app, lambda: self.transport.abort())

    def connection_made(self, transport: Any) -> None:
        is_half_dead = cast("_Config", self.config).is_half_dead
        super().connection_made(cast("asyncio.Transport", LossyTransport(transport, is_half_dead)))

    def data_received(self, data: bytes) -> None:
        if not _line(self).loses_bytes():
            super().data_received(data)


class _Websocket(WebSocketsSansIOProtocol):
    """uvicorn's websockets, likewise; they take the connection over with its transport."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.app = _with_cut(self.app, lambda: self.transport.abort())

    def data_received(self, data: bytes) -> None:
        if not _line(self).loses_bytes():
            super().data_received(data)

    def shutdown(self) -> None:
        if self.conn.state.name == "CLOSING":  # by the client, at this moment: uvicorn would raise
            self.transport.close()
        else:
            super().shutdown()


def _line(protocol: Any) -> LossyTransport:
    """Return the transport of a protocol of ours."""
    return cast("LossyTransport", protocol.transport)


def _with_cut(app: Any, cut: Cut) -> Any:
    async def severable(scope: Scope, receive: Receive, send: Send) -> None:
        offer_cut(scope, cut)
        await app(scope, receive, send)

    return severable
