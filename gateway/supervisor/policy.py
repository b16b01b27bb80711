"""When a role that died starts again. Pure: time and chance come in as arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.exits import EXIT_CONFIG

FIRST_DELAY_S: Final = 0.2  # a crash by chance costs the users almost nothing
DELAY_MAX_S: Final = 30.0  # a role that cannot live still finds its cure within half a minute
STEADY_AFTER_S: Final = 60.0  # whoever lived this long did not die of its start
_JITTER: Final = 0.5  # several roles that lost the same server do not come back in step


@dataclass(frozen=True, slots=True)
class StartAgain:
    """Start the role again after `delay_s`."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Starting again is pointless: an operator has to change something."""


@dataclass(frozen=True, slots=True)
class Restarts:
    """How one role fared so far: `in_a_row` deaths without a steady life between them."""

    in_a_row: int = 0

    def after(self, *, code: int, alive_s: float, chance: float) -> tuple[Restarts, StartAgain | GiveUp]:
        """What to do after a death. `chance` lies in [0, 1) and spreads the delay."""
        if code == EXIT_CONFIG:
            return self, GiveUp()
        deaths = 1 if alive_s >= STEADY_AFTER_S else self.in_a_row + 1
        doubled = FIRST_DELAY_S * 2 ** min(deaths - 1, 16)
        spread = 1 + _JITTER * (chance - 0.5)
        return Restarts(deaths), StartAgain(max(FIRST_DELAY_S, min(doubled * spread, DELAY_MAX_S)))
