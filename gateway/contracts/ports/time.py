"""The only source of now() and of random ids."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """The only source of now() and of random ids."""

    def now_ms(self) -> int:
        """Return Unix time in milliseconds."""
        ...

    def monotonic_s(self) -> float: ...

    def new_id(self) -> str:
        """Mint a sortable unique id, 26 characters."""
        ...

    def code(self, length: int) -> str:
        """Mint a random code without look-alike characters, fit to be read aloud."""
        ...
