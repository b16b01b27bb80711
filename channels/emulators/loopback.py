"""What every emulated wire needs below its vendor's protocol: raw JSON, an audience, a way to cut the line."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, TypeAlias

from starlette.types import ASGIApp, Receive, Scope, Send

from channels.emulators.stage import StageEvent

Json: TypeAlias = dict[str, Any]
"""One JSON object as a vendor's wire carries it. It stays at the edge: inside, there are dataclasses."""

EVENTS_PER_LISTENER_MAX: Final = 10_000  # a page nobody reads any more must not fill the memory
RECORDED_MAX: Final = 10_000  # how much of what came and went is kept for tests to look at
_SEVER: Final = "emulator.sever"


class Audience:
    """Tells every listener of a stage what happened, each at its own speed."""

    def __init__(self) -> None:
        self._listeners: weakref.WeakSet[_Listener] = weakref.WeakSet()

    def tell(self, event: StageEvent) -> None:
        """Hand the event to everybody who listens now. A listener that fell far behind loses the oldest."""
        for listener in self._listeners:
            listener.hear(event)

    def listen(self) -> AsyncIterator[StageEvent]:
        """Every event from this call on, not from the first time it is awaited."""
        listener = _Listener()
        self._listeners.add(listener)
        return listener


class _Listener:
    def __init__(self) -> None:
        self._heard: asyncio.Queue[StageEvent] = asyncio.Queue(EVENTS_PER_LISTENER_MAX)

    def hear(self, event: StageEvent) -> None:
        if self._heard.full():
            self._heard.get_nowait()
        self._heard.put_nowait(event)

    def __aiter__(self) -> _Listener:
        return self

    async def __anext__(self) -> StageEvent:
        return await self._heard.get()


class Severable:
    """ASGI middleware, outermost: lets an endpoint end its connection as a network fault would.

    ASGI has no message for that, so it reaches for the transport that uvicorn's protocols keep. On another
    server, or mounted in another app, everything works but the cutting, which raises.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[_SEVER] = getattr(getattr(send, "__self__", None), "transport", None)
        with contextlib.suppress(Severed):
            await self._app(scope, receive, send)


class Severed(BaseException):
    """The connection of this request was cut on purpose; there is nobody left to answer."""


def line_of(scope: Scope) -> Callable[[], None]:
    """The one action on the connection of `scope` that needs no client: ending it without a word."""
    transport = scope.get(_SEVER)

    def abort() -> None:
        if transport is None:
            raise RuntimeError("Cutting a connection needs uvicorn with nothing around the emulator's app.")
        transport.abort()

    return abort


async def sever(scope: Scope, receive: Receive) -> None:
    """Cut an HTTP request's connection: no status line, no body. Does not return."""
    line_of(scope)()
    while (await receive())["type"] != "http.disconnect":
        pass
    raise Severed
