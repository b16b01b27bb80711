"""Discord's ids carry their time: `(id >> 22) + EPOCH_MS` (developer documentation, "Snowflakes"). Pure."""

from __future__ import annotations

from typing import Final

from channels.inbound.marks import Order

EPOCH_MS: Final = 1_420_070_400_000
_TIME_SHIFT: Final = 22


def snowflake_at(moment_ms: int) -> int:
    """The smallest id of that millisecond: everything later is greater."""
    return max(0, moment_ms - EPOCH_MS) << _TIME_SHIFT


def _just_before(snowflake: str) -> str:
    return str(max(0, int(snowflake) - 1))


ORDER: Final = Order(key=int, before=_just_before)
