"""How fast a growing answer is shown in one place: slower after each 429, slowly as fast as before. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from channels.adapter import Cadence

SLOWNESS_MAX: Final = 16.0  # a minute in a group of Telegram: whoever is refused so often is better silent
CALM_CALLS: Final = 8  # that went well in a row before it is worth trying to be twice as fast


@dataclass(frozen=True, slots=True)
class Pace:
    """`slowness` times what the platform allows; `calm` calls went well since that changed."""

    slowness: float = 1.0
    calm: int = 0

    def interval_s(self, cadence: Cadence) -> float:
        """The least time between two calls."""
        return cadence.every_s * self.slowness

    def refused(self) -> Pace:
        """The platform said that it was too much."""
        return Pace(min(self.slowness * 2, SLOWNESS_MAX))

    def taken(self) -> Pace:
        """A call went well."""
        if self.calm + 1 < CALM_CALLS or self.slowness <= 1.0:
            return Pace(self.slowness, self.calm + 1)
        return Pace(max(1.0, self.slowness / 2))
