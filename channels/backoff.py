"""How long to wait before trying again: doubling, capped, with jitter, so that many do not come back at once."""

from __future__ import annotations

import random
from collections.abc import Callable


class Backoff:
    """Delays `first_s`, twice that, … up to `cap_s`, each between half and all of its size."""

    def __init__(self, first_s: float, cap_s: float, chance: Callable[[], float] = random.random) -> None:
        self._first_s = first_s
        self._cap_s = cap_s
        self._chance = chance
        self._tries = 0

    @property
    def tries(self) -> int:
        """Delays handed out since the last reset."""
        return self._tries

    def reset(self) -> None:
        """The last try went well."""
        self._tries = 0

    def next_s(self) -> float:
        """Seconds to wait before the next try."""
        whole_s = min(self._cap_s, self._first_s * 2.0 ** min(self._tries, 32))
        self._tries += 1
        return jittered(whole_s, self._chance)


def jittered(delay_s: float, chance: Callable[[], float] = random.random) -> float:
    """Between half and all of `delay_s`."""
    return delay_s * (0.5 + 0.5 * chance())
