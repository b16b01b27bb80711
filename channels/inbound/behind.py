"""The rooms whose history has to be read before anything new is taken from them. Pure.

A room is a place with all its threads: what stands before the first slash of a place's name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from channels.backoff import Backoff


def room_of(place: str) -> str:
    """The room a place lies in."""
    return place.partition("/")[0]


class Behind:
    """Rooms to read back, in the order in which that will be done."""

    def __init__(self, *, first_s: float, cap_s: float) -> None:
        """After a failure a room waits `first_s`, then twice that, … up to `cap_s`."""
        self._first_s = first_s
        self._cap_s = cap_s
        self._due_s: OrderedDict[str, float] = OrderedDict()
        self._pauses: dict[str, Backoff] = {}

    def __contains__(self, room: str) -> bool:
        return room in self._due_s

    def __len__(self) -> int:
        return len(self._due_s)

    def add(self, rooms: Iterable[str]) -> None:
        """These, after all others, as soon as it is their turn."""
        for room in rooms:
            self._due_s[room] = 0.0

    def hurry(self, room: str) -> None:
        """Somebody is talking in this room and waits: it is the next, unless it has just failed."""
        self._due_s.move_to_end(room, last=False)

    def postpone(self, room: str, now_s: float) -> int:
        """It could not be read to its end: later again. Returns how often that has happened in a row."""
        pause = self._pauses.setdefault(room, Backoff(self._first_s, self._cap_s))
        self._due_s[room] = now_s + pause.next_s()
        self._due_s.move_to_end(room)
        return pause.tries

    def done(self, room: str) -> None:
        """There is nothing left to read in it."""
        self._due_s.pop(room, None)
        self._pauses.pop(room, None)

    def next(self, now_s: float) -> str | None:
        """The room to read now, None while all of them wait."""
        return next((room for room, due_s in self._due_s.items() if due_s <= now_s), None)

    def wait_s(self, now_s: float) -> float | None:
        """How long until a room may be read, None when there is none."""
        return max(0.0, min(self._due_s.values()) - now_s) if self._due_s else None
