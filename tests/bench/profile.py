"""Where CPU and waits of one message go: counted, not estimated. `make bench ARGS=profile`.

One Telegram chat, one message after another, the scripted model: Redis commands as the server saw them, SQL statements
as SQLite ran them, samples of the CPU by who ran, and the times of the message's own trace.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import statistics
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import aiohttp
import psutil
from redis.asyncio import Redis
from redis.exceptions import ConnectionError

from gateway.bus.scripts import all_scripts
from tests.bench.chats import CHAT_LENGTH, one_after_another
from tests.bench.figures import Figure, Findings, Grid
from tests.bench.product import HOST, Product, open_product
from tests.bench.sizes import Size
from tests.bench.town import open_town
from tests.bench.unpaced import COUNTED, COUNTS
from tests.bench.watching import until

WARM_UP: Final = 5
OWNERS_SHOWN: Final = 12
WRITTEN_WITHIN_S: Final = 10.0
_BY_SCRIPT: Final = "lua"
_LAST_HOP: Final = "receipt"
_SYNCS: Final = ("fdatasync", "fsync")
_WAITS: Final = ("epoll_pwait", "epoll_wait")


@dataclass(slots=True)
class Counts:
    """What happened in a window."""

    commands: Counter[str] = field(default_factory=Counter)
    roles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By role: what `tests.bench.sampled` writes."""
    calls: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """System calls by process; empty where there is no strace."""


async def profile(size: Size) -> Findings:
    """Count over a window of messages, take off what an idle window of the same length costs, divide."""
    with tempfile.TemporaryDirectory(prefix="trivet-bench-") as folder:
        async with (
            open_town(()) as town,
            open_product({"telegram": town.access["telegram"]}, {COUNTS: folder}) as product,
        ):
            other, *chats = await town.chats("telegram", 1 + size.sequential // CHAT_LENGTH)
            await one_after_another(town, other, WARM_UP)
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            async with _counting(product, Path(folder)) as busy:
                waits_s = [wait for chat in chats for wait in await one_after_another(town, chat, CHAT_LENGTH)]
            elapsed_s = loop.time() - began_s
            async with _counting(product, Path(folder)) as idle:
                await asyncio.sleep(elapsed_s)
            waits = await _waits(product, [f"{chat.platform}:{chat.person_id}" for chat in chats])
    return Findings(
        (Figure("a message, while everything is counted", 1000 * statistics.median(waits_s), "ms"),),
        (
            _waits_grid(waits),
            _commands_grid(busy, idle, size.sequential),
            _calls_grid(busy, idle, size.sequential),
            *(_owners_grid(role, busy, idle, size.sequential) for role in COUNTED),
        ),
    )


@contextlib.asynccontextmanager
async def _counting(product: Product, folder: Path) -> AsyncIterator[Counts]:
    """Fill what is yielded with all that happens inside the block."""
    counts = Counts()
    staff = {name: processes[0] for name, processes in product.staff().items()}
    await _role_counts(staff, folder)  # what was before does not count
    redis = Redis.from_url(product.bus_url)
    try:
        async with _traced(staff) as calls, redis.monitor() as monitor:
            listening = asyncio.create_task(_listen(monitor, counts.commands))
            yield counts
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            counts.roles = await _role_counts(staff, folder)
        counts.calls = calls
    finally:
        await redis.aclose()


async def _listen(monitor: Any, commands: Counter[str]) -> None:
    with contextlib.suppress(ConnectionError):  # the product ended first: whoever waits for it says so
        async for told in monitor.listen():
            if told["client_type"] != _BY_SCRIPT:
                commands[_name_of(told["command"])] += 1


def _name_of(command: str) -> str:
    """A command's name; of a script of ours, that script's."""
    name, *rest = command.split()
    scripts = {script.sha: script.name for script in all_scripts()}
    return scripts.get(rest[0], name.upper()) if rest else name.upper()


async def _waits(product: Product, keys: Sequence[str]) -> dict[str, list[float]]:
    """Milliseconds from each step of a message to the next, by the trace of each chat's newest one."""
    waits: dict[str, list[float]] = {}
    async with aiohttp.ClientSession(f"http://{HOST}:{product.port}", headers=product.authorization) as client:
        for key in keys:
            async with client.get(f"/api/v1/trace/{key}") as response:
                hops = [hop for hop in await response.json() if hop["at"]]
            for before, after in pairwise(hops):
                if before["name"] == _LAST_HOP:  # what follows is the next message's
                    continue
                wait = datetime.fromisoformat(after["at"]) - datetime.fromisoformat(before["at"])
                waits.setdefault(f"{before['name']} -> {after['name']}", []).append(1000 * wait.total_seconds())
    return waits


async def _role_counts(staff: Mapping[str, psutil.Process], folder: Path) -> dict[str, dict[str, Any]]:
    """Have each counting role write down what it counted, and read it."""
    paths = {role: folder / f"{role}.json" for role in COUNTED}
    for role, path in paths.items():
        path.unlink(missing_ok=True)
        os.kill(staff[role].pid, signal.SIGUSR1)

    async def are_written() -> bool:
        return await asyncio.to_thread(lambda: all(path.exists() for path in paths.values()))

    await until(are_written, within_s=WRITTEN_WITHIN_S)
    return {role: json.loads(path.read_text(encoding="utf-8")) for role, path in paths.items()}


@contextlib.asynccontextmanager
async def _traced(staff: Mapping[str, psutil.Process]) -> AsyncIterator[dict[str, Counter[str]]]:
    """Fill what is yielded with the counts of some system calls when the block is left, where strace is installed."""
    calls: dict[str, Counter[str]] = {}
    command = shutil.which("strace")
    if command is None:
        yield calls
        return
    tracing = (command, "-f", "-c", "-e", f"trace={','.join((*_SYNCS, *_WAITS))}", "-p")
    tracers = {
        name: await asyncio.create_subprocess_exec(
            *tracing, str(process.pid), stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
        )
        for name, process in staff.items()
        if name not in ("supervisor", "admin")
    }
    try:
        yield calls
    finally:
        for name, tracer in tracers.items():
            with contextlib.suppress(ProcessLookupError):
                tracer.send_signal(signal.SIGINT)
            _, table = await tracer.communicate()
            calls[name] = _counted_calls(table.decode(errors="replace").splitlines())


def _counted_calls(table: Sequence[str]) -> Counter[str]:
    """Read the table of `strace -c`: the fourth column counts, the last one names."""
    found: Counter[str] = Counter()
    for line in table:
        words = line.split()
        if len(words) >= 5 and words[-1] in (*_SYNCS, *_WAITS) and words[3].isdigit():
            found["syncs" if words[-1] in _SYNCS else "wake-ups"] += int(words[3])
    return found


def _waits_grid(waits: Mapping[str, Sequence[float]]) -> Grid:
    rows = tuple((step, statistics.median(found), str(len(found))) for step, found in waits.items())
    return Grid("Waits of a message, by its trace", ("step", "median ms", "messages"), rows)


def _commands_grid(busy: Counts, idle: Counts, messages: int) -> Grid:
    """Redis commands of clients and SQL statements for one message."""
    commands = {name: (count - idle.commands[name]) / messages for name, count in busy.commands.items()}
    rows = [(name, value) for name, value in sorted(commands.items(), key=lambda item: -item[1]) if value >= 0.05]
    statements = busy.roles["agent"]["statements"]
    sql = [(f"SQL {name}", count / messages) for name, count in sorted(statements.items(), key=lambda item: -item[1])]
    total = ("all Redis commands", sum(commands.values()))
    return Grid("Asked for one message, idle traffic taken off", ("what", "times"), (total, *rows, *sql))


def _calls_grid(busy: Counts, idle: Counts, messages: int) -> Grid:
    """Syncs to the disk and wake-ups of event loops for one message."""
    rows = tuple(
        (f"{name}, {what}", (count - idle.calls[name][what]) / messages)
        for name, calls in busy.calls.items()
        for what, count in sorted(calls.items())
    )
    return Grid("System calls for one message (strace)", ("what", "times"), rows or (("strace is not installed", "-"),))


def _owners_grid(role: str, busy: Counts, idle: Counts, messages: int) -> Grid:
    """CPU of one role for one message, by whose code ran."""
    worked, rested = _cpu_ms(busy.roles[role]), _cpu_ms(idle.roles[role])
    spent = {owner: (cpu_ms - rested.get(owner, 0.0)) / messages for owner, cpu_ms in worked.items()}
    total = sum(spent.values())
    dearest = sorted(spent.items(), key=lambda item: -item[1])[:OWNERS_SHOWN]
    rows = (("all", total, 100.0), *((owner, cpu_ms, 100 * cpu_ms / total) for owner, cpu_ms in dearest))
    return Grid(f"CPU of {role} for one message, idle taken off", ("whose code", "ms", "%"), rows)


def _cpu_ms(counted: Mapping[str, Any]) -> dict[str, float]:
    """CPU of a window by whose code ran: samples say how it is shared out."""
    samples = Counter[str](counted["owners"])
    return {owner: 1000 * counted["cpu_s"] * count / samples.total() for owner, count in samples.items()}
