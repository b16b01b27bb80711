"""Reads a time phrase in one language: which parts of it stand in a text, in any order, and where they end. Pure.

    every weekday | at 9:30          in | 2 hours 15 minutes          明天 | 早上 | 9点
    `Repeating`     `Clock`          `Delay`                          `Day`  part  `Clock`

Reading is strict: each part may stand there once, and words that would change the meaning of what was read ("except
sunday", "9:30 or 10") are refused and never skipped. What the parts mean together is for `agent.schedules.times`.
"""

from __future__ import annotations

import re
from typing import Final

from agent.schedules.clocks import clock
from agent.schedules.days import day
from agent.schedules.durations import delay, length, repeating
from agent.schedules.parts import Parts, Unclear, in_part
from agent.schedules.scanner import Scanner

_FOREIGN_ZONE: Final = re.compile(
    r"\(?(?:utc|gmt|z|e[sd]t|c[sd]t|m[sd]t|p[sd]t|cest|cet|mesz|mez|bst|ist|jst|eet|eest|wet|msk|et|pt)\b",
    re.IGNORECASE,
)
_DIGIT: Final = re.compile(r"\s*[:.]?\d")
_HOUR: Final = re.compile(r"\d{1,2}(:\d\d)?\b")
_TWO_DIGITS: Final = re.compile(r"\d\d\b")
_BEFORE_A_TIME: Final = ("at", "in", "every", "on", "through")


def read_parts(scanner: Scanner, start: int) -> Parts:
    """The parts of a time that stand at `start`, up to where something else begins. Raises `Unclear`."""
    parts = Parts()
    at = scanner.behind_commas(start)
    while (end := _read_one(scanner, parts, at)) is not None:
        parts.end, at = end, scanner.behind_commas(end)
    if not parts.is_empty:
        _refuse_what_follows(scanner, parts)
    return parts


def _read_one(scanner: Scanner, parts: Parts, at: int) -> int | None:
    """Read one more part into `parts`; where it ends, None if there is none."""
    if scanner.begins_inside_a_word(at):
        return None
    for read in (_read_delay, _read_repeating, _read_clock, _read_day, _read_part_of_day):
        end = read(scanner, parts, at)
        if end is not None:
            return end
    return None


def _read_delay(scanner: Scanner, parts: Parts, at: int) -> int | None:
    found = delay(scanner, at)
    if found is None:
        return None
    if not parts.is_empty:
        raise Unclear(lambda words: words.say("two times stand in it"), found[1])
    parts.delay, end = found
    return end


def _read_repeating(scanner: Scanner, parts: Parts, at: int) -> int | None:
    found = repeating(scanner, at)
    if found is None:
        return None
    if parts.repeating or parts.day or parts.delay:
        raise Unclear(lambda words: words.say("two times stand in it"), found[1])
    parts.repeating, end = found
    _name_part(parts, parts.repeating.part, end)
    return end


def _read_clock(scanner: Scanner, parts: Parts, at: int) -> int | None:
    found = clock(scanner, at, parts.part)
    if found is None:
        return None
    if parts.clock is not None:
        raise Unclear(lambda words: words.say("two times of day stand in it"), found.end)
    parts.clock, parts.is_clock_final = found.clock, found.is_final
    return found.end


def _read_day(scanner: Scanner, parts: Parts, at: int) -> int | None:
    found = day(scanner, at, is_short_allowed=parts.is_empty)
    if found is None:
        return None
    named, part, end = found
    if parts.repeating or parts.day or parts.delay:
        raise Unclear(lambda words: words.say("two days stand in it"), end)
    parts.day = named
    _name_part(parts, part, end)
    return end


def _read_part_of_day(scanner: Scanner, parts: Parts, at: int) -> int | None:
    """A part of the day beside a day ("tomorrow morning at 9"), or behind a clock that has none."""
    found = scanner.meaning("parts", at)
    if found is None or parts.part or parts.is_clock_final or (parts.is_empty and scanner.is_spaced):
        return None
    part, end = found
    _name_part(parts, part, end)
    return end


def _name_part(parts: Parts, part: str, end: int) -> None:
    """A part of the day was named; a clock that was read before is in it."""
    if part:
        parts.part = part
        if parts.clock is not None:
            parts.clock, parts.is_clock_final = in_part(parts.clock, part, end), True


# --- what may not follow


def _refuse_what_follows(scanner: Scanner, parts: Parts) -> None:
    """Raise `Unclear` for words behind a phrase that belong to it and are not understood."""
    at = scanner.behind_commas(parts.end)
    refused = scanner.words("refused", at)
    if refused is not None:
        raise Unclear(
            lambda words: words.say("I do not understand “{said}” behind a time", said=scanner.text[at:refused]),
            refused,
        )
    if parts.clock is not None and (zone := _FOREIGN_ZONE.match(scanner.text, at)):
        raise Unclear(lambda words: words.say("times are in your own zone, which /remind zone sets"), zone.end())
    joint = scanner.words("and", scanner.behind_spaces(parts.end))
    if joint is not None and _is_a_time(scanner, scanner.behind_commas(joint)):
        raise Unclear(lambda words: words.say("two times stand in it"), joint)
    for name in _BEFORE_A_TIME:
        end = scanner.words(name, at)
        if end is not None and (_DIGIT.match(scanner.text, end) or _is_amount(scanner, scanner.behind_spaces(end))):
            raise Unclear(lambda words: words.say("two times stand in it"), end)
    lasting = scanner.words("lasting", at)
    if lasting is not None and length(scanner, scanner.behind_spaces(lasting)) is not None:
        raise Unclear(lambda words: words.say("what recurs goes on until it is cancelled"), lasting)
    if parts.clock is not None and not parts.clock.minute and _may_be_minutes(scanner, at):
        raise Unclear(lambda words: words.say("the minutes of a time are written as in 9:30"), at)


def _is_a_time(scanner: Scanner, at: int) -> bool:
    try:
        return _read_one(scanner, Parts(), at) is not None or _HOUR.match(scanner.text, at) is not None
    except Unclear:
        return True


def _may_be_minutes(scanner: Scanner, at: int) -> bool:
    """`at 9 30`, `at nine thirty`; "at 9 a walk" names no minutes."""
    return _TWO_DIGITS.match(scanner.text, at) is not None or _is_amount(scanner, at)


def _is_amount(scanner: Scanner, at: int) -> bool:
    """A number in words; "a" and its like are none."""
    word = scanner.number_word(at)
    return word is not None and word[0] > 1
