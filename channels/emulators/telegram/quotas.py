"""How much a bot may send: one bucket per chat and one for everything, answered with 429 when empty.

The vendor documents about one message a second in a chat (short bursts pass), 20 a minute in a group and about
30 a second overall; how much burst passes is not published, so the bursts here are our reading.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from channels.emulators.telegram.errors import too_many_requests


@dataclass(frozen=True, slots=True)
class Allowance:
    """`burst` calls at once, then `per_s` a second."""

    burst: float
    per_s: float


PRIVATE: Final = Allowance(burst=20, per_s=1)
GROUP: Final = Allowance(burst=20, per_s=20 / 60)
OVERALL: Final = Allowance(burst=120, per_s=30)

_EVERYTHING: Final = 0  # no chat has this id


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Quotas:
    """`now` gives seconds that do not run backwards."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._buckets: dict[int, _Bucket] = {}

    def spend(self, chat_id: int, messages: int = 1) -> None:
        """Take that many messages' worth. Raises the 429 that tells when there will be enough again."""
        allowance = GROUP if chat_id < 0 else PRIVATE
        wait_s = max(self._wait_s(_EVERYTHING, OVERALL, messages), self._wait_s(chat_id, allowance, messages))
        if wait_s > 0:
            raise too_many_requests(math.ceil(wait_s))
        self._buckets[_EVERYTHING].left -= messages
        self._buckets[chat_id].left -= messages

    def _wait_s(self, name: int, allowance: Allowance, messages: int) -> float:
        now = self._now()
        bucket = self._buckets.setdefault(name, _Bucket(allowance.burst, now))
        bucket.left = min(allowance.burst, bucket.left + (now - bucket.at) * allowance.per_s)
        bucket.at = now
        return max(0.0, messages - bucket.left) / allowance.per_s
