"""Cutting a TCP connection in mid-request, as a network fault would.

ASGI has no word for it, so the server of `channels.emulators.serving` offers it as the extension
`emulators.sever` in the request's scope.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from starlette.requests import Request

EXTENSION: Final = "emulators.sever"


async def sever(request: Request) -> None:
    """Cut the client's connection: it sees a reset and not one byte of an answer.

    Returns when the server has noticed, so that the handler may end without a response. Under a server
    without the extension (an in-process ASGI client) the fault is raised instead.
    """
    cut = request.scope.get("extensions", {}).get(EXTENSION)
    if cut is None:
        raise ConnectionResetError("the emulator cut this connection on purpose")
    cast("Callable[[], None]", cut)()
    while (await request.receive())["type"] != "http.disconnect":
        pass
