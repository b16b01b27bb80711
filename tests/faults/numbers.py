"""The numbers beside the promise, as one table: `python -m tests.faults.numbers [PART…]`.

Nothing here fails for being slow: it measures, on the machine it runs on, and says the goal beside it.
"""

from __future__ import annotations

import asyncio
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from gateway.bus.keys import ShardKeys
from tests.parts.fleet import Fleet, running_fleet
from tests.parts.ledger import Ledger
from tests.parts.product import PLATFORMS, VALKEY, Chat, Product, running_product
from tests.parts.waiting import PATIENCE_S, POLL_S, until

PEOPLE: Final = 100
KILLS: Final = 20
STOPS: Final = 50
DUPLICATED_EVERY: Final = 5
CUT_EVERY: Final = 10
ALL_WITHIN_S: Final = 120.0
SLOW: Final = {"TRIVET_AGENT__MODEL": "demo/scripted@1500ms", "TRIVET_AGENT__CONCURRENCY": "128"}
QUICK: Final = {"TRIVET_AGENT__MODEL": "demo/scripted"}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    seen: str
    goal: str

    def __str__(self) -> str:
        return f"{self.what:<58} {self.seen:<62} goal: {self.goal}"


# --- 100 messages in flight, and a kill


async def kills(folder: Path) -> list[Row]:
    """kill -9 of one role after the other, then of everything, on the embedded default."""
    rows: list[Row] = []
    async with running_product(folder, settings=SLOW) as product:
        ledger = Ledger([product.chat(PLATFORMS[number % 3], f"Person {number}") for number in range(PEOPLE)])
        await ledger.say_everywhere()  # a bot cannot list its direct chats: each has to be known before
        assert await ledger.until_answered(within_s=ALL_WITHIN_S)
        for victim in ("agent", "channels", VALKEY, "everything, Valkey included"):
            await product.until_settled()
            await ledger.say_everywhere()
            await product.until_running(PEOPLE // 2)
            began_s = time.monotonic()
            await (product.kill(victim) if victim in product.processes() else kill_everything(product))
            await ledger.until_answered(within_s=ALL_WITHIN_S)
            took_s = time.monotonic() - began_s
            await product.until_settled()
            verdict = ledger.verdict()
            seen = f"{PEOPLE - len(verdict.lost)} answered, {len(verdict.doubled)} twice, last after {took_s:.1f} s"
            rows.append(Row(f"{PEOPLE} in flight, kill -9 of {victim}", seen, "100, none twice, 15 s"))
    return rows


async def kill_everything(product: Product) -> None:
    """SIGKILL the supervisor and all it started, then `trivet up`."""
    everybody = [process for found in product.processes().values() for process in found]
    for process in everybody:
        process.kill()
    await asyncio.to_thread(psutil.wait_procs, everybody, timeout=PATIENCE_S)
    await product.start(waits=False)


# --- takeover


async def takeovers(folder: Path) -> list[Row]:
    """From the kill of a worker until each of its lanes has a new owner."""
    hosts = {"h1": ("channels",), "h2": ("agent",), "h3": ("agent",)}
    took_s: list[float] = []
    async with running_fleet(folder, hosts=hosts, platforms=["telegram"], settings=QUICK) as fleet:
        chats = [fleet.chat("telegram", f"Person {number}") for number in range(4)]
        while len(took_s) < KILLS:
            before = [len(chat.answers) for chat in chats]
            for chat in chats:
                await chat.say("slow 3")
            await fleet.until_figures(lambda figures: figures.running == len(chats))
            took_s.append(await takeover(fleet))
            for chat, count in zip(chats, before, strict=True):
                await until(lambda chat=chat, count=count: len(chat.answers) > count)  # type: ignore[misc]
            await fleet.until_figures(lambda figures: figures.workers_alive == 2 and not figures.queued)
    spread = statistics.quantiles(took_s, n=20)
    seen = f"p50 {statistics.median(took_s):.2f} s, p95 {spread[18]:.2f} s, max {max(took_s):.2f} s"
    return [Row(f"takeover after kill -9 of a worker, {KILLS} kills", seen, "p95 < lease 3 s + 1 s")]


async def takeover(fleet: Fleet) -> float:
    """Kill whoever has the most lanes; seconds until others have them all."""
    redis = fleet.redis()
    owners = {lane: owner.split(b"|")[0] for lane, owner in redis.hgetall(ShardKeys(0).own).items()}
    victim = max(set(owners.values()), key=list(owners.values()).count)
    lanes = [lane for lane, owner in owners.items() if owner == victim]
    role = next(role for role in fleet.of("agent") if victim.startswith(role.host.encode()))
    began_s = time.monotonic()
    role.send(signal.SIGKILL)
    while True:
        now = redis.hmget(ShardKeys(0).own, lanes)
        if all(owner is not None and not owner.startswith(victim) for owner in now):
            return time.monotonic() - began_s
        await asyncio.sleep(POLL_S)


# --- stops


async def stops(folder: Path) -> list[Row]:
    """From /stop to its acknowledgement in the chat, with every slot taken and as much again waiting."""
    settings = {"TRIVET_AGENT__MODEL": "demo/scripted", "TRIVET_AGENT__CONCURRENCY": "8"}
    took_s: list[float] = []
    hosts = {"h1": ("channels", "agent")}
    async with running_fleet(folder, hosts=hosts, platforms=["telegram"], settings=settings) as fleet:
        chats = [fleet.chat("telegram", f"Person {number}") for number in range(STOPS + 16)]
        for chat in chats:
            await chat.say("slow 100")
        await fleet.until_figures(lambda figures: figures.running == 8)
        for chat in chats[:STOPS]:
            began_s = time.monotonic()
            await chat.say("/stop")
            await until(lambda chat=chat: chat.answers)  # type: ignore[misc]
            took_s.append(time.monotonic() - began_s)
    spread = statistics.quantiles(took_s, n=100)
    seen = f"p50 {statistics.median(took_s) * 1000:.0f} ms, p99 {spread[98] * 1000:.0f} ms"
    return [Row(f"/stop with every worker busy, {STOPS} stops", seen, "p99 < 1 s")]


# --- platforms that repeat, and that lose an acknowledgement


async def repetitions(folder: Path) -> list[Row]:
    """Every fifth message is delivered twice; then every tenth reply arrives without our hearing of it."""
    rows: list[Row] = []
    async with running_fleet(folder, hosts={"h1": ("channels", "agent")}, settings=QUICK) as fleet:
        for kind, every, what, goal in (
            ("duplicate", DUPLICATED_EVERY, "20 % duplicate deliveries", "0 twice"),
            ("drop_after", CUT_EVERY, "acknowledgements of 10 of 100 replies lost", "0 twice without a mark"),
        ):
            chats = [fleet.chat(PLATFORMS[number % 3], f"{kind} {number}") for number in range(PEOPLE)]
            ledger = Ledger(chats)
            await one_by_one(ledger, chats, kind, every)
            await ledger.until_answered(within_s=ALL_WITHIN_S)
            await fleet.until_settled()
            verdict = ledger.verdict()
            seen = f"{len(verdict.lost)} lost, {len(verdict.doubled)} twice, {len(verdict.marked)} twice and marked"
            rows.append(Row(what, seen, goal))
    return rows


async def one_by_one(ledger: Ledger, chats: Sequence[Chat], kind: str, every: int) -> None:
    """Everybody says one thing, the next after the answer; every so often the platform misbehaves in between."""
    for number, chat in enumerate(chats):
        if number % every == 0:
            setattr(chat.stage.faults, kind, 1)
        await ledger.say(chat)
        await until(lambda chat=chat: not ledger.open_words(chat))  # type: ignore[misc]


PARTS: Final[Mapping[str, Callable[[Path], Awaitable[list[Row]]]]] = {
    "kills": kills,
    "takeovers": takeovers,
    "stops": stops,
    "repetitions": repetitions,
}


async def measure(names: Sequence[str]) -> None:
    """Print a line as soon as it is known."""
    for name in names:
        with tempfile.TemporaryDirectory(prefix="trivet-numbers-", ignore_cleanup_errors=True) as folder:
            for row in await PARTS[name](Path(folder)):
                print(row, flush=True)


if __name__ == "__main__":
    asyncio.run(measure(sys.argv[1:] or list(PARTS)))
