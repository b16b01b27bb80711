"""`tomorrow`, `next Monday`, `on 24 December`: which day. Pure."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

from agent.schedules.parts import Day, Unclear
from agent.schedules.scanner import Scanner

_ISO: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?!\d)T?")
_DOTTED: Final = re.compile(r"(\d{1,2})\.\s?(\d{1,2})\.(\d{4})?(?!\d)")
_SLASHED: Final = re.compile(r"\d{1,4}/\d{1,2}(/\d{1,4})?(?!\d)")
_HAN: Final = re.compile(r"(?:(\d{4})年)?(\d{1,2})月(\d{1,2})[日号號]")
_NUMBER: Final = re.compile(r"\d{1,2}(?![\d:])")
_YEAR: Final = re.compile(r",?\s*(?:de\s+|del\s+)?(20\d{2})(?![\d:])(?:\s*(?:года|г\.))?")
_LEAP_YEAR: Final = 2000  # for a 29 February without a year
_HAN_SUNDAY: Final = ("日", "天")


def day(scanner: Scanner, at: int, *, is_short_allowed: bool) -> tuple[Day, str, int] | None:
    """A day, the part of it that its word names ("tonight"), and where it ends."""
    named = scanner.meaning("day_parts", at)
    if named is not None:
        return Day(offset=0), *named
    offset = scanner.meaning("days", at)
    if offset is not None:
        return Day(offset=int(offset[0])), "", offset[1]
    on = scanner.words("on", at)
    for start in (at,) if on is None else (scanner.behind_commas(on), at):
        found = _on_weekday(scanner, start, is_short_allowed=is_short_allowed or on is not None) or _on_date(
            scanner, start
        )
        if found is not None:
            return found[0], "", found[1]
    return None


def _on_weekday(scanner: Scanner, at: int, *, is_short_allowed: bool) -> tuple[Day, int] | None:
    week = scanner.words("next_week", at)
    if week is not None:
        return _of_next_week(scanner, week)
    nearer = scanner.words("next", at)
    start = scanner.behind_commas(nearer or scanner.words("this", at) or at)
    found = scanner.weekday(start, is_short_allowed=is_short_allowed)
    return None if found is None else (Day(weekday=found[0], is_next=nearer is not None), found[1])


def _of_next_week(scanner: Scanner, at: int) -> tuple[Day, int] | None:
    """`下周一`: the weekday is a number, or a word for Sunday."""
    if scanner.text[at : at + 1] in _HAN_SUNDAY:
        return Day(weekday=7, is_next_week=True), at + 1
    number = scanner.number(at)
    return None if number is None or not 1 <= number[0] <= 6 else (Day(weekday=number[0], is_next_week=True), number[1])


def _on_date(scanner: Scanner, at: int) -> tuple[Day, int] | None:
    iso = _ISO.match(scanner.text, at)
    if iso is not None:
        return _dated(int(iso[1]), int(iso[2]), int(iso[3]), iso.end())
    dotted = _DOTTED.match(scanner.text, at)
    if dotted is not None:
        return _dated(int(dotted[3] or 0), int(dotted[2]), int(dotted[1]), dotted.end())
    slashed = _SLASHED.match(scanner.text, at)
    if slashed is not None:
        raise Unclear(
            lambda words: words.say(
                "“{date}” is read in two ways: write the date as 2026-12-24 or 24.12.", date=slashed[0]
            ),
            slashed.end(),
        )
    han = None if scanner.is_spaced else _HAN.match(scanner.text, at)
    if han is not None:
        return _dated(int(han[1] or 0), int(han[2]), int(han[3]), han.end())
    return _with_month_in_words(scanner, at)


def _with_month_in_words(scanner: Scanner, at: int) -> tuple[Day, int] | None:
    """`24 December`, `24. Dezember`, `24 de diciembre`, `December 24th`, each with or without a year."""
    month = scanner.meaning("months", at)
    number = _NUMBER.match(scanner.text, at if month is None else scanner.behind_commas(month[1]))
    if number is None:
        return None
    end = scanner.words("ordinal", number.end()) or number.end()
    if month is None:
        month = scanner.meaning("months", scanner.behind("of", scanner.behind_commas(end)))
        if month is None:
            return None
        end = month[1]
    year = _YEAR.match(scanner.text, end)
    return _dated(int(year[1]) if year else 0, int(month[0]), int(number[0]), year.end() if year else end)


def _dated(year: int, month: int, day_: int, end: int) -> tuple[Day, int]:
    try:
        date(year or _LEAP_YEAR, month, day_)
    except ValueError:
        raise Unclear(lambda words: words.say("there is no such date"), end) from None
    return Day(date=(year, month, day_)), end
