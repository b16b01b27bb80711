"""Calls into redis-py keep their cancellations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gateway.retry import cancel_reliably


async def forgetful() -> str:
    """As `asyncio.wait_for` of Python 3.11, when it is cancelled in the moment it ends."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "done"
    return "never"


async def broken() -> str:
    """The connection breaks in the same moment."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise ConnectionError("gone") from None
    return "never"


async def forgetful_and_patient() -> str:
    """The sending forgets it, and then the call waits for an answer."""
    await forgetful()
    await asyncio.Event().wait()
    return "never"


@pytest.mark.parametrize("call", [forgetful, broken, forgetful_and_patient])
async def test_a_swallowed_cancellation_is_raised_after_all(call: Callable[[], Coroutine[Any, Any, str]]) -> None:
    task = asyncio.create_task(cancel_reliably(call()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_undisturbed_call_gives_its_answer() -> None:
    assert await cancel_reliably(asyncio.sleep(0, "answer")) == "answer"
