"""Work that must not wait for the event loop: on a thread, with an event loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

import uvloop

_Place = tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]


async def run_aside(serve: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `serve()` beside this event loop, however busy it is. Cancelling this cancels it there and waits for
    its end; what it raises, this raises. Nothing that belongs to this loop may be used in it."""
    place: Future[_Place] = Future()
    thread = asyncio.create_task(asyncio.to_thread(_in_a_loop, serve, place))
    try:
        await asyncio.shield(thread)
    except asyncio.CancelledError:
        loop, serving = await asyncio.wrap_future(place)
        with contextlib.suppress(RuntimeError):  # the loop has ended by itself
            loop.call_soon_threadsafe(serving.cancel)
        await asyncio.wait({thread})
        raise


def _in_a_loop(serve: Callable[[], Coroutine[Any, Any, None]], place: Future[_Place]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        loop = runner.get_loop()
        serving = loop.create_task(serve())
        place.set_result((loop, serving))
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(serving)
