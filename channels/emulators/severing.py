"""Cutting a connection as a network fault would: no status line, no close frame, not one byte.

ASGI has no word for it, so the server of `channels.emulators.serving` puts it into the scope of every request
and websocket, as the extension `emulators.sever`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, cast

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


def _cannot_cut() -> None:
    raise RuntimeError("Cutting a connection needs the server of channels.emulators.serving.")
