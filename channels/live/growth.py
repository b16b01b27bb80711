"""What of a growing answer is shown next, where it is shown in messages that stay. No I/O.

A message that is full is frozen at the border that the renderer chose, and the text goes on in the next one. Each call
brings one message up to date, the earlier ones first, so a border that moved is put right before anything is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from channels.adapter import AnyChunk


@dataclass(frozen=True, slots=True)
class Begin:
    """One message more."""

    chunk: AnyChunk


@dataclass(frozen=True, slots=True)
class Change:
    """The message at this place shows something else by now."""

    at: int
    chunk: AnyChunk


@dataclass(frozen=True, slots=True)
class TakeBack:
    """The last message: the text is shorter than it was, because it was begun anew."""


Step: TypeAlias = Begin | Change | TakeBack


def next_step(shown: Sequence[AnyChunk | None], chunks: Sequence[AnyChunk]) -> Step | None:
    """What brings messages that show `shown` (None: who knows what) closer to `chunks`. None: they are the same, or
    there is nothing to show."""
    for at, (old, new) in enumerate(zip(shown, chunks, strict=False)):
        if old != new:
            return Change(at, new)
    if not chunks or len(shown) == len(chunks):
        return None
    return Begin(chunks[len(shown)]) if len(shown) < len(chunks) else TakeBack()


def has_grown(before: str, now: str, *, chars_min: int) -> bool:
    """Whether it is worth a call: it is longer by `chars_min`, or it is another text."""
    if not before:
        return bool(now)
    return len(now) - len(before) >= chars_min or not now.startswith(before)
