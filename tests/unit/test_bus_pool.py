"""Calls into redis-py keep their cancellations, and their errors say whose fault they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from redis.exceptions import MovedError

from gateway.bus.client import translated
from gateway.contracts.errors import BusUnavailable, ConfigError
from gateway.tasks import cancel_reliably


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


def test_a_slot_that_moved_is_a_wrong_setting_only_where_no_cluster_is_expected() -> None:
    """After a failover the first call of a node that we knew is told so, and the next one goes to its successor."""
    moved = MovedError("3387 10.0.0.1:6379")
    assert isinstance(translated(moved, "redis://10.0.0.2:6379"), ConfigError)
    assert isinstance(translated(moved, "redis+cluster://10.0.0.2:6379"), BusUnavailable)
