"""The only source of now() and of random ids."""

from __future__ import annotations

import secrets
import time
from typing import Final

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TIME_CHARS: Final = 10
_CHANCE_CHARS: Final = 16
_READABLE: Final = "ABCDEFGHJKMNPQRSTVWXYZ23456789"


class SystemClock:
    """`gateway.contracts.ports.Clock` on the machine's clock."""

    def now_ms(self) -> int:
        """Unix time in milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Seconds that never run backwards."""
        return time.monotonic()

    def new_id(self) -> str:
        """A ULID: 48 bits of time, 80 bits of chance, sortable as text."""
        moment = self.now_ms()
        stamp = "".join(_CROCKFORD[(moment >> shift) & 31] for shift in range(5 * (_TIME_CHARS - 1), -1, -5))
        return stamp + "".join(secrets.choice(_CROCKFORD) for _ in range(_CHANCE_CHARS))

    def code(self, length: int) -> str:
        """Letters and digits that cannot be confused when read aloud."""
        return "".join(secrets.choice(_READABLE) for _ in range(length))
