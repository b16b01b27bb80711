"""What a time phrase is made of, as values. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.words import ENGLISH, Spoken

_PART_HOURS: Final = {
    # The hours that a part of the day may name, and what is added to them; hours from 13 on name themselves.
    "am": ({12: -12}, range(1, 13)),
    "pm": (dict.fromkeys(range(1, 12), 12), range(1, 13)),
    "morning": ({}, range(1, 12)),
    "small_hours": ({}, range(6)),
    "afternoon": (dict.fromkeys(range(1, 9), 12), (*range(1, 9), *range(12, 21))),
    "evening": (dict.fromkeys(range(4, 12), 12), (*range(4, 12), *range(16, 24))),
    "night": (dict.fromkeys(range(7, 12), 12), (*range(7, 12), *range(19, 24))),
}


class Unclear(ValueError):
    """A time that was not understood: why, as a clause, to be said in anybody's language (a model reads it in English).
    `end` is how far it was read."""

    def __init__(self, why: Spoken, end: int = 0) -> None:
        super().__init__(why(ENGLISH))
        self.why = why
        self.end = end


@dataclass(frozen=True, slots=True)
class Delay:
    """So long from now. Seconds elapse; days and months are counted on the calendar."""

    seconds: int = 0
    days: int = 0
    months: int = 0


@dataclass(frozen=True, slots=True)
class Repeating:
    """Again and again: after some seconds, every so many days, on some weekdays (1 to 7), or on a day of the month.
    `part` is the part of the day that was named with it ("every morning")."""

    seconds: int = 0
    days: int = 0
    weekdays: frozenset[int] = frozenset()
    month_day: int = 0
    part: str = ""


@dataclass(frozen=True, slots=True)
class Day:
    """One day: `offset` days from today, the next of a weekday, or a date (year 0: the next there is)."""

    offset: int = -1
    weekday: int = 0
    is_next: bool = False
    is_next_week: bool = False
    date: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day. A midnight has no day of its own: nobody can say which one is meant."""

    hour: int
    minute: int = 0
    is_midnight: bool = False


@dataclass(slots=True)
class Parts:
    """What was found, and where it ends."""

    delay: Delay | None = None
    repeating: Repeating | None = None
    day: Day | None = None
    clock: Clock | None = None
    part: str = ""
    is_clock_final: bool = False
    end: int = 0

    @property
    def is_empty(self) -> bool:
        """True when nothing was read."""
        return self.end == 0


def in_part(clock: Clock, part: str, end: int) -> Clock:
    """An hour with the part of the day that was said beside it. Raises `Unclear` where they contradict."""
    if clock.is_midnight:
        raise Unclear(lambda words: words.say("midnight is in no part of a day"), end)
    added, hours = _PART_HOURS[part]
    if clock.hour not in hours:
        raise Unclear(
            lambda words: words.say("{time} and that part of the day do not go together", time=_written(clock)), end
        )
    return Clock(clock.hour + added.get(clock.hour, 0), clock.minute)


def checked(hour: int, minute: int, end: int) -> Clock:
    """A time of day that exists. Raises `Unclear`."""
    if hour > 23 or minute > 59:
        raise Unclear(lambda words: words.say("{time} is no time of day", time=_written(Clock(hour, minute))), end)
    return Clock(hour, minute)


def _written(clock: Clock) -> str:
    return f"{clock.hour}:{clock.minute:02}"
