"""One at a time in each lane: an answer and what shows a draft never call a platform side by side for the same place.

Who looks for a lost message must not find one that somebody else has just begun there.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from channels.outbound.pace import Pace


@dataclass(slots=True, weakref_slot=True)
class Spot:
    """One lane, as long as somebody has something to do in it. Drafts wait until `free_at_s` by the loop's clock."""

    one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)
    pace: Pace = field(default_factory=Pace)
    free_at_s: float = float("-inf")


class Spots:
    """Those of one channel."""

    def __init__(self) -> None:
        self._spots: WeakValueDictionary[str, Spot] = WeakValueDictionary()

    def of(self, lane: str) -> Spot:
        """The same for all who ask while anybody holds it."""
        return self._spots.setdefault(lane, Spot())
