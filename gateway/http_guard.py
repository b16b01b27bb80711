"""Guards our HTTP ports, the operator's and the one that platforms call, against people who only mean to use them up.

    connection ─▶ GuardedProtocol ─▶ Guard ─▶ application
                  so many at once    whose name, who asks; the body only when the
                  and deadlines      application wants it, bounded in size and time

A caller who may not ask is told so before a byte of the body is read; no caller is waited for without a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Final, cast

import h11
import uvicorn
from starlette import status
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from gateway.limits import (
    HTTP_BACKLOG,
    HTTP_BODIES_BYTES_MAX,
    HTTP_BODY_S,
    HTTP_CONNECTIONS_MAX,
    HTTP_HEAD_BYTES_MAX,
    HTTP_HEAD_S,
    HTTP_KEEP_ALIVE_S,
    HTTP_UNREAD_BYTES_MAX,
    HTTP_UNREAD_S,
    HTTP_WRITE_S,
)
from gateway.preflight import is_our_name


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """The resources that the callers of one port may take, together and each."""

    connections_max: int = HTTP_CONNECTIONS_MAX
    head_s: float = HTTP_HEAD_S
    body_s: float = HTTP_BODY_S
    unread_s: float = HTTP_UNREAD_S
    write_s: float = HTTP_WRITE_S
    bodies_bytes_max: int = HTTP_BODIES_BYTES_MAX


HTTP_LIMITS: Final = HttpLimits()


def told_plainly(refusal: HTTPException) -> JSONResponse:
    """Answer with the reason as `detail`."""
    return JSONResponse({"detail": refusal.detail}, refusal.status_code, refusal.headers)


def admit_all(_request: Request) -> None:
    """Refuse nobody by the head of a request: the application does."""


@dataclass(eq=False, repr=False)
class Guard:
    """ASGI middleware: refuses foreign names and whom `check` refuses, and hands on bodies of up to `body_bytes_max`.

    `check` sees the head of a request and raises `HTTPException`, which `told` turns into an answer. `hosts` are our
    names besides localhost; an address needs none, since a page that has its own name lead to us (DNS rebinding) sends
    that name."""

    app: ASGIApp
    _: KW_ONLY
    hosts: Collection[str]
    body_bytes_max: int
    check: Callable[[Request], None] = admit_all
    told: Callable[[HTTPException], Response] = told_plainly
    limits: HttpLimits = HTTP_LIMITS

    def __post_init__(self) -> None:
        self._bodies = _Bodies(self.limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        try:
            if not is_our_name(request.headers.get("host", ""), self.hosts):
                raise HTTPException(
                    status.HTTP_421_MISDIRECTED_REQUEST, "this name is not ours: add it to http.hosts if it is"
                )
            self.check(request)
            with self._bodies.opened(receive, self._bytes_max(request)) as body:
                await self.app(scope, body.receive, send)
        except HTTPException as refusal:
            await self.told(refusal)(scope, receive, send)
        except ClientDisconnect:
            return

    def _bytes_max(self, request: Request) -> int:
        """Return how many bytes the body may have. Raises `HTTPException` for a body that says it is too long."""
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > self.body_bytes_max:
            raise _too_long(self.body_bytes_max)
        return self.body_bytes_max


class _Body:
    """The body of one request, as far as it came. Nothing is asked for before the application wants it."""

    def __init__(self, bodies: _Bodies, receive: Receive, bytes_max: int) -> None:
        self._bodies = bodies
        self._receive = receive
        self._bytes_max = bytes_max
        self._is_begun = False
        self.chunks: list[bytes] = []
        self.size = 0
        self.is_dropped = False

    async def receive(self) -> Message:
        """Return the whole body at once, then the server's further messages. Raises `HTTPException`."""
        if self._is_begun:
            return await self._receive()
        self._is_begun = True
        try:
            async with asyncio.timeout(self._bodies.within_s):
                while True:
                    message = await self._receive()
                    if message["type"] != "http.request":
                        return message
                    self._bodies.add(self, message.get("body", b""))
                    if self.is_dropped:
                        raise HTTPException(
                            status.HTTP_503_SERVICE_UNAVAILABLE, "too much comes in at once", {"Retry-After": "1"}
                        )
                    if self.size > self._bytes_max:
                        raise _too_long(self._bytes_max)
                    if not message.get("more_body", False):
                        return {"type": "http.request", "body": b"".join(self.chunks), "more_body": False}
        except TimeoutError:
            raise HTTPException(status.HTTP_408_REQUEST_TIMEOUT, "the body takes too long") from None
        finally:
            self._bodies.end(self)


class _Bodies:
    """All bodies that are held at a time. When they are too much, the largest that is not whole yet is dropped: what
    platforms and operators send is small and comes at once."""

    def __init__(self, limits: HttpLimits) -> None:
        self.within_s = limits.body_s
        self._bytes_max = limits.bodies_bytes_max
        self._held = 0
        self._unfinished: set[_Body] = set()

    @contextlib.contextmanager
    def opened(self, receive: Receive, bytes_max: int) -> Iterator[_Body]:
        """Yield the body of a request; it counts until the request is answered."""
        body = _Body(self, receive, bytes_max)
        try:
            yield body
        finally:
            self._held -= body.size

    def add(self, body: _Body, chunk: bytes) -> None:
        """Count what came, and make room for it."""
        self._unfinished.add(body)
        body.chunks.append(chunk)
        body.size += len(chunk)
        self._held += len(chunk)
        while self._held > self._bytes_max and self._unfinished:
            self._drop(max(self._unfinished, key=lambda each: each.size))

    def end(self, body: _Body) -> None:
        """End a body: nothing more comes of it or is wanted, and the application has the rest."""
        self._unfinished.discard(body)
        body.chunks = []

    def _drop(self, body: _Body) -> None:
        """Drop a body: its caller is told when the next piece comes, or nothing comes in time."""
        self._held -= body.size
        body.size, body.is_dropped = 0, True
        self.end(body)


class GuardedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1, with a deadline for whatever a caller is waited for, and never more than so many callers.

    Who comes when all places are taken gets that of whoever has been waited for longest: strangers who hold
    connections for nothing make room for each other, while a genuine caller sends a request at once."""

    def __init__(self, limits: HttpLimits, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._connections_max = limits.connections_max
        self._deadlines_s = {"head": limits.head_s, "unread": limits.unread_s, "write": limits.write_s}
        self._waits_for = ""
        self._deadline: asyncio.TimerHandle | None = None
        self._waits_since_s = 0.0
        self._unread_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._waits_since_s = self.loop.time()
        self._look()
        if len(self.connections) > self._connections_max:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_for("")
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()
        if self._waits_for == "unread":
            self._unread_bytes += len(data)
            if self._unread_bytes > HTTP_UNREAD_BYTES_MAX:
                self.flow.pause_reading()

    def on_response_complete(self) -> None:
        self._waits_since_s = self.loop.time()
        self._unread_bytes = 0
        self.cycle.body = bytearray()  # what nobody wanted to read
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._look()

    def _look(self) -> None:
        """Set the deadline of what the caller is waited for now. Between requests uvicorn has one of its own."""
        if self.flow.write_paused:
            self._wait_for("write")
        elif self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete:
            self._wait_for("unread")
        elif self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None:
            self._wait_for("head")
        else:
            self._wait_for("")

    def _wait_for(self, what: str) -> None:
        if what == self._waits_for:
            return  # every further byte would put the deadline off
        self._waits_for = what
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(self._deadlines_s[what], self.transport.abort) if what else None

    def _make_room(self) -> None:
        callers = cast("set[GuardedProtocol]", self.connections)
        longest = min((each for each in callers if not each._is_answered), key=lambda each: each._waits_since_s)
        callers.discard(longest)
        longest.transport.abort()

    @property
    def _is_answered(self) -> bool:
        """Tell whether the caller is waiting for our answer."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # there is none before the first request
        return cycle is not None and not cycle.more_body and not cycle.response_complete


class HttpService:
    """A port that is being served."""

    def __init__(self, server: uvicorn.Server) -> None:
        self._server = server

    @property
    def has_callers(self) -> bool:
        """Tell whether anybody is connected, also between two requests."""
        return bool(self._server.server_state.connections)

    def stop_listening(self) -> None:
        """Accept nobody any more; who is connected is served on. Other processes may hold the listener, and go on."""
        for server in self._server.servers:
            server.close()


@contextlib.asynccontextmanager
async def http_served(
    app: ASGIApp,
    listener: socket.socket,
    *,
    grace_s: int,
    limits: HttpLimits = HTTP_LIMITS,
    connections: Iterable[socket.socket] = (),
) -> AsyncIterator[HttpService]:
    """Serve inside the context, also `connections` that were accepted before; what is being answered when it ends has
    `grace_s` left. The signals of the process stay with its owner, as uvicorn takes them in `serve` only."""
    config = uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", partial(GuardedProtocol, limits)),
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # else each request that is no HTTP is a line, and anybody can send one
        access_log=False,
        server_header=False,
        backlog=HTTP_BACKLOG,
        timeout_keep_alive=HTTP_KEEP_ALIVE_S,
        timeout_graceful_shutdown=grace_s,
        h11_max_incomplete_event_size=HTTP_HEAD_BYTES_MAX,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])
    protocol = partial(
        GuardedProtocol, limits, config=config, server_state=server.server_state, app_state=server.lifespan.state
    )
    for connection in connections:
        with contextlib.suppress(OSError):  # who waited may have hung up
            await asyncio.get_running_loop().connect_accepted_socket(protocol, connection)
    ticking = asyncio.create_task(server.main_loop())
    try:
        yield HttpService(server)
    finally:
        server.should_exit = True
        await ticking
        await server.shutdown(sockets=[listener])


def _too_long(bytes_max: int) -> HTTPException:
    return HTTPException(status.HTTP_413_CONTENT_TOO_LARGE, f"the body has more than {bytes_max} bytes")
