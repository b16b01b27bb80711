"""The contest of the lanes: every contestant in a process of its own, one after the other, round by round.

Queues of others cannot live in our lock file: arq wants redis-py 5, saq one below 8. They get environments of their
own, beside ours, made at first use from pinned lists with hashes (`make lock` compiles them too).
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from redis import Redis

from gateway.bus.embedded import EmbeddedValkey
from tests.bench.contest.race import RACE_TIMEOUT_S
from tests.bench.processes import BenchFailed, pin, running, said, split_cores, tail
from tests.bench.product import ROOT
from tests.parts.environments import interpreter

KEYS: Final = 500
HERE: Final = Path(__file__).parent
RATES: Final = ("enqueue", "drain", "end_to_end")
_RACES: Final = 3
"""A contestant fills, drains, and does both, each within the time that a race may take."""

_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """One contestant: its module with arguments, and the environment it needs (empty: ours)."""

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    environment: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """Medians per second over all rounds, and the disorder of all of them."""

    name: str
    enqueue: float
    drain: float
    end_to_end: float
    disorder: int


ENTRIES: Final = (
    Entry("redis-py, pooled", "raw", ("pooled",)),
    Entry("redis-py, pipelined", "raw", ("pipelined",)),
    Entry("our line, raw", "raw", ("line",)),
    Entry("our lanes", "ours", ("silent",)),
    Entry("our lanes with a reply", "ours", ("answered",)),
    Entry("taskiq", "taskiq_job", environment="streams"),
    Entry("arq", "arq_job", environment="lists"),
    Entry("saq", "saq_job", environment="lists"),
    Entry("pydocket", "docket_job", ("plain",), "streams"),
    Entry("pydocket keyed", "docket_job", ("keyed",), "streams"),
)


async def compete(jobs: int, their_jobs: int, rounds: int) -> Mapping[str, Score]:
    """By the name of the contestant. The server has one core and whoever runs the other, where there are two."""
    found: dict[str, list[Mapping[str, float]]] = {entry.name: [] for entry in ENTRIES}
    own, rest = split_cores()
    async with _server(rest) as url:
        for _ in range(rounds):
            for entry in ENTRIES:
                count = their_jobs if entry.environment else jobs
                found[entry.name].append(await _race(entry, url, count, own))
    return {name: _score(name, results) for name, results in found.items()}


def _score(name: str, results: Sequence[Mapping[str, float]]) -> Score:
    enqueue, drain, both = (statistics.median(result[rate] for result in results) for rate in RATES)
    return Score(name, enqueue, drain, both, disorder=int(sum(result["disorder"] for result in results)))


async def _race(entry: Entry, url: str, jobs: int, cores: Collection[int]) -> Mapping[str, float]:
    """Race once; again if that did not end: taskiq was seen to wait for ever."""
    for _ in range(_TRIES - 1):
        with contextlib.suppress(BenchFailed):
            return await _race_once(entry, url, jobs, cores)
        sys.stderr.write(f"bench: {entry.name} did not finish, and races again\n")
    return await _race_once(entry, url, jobs, cores)


async def _race_once(entry: Entry, url: str, jobs: int, cores: Collection[int]) -> Mapping[str, float]:
    with Redis.from_url(url) as redis:
        redis.flushall()
    command = (_python(entry.environment), "-m", f"tests.bench.contest.{entry.module}", url, str(jobs), str(KEYS))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryFile() as log:
        async with running((*command, *entry.arguments), environment, cores=cores, log=log) as process:
            try:
                result: Mapping[str, float] = await said(process, within_s=_RACES * RACE_TIMEOUT_S)
            except BenchFailed:
                raise BenchFailed(f"{entry.name} did not finish:\n{tail(log)}") from None
    return result


@contextlib.asynccontextmanager
async def _server(cores: Collection[int]) -> AsyncIterator[str]:
    """One Valkey for all. It syncs once a second: syncing each write would cost those most who write most often."""
    with tempfile.TemporaryDirectory(prefix="trivet-bench-", ignore_cleanup_errors=True) as folder:
        server = EmbeddedValkey(Path(folder), appendfsync="everysec")
        url = await server.start()
        try:
            assert server.pid is not None
            pin(server.pid, cores)
            yield url
        finally:
            await server.stop()


def _python(environment: str) -> str:
    """The interpreter of an environment; ours where none is named."""
    return str(interpreter(HERE / f"{environment}.lock")) if environment else sys.executable
