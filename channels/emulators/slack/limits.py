"""Slack's rate limits: a tier per method, and a pace per channel for chat.postMessage. Token buckets."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from channels.emulators.slack.errors import RateLimited
from channels.emulators.slack.switches import Switches

TIERS: Final = {
    "apps.connections.open": "1",
    "chat.startStream": "2",
    "chat.stopStream": "2",
    "conversations.list": "2",
    "reactions.remove": "2",
    "users.list": "2",
    "chat.update": "3",
    "chat.delete": "3",
    "conversations.history": "3",
    "conversations.replies": "3",
    "conversations.info": "3",
    "conversations.open": "3",
    "conversations.join": "3",
    "users.conversations": "3",
    "reactions.add": "3",
    "chat.appendStream": "4",
    "chat.postEphemeral": "4",
    "conversations.members": "4",
    "users.info": "4",
    "files.getUploadURLExternal": "4",
    "files.completeUploadExternal": "4",
    "files.info": "4",
    "views.publish": "4",
    "assistant.threads.setTitle": "4",
    "assistant.threads.setStatus": "5",
    "auth.test": "5",
}


class Limits:
    """`clock_s` gives seconds."""

    def __init__(self, switches: Switches, clock_s: Callable[[], float]) -> None:
        self._switches = switches
        self._clock_s = clock_s
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, method: str, channel_id: str) -> None:
        """Count one call. Raises `RateLimited`."""
        if not self._switches.is_rate_limited:
            return
        if method == "chat.postMessage":
            self._take(f"{method} {channel_id}", self._switches.posts_burst, self._switches.posts_per_s)
        elif method in TIERS:
            per_minute = self._switches.tier_per_minute[TIERS[method]]
            self._take(method, per_minute, per_minute / 60)

    def _take(self, name: str, capacity: float, per_s: float) -> None:
        now_s = self._clock_s()
        left, since_s = self._buckets.get(name, (capacity, now_s))
        left = min(capacity, left + (now_s - since_s) * per_s)
        if left < 1:
            self._buckets[name] = (left, now_s)
            raise RateLimited(max(1, math.ceil((1 - left) / per_s)))
        self._buckets[name] = (left - 1, now_s)
