"""Whoever writes /stop, or shares the agent with somebody who wants a lot, does not wait."""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.bus.bus import open_bus
from gateway.contracts.ids import SessionKey
from tests.bench.chats import QUESTION
from tests.bench.crew import open_crew
from tests.bench.figures import Figure, Findings, percentile
from tests.bench.product import Product, open_product
from tests.bench.sizes import Size
from tests.bench.town import open_town
from tests.bench.watching import until

PROCESSES: Final = 2
SLOTS: Final = 16
ENDLESS: Final = "slow 100 Think about everything there is."
TURN_MS: Final = 500
HOT_SLOTS: Final = 8
ARRIVAL_S: Final = 0.1
"""Between two of the others: fewer of them at once than there are slots."""
SATURATED_WITHIN_S: Final = 60.0


async def stops(size: Size) -> Findings:
    """All slots are taken by turns that do not end, more wait, and one after another is stopped."""
    settings = {"TRIVET_AGENT__PROCESSES": str(PROCESSES), "TRIVET_AGENT__CONCURRENCY": str(SLOTS)}
    slots = PROCESSES * SLOTS
    async with open_town(()) as town, open_product({"telegram": town.access["telegram"]}, settings) as product:
        chats = await town.chats("telegram", size.stops + slots)
        await asyncio.gather(*(town.say(chat, ENDLESS) for chat in chats))
        await _saturated(product, slots, len(chats))
        waits_s = [await town.ask(chat, "/stop") for chat in chats[:-slots]]
        together_s = await asyncio.gather(*(town.ask(chat, "/stop") for chat in chats[-slots:]))
    note = f"{size.stops} stops on telegram, {slots} of {slots} slots taken, others waiting"
    return Findings(
        (
            Figure("/stop answered, p50", 1000 * percentile(waits_s, 50), "ms", note=note),
            Figure("/stop answered, p99", 1000 * percentile(waits_s, 99), "ms", aim="stop"),
            Figure(f"/stop of {slots} running turns at once, slowest", 1000 * max(together_s), "ms"),
        )
    )


async def _saturated(product: Product, slots: int, chats: int) -> None:
    bus = await open_bus(product.bus_url)

    async def is_so() -> bool:
        figures = await bus.operator.figures()
        return figures.running == slots and figures.queued == chats

    try:
        await until(is_so, within_s=SATURATED_WITHIN_S)
    finally:
        await bus.close()


async def hot(size: Size) -> Findings:
    """One user has a turn queued in each of many places; others come one by one. Their waits in turn lengths."""
    others = max(size.stops // 5, 2)
    async with open_crew("SQLite", model=f"demo/scripted@{TURN_MS}ms", concurrency=HOT_SLOTS) as crew:
        await crew.hire(1)
        await crew.desk.ask(SessionKey("telegram", "first"), "Hello")
        places = [SessionKey("telegram", "hot", (str(number),)) for number in range(size.hot_places)]
        await asyncio.gather(*(crew.desk.write(place, QUESTION.format(number=1)) for place in places))
        asking = []
        for number in range(others):
            key = SessionKey("telegram", str(number))
            asking.append(asyncio.create_task(crew.desk.ask(key, QUESTION.format(number=1))))
            await asyncio.sleep(ARRIVAL_S)
        waits = [1000 * wait_s / TURN_MS - 1 for wait_s in await asyncio.gather(*asking)]
    note = f"{others} others, {size.hot_places} turns of one user, {HOT_SLOTS} slots"
    return Findings(
        (
            Figure("wait beside a hot user, p50", percentile(waits, 50), "turns", note=note),
            Figure("wait beside a hot user, longest", max(waits), "turns", aim="hot"),
        )
    )
