"""From what somebody wrote to an instant or a rule, in the wall-clock time of a zone. Pure.

    "in 30 minutes call mum"        -> in 30 minutes, once        "call mum"
    "every day at 9:30 stand-up"    -> cron 30 9 * * *            "stand-up"

What is not understood is `Unclear` with a reason, never a guess. Every language reads the text by its own words; the
one that understands most of it counts, and where two understand it differently, nobody does.
"""

from __future__ import annotations

import re
import unicodedata
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Final

from agent.limits import SCHEDULE_AHEAD_DAYS_MAX, SCHEDULE_PHRASE_CHARS_MAX
from agent.schedules.parts import Clock, Day, Delay, Parts, Repeating, Unclear
from agent.schedules.phrases import read_parts
from agent.schedules.recurrence import (
    BadRecurrence,
    Cron,
    Days,
    Every,
    Recurrence,
    at_wall,
    cron,
)
from agent.schedules.scanner import Scanner
from agent.schedules.vocabulary import languages

_CRON: Final = re.compile(r"cron[\s:]+((?:[\d*/,\-a-z#]+\s+){4}[\d*/,\-a-z#]+)", re.IGNORECASE)
_WIDE: Final = str.maketrans("０１２３４５６７８９：", "0123456789:")
_CONNECTOR: Final = re.compile(r"[\s,，:;.。：—–-]*")
_WORD: Final = re.compile(r"(?<!\w)\w")


@dataclass(frozen=True, slots=True)
class When:
    """A time that was understood: when it is due first, and the rule if it is due again."""

    due: datetime
    rule: Recurrence | None = None


@dataclass(frozen=True, slots=True)
class Understood:
    """A whole request: when, and what."""

    when: When
    text: str


@dataclass(frozen=True, slots=True)
class _Reading:
    """What one language made of a text: up to `end`, and why nothing more."""

    end: int
    when: When | None = None
    problem: Unclear | None = None


def understand_time(text: str, *, now: datetime, zone: tzinfo) -> When:
    """The time that is the whole of `text`. Raises `Unclear`."""
    whole = _tidy(text)
    when, end = _prefix(whole, now=now, zone=zone)
    if when is None or whole[end:].strip(" .!,"):
        rest = whole[end:].strip()[:80]
        raise Unclear(lambda words: words.say("I do not understand “{said}”", said=rest))
    return when


def understand_request(text: str, *, now: datetime, zone: tzinfo) -> Understood:
    """A time and what is to happen then, in either order. Raises `Unclear`."""
    whole = _tidy(text)
    start = _behind("me", whole, 0)
    when, end = _prefix(whole, start, now=now, zone=zone)
    if when is None:
        return _with_time_last(whole, start, now=now, zone=zone)
    explicit = _CONNECTOR.match(whole, end)
    rest = whole[explicit.end() if explicit else end :]
    return Understood(when, _required(rest[_behind("lead_in", rest, 0) :].strip()))


def _with_time_last(whole: str, start: int, *, now: datetime, zone: tzinfo) -> Understood:
    """ "call mum tomorrow at 8". Nothing else in it may be a time: nobody could say which one is meant."""
    head = whole[:SCHEDULE_PHRASE_CHARS_MAX]
    for at in _beginnings(head, start + 1):
        try:
            when, end = _prefix(whole, at, now=now, zone=zone)
        except Unclear as problem:
            raise _with_advice(problem) from None
        if when is None:
            continue
        if whole[end:].strip(" .!?。！,"):
            raise Unclear(lambda words: words.say("the time stands in the middle: write it first"))
        return Understood(when, _required(whole[start:at].strip(" ,:;—–-")))
    raise Unclear(lambda words: words.say("I found no time in it"))


def _with_advice(problem: Unclear) -> Unclear:
    return Unclear(lambda words: words.say("{problem}; write the time first", problem=problem.why(words)))


def _beginnings(text: str, start: int) -> list[int]:
    """Where a word begins; among characters that stand without spaces, everywhere."""
    found = {match.start() for match in _WORD.finditer(text, start)}
    return sorted(found | {at for at in range(start, len(text)) if "\u3400" <= text[at] <= "\u9fff"})


def _required(text: str) -> str:
    if not text:
        raise Unclear(lambda words: words.say("say what it is about, behind the time"))
    return text


def _tidy(text: str) -> str:
    return unicodedata.normalize("NFC", text).translate(_WIDE).strip()


def _behind(words: str, text: str, start: int) -> int:
    ends = [language.words[words].end(text, start) or start for language in languages()]
    end = max(ends)
    return end + len(text[end:]) - len(text[end:].lstrip())


# --- reading in every language


def _prefix(text: str, start: int = 0, *, now: datetime, zone: tzinfo) -> tuple[When | None, int]:
    """The time that stands at `start` and where it ends; None if none does. Raises `Unclear` for half a time."""
    expression = _CRON.match(text, start)
    if expression is not None:
        return _by_cron(expression[1], expression.end(), now=now, zone=zone), expression.end()
    readings = [_reading(Scanner(text, language), start, now=now, zone=zone) for language in languages()]
    reach = max(reading.end for reading in readings)
    if reach == 0:
        return None, start
    best = [reading for reading in readings if reading.end == reach]
    found = {reading.when for reading in best if reading.when is not None}
    if not found:
        raise next(reading.problem for reading in best if reading.problem is not None)
    if len(found) > 1:
        raise Unclear(lambda words: words.say("it means different times in different languages"), reach)
    return found.pop(), reach


def _reading(scanner: Scanner, start: int, *, now: datetime, zone: tzinfo) -> _Reading:
    try:
        parts = read_parts(scanner, start)
        if parts.is_empty:
            return _Reading(0)
        when = resolved(parts, now=now, zone=zone)
    except Unclear as problem:
        return _Reading(max(problem.end, start + 1), problem=problem)
    return _Reading(parts.end, when)


def _by_cron(expression: str, end: int, *, now: datetime, zone: tzinfo) -> When:
    try:
        rule = cron(expression)
        return When(rule.after(now, zone), rule)
    except BadRecurrence as error:
        reason = str(error)
        raise Unclear(
            lambda words: words.say("that cron expression does not work ({reason})", reason=reason), end
        ) from error


# --- from parts to instants


def resolved(parts: Parts, *, now: datetime, zone: tzinfo) -> When:
    """What the parts of a phrase mean together at `now`. Raises `Unclear` where something is missing or past."""
    if parts.repeating is not None:
        when = _repeated(parts.repeating, parts.clock, parts, now=now, zone=zone)
    elif parts.delay is not None:
        when = When(_delayed(parts.delay, parts.clock, parts, now=now, zone=zone))
    elif parts.clock is None:
        raise Unclear(lambda words: words.say("say at what time of day, as in “at 9:30”"), parts.end)
    else:
        when = When(_on_day(parts.day, parts.clock, parts, now=now, zone=zone))
    if when.due - now > timedelta(days=SCHEDULE_AHEAD_DAYS_MAX):
        raise Unclear(lambda words: words.say("that is too far away"), parts.end)
    return when


def _repeated(repeating: Repeating, clock: Clock | None, parts: Parts, *, now: datetime, zone: tzinfo) -> When:
    if repeating.seconds:
        if clock is not None or parts.part:
            raise Unclear(lambda words: words.say("say either an interval or a time of day"), parts.end)
        return When(now + timedelta(seconds=repeating.seconds), Every(repeating.seconds))
    if clock is None:
        raise Unclear(lambda words: words.say("say at what time of day, as in “at 9:30”"), parts.end)
    rule: Recurrence
    if repeating.days > 1:
        at = time(clock.hour, clock.minute)
        today = now.astimezone(zone).date()
        is_past = at_wall(datetime.combine(today, at), zone) <= now
        rule = Days(repeating.days, at, today + timedelta(days=1) if is_past else today)
    else:
        weekdays = ",".join(str(day % 7) for day in sorted(repeating.weekdays)) or "*"
        rule = Cron(f"{clock.minute} {clock.hour} {repeating.month_day or '*'} * {weekdays}")
    return When(rule.after(now, zone), rule)


def _delayed(delay: Delay, clock: Clock | None, parts: Parts, *, now: datetime, zone: tzinfo) -> datetime:
    if delay.seconds:
        if clock is not None or parts.day is not None or parts.part:
            raise Unclear(lambda words: words.say("say either how long from now or a time of day"), parts.end)
        return now + timedelta(seconds=min(delay.seconds, 86_400 * (SCHEDULE_AHEAD_DAYS_MAX + 1)))
    if parts.day is not None or not (delay.days or delay.months):
        raise Unclear(lambda words: words.say("two times stand in it"), parts.end)
    if max(delay.days, delay.months * 28) > SCHEDULE_AHEAD_DAYS_MAX:
        raise Unclear(lambda words: words.say("that is too far away"), parts.end)
    wall = now.astimezone(zone).replace(tzinfo=None)
    day = _months_later(wall.date(), delay.months) + timedelta(days=delay.days)
    at = wall.time().replace(second=0, microsecond=0) if clock is None else time(clock.hour, clock.minute)
    return at_wall(datetime.combine(day, at), zone)


def _months_later(day: date, months: int) -> date:
    month = day.month - 1 + months
    year, month = day.year + month // 12, month % 12 + 1
    return date(year, month, min(day.day, monthrange(year, month)[1]))


def _on_day(day: Day | None, clock: Clock, parts: Parts, *, now: datetime, zone: tzinfo) -> datetime:
    today = now.astimezone(zone).date()

    def on(date_: date) -> datetime:
        return at_wall(datetime.combine(date_, time(clock.hour, clock.minute)), zone)

    if day is None:
        due = on(today)
        return due if due > now else on(today + timedelta(days=1))
    if clock.is_midnight:
        raise Unclear(lambda words: words.say("midnight is between two days: say 0:00 or 23:59"), parts.end)
    if day.date is not None:
        return _on_date(day.date, on, today, parts, now=now)
    if day.weekday:
        return _on_weekday(day, on, today, parts, now=now)
    due = on(today + timedelta(days=day.offset))
    if due <= now:
        raise Unclear(lambda words: words.say("that has passed"), parts.end)
    return due


def _on_date(
    wanted: tuple[int, int, int], on: Callable[[date], datetime], today: date, parts: Parts, *, now: datetime
) -> datetime:
    year, month, day = wanted
    years = (year,) if year else range(today.year, today.year + 9)  # a 29 February may be eight years away
    for candidate in years:
        if day <= monthrange(candidate, month)[1] and (due := on(date(candidate, month, day))) > now:
            return due
    raise Unclear(lambda words: words.say("that has passed"), parts.end)


def _on_weekday(day: Day, on: Callable[[date], datetime], today: date, parts: Parts, *, now: datetime) -> datetime:
    monday = today - timedelta(days=today.isoweekday() - 1)
    next_week = monday + timedelta(days=7 + day.weekday - 1)
    if day.is_next_week:
        return on(next_week)
    ahead = (day.weekday - today.isoweekday()) % 7
    if day.is_next:
        nearest = today + timedelta(days=ahead or 7)
        if nearest != next_week:
            one, other = nearest.isoformat(), next_week.isoformat()
            raise Unclear(
                lambda words: words.say("it may mean {one} or {other}: write the date", one=one, other=other), parts.end
            )
        return on(nearest)
    due = on(today + timedelta(days=ahead))
    return due if due > now else on(today + timedelta(days=ahead + 7))
