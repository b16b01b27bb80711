"""Four processes fire the same schedules: each firing is on its lane once, and each schedule moves on once."""

from __future__ import annotations

import asyncio
import sys

import pytest

from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.contracts.ids import SessionKey
from gateway.store import Store
from tests.contract.test_store_schedules import schedule
from tests.parts.product import clean_environment

PROCESSES = 4
OWNERS = 15
EACH = 8
START_IN_MS = 3_000
HOUR_MS = 3_600_000


@pytest.mark.timeout(60)
@pytest.mark.long
async def test_each_firing_happens_once(bus: RedisBus, valkey_url: str, database_url: str, store: Store) -> None:
    """120 schedules of 15 people are due when four processes wake up at the same moment."""
    now_ms = SystemClock().now_ms()
    keys = [SessionKey("telegram", str(number)) for number in range(1, OWNERS + 1)]
    for key in keys:
        for number in range(EACH):
            due = schedule(f"s{key.user}-{number}", key, due_ms=now_ms, recurrence="every 3600" if number % 2 else "")
            assert await store.schedules.add(due, active_max=EACH) is not None
    running = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.parts.firing_process", database_url, valkey_url, str(now_ms + START_IN_MS)),
            env=clean_environment(),
            stdout=asyncio.subprocess.PIPE,
        )
        for _ in range(PROCESSES)
    ]
    printed = [(await process.communicate())[0].decode().split() for process in running]
    claimed = [int(words[-1]) for words in printed]
    print(f"claimed by process: {claimed}")
    assert sum(claimed) == OWNERS * EACH
    for key in keys:
        assert await bus.lanes.depth(key) == (EACH, False)
        left = await store.schedules.active(key)
        assert [one.next_due_ms for one in left] == [now_ms + HOUR_MS] * (EACH // 2)
