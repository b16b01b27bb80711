"""What a door stands on: the rooms of the bus behind it, and the rules of its channel."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from channels.inbound.admission import RateOf, unlimited
from channels.inbound.keeping import Keeping
from gateway.bus.access import Access, Questions, Suggestions
from gateway.bus.deliveries import Deliveries
from gateway.bus.inbound import Inbound
from gateway.contracts.access import AccessPolicy
from gateway.contracts.ids import SessionScope
from gateway.contracts.ports import Clock, Scrubber
from gateway.limits import DISK_LOOK_EVERY_S, LANE_MESSAGES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorRooms:
    """Where a door brings what it takes, and whom it asks. Without `keeping` a secret is removed and not kept."""

    intake: Inbound
    access: Access
    deliveries: Deliveries
    presses: Questions
    suggestions: Suggestions
    scrubber: Scrubber
    clock: Clock
    keeping: Keeping | None = None


@dataclass(frozen=True, slots=True)
class DoorRules:
    """How a door treats those who come."""

    access: AccessPolicy
    scope: SessionScope
    settle_ms: int = 0
    lane_messages_max: int = LANE_MESSAGES_MAX
    """What the bus lets wait in one lane: told to those whose messages it turns away."""
    interrupts: bool = False
    """A message cancels the running turn of its lane."""

    language: str = ""
    """Everybody is spoken to in this one; empty: in his own."""

    rate_of: RateOf = unlimited
    """People write no faster than this, by their role."""

    command_rate_of: RateOf = unlimited
    """Likewise for commands that wait behind nothing, and for buttons."""

    has_disk: Callable[[], bool] = lambda: True
    """Whether what a new message makes bus and database write has room on this machine."""


class FreeDisk:
    """Says whether the disk of `folder` has its free bytes. A folder that is not here keeps nobody out: then bus and
    database are elsewhere."""

    def __init__(self, folder: Path, free_bytes: int) -> None:
        self._folder = folder
        self._free_bytes = free_bytes
        self._looked_at_s = float("-inf")
        self._is_enough = True

    def __call__(self) -> bool:
        """Look, or say what was seen a moment ago."""
        now_s = time.monotonic()
        if now_s - self._looked_at_s >= DISK_LOOK_EVERY_S:
            self._looked_at_s = now_s
            try:
                self._is_enough = shutil.disk_usage(self._folder).free >= self._free_bytes
            except OSError:
                self._is_enough = True
        return self._is_enough
