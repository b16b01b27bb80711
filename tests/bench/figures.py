"""What a measurement says, and the goals and peers it is printed beside. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
class Findings:
    """What one experiment found."""

    figures: tuple[Figure, ...] = ()
    memory: Mapping[str, tuple[RoleMemory, ...]] = field(default_factory=dict)
    """By the state the processes were in when they were looked at."""


AIMS: Final[Mapping[str, Aim]] = {
    "latency": Aim("<= 15 ms", "56, 145"),
    "cpu": Aim("<= 15 ms", "61, 95"),
    "rate": Aim(">= 60 /s, then 100", "21, 10"),
    "slow-model": Aim("<= 3 s", "219, 36"),
    "first-poll": Aim("<= 1 s", "4.2, 1.5"),
    "tree": Aim("<= 200 MB", "239, 116"),
    "channels": Aim("<= 80 MB", ""),
}


def percentile(values: Sequence[float], percent: int) -> float:
    """The value below which `percent` of at least two values lie."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
