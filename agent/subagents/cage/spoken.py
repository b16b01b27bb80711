"""What a child says on its way, as far as its parent keeps it: the last of it, should nothing more come. Pure."""

from __future__ import annotations

from collections import deque

from gateway.limits import SUBAGENT_KEPT_CHARS_MAX
from gateway.scrub.cutting import without_broken_start


class Spoken:
    """The end of what was said since a model was asked last; until something is said again, of what was said before."""

    def __init__(self, chars_max: int = SUBAGENT_KEPT_CHARS_MAX) -> None:
        self._chars_max = chars_max
        self._deltas: deque[str] = deque()
        self._chars = 0
        self._is_cut = False
        self._begins_anew = False

    def begin_anew(self) -> None:
        """What is said from now on replaces what was said."""
        self._begins_anew = True

    def add(self, delta: str) -> None:
        """Take the next piece."""
        if self._begins_anew:
            self._deltas.clear()
            self._chars, self._is_cut, self._begins_anew = 0, False, False
        self._deltas.append(delta)
        self._chars += len(delta)
        while self._chars - len(self._deltas[0]) >= self._chars_max:
            dropped = self._deltas.popleft()
            self._chars -= len(dropped)
            self._is_cut = self._is_cut or bool(dropped)

    def text(self) -> str:
        """All of it, or its end, without what may be half of a secret."""
        whole = "".join(self._deltas)
        if self._is_cut or len(whole) > self._chars_max:
            return without_broken_start(whole[-self._chars_max :])
        return whole
