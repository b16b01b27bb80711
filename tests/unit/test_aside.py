"""Work on a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading

import pytest

from agent.runtime.control import run_in_own_loop
from tests.parts.waiting import PATIENCE_S


async def test_it_goes_on_while_this_event_loop_is_stuck() -> None:
    """A loop that is blocked answers nobody; what runs aside does."""
    begun, asked, answered = threading.Event(), threading.Event(), threading.Event()

    async def serve() -> None:
        begun.set()
        while not asked.is_set():  # noqa: ASYNC110 - the other thread has no event of this loop
            await asyncio.sleep(0.001)
        answered.set()

    aside = asyncio.create_task(run_in_own_loop(serve))
    await asyncio.to_thread(begun.wait)
    asked.set()
    assert answered.wait(PATIENCE_S)  # blocks this loop
    await aside


async def test_it_ends_when_it_is_cancelled_and_cleans_up() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def serve() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    aside = asyncio.create_task(run_in_own_loop(serve))
    await asyncio.to_thread(begun.wait)
    aside.cancel()
    with pytest.raises(asyncio.CancelledError):
        await aside
    assert ended.is_set()


async def test_what_it_raises_is_raised_here() -> None:
    async def serve() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await run_in_own_loop(serve)
