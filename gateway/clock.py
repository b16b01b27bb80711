"""The only source of now() and of random ids."""

from __future__ import annotations

import secrets
import time
from typing import Final

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS: Final = [first + second for first in _CROCKFORD for second in _CROCKFORD]
_TIME_CHARS: Final = 10
_CHANCE_CHARS: Final = 16
_READABLE: Final = "ABCDEFGHJKMNPQRSTVWXYZ23456789"


class SystemClock:
    """`gateway.contracts.ports.Clock` on the machine's clock."""

    def now_ms(self) -> int:
        """Return Unix time in milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Return seconds that never run backwards."""
        return time.monotonic()

    def new_id(self) -> str:
        """Return a ULID: 48 bits of time, 80 random bits, sortable as text."""
        return _crockford(self.now_ms(), _TIME_CHARS) + _crockford(secrets.randbits(5 * _CHANCE_CHARS), _CHANCE_CHARS)

    def code(self, length: int) -> str:
        """Return letters and digits that cannot be confused when read aloud."""
        return "".join(secrets.choice(_READABLE) for _ in range(length))


def _crockford(number: int, length: int) -> str:
    """Return the lowest bits of a number as text of an even length, five bits a character."""
    return "".join([_PAIRS[(number >> shift) & 1023] for shift in range(5 * (length - 2), -1, -10)])
