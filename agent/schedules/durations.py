"""`in 2 hours 15 minutes`, `every other day`, `every Monday and Thursday`: lengths of time and repetitions. Pure."""

from __future__ import annotations

import re
from typing import Final

from agent.schedules.parts import Delay, Repeating, Unclear
from agent.schedules.scanner import Scanner

_DECIMAL: Final = re.compile(r"(\d{1,3})[.,](\d{1,2})(?!\d)")
_UNIT_S: Final = {"second": 1, "minute": 60, "hour": 3_600}
_UNIT_DAYS: Final = {"day": 1, "week": 7}
_WORKDAYS: Final = frozenset(range(1, 6))
_WEEKEND: Final = frozenset({6, 7})


# --- so long


def length(scanner: Scanner, at: int) -> tuple[Delay, int] | None:
    """A length of time by itself: `3 days`."""
    return _duration(scanner, at, is_bare_allowed=False)


def delay(scanner: Scanner, at: int) -> tuple[Delay, int] | None:
    """`in …`, or in Chinese `… 后`."""
    begin = scanner.words("in", at)
    is_said_behind = scanner.knows("after")
    if begin is None and not is_said_behind:
        return None
    found = _duration(scanner, scanner.behind("in", at), is_bare_allowed=begin is not None)
    if found is None or not is_said_behind:
        return found
    end = scanner.words("after", scanner.behind_commas(found[1]))
    return None if end is None else (found[0], end)


def _duration(scanner: Scanner, at: int, *, is_bare_allowed: bool) -> tuple[Delay, int] | None:
    span = scanner.meaning("spans", at)
    if span is not None:
        return Delay(seconds=int(span[0]) * 60), span[1]
    amounts: dict[str, float] = {}
    end = at
    while (found := _amount(scanner, at, is_bare_allowed=is_bare_allowed and not amounts)) is not None:
        amount, unit, end = found
        if unit in amounts:
            raise Unclear(lambda words: words.say("one unit stands there twice"), end)
        amounts[unit] = amount
        at = scanner.behind("and", scanner.behind_commas(end))
    if not amounts:
        return None
    if not (amounts.keys() <= _UNIT_S.keys() or amounts.keys().isdisjoint(_UNIT_S)):
        raise Unclear(lambda words: words.say("days and hours cannot be mixed"), end)
    return (
        Delay(
            seconds=round(sum(amount * _UNIT_S.get(unit, 0) for unit, amount in amounts.items())),
            days=int(sum(amount * _UNIT_DAYS.get(unit, 0) for unit, amount in amounts.items())),
            months=int(amounts.get("month", 0)),
        ),
        end,
    )


def _amount(scanner: Scanner, at: int, *, is_bare_allowed: bool) -> tuple[float, str, int] | None:
    """`15 minutes`, `an hour`, `1.5 hours`; where the language leaves the one out, `час`."""
    decimal = _DECIMAL.match(scanner.text, at)
    number = scanner.number(at)
    if decimal is not None:
        amount, end = float(f"{decimal[1]}.{decimal[2]}"), decimal.end()
    elif number is not None:
        amount, end = number
    elif is_bare_allowed and scanner.has_bare_units:
        amount, end = 1, at
    else:
        return None
    unit = scanner.meaning("units", scanner.behind_spaces(end))
    if unit is None:
        return None
    if decimal is not None and unit[0] != "hour":
        raise Unclear(lambda words: words.say("only hours can be written with a decimal point"), unit[1])
    return amount, *unit


# --- again and again


def repeating(scanner: Scanner, at: int) -> tuple[Repeating, int] | None:
    """`every …`, `daily`, `Mondays`."""
    each = scanner.meaning("each_weekday", at)
    if each is not None:
        return _weekdays(scanner, int(each[0]), each[1])
    adverb = scanner.meaning("adverbs", at)
    if adverb is not None:
        return _by_adverb(adverb[0]), adverb[1]
    begin = scanner.words("every", at)
    return None if begin is None else _what_every(scanner, scanner.behind_commas(begin))


def _by_adverb(name: str) -> Repeating:
    match name:
        case "workday":
            return Repeating(weekdays=_WORKDAYS)
        case "weekend":
            return Repeating(weekdays=_WEEKEND)
        case "hour":
            return Repeating(seconds=_UNIT_S["hour"])
        case _:
            return Repeating(days=1)


def _what_every(scanner: Scanner, at: int) -> tuple[Repeating, int] | None:
    weekday = scanner.weekday(at, is_short_allowed=True)
    if weekday is not None:
        return _weekdays(scanner, *weekday)
    for name in ("workday", "weekend"):
        end = scanner.words(name, at)
        if end is not None:
            return _by_adverb(name), end
    part = scanner.meaning("each_part", at)
    if part is not None:
        return Repeating(days=1, part=part[0]), part[1]
    by_month = _day_of_each_month(scanner, at)
    if by_month is not None:
        return by_month
    second = scanner.words("second", at)
    amount, start = (2, scanner.behind_commas(second)) if second is not None else (scanner.number(at) or (1, at))
    unit = scanner.meaning("units", scanner.behind_spaces(start))
    return None if unit is None else _every_unit(scanner, amount, *unit)


def _every_unit(scanner: Scanner, amount: int, unit: str, end: int) -> tuple[Repeating, int]:
    if amount < 1:
        raise Unclear(lambda words: words.say("nothing can happen every 0"), end)
    if unit in _UNIT_S:
        return Repeating(seconds=amount * _UNIT_S[unit]), end
    behind_on = scanner.behind("on", scanner.behind_commas(end))
    if unit == "month":
        day = scanner.ordinal(behind_on)
        if amount == 1 and day is not None:
            return Repeating(month_day=day[0]), day[1]
        raise Unclear(lambda words: words.say("say a day of the month, as in “every month on the 1st at 9:00”"), end)
    weekday = scanner.weekday(behind_on, is_short_allowed=False)
    if unit == "week" and weekday is not None:
        if amount == 1:
            return _weekdays(scanner, *weekday)
        raise Unclear(
            lambda words: words.say("that leaves out weeks: say “every 14 days at 9:00” on the first of those days"),
            weekday[1],
        )
    return Repeating(days=amount * _UNIT_DAYS[unit]), end


def _day_of_each_month(scanner: Scanner, at: int) -> tuple[Repeating, int] | None:
    """`every 1st (of the month)`, `每月1号`."""
    month = scanner.meaning("units", at)
    if month is not None and month[0] == "month":
        return _every_unit(scanner, 1, *month)
    found = scanner.ordinal(at)
    if found is None:
        return None
    day, end = found
    of = scanner.words("of", scanner.behind_commas(end))
    unit = None if of is None else scanner.meaning("units", scanner.behind_commas(of))
    return Repeating(month_day=day), unit[1] if unit is not None and unit[0] == "month" else end


def _weekdays(scanner: Scanner, first: int, end: int) -> tuple[Repeating, int]:
    """A list or a range of weekdays that begins with `first`, which ends at `end`."""
    days, last = {first}, first
    while True:
        through = scanner.words("through", scanner.behind_commas(end))
        joint = scanner.words("and", scanner.behind_spaces(end)) if through is None else through
        more = None if joint is None else _another_weekday(scanner, scanner.behind_commas(joint))
        if more is None:
            return Repeating(weekdays=frozenset(days)), end
        number, end = more
        days |= set(_through(last, number)) if through is not None else {number}
        last = number


def _another_weekday(scanner: Scanner, at: int) -> tuple[int, int] | None:
    each = scanner.meaning("each_weekday", at)
    return (int(each[0]), each[1]) if each is not None else scanner.weekday(at, is_short_allowed=True)


def _through(first: int, last: int) -> tuple[int, ...]:
    return (*range(first, last + 1),) if first <= last else (*range(first, 8), *range(1, last + 1))
