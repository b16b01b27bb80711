"""A busy machine at will: sockets are heard, and jobs of SQLite done, up to 25 ms late, as chance will have it. What
fails under it did not wait for what it needs.

    make test ARGS="tests/story -p tests.parts.late"      LATE=7 make test … for another chance
"""

from __future__ import annotations

import os
import random
import selectors
import time
from asyncio import selector_events
from typing import Any, Final

from gateway.store import sqlite

MOST_S: Final = 0.025
SHARE: Final = 0.35
_LOOK_S: Final = 0.003  # how soon what is held is looked at again
_chance: Final = random.Random(int(os.environ.get("LATE", "1")))


class LateSelector(selectors.DefaultSelector):
    """Keeps some of what is ready to itself for a while; it is ready still when it is asked again."""

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[int, float] = {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        soon_s = _LOOK_S if timeout is None else min(timeout, _LOOK_S)
        found = super().select(soon_s if self._held else timeout)
        now_s, ready = time.monotonic(), {key.fd for key, _ in found}
        told = [(key, mask) for key, mask in found if self._held.setdefault(key.fd, now_s + _late_s()) <= now_s]
        for number in [*(key.fd for key, _ in told), *(set(self._held) - ready)]:
            del self._held[number]
        if found and not told and timeout != 0:
            time.sleep(0.001)
        return told


def _late_s() -> float:
    return _chance.random() ** 3 * MOST_S if _chance.random() < SHARE else 0.0


def _with_late_selector(
    loop: Any, selector: Any = None, _make: Any = selector_events.BaseSelectorEventLoop.__init__
) -> None:
    _make(loop, selector or LateSelector())


def _do_late(job: Any, connection: Any, _do: Any = sqlite._Job.do) -> None:
    time.sleep(_late_s())
    _do(job, connection)


selector_events.BaseSelectorEventLoop.__init__ = _with_late_selector  # type: ignore[assignment]
sqlite._Job.do = _do_late  # type: ignore[assignment]
