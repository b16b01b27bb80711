"""The lanes beside other queues and beside the bare commands of the same server."""

from __future__ import annotations

from collections.abc import Mapping

from tests.bench.contest.arena import KEYS, Score, compete
from tests.bench.figures import Figure, Findings, Grid
from tests.bench.sizes import Size

OURS = "our lanes"


async def lanes(size: Size) -> Findings:
    """The same no-op job on each, in turns; every rate also as a share of ours."""
    scores = await compete(size.jobs, size.their_jobs, size.rounds)
    ours = scores[OURS]
    headings = ("one worker", "enqueue/s", "drain/s", "end to end/s", "ours / it, drain", "end to end", "out of order")
    rows = tuple(_row(score, ours) for score in scores.values())
    title = f"No-op jobs of {KEYS} keys, one worker process, one server; medians of {size.rounds}"
    return Findings(_goals(scores), (Grid(title, headings, rows),))


def _row(score: Score, ours: Score) -> tuple[str | float, ...]:
    ratios = (ours.drain / score.drain, ours.end_to_end / score.end_to_end)
    rates = (score.enqueue, score.drain, score.end_to_end)
    return (score.name, *rates, *(f"{ratio:.2f}" for ratio in ratios), str(score.disorder))


def _goals(scores: Mapping[str, Score]) -> tuple[Figure, ...]:
    ours, raw = scores[OURS], scores["our line, raw"]
    keyed = scores["pydocket keyed"]
    return (
        _ratio("no-op turns drained, to taskiq", ours.drain / scores["taskiq"].drain, "taskiq"),
        _ratio("no-op turns drained, to pydocket keyed", ours.drain / keyed.drain, "docket"),
        _ratio("no-op turns drained, to raw read and acknowledge", ours.drain / raw.drain),
        _ratio("enqueue, to raw XADD", ours.enqueue / raw.enqueue),
        Figure("no-op turns out of order", ours.disorder, "", aim="order", note=f"{KEYS} keys"),
    )


def _ratio(what: str, value: float, aim: str = "") -> Figure:
    return Figure(what, value, "x", aim=aim)
