"""Everything breaks at random while people talk: every message is answered once, in order.

The only assertion is the ledger. A failure prints the seed, what was broken when, and what the logs and the
database know of each word that was lost or doubled.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.faults.chaos import Storm
from tests.parts.fleet import Fleet, running_fleet
from tests.parts.ledger import Ledger
from tests.parts.product import Chat
from tests.parts.tracing import trace_of
from tests.parts.waiting import comes_true

OPEN_MAX: Final = 8  # messages of one chat that wait for an answer; a lane takes 20
THINKING: Final = {"TRIVET_AGENT__MODEL": "demo/scripted@150ms"}
HOSTS: Final = {"h1": ("channels", "agent-1", "agent-2"), "h2": ("channels", "agent-1", "agent-2")}
SMALL_HOSTS: Final = {"h1": ("channels", "agent"), "h2": ("channels", "agent")}


@dataclass(frozen=True, slots=True)
class Run:
    """How much is said by how many, over how long a time."""

    seed: int
    messages: int
    gap_s: float
    within_s: float
    is_large: bool

    def __str__(self) -> str:
        return f"{self.messages}-messages-seed-{self.seed}"


LONG: Final = [Run(seed, 500, 4.0, 240.0, is_large=True) for seed in (11, 22, 33)]


@pytest.mark.long
@pytest.mark.timeout(110)
async def test_a_short_storm_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """One seed, sixty messages."""
    await storm(tmp_path, Run(5, 60, 2.0, 60.0, is_large=False))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("run", LONG, ids=str)
async def test_a_long_storm_loses_and_doubles_nothing(tmp_path: Path, run: Run) -> None:
    """Five hundred messages on three platforms, two machines, three agents' worth of deaths."""
    await storm(tmp_path, run)


async def storm(folder: Path, run: Run) -> None:
    """Let people talk through a storm, then judge."""
    hosts = HOSTS if run.is_large else SMALL_HOSTS
    async with running_fleet(folder, hosts=hosts, settings=THINKING) as fleet:
        ledger = Ledger(people(fleet, count=4 if run.is_large else 2))
        await ledger.say_everywhere()  # a bot cannot list its direct chats: each has to be known before it falls
        assert await ledger.until_answered(within_s=60), ledger.open_words()
        weather = Storm(fleet, seed=run.seed)
        raging = asyncio.create_task(weather.rage())
        began_s = time.monotonic()
        await talk(ledger, run)
        await weather.end()
        await raging
        ended_s = time.monotonic()
        await ledger.until_answered(within_s=run.within_s)
        recovered_s = time.monotonic() - ended_s
        await fleet.until_settled()
        verdict = ledger.verdict()
        print(f"\nseed {run.seed}: {verdict}; {len(weather.schedule)} faults in {ended_s - began_s:.0f} s; "
              f"last answer {recovered_s:.1f} s after the storm")  # fmt: skip
        if not verdict.is_clean:
            traces = [await trace_of(fleet, word) for word in (*verdict.lost, *verdict.doubled, *verdict.misordered)]
            pytest.fail("\n".join([f"seed {run.seed}: {verdict}", *weather.schedule, *traces]))


def people(fleet: Fleet, *, count: int) -> list[Chat]:
    """On each platform: direct chats, and the same people in a group."""
    chats: list[Chat] = []
    for platform in fleet.stages:
        group = fleet.group(platform, "kitchen")
        direct = [fleet.chat(platform, f"Person {number}") for number in range(count)]
        chats += direct + [Chat(platform, chat.stage, chat.person, group) for chat in direct]
    return chats


async def talk(ledger: Ledger, run: Run) -> None:
    """Everybody speaks now and then, and waits while too much of his is open."""
    chance = random.Random(run.seed)
    left = iter(range(run.messages))

    async def speak(chat: Chat, mine: random.Random) -> None:
        for _ in left:
            await ledger.say(chat)
            await asyncio.sleep(mine.expovariate(1 / run.gap_s))
            await comes_true(lambda: len(ledger.open_words(chat)) < OPEN_MAX, within_s=run.within_s)

    await asyncio.gather(*(speak(chat, random.Random(chance.random())) for chat in ledger.chats))
