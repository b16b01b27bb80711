"""`at 9:30`, `8 Uhr`, `a las 8 y media`, `下午三点`: which time of day. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from agent.schedules.parts import Clock, Unclear, checked, in_part
from agent.schedules.scanner import Scanner

_WITH_COLON: Final = re.compile(r"(\d{1,2}):(\d{2})(?!\d)(?!:\d)")
_WITH_H: Final = re.compile(r"(\d{1,2})h(\d{2})(?!\w)", re.IGNORECASE)
_WITH_DOT: Final = re.compile(r"(\d{1,2})\.(\d{2})(?![\d.])")
_HOUR: Final = re.compile(r"\d{1,2}(?!\d|[:.,/]\d)")
_MINUTES: Final = re.compile(r"\d{1,2}(?![\d:])")
_HALVES: Final = frozenset({"am", "pm"})


@dataclass(frozen=True, slots=True)
class Told:
    """A time of day, where it ends, and whether its part of the day was said, so that none may follow."""

    clock: Clock
    end: int
    is_final: bool = True


def clock(scanner: Scanner, at: int, part: str) -> Told | None:
    """The time of day that stands at `at`; `part` is the part of the day that was said before."""
    begin = scanner.words("at", at)
    start = scanner.behind("at", at)
    by_name = _by_name(scanner, at) or _by_name(scanner, start)
    if by_name is not None:
        return by_name
    if not scanner.is_spaced and (before := scanner.meaning("parts", start)) is not None:
        part, start = before[0], scanner.behind_commas(before[1])
    found = _written(scanner, start) or _spoken(scanner, start, is_announced=begin is not None)
    if found is None:
        return None
    hour, end = found
    behind = scanner.meaning("parts", scanner.behind_spaces(end))
    if part:
        return Told(in_part(hour, part, end), end)
    if behind is not None:
        return Told(in_part(hour, *behind), behind[1])
    return Told(hour, end, is_final=False)


def _by_name(scanner: Scanner, at: int) -> Told | None:
    noon = scanner.words("noon", at)
    if noon is not None:
        return Told(Clock(12), noon)
    midnight = scanner.words("midnight", at)
    return None if midnight is None else Told(Clock(0, is_midnight=True), midnight)


def _written(scanner: Scanner, at: int) -> tuple[Clock, int] | None:
    """`9:30`, `9h30`, and `9.30 Uhr`, which without its last word might be a date."""
    for pattern in (_WITH_COLON, _WITH_H, _WITH_DOT):
        match = pattern.match(scanner.text, at)
        if match is None:
            continue
        behind = scanner.behind_spaces(match.end())
        named, part = scanner.words("oclock", behind), scanner.meaning("parts", behind)
        if named is None and part is None and _is_torn(scanner, match.end()):
            return None
        if pattern is _WITH_DOT and named is None and part is None:
            raise _ambiguous(match)
        return checked(int(match[1]), int(match[2]), match.end()), named or match.end()
    return None


def _spoken(scanner: Scanner, at: int, *, is_announced: bool) -> tuple[Clock, int] | None:
    """`8`, `8 Uhr`, `8pm`, `8 y media`, `九点半`: something beside the number says that it is an hour."""
    match = _HOUR.match(scanner.text, at)
    number = (int(match[0]), match.end()) if match is not None else scanner.number_word(at)
    if number is None:
        return None
    hour, end = number
    behind = scanner.behind_spaces(end)
    named, part = scanner.words("oclock", behind), scanner.meaning("parts", behind)
    if named is None and not (is_announced or (part is not None and part[0] in _HALVES)):
        return None
    if named is None and part is None and (_is_torn(scanner, end) or scanner.meaning("units", behind) is not None):
        return None
    end = named or end
    past = scanner.meaning("past", scanner.behind_commas(end))
    if past is not None:
        return checked(*divmod(hour * 60 + int(past[0]), 60), past[1]), past[1]
    minutes = None if named is None else _minutes(scanner, scanner.behind_commas(named))
    return (checked(hour, 0, end), end) if minutes is None else (checked(hour, *minutes), minutes[1])


def _minutes(scanner: Scanner, at: int) -> tuple[int, int] | None:
    """What follows the hour in `8 Uhr 30`, `8点30分`, `в 8 часов 30 минут`."""
    match = _MINUTES.match(scanner.text, at)
    number = (int(match[0]), match.end()) if match is not None else None
    if number is None and not scanner.is_spaced:
        number = scanner.number(at)
    if number is None:
        return None
    minutes, end = number
    unit = scanner.meaning("units", scanner.behind_spaces(end))
    if unit is not None:
        return (minutes, unit[1]) if unit[0] == "minute" else None
    return None if _is_torn(scanner, end) else (minutes, end)


def _is_torn(scanner: Scanner, end: int) -> bool:
    """Whether a word goes on behind `end`: `9ish`."""
    return scanner.is_spaced and scanner.text[end : end + 1].isalnum()


def _ambiguous(match: re.Match[str]) -> Unclear:
    said, time = match[0], f"{match[1]}:{match[2]}"
    return Unclear(
        lambda words: words.say("“{said}” may be a time or a date: write {time}", said=said, time=time), match.end()
    )
