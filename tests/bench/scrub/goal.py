"""A row of the goal table, and how figures are written in it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal and how near we are. `is_met` is None when a test proves it and nothing is measured here."""

    number: int
    what: str
    goal: str
    measured: str
    is_met: bool | None


@dataclass(frozen=True, slots=True)
class Measured:
    """Rows of the table, and below it what is worst, by name."""

    goals: list[Goal]
    worst: dict[str, list[str]] = field(default_factory=dict)


def percent(share: float, digits: int = 2) -> str:
    """`0.9951` is `99.51 %`."""
    return f"{100 * share:.{digits}f} %"


def by_seed(shares: Sequence[float]) -> str:
    """The figures of all seeds, side by side."""
    return " / ".join(percent(share) for share in shares)


def shortened(text: str, chars: int = 110) -> str:
    """One line of a text, for an example."""
    line = text.encode("unicode_escape").decode() if not text.isprintable() else text
    return line if len(line) <= chars else f"{line[: chars - 1]}…"
