"""Discord's rate limits: fixed windows per kind of request and major parameter, and one for the whole bot."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass

from channels.emulators.discord.switches import Switches


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the bucket says about one request. `reset_after_s` counts from now, `resets_at_s` is Unix time."""

    is_granted: bool
    bucket: str
    limit: int
    remaining: int
    reset_after_s: float
    resets_at_s: float
    is_global: bool = False

    def headers(self) -> dict[str, str]:
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(self.remaining),
            "X-RateLimit-Reset": f"{self.resets_at_s:.3f}",
            "X-RateLimit-Reset-After": f"{_up(self.reset_after_s):.3f}",
            "X-RateLimit-Bucket": self.bucket,
        }


@dataclass(slots=True)
class _Window:
    ends_s: float
    used: int = 0


class Buckets:
    """Counts requests. `clock_s` gives Unix seconds."""

    def __init__(self, switches: Switches, clock_s: Callable[[], float]) -> None:
        self._switches = switches
        self._clock_s = clock_s
        self._windows: dict[tuple[str, str], _Window] = {}

    def take(self, kind: str, major: str) -> Allowance | None:
        """Use one request of the bucket; None when this kind is not limited."""
        rate = self._switches.rates.get(kind)
        return None if rate is None else self._take(kind, major, *rate)

    def take_global(self) -> Allowance | None:
        """None while the bot is within its requests per second over all routes."""
        if not self._switches.global_per_s:
            return None
        allowance = self._take("global", "", self._switches.global_per_s, 1.0, is_global=True)
        return None if allowance.is_granted else allowance

    def _take(self, kind: str, major: str, limit: int, per_s: float, *, is_global: bool = False) -> Allowance:
        now_s = self._clock_s()
        window = self._windows.get((kind, major))
        if window is None or window.ends_s <= now_s:
            window = self._windows[kind, major] = _Window(now_s + per_s)
        is_granted = window.used < limit
        window.used += is_granted
        bucket = hashlib.md5(kind.encode(), usedforsecurity=False).hexdigest()
        left_s = window.ends_s - now_s
        return Allowance(is_granted, bucket, limit, limit - window.used, left_s, window.ends_s, is_global)


def _up(seconds: float) -> float:
    """To whole milliseconds, never downward: who waits that long must not come too early."""
    return math.ceil(seconds * 1000) / 1000
