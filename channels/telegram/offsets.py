"""How far the updates of a bot are taken: the id to ask for next, and when that was known. Pure.

"If there are no new updates for at least a week, then identifier of the next update will be chosen
randomly instead of sequentially" (Bot API, Update). An id from before such a pause says nothing about
the ids after it, so it must not be asked for; and no id may be ignored because it is a lower one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GOOD_FOR_MS: Final = 6 * 24 * 3600 * 1000
"""Less than the week, and more than the day for which Telegram keeps an update: what was confirmed last
is gone by itself, so asking from the beginning repeats nothing."""


@dataclass(frozen=True, slots=True)
class Offset:
    """`update_id` is the lowest that is still wanted; 0 wants everything."""

    update_id: int = 0
    known_at_ms: int = 0

    @classmethod
    def parse(cls, record: str | None) -> Offset:
        """The inverse of `as_text`; the beginning for a record that is none."""
        update_id, _, known_at_ms = (record or "").partition("@")
        return cls(int(update_id), int(known_at_ms)) if update_id.isdecimal() and known_at_ms.isdecimal() else cls()

    def as_text(self) -> str:
        return f"{self.update_id}@{self.known_at_ms}"

    def valid_at(self, now_ms: int) -> int:
        """What to ask for."""
        return self.update_id if now_ms - self.known_at_ms < GOOD_FOR_MS else 0
