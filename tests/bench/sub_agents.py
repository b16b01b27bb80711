"""What a sub-agent costs: its start, its memory, and nine of them at once; in each confinement that works here."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import psutil

from agent.limits import SUBAGENTS_LIVE_MAX
from agent.subagents.confinement import Confinement
from agent.subagents.protocol import ModelCall, ModelDelta, ModelResult
from agent.subagents.sandbox import ChildSandbox, find_confinement
from agent.subagents.supervisor import ChildEnding, Supervisor
from agent.tools.files.workspace import Workspace
from gateway.clock import SystemClock
from gateway.contracts.errors import ConfigError
from gateway.contracts.subagents import TaskState
from gateway.scrub import Scrubber
from tests.bench.figures import Figure, Findings, RoleMemory, memory_grid, percentile
from tests.bench.processes import BenchFailed
from tests.bench.sizes import Size
from tests.parts.children import RecordingHost, order

MODEL_S: Final = 0.2
"""How long the model of the nine thinks."""
ONE_MB: Final = 1024 * 1024


class Thinker(RecordingHost):
    """Answers after a while, or when it is told to."""

    def __init__(self, think_s: float, asked: asyncio.Semaphore, may_answer: asyncio.Event) -> None:
        super().__init__()
        self._think_s = think_s
        self._asked = asked
        self._may_answer = may_answer

    async def model(self, call: ModelCall) -> AsyncIterator[ModelDelta | ModelResult]:
        self._asked.release()
        await asyncio.sleep(self._think_s)
        await self._may_answer.wait()
        yield ModelResult(call.id, "Done.")


async def sub_agents(size: Size) -> Findings:
    """From the start of a child's process to its `ready`, beside a Python that does nothing; memory; nine at once."""
    figures: list[Figure] = []
    grids = []
    with TemporaryDirectory(prefix="trivet-bench-") as name:
        home = Path(name) / "workspaces" / "bench"
        Workspace(home)
        sandboxes = await _sandboxes(home.parent.parent)
        bare_ms, starts_ms = await _starts(sandboxes, home, size.children)
        figures += _bare_figures(bare_ms)
        for sandbox in sandboxes:
            figures += _start_figures(sandbox, starts_ms[sandbox.confinement], percentile(bare_ms, 50))
        for sandbox in sandboxes:
            figures += await _nine(sandbox, home)
            grids.append(memory_grid(f"one sub-agent in {sandbox.confinement}", await _memory(sandbox, home)))
    return Findings(tuple(figures), tuple(grids))


async def _sandboxes(hidden: Path) -> list[ChildSandbox]:
    found = []
    for confinement in Confinement:
        try:
            found.append(await find_confinement(confinement, hidden=[hidden]))
        except ConfigError:
            sys.stderr.write(f"bench: no {confinement} here\n")
    return found


async def _starts(
    sandboxes: Sequence[ChildSandbox], home: Path, count: int
) -> tuple[list[float], dict[Confinement, list[float]]]:
    """They take turns, so that whatever else the machine does meets all of them."""
    bare_ms: list[float] = []
    starts_ms: dict[Confinement, list[float]] = {sandbox.confinement: [] for sandbox in sandboxes}
    for _ in range(count):
        bare_ms.append(await _bare_python_ms())
        for sandbox in sandboxes:
            ending = await _run(sandbox, home, RecordingHost())
            starts_ms[sandbox.confinement].append(ending.ready_ms or 0)
    return bare_ms, starts_ms


async def _bare_python_ms() -> float:
    began_s = asyncio.get_running_loop().time()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "pass", stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, env={}
    )
    await process.wait()
    return 1000 * (asyncio.get_running_loop().time() - began_s)


async def _nine(sandbox: ChildSandbox, home: Path) -> tuple[Figure, ...]:
    """As many as one session may have, all asked at the same time."""
    began_s = SystemClock().monotonic_s()
    asked, may_answer = asyncio.Semaphore(0), asyncio.Event()
    may_answer.set()
    hosts = [Thinker(MODEL_S, asked, may_answer) for _ in range(SUBAGENTS_LIVE_MAX)]
    endings = await asyncio.gather(*(_run(sandbox, home, host) for host in hosts))
    all_done_s = SystemClock().monotonic_s() - began_s
    all_ready_s = max(ending.ready_ms or 0 for ending in endings) / 1000
    what = f"{SUBAGENTS_LIVE_MAX} sub-agents at once, {sandbox.confinement}"
    return (
        Figure(f"{what}: all ready", all_ready_s, "s"),
        Figure(f"{what}: all done", all_done_s, "s", note=f"one call of a model that takes {1000 * MODEL_S:g} ms"),
    )


async def _memory(sandbox: ChildSandbox, home: Path) -> list[RoleMemory]:
    """What its processes hold while it waits for the model."""
    asked, may_answer = asyncio.Semaphore(0), asyncio.Event()
    running = asyncio.create_task(_run(sandbox, home, Thinker(0, asked, may_answer)))
    await asked.acquire()
    found = []
    for process in psutil.Process(os.getpid()).children(recursive=True):
        held = process.memory_full_info()
        found.append(RoleMemory(process.name(), held.rss / ONE_MB, held.pss / ONE_MB, held.uss / ONE_MB))
    may_answer.set()
    await running
    return found


async def _run(sandbox: ChildSandbox, home: Path, host: RecordingHost) -> ChildEnding:
    ending = await Supervisor(sandbox, Scrubber(), SystemClock()).supervise(order(home), host)
    if ending.state is not TaskState.COMPLETED:
        raise BenchFailed(f"a sub-agent in {sandbox.confinement} failed: {ending.reason}")
    return ending


def _bare_figures(bare_ms: Sequence[float]) -> tuple[Figure, ...]:
    return (
        Figure("python -c pass, p50", percentile(bare_ms, 50), "ms", note=f"of {len(bare_ms)}, to its end"),
        Figure("python -c pass, p95", percentile(bare_ms, 95), "ms"),
    )


def _start_figures(sandbox: ChildSandbox, starts_ms: Sequence[float], bare_ms: float) -> tuple[Figure, ...]:
    half, most = percentile(starts_ms, 50), percentile(starts_ms, 95)
    return (
        Figure(
            f"spawn to ready p50, {sandbox.confinement}",
            half,
            "ms",
            aim="spawn",
            note=f"{half / bare_ms:.1f} times python -c pass",
        ),
        Figure(f"spawn to ready p95, {sandbox.confinement}", most, "ms"),
    )
