"""Runs one crash point after the other on one fleet, and judges the ledger after each.

First a survey: everyday life and some troubles are lived through once, to learn which of them leads to which
point. Then each point is armed and what leads to it is done again, until the process dies there.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import psutil

from tests.parts.crashing import Point
from tests.parts.fleet import Fleet, RoleProcess, running_fleet
from tests.parts.ledger import Ledger, Verdict
from tests.parts.product import Chat
from tests.parts.waiting import PATIENCE_S, comes_true

PASSAGE_MAX: Final = 4  # the k-th time a point is passed, k from the seed
REACHED_WITHIN_S: Final = 6.0
PROVOKED_WITHIN_S: Final = 15.0
ANSWERED_WITHIN_S: Final = 45.0
PAUSED_S: Final = 4.5  # a lease and a half
AWAY_S: Final = 3.0  # longer than a call on the bus is repeated
TRIES: Final = 2
GROWS_S: Final = 5.0
GROWING: Final = f"slow {GROWS_S} say {{word}} stands at the beginning of " + "a long story, " * 20
SETTINGS: Final = {"TRIVET_AGENT__MODEL": "demo/scripted@100ms"}
HOSTS: Final = {"h1": ("channels",), "h2": ("agent",), "h3": ("agent",)}
VICTIMS: Final = {"channels": "h1", "agent": "h2"}

Provoke: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class CrashRun:
    """One fleet in which the process of one role, of two if it is an agent, has to survive many crashes."""

    fleet: Fleet
    ledger: Ledger
    chance: random.Random
    victim: RoleProcess
    ways: dict[str, Provoke] = field(default_factory=dict)

    async def survey(self, *, is_thorough: bool) -> None:
        """Learn what leads where."""
        troubles = (self.grow, self._control, self._restart, self._trouble, self._lose_bus, self._lose_database)
        for provoke in (self.chatter, *(troubles if is_thorough else ())):
            for point in await self.victim.passed(provoke):
                self.ways.setdefault(point, provoke)
            await self._judged()

    async def crash_at(self, point: Point) -> Verdict | None:
        """Die there, recover, and judge; None when nobody got there this time."""
        lives = len(self.victim.endings)
        if not await self._provoke(point, signal.SIGKILL, lambda: -signal.SIGKILL in self.victim.endings[lives:]):
            return None
        return await self._judged()

    async def pause_at(self, point: Point) -> Verdict | None:
        """Stop there for longer than the lease, come back as somebody from the past, and judge."""
        if not await self._provoke(point, signal.SIGSTOP, self._is_stopped):
            return None
        await asyncio.sleep(PAUSED_S)
        await self.ledger.say_everywhere()
        self.victim.send(signal.SIGCONT)
        return await self._judged()

    async def chatter(self) -> None:
        """Everybody says something, several times."""
        for _ in range(PASSAGE_MAX):
            await self.ledger.say_everywhere()
            await asyncio.sleep(0.3)

    async def grow(self) -> None:
        """Everybody is answered so slowly that the answers are seen growing."""
        await self.ledger.say_everywhere(GROWING)
        await asyncio.sleep(GROWS_S + AWAY_S)  # until the answers are whole, too

    async def _judged(self) -> Verdict:
        await self.ledger.until_answered(within_s=ANSWERED_WITHIN_S)
        await self.fleet.until_settled()
        return self.ledger.verdict()

    async def _provoke(self, point: Point, number: int, is_reached: Callable[[], bool]) -> bool:
        """Do what leads to the point, with the trap set, until it snaps."""
        provoke = self.ways[point.name]
        passage = self.chance.randint(1, PASSAGE_MAX) if provoke == self.chatter else 1
        for _ in range(TRIES):
            await self.victim.arm(point.name, passage=passage, number=number)
            self.victim.trap = (point.name, str(passage), str(int(number)))  # points of a start are passed there
            provoking = asyncio.create_task(provoke())
            await comes_true(is_reached, within_s=PROVOKED_WITHIN_S)
            self.victim.trap = ()
            await provoking
            if is_reached():
                return True
            passage = 1
        await self.victim.arm("nowhere")
        return False

    def _is_stopped(self) -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self.victim.pid).status() == psutil.STATUS_STOPPED
        return False

    # --- what leads to the rarer points

    async def _control(self) -> None:
        for chat in self.ledger.chats:
            await chat.say("/status")
        await asyncio.sleep(1.0)

    async def _restart(self) -> None:
        """An orderly end passes points of its own, and so does a start, at which it may be stopped."""
        await self.ledger.say_everywhere()
        lives = len(self.victim.endings)
        self.victim.send(signal.SIGTERM)
        await comes_true(lambda: len(self.victim.endings) > lives, within_s=REACHED_WITHIN_S)
        connecting = asyncio.create_task(self.fleet.until_connected())
        await comes_true(lambda: connecting.done() or self._is_stopped(), within_s=PATIENCE_S)
        if connecting.done():
            await connecting
        connecting.cancel()

    async def _trouble(self) -> None:
        for stage in self.fleet.stages.values():
            stage.faults.retry_after_s = 0.2
            stage.faults.rate_limit, stage.faults.server_error, stage.faults.drop_after = 1, 1, 1
        await self.chatter()
        await asyncio.sleep(AWAY_S)  # until what was put off is tried again

    async def _lose_bus(self) -> None:
        await self._lose("bus")

    async def _lose_database(self) -> None:
        await self._lose("database")

    async def _lose(self, server: str) -> None:
        wire = self.fleet.hosts[self.victim.host].wires[server]
        await self.ledger.say_everywhere()
        await wire.cut()
        await self.ledger.say_everywhere()
        await asyncio.sleep(AWAY_S)
        await wire.mend()
        await asyncio.sleep(AWAY_S)


@contextlib.asynccontextmanager
async def crash_run(folder: Path, role: str, *, seed: int) -> AsyncIterator[CrashRun]:
    """A fleet in which one process of `role` will die again and again."""
    async with running_fleet(folder, hosts=HOSTS, settings=SETTINGS) as fleet:
        chats: list[Chat] = []
        for platform in fleet.stages:
            ann = fleet.chat(platform, "Ann")
            chats += [ann, Chat(platform, ann.stage, ann.person, fleet.group(platform, "kitchen"))]
        run = CrashRun(fleet, Ledger(chats), random.Random(seed), fleet.role(VICTIMS[role], role))
        await run.ledger.say_everywhere()
        assert await run.ledger.until_answered(within_s=60), run.ledger.open_words()
        yield run


def sample(points: Sequence[Point], *, seed: int, count: int) -> list[Point]:
    """Some of them, the same for the same seed and source."""
    return random.Random(seed).sample(list(points), min(count, len(points)))
