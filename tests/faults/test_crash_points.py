"""kill -9 right behind each `await` of the code that moves messages, read off the source.

The short runs take a seeded sample; the long ones take every point that a survey finds a way to.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from tests.faults.crashes import CrashRun, crash_run, sample
from tests.parts.crashing import Point, all_points, points_of
from tests.parts.ledger import Verdict
from tests.parts.tracing import trace_of

SEED = 1
SHORT = 1
GROWING = [point for module in ("channels.core.preview", "channels.core.attempt") for point in points_of(module)]
WORKER = [*points_of("agent.runtime.worker"), *points_of("agent.runtime.run")]


def test_every_await_is_a_crash_point() -> None:
    """The list follows the source: what is awaited in the worker's story is in it, each under its own name."""
    sources = [point.source for point in WORKER]
    assert any("turns.commit(" in source for source in sources)
    assert any("turns.begin(" in source for source in sources)
    for role in ("agent", "channels"):
        names = [point.name for point in all_points(role)]
        assert len(set(names)) == len(names)


@pytest.mark.timeout(110)
@pytest.mark.parametrize("role", ["agent", "channels"])
@pytest.mark.long
async def test_a_crash_at_some_points_costs_nothing(tmp_path: Path, role: str) -> None:
    """One of the points that everyday life passes, chosen by the seed."""
    async with crash_run(tmp_path, role, seed=SEED) as run:
        await run.survey(is_thorough=False)
        everyday = [point for point in all_points(role) if point.name in run.ways]
        assert await live_through(run, sample(everyday, seed=SEED, count=SHORT), run.crash_at)


@pytest.mark.long
@pytest.mark.timeout(110)
async def test_a_pause_longer_than_the_lease_at_some_points_costs_nothing(tmp_path: Path) -> None:
    """The worker is stopped behind an await, somebody takes its lanes over, and then it goes on."""
    async with crash_run(tmp_path, "agent", seed=SEED) as run:
        await run.survey(is_thorough=False)
        everyday = [point for point in WORKER if point.name in run.ways]
        assert await live_through(run, sample(everyday, seed=SEED, count=SHORT), run.pause_at)


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_a_crash_while_answers_grow_leaves_no_half_of_one(tmp_path: Path) -> None:
    """Whatever was shown is the answer's, or gone: no word stands there twice."""
    async with crash_run(tmp_path, "channels", seed=SEED) as run:
        for point in await run.victim.passed(run.grow):
            run.ways.setdefault(point, run.grow)
        assert await live_through(run, GROWING, run.crash_at)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("role", ["agent", "channels"])
async def test_a_crash_at_any_point_costs_nothing(tmp_path: Path, role: str) -> None:
    """All points of a role, one after the other."""
    async with crash_run(tmp_path, role, seed=SEED) as run:
        await run.survey(is_thorough=True)
        await live_through(run, all_points(role), run.crash_at)


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_a_pause_longer_than_the_lease_at_any_point_costs_nothing(tmp_path: Path) -> None:
    """All points of the worker and its runs."""
    async with crash_run(tmp_path, "agent", seed=SEED) as run:
        await run.survey(is_thorough=True)
        await live_through(run, WORKER, run.pause_at)


async def live_through(
    run: CrashRun, points: Sequence[Point], strike: Callable[[Point], Awaitable[Verdict | None]]
) -> int:
    """Strike at each; how many were reached. A failure names the point; those not reached are printed."""
    unreached: list[Point] = []
    for point in points:
        verdict = await strike(point) if point.name in run.ways else None
        if verdict is None:
            unreached.append(point)
        elif not verdict.is_clean:
            words = (*verdict.lost, *verdict.doubled, *verdict.misordered)
            traces = [await trace_of(run.fleet, word) for word in words]
            pytest.fail("\n".join([f"{point}: {verdict}", *traces]))
    print(f"\n{len(points) - len(unreached)} points lived through, {len(unreached)} not reached:")
    for point in unreached:
        print(f"  {point}")
    return len(points) - len(unreached)
