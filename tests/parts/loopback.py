"""An ASGI app on a free loopback port, and waiting for what happens on the other side of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

import uvicorn
from starlette.types import ASGIApp

PATIENCE_S: Final = 20.0


async def until(is_true: Callable[[], object]) -> None:
    """Wait for a condition; TimeoutError when it does not come."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_true():  # noqa: ASYNC110 - it happens in code that has no event for us
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[str]:
    """The app on a free port; gives `host:port`."""
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="error", lifespan="off", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    socket = config.bind_socket()
    task = asyncio.create_task(server.serve([socket]))
    try:
        await until(lambda: server.started)
        host, port = socket.getsockname()[:2]
        yield f"{host}:{port}"
    finally:
        server.should_exit = True
        await task
