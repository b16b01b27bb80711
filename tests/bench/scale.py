"""How the number of agent processes changes what the whole can do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import psutil

from gateway.contracts.ids import SessionKey
from tests.bench.chats import QUESTION
from tests.bench.crew import open_crew
from tests.bench.databases import DATABASES
from tests.bench.figures import Findings, Grid
from tests.bench.product import open_product, spent_s
from tests.bench.sizes import Size
from tests.bench.town import open_town

PROCESSES: Final = (1, 2, 4)
SLOTS: Final = 32
"""Turns at once in each process."""
CROWD: Final = 1.5
"""Chats for each slot: there is always somebody whose turn it is not yet."""
WAVES: Final = 2
"""Turns of each slot that pass before anybody looks."""
LATENCIES_MS: Final = (500, 2_000)

Ask = Callable[[str], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a steady load."""

    per_s: float
    shares: Mapping[str, float]
    """Of one core, by process."""


class Crowd:
    """People who each write again as soon as they are answered."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._people: list[asyncio.Task[None]] = []
        self._answered = 0

    def grow(self, asks: Sequence[Ask]) -> None:
        """More people, each with a way of asking."""
        self._people += [self._group.create_task(self._talk(ask)) for ask in asks]

    def __len__(self) -> int:
        return len(self._people)

    def leave(self) -> None:
        for person in self._people:
            person.cancel()

    async def read(self, staff: Mapping[str, Sequence[psutil.Process]], for_s: float) -> Reading:
        """Count answers for a while."""
        loop = asyncio.get_running_loop()
        before, began_s, answered = spent_s(staff), loop.time(), self._answered
        await asyncio.sleep(for_s)
        after, elapsed_s = spent_s(staff), loop.time() - began_s
        shares = {name: (after[name] - before[name]) / elapsed_s for name in staff}
        return Reading((self._answered - answered) / elapsed_s, shares)

    async def _talk(self, ask: Ask) -> None:
        number = 0
        while True:
            await ask(QUESTION.format(number=number))
            number += 1
            self._answered += 1


@dataclass(frozen=True, slots=True)
class Load:
    """`rounds` are taken in turns with those of other databases."""

    fed: str
    latency_ms: int
    rounds: int


async def scale(size: Size) -> Findings:
    """One, two and four agent processes with a model of fixed latency, fed by the bus and by a whole channel."""
    loads = (
        Load("bus", LATENCIES_MS[0], size.rounds),
        Load("bus", LATENCIES_MS[1], 1),
        Load("telegram", LATENCIES_MS[0], 1),
    )
    found: dict[tuple[Load, str], list[list[Reading]]] = {}
    for load in loads:
        measure = _by_bus if load.fed == "bus" else _by_telegram
        for _ in range(load.rounds):
            for kind in DATABASES:
                found.setdefault((load, kind), []).append(await measure(kind, load.latency_ms, size))
    rows = [row for (load, kind), rounds in found.items() for row in _rows(load, kind, rounds)]
    headings = ("fed by", "database", "model", "processes", "turns/s", "of one", "slots' limit", "CPU, % of a core")
    return Findings(grids=(Grid(_title(), headings, tuple(rows)),))


def _title() -> str:
    cores = os.cpu_count()
    return f"Scale on {cores} cores, which everything here shares; {SLOTS} slots a process; medians"


def _rows(load: Load, kind: str, rounds: Sequence[Sequence[Reading]]) -> list[tuple[str | float, ...]]:
    """One for each number of processes."""
    rows: list[tuple[str | float, ...]] = []
    rates = [statistics.median(reading.per_s for reading in readings) for readings in zip(*rounds, strict=True)]
    for processes, per_s, readings in zip(PROCESSES, rates, zip(*rounds, strict=True), strict=True):
        middle = min(readings, key=lambda reading: abs(reading.per_s - per_s))
        limit = processes * SLOTS * 1000 / load.latency_ms
        model = f"{load.latency_ms} ms, {load.rounds} x"
        ratio = f"{per_s / rates[0]:.2f}"
        rows.append((load.fed, kind, model, str(processes), per_s, ratio, limit, _shares(middle)))
    return rows


def _shares(reading: Reading) -> str:
    shown = ", ".join(f"{name} {100 * share:.0f}" for name, share in reading.shares.items() if share >= 0.005)
    return f"{shown}; all {100 * sum(reading.shares.values()):.0f}"


def _seats(processes: int) -> int:
    return int(processes * SLOTS * CROWD)


async def _by_bus(kind: str, latency_ms: int, size: Size) -> list[Reading]:
    """Messages come from the bus and replies end there: nothing but agents, bus and database."""
    readings = []
    async with open_crew(kind, model=_model(latency_ms), concurrency=SLOTS) as crew, _crowd() as crowd:
        for processes in PROCESSES:
            await crew.hire(processes)
            keys = [SessionKey("telegram", str(number)) for number in range(len(crowd), _seats(processes))]
            crowd.grow([partial(crew.desk.ask, key) for key in keys])
            readings.append(await _steady(crowd, crew.staff(), latency_ms, size))
    return readings


async def _by_telegram(kind: str, latency_ms: int, size: Size) -> list[Reading]:
    """The whole line, from the emulated platform and back."""
    readings = []
    for processes in PROCESSES:
        async with DATABASES[kind]() as database, open_town(()) as town:
            extra = {
                "TRIVET_DATABASE__URL": database.url,
                "TRIVET_AGENT__MODEL": _model(latency_ms),
                "TRIVET_AGENT__CONCURRENCY": str(SLOTS),
                "TRIVET_AGENT__PROCESSES": str(processes),
            }
            async with open_product({"telegram": town.access["telegram"]}, extra) as product, _crowd() as crowd:
                chats = await town.chats("telegram", _seats(processes))
                crowd.grow([partial(town.ask, chat) for chat in chats])
                platforms = {"emulators": [psutil.Process(town.pid)], "people": [psutil.Process()]}
                staff = {**product.staff(), "database": database.processes(), **platforms}
                readings.append(await _steady(crowd, staff, latency_ms, size))
    return readings


def _model(latency_ms: int) -> str:
    return f"demo/scripted@{latency_ms}ms"


async def _steady(crowd: Crowd, staff: Mapping[str, Sequence[psutil.Process]], latency_ms: int, size: Size) -> Reading:
    """Whole waves only: fewer would count more answers or less than a wave has."""
    wave_s = latency_ms / 1000
    await asyncio.sleep(WAVES * wave_s)
    return await crowd.read(staff, max(round(size.window_s / wave_s), 1) * wave_s)


@contextlib.asynccontextmanager
async def _crowd() -> AsyncIterator[Crowd]:
    async with asyncio.TaskGroup() as group:
        crowd = Crowd(group)
        yield crowd
        crowd.leave()
