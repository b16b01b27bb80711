"""What a model says, clean, while it is said.

Deltas are words or less, and the scrubber takes some 50 microseconds for each piece, however short. So they are
gathered until somebody looks at the text, or there is a page of them.
"""

from __future__ import annotations

from typing import Final

from agent.limits import SCRUBBED_AT_ONCE_CHARS
from gateway.contracts.messages import CleanText, joined, own_words
from gateway.contracts.ports import Scrubber

_NOTHING: Final = own_words("")


class Hearing:
    """The text of one stream. What comes out is final: what may still become a secret is held back."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self.begin_anew()

    def begin_anew(self) -> None:
        """The stream has started over: nothing was said yet."""
        self._scrubbing = self._scrubber.stream()
        self._clean: list[CleanText] = []
        self._raw: list[str] = []
        self._raw_chars = 0

    def add(self, delta: str) -> CleanText:
        """The model went on; what has become certain by it, which is nothing until there is a page."""
        self._raw.append(delta)
        self._raw_chars += len(delta)
        return self._scrub() if self._raw_chars >= SCRUBBED_AT_ONCE_CHARS else _NOTHING

    def so_far(self) -> CleanText:
        """All that is certain by now."""
        self._scrub()
        return joined(*self._clean)

    def to_the_end(self) -> CleanText:
        """All of it: the model has finished."""
        self._scrub()
        self._clean.append(self._scrubbing.flush())
        return joined(*self._clean)

    def _scrub(self) -> CleanText:
        if not self._raw:
            return _NOTHING
        clean = self._scrubbing.feed("".join(self._raw))
        self._clean.append(clean)
        self._raw.clear()
        self._raw_chars = 0
        return clean
