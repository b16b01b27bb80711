"""What a measurement says, and the goals and peers it is printed beside. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Aim:
    """A goal of ours, and what the two leanest peers need for the same work."""

    goal: str
    peers: str


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of one experiment. `aim` names a row of `AIMS`, or is empty."""

    what: str
    value: float
    unit: str
    aim: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class RoleMemory:
    """The resident memory of one process, in MB: all of it, its share, and what it has for itself."""

    role: str
    rss_mb: float
    pss_mb: float
    uss_mb: float


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of its own, for what is compared cell by cell."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str | float, ...], ...]


@dataclass(frozen=True, slots=True)
class Findings:
    """What one experiment found."""

    figures: tuple[Figure, ...] = ()
    grids: tuple[Grid, ...] = ()


def memory_grid(state: str, roles: Sequence[RoleMemory]) -> Grid:
    """What processes held when they were looked at in some state, and all of them together."""
    rss_mb, pss_mb, uss_mb = (
        (role.rss_mb for role in roles),
        (role.pss_mb for role in roles),
        (role.uss_mb for role in roles),
    )
    everybody = (*roles, RoleMemory("all", sum(rss_mb), sum(pss_mb), sum(uss_mb)))
    rows = tuple((role.role, role.rss_mb, role.pss_mb, role.uss_mb) for role in everybody)
    return Grid(f"Memory, {state}, in MB", ("process", "resident", "its share", "its own"), rows)


AIMS: Final[Mapping[str, Aim]] = {
    "latency": Aim("<= 12 ms", "56, 145"),
    "latency-p95": Aim("<= 25 ms", ""),
    "cpu": Aim("<= 8 ms", "61, 95"),
    "cpu-litellm": Aim("<= 15 ms", "37, 77"),
    "first-of-chat": Aim("<= 30 ms", "39, 277"),
    "first-of-chat-p95": Aim("<= 60 ms", ""),
    "after-start": Aim("<= 0.3 s", ""),
    "rate": Aim(">= 120 /s", "21, 10"),
    "slow-model": Aim("<= 3 s", "219, 36"),
    "waiting": Aim("<= 13 s", ""),
    "first-poll": Aim("<= 1 s", "4.2, 1.5"),
    "up": Aim("<= 2.5 s", ""),
    "tree": Aim("<= 200 MB", "239, 116"),
    "tree-telegram": Aim("<= 170 MB", ""),
    "single": Aim("<= 130 MB", ""),
    "agent-litellm": Aim("<= 180 MB", ""),
    "channels": Aim("<= 80 MB", ""),
    "taskiq": Aim(">= 8", ""),
    "docket": Aim(">= 12", ""),
    "order": Aim("0", ""),
    "idle-session": Aim("0 B", ""),
    "session": Aim("<= 130 B", ""),
    "further": Aim("<= 16 B", ""),
    "dedupe": Aim("<= 45 B", ""),
    "history": Aim("<= 20 ms", ""),
    "restart": Aim("p95 <= 4 s", ""),
    "answered": Aim("<= 15 s", "none, 31 of 100 in 30 s"),
    "lost": Aim("0", "100"),
    "doubled": Aim("0", "8 to 14"),
    "stop": Aim("p99 < 1 s", ""),
    "hot": Aim("<= 2", ""),
    "spawn": Aim("< 300 ms", ""),
}


def percentile(values: Sequence[float], percent: int) -> float:
    """The value below which `percent` of at least two values lie."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
