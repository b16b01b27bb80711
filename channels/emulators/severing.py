"""Cutting a connection as a network fault would: no status line, no close frame, not one byte; or half of that.

ASGI has no word for it, so the server of `channels.emulators.serving` puts it into the scope of every request
and websocket, as the extension `emulators.sever`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, cast

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

Cut: TypeAlias = Callable[[], None]

_EXTENSION: Final = "emulators.sever"


def offer_cut(scope: Scope, cut: Cut) -> None:
    """The server's side: what `cut_of` finds in this scope."""
    scope.setdefault("extensions", {})[_EXTENSION] = cut


def cut_of(scope: Scope) -> Cut:
    """What resets the connection of this request or websocket. It raises under a server that cannot."""
    return cast("Cut", scope.get("extensions", {}).get(_EXTENSION, _cannot_cut))


class NoAnswer(Response):
    """Given instead of an answer: the client sees a reset, and cannot know whether anything was done."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        cut_of(scope)()
        while (await receive())["type"] != "http.disconnect":
            pass


class HushedTransport:
    """A connection on a link that may be half dead: both ends believe in it, and nothing arrives.

    Once it has lost a byte it loses all that follow, as a connection does whose router forgot it.
    """

    def __init__(self, transport: asyncio.Transport, is_half_dead: Callable[[], bool]) -> None:
        self._transport = transport
        self._is_half_dead = is_half_dead
        self._has_lost = False

    def loses_bytes(self) -> bool:
        """Asked once for whatever comes or goes."""
        self._has_lost = self._has_lost or self._is_half_dead()
        return self._has_lost

    def write(self, data: bytes) -> None:
        if not self.loses_bytes():
            self._transport.write(data)

    def writelines(self, parts: Iterable[bytes]) -> None:
        self.write(b"".join(parts))

    def close(self) -> None:
        """Nor does the other side hear that this one has hung up."""
        if not self.loses_bytes():
            self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _cannot_cut() -> None:
    raise RuntimeError("Cutting a connection needs the server of channels.emulators.serving.")
