"""Time limits that stand still while a person is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.tasks import Deadline, while_asking
from tests.doubles import jumping_time

LIMIT_S = 0.05
LONGER_S = 0.15


@pytest.fixture(autouse=True)
async def _on_a_machine_that_is_never_late() -> AsyncIterator[None]:
    with jumping_time():
        yield


async def test_a_limit_ends_its_block_and_says_that_it_was_it() -> None:
    limit = Deadline(LIMIT_S)
    with pytest.raises(TimeoutError):
        async with limit:
            await asyncio.sleep(60)
    assert limit.has_passed


async def test_every_limit_around_stands_still_while_somebody_is_asked() -> None:
    """Also when the question is put in a task further in, as tools are."""

    async def ask() -> str:
        with while_asking():
            await asyncio.sleep(LONGER_S)
        return "answered"

    async with Deadline(LIMIT_S) as turn, Deadline(LIMIT_S) as tool, asyncio.TaskGroup() as group:
        asking = group.create_task(ask())
    assert asking.result() == "answered"
    assert not turn.has_passed
    assert not tool.has_passed


async def test_afterwards_only_what_was_left_is_left() -> None:
    limit = Deadline(LIMIT_S)

    async def ask_and_dawdle() -> None:
        async with limit:
            with while_asking():
                await asyncio.sleep(LONGER_S)
            await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        await ask_and_dawdle()
    assert limit.has_passed


async def test_of_two_questions_the_longer_one_counts() -> None:
    first_is_over = asyncio.Event()

    async def ask(for_s: float) -> None:
        with while_asking():
            await asyncio.sleep(for_s)
        first_is_over.set()

    limit = Deadline(LIMIT_S)
    async with limit, asyncio.TaskGroup() as group:
        group.create_task(ask(0.001))
        group.create_task(ask(LONGER_S))
    assert first_is_over.is_set()
    assert not limit.has_passed


async def test_work_that_was_left_behind_may_still_stop_asking() -> None:
    """Its limit has ended long ago."""
    go_on = asyncio.Event()

    async def ask() -> None:
        with while_asking():
            await go_on.wait()

    async with Deadline(LIMIT_S):
        left_behind = asyncio.create_task(ask())
        await asyncio.sleep(0)
    go_on.set()
    await left_behind


async def test_who_is_cancelled_while_asking_is_cancelled_and_not_late() -> None:
    limit = Deadline(LIMIT_S)

    async def ask() -> None:
        async with limit:
            with while_asking():
                await asyncio.sleep(60)

    asking = asyncio.create_task(ask())
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not limit.has_passed


async def test_limits_of_another_task_go_on() -> None:
    """Somebody else's question is no reason for us to wait longer."""

    async def ask() -> None:
        async with Deadline(60):
            with while_asking():
                await asyncio.sleep(LONGER_S)

    elsewhere = asyncio.create_task(ask())
    limit = Deadline(LIMIT_S)
    with pytest.raises(TimeoutError):
        async with limit:
            await asyncio.sleep(60)
    await elsewhere
