"""Goals 7 and 8: what a message costs, on both engines side by side, what the worst texts cost, and the filter.

Processor time of this thread, so that a busy machine does not count; collections of garbage are switched off while
the clock runs, as they belong to whoever made the garbage.
"""

from __future__ import annotations

import contextlib
import gc
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from unittest import mock

from gateway.scrub import Scrubber, rules
from gateway.scrub.lookahead import anchor_finder
from gateway.scrub.rules import AutomatonFinder, TrieFinder, engine_name, rule_book
from tests.bench.figures import percentile
from tests.bench.scrub.goal import Goal, Measured
from tests.bench.scrub.hostile import HOSTILE
from tests.bench.scrub.logs import log_lines
from tests.bench.scrub.mix import Message, messages

COMMON_MAX_US: Final = 40
RARE_MAX_US: Final = 200
RATE_MIN_MB_S: Final = 10
COMMON_WITHOUT_MAX_US: Final = 90
HOSTILE_MAX_MS: Final = 100
HOSTILE_MEGABYTE_MAX_MS: Final = 1000
GROWTH_MAX: Final = 2.5
_SMALL: Final = 50_000
_LARGE: Final = 100_000
_HUGE: Final = 1_000_000
_NO_BUDGET_S: Final = 600.0
_GROWTH_FROM_MS: Final = 5.0
"""What takes less than this is not long enough for a ratio to mean anything."""

_FILTERED_MB: Final = 100
_FILTERED_QUICKLY_MB: Final = 20
"""Of two megabytes, three quarters of the time were the start of the process."""


def fast(seed: int, *, is_quick: bool) -> Measured:
    """Goal 7: the mix of messages through both engines, and a long log through the command."""
    mix = messages(200 if is_quick else 2000, seed=seed)
    with _engine(AutomatonFinder):
        common, rare, rate = _mix_costs(mix)
    with _engine(TrieFinder):
        without, rare_without, rate_without = _mix_costs(mix)
    goals = [
        Goal(7, "500 characters, p50", f"≤ {COMMON_MAX_US} µs", f"{common:.0f} µs", common <= COMMON_MAX_US),
        Goal(7, "500 characters, p99", f"≤ {RARE_MAX_US} µs", f"{rare:.0f} µs", rare <= RARE_MAX_US),
        Goal(7, "rate", f"≥ {RATE_MIN_MB_S} MB/s", f"{rate:.1f} MB/s", rate >= RATE_MIN_MB_S),
        Goal(
            7,
            "standard library only, p50",
            f"≤ {COMMON_WITHOUT_MAX_US} µs",
            f"{without:.0f} µs (p99 {rare_without:.0f} µs, {rate_without:.1f} MB/s)",
            without <= COMMON_WITHOUT_MAX_US,
        ),
        _filtered(seed, _FILTERED_QUICKLY_MB if is_quick else _FILTERED_MB),
    ]
    return Measured(goals)


def hostile(*, is_quick: bool) -> Measured:
    """Goal 8: every hostile text by name, in 50 kB, 100 kB and 1 MB."""
    scrubber = Scrubber(budget_s=_NO_BUDGET_S)
    scrubber.scrub("warm")
    rows: list[tuple[float, float, float, str]] = []
    for name, text in HOSTILE.items():
        small, large = (_took_ms(scrubber, text(chars)) for chars in (_SMALL, _LARGE))
        huge = 0.0 if is_quick else _took_ms(scrubber, text(_HUGE))
        growth = large / small if large >= _GROWTH_FROM_MS else 0.0
        rows.append((large, huge, growth, name))
    rows.sort(reverse=True)
    worst, worst_huge, growth = (max(column) for column in list(zip(*((*row[:3],) for row in rows), strict=True)))
    goals = [
        Goal(8, f"worst of {len(rows)} texts, 100 kB", "≤ 100 ms", f"{worst:.0f} ms", worst <= HOSTILE_MAX_MS),
        Goal(8, "twice the text takes", f"≤ {GROWTH_MAX} times", f"{growth:.2f} times", growth <= GROWTH_MAX),
    ]
    if not is_quick:
        is_met = worst_huge <= HOSTILE_MEGABYTE_MAX_MS
        goals.append(Goal(8, f"worst of {len(rows)} texts, 1 MB", "≤ 1 s", f"{worst_huge / 1000:.2f} s", is_met))
    lines = [f"{large:7.1f} ms {huge:8.1f} ms  {ratio:4.2f}  {name}" for large, huge, ratio, name in rows]
    return Measured(goals, {"hostile texts: 100 kB, 1 MB, t(2n)/t(n)": lines})


def _mix_costs(mix: Sequence[Message]) -> tuple[float, float, float]:
    """p50 and p99 in microseconds, and megabytes in a second."""
    scrubber = Scrubber()
    for message in mix[:100]:
        scrubber.scrub(message.text)
    took_us = []
    with _no_collections():
        for message in mix:
            began_ns = time.thread_time_ns()
            scrubber.scrub(message.text)
            took_us.append((time.thread_time_ns() - began_ns) / 1000)
    size = sum(len(message.text.encode()) for message in mix)
    return percentile(took_us, 50), percentile(took_us, 99), size / sum(took_us)


def _took_ms(scrubber: Scrubber, text: str) -> float:
    with _no_collections():
        began_ns = time.thread_time_ns()
        scrubber.scrub(text)
        return (time.thread_time_ns() - began_ns) / 1e6


def _filtered(seed: int, megabytes: int) -> Goal:
    """A log through `trivet scrub`, a process of its own, start-up and all."""
    with tempfile.TemporaryDirectory(prefix="trivet-bench-") as folder:
        log, clean = Path(folder, "log"), Path(folder, "clean")
        size = 0
        with log.open("wb") as file:
            for line in log_lines(seed):
                size += file.write(line.encode())
                if size >= megabytes * 1_000_000:
                    break
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with log.open("rb") as given, clean.open("wb") as taken:
            subprocess.run((sys.executable, "-m", "gateway", "scrub"), check=True, stdin=given, stdout=taken)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        cuts = clean.read_bytes().count(b"[redacted:")
    rate = size / took_s / 1e6
    measured = f"{rate:.1f} MB/s with {engine_name()}, {cuts:,} secrets, at most {after.ru_maxrss // 1024} MB of memory"
    return Goal(
        7, f"`trivet scrub`, a log of {megabytes} MB", f"≥ {RATE_MIN_MB_S} MB/s", measured, rate >= RATE_MIN_MB_S
    )


@contextlib.contextmanager
def _engine(engine: type[AutomatonFinder] | type[TrieFinder]) -> Iterator[None]:
    """Everything searched for with one engine."""
    with mock.patch.object(rules, "ENGINE", engine):
        rule_book.cache_clear()
        anchor_finder.cache_clear()
        yield
    rule_book.cache_clear()
    anchor_finder.cache_clear()


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
