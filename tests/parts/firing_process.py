"""A process that does nothing but fire schedules, for races between several.

    python -m tests.parts.firing_process DATABASE_URL BUS_URL START_MS

It begins at `START_MS`, fires until nothing is due, and prints how many schedules it claimed.
"""

from __future__ import annotations

import asyncio
import sys

from agent.features.access import People
from agent.features.schedules.service import Scheduler
from gateway.bus.bus import open_bus
from gateway.clock import SystemClock
from gateway.scrub import Scrubber
from gateway.store import open_store
from gateway.tasks import Wakeup
from tests.parts.keepers import policy_of


async def main(database_url: str, bus_url: str, start_ms: int) -> None:
    clock = SystemClock()
    store = open_store(database_url, clock)
    bus = await open_bus(bus_url)
    try:
        people = People(bus.access, store.access, policy_of(), clock)
        firing = Scheduler(store.schedules, bus.intake, people, Wakeup(), Scrubber(), clock, has_heartbeat=False)
        await asyncio.sleep(max(0.0, (start_ms - clock.now_ms()) / 1000))
        claimed = 0
        while found := await firing.fire_due():
            claimed += found
        print(claimed)
    finally:
        await bus.close()
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
