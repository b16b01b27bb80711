"""Read a time as people and models write it in English: an instant or a rule, by the wall clock of a zone. Pure.

    "in 30 minutes call mum"        -> in 30 minutes, once        "call mum"
    "every day at 9:30 stand-up"    -> cron 30 9 * * *            "stand-up"

ISO dates and cron expressions are read, too. A text that is not understood is `Unclear` with a reason, never a guess:
each part of a time may be there once, and words that would change its meaning ("except", "9:30 or 10") are refused.
People who speak another language tell the model, which fills the tool's `when` in English."""

from __future__ import annotations

import re
import unicodedata
from calendar import monthrange
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Final

from agent.features.schedules.recurrence import BadRecurrence, Cron, Days, Every, Recurrence, at_wall, cron
from agent.limits import SCHEDULE_AHEAD_DAYS_MAX, SCHEDULE_PHRASE_CHARS_MAX
from gateway.i18n import ENGLISH, Spoken

_MONTH_DAYS: Final = range(1, 29)  # every month has these
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600}
_UNIT_DAYS: Final = {"d": 1, "w": 7}
_WORKDAYS: Final = frozenset(range(1, 6))
_WEEKEND: Final = frozenset({6, 7})
_SPANS: Final = {"half an hour": 30, "a quarter of an hour": 15, "an hour and a half": 90}  # in minutes
_NUMBERS: Final = {
    word: number
    for number, words in (
        *((1, ("a", "an", "one")), (2, ("two", "a couple of")), (3, ("three",)), (4, ("four",)), (5, ("five",))),
        *((6, ("six",)), (7, ("seven",)), (8, ("eight",)), (9, ("nine",)), (10, ("ten",)), (12, ("twelve",))),
        *((15, ("fifteen",)), (20, ("twenty",)), (30, ("thirty",)), (45, ("forty-five",)), (60, ("sixty",))),
    )
    for word in words
}
_PART_HOURS: Final = {
    # The hours that a part of the day may name, and those of them that mean twelve hours later.
    "am": (range(1, 13), range(0)),
    "pm": (range(1, 13), range(1, 12)),
    "morning": (range(1, 12), range(0)),
    "afternoon": ((*range(1, 7), *range(12, 19)), range(1, 7)),
    "evening": ((*range(4, 12), *range(16, 24)), range(4, 12)),
}


class Unclear(ValueError):
    """A time that was not understood: why, as a clause, to be said in anybody's language (a model reads English)."""

    def __init__(self, why: Spoken) -> None:
        super().__init__(why(ENGLISH))
        self.why = why


@dataclass(frozen=True, slots=True)
class When:
    """A time that was understood: when it is due first, and the rule if it is due again."""

    due: datetime
    rule: Recurrence | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """A time and what is to happen then."""

    when: When
    text: str


def read_time(text: str, *, now: datetime, zone: tzinfo) -> When:
    """Read the time that is the whole of `text`; "30 minutes" alone is from now. Raises `Unclear`."""
    whole = _tidy(text)
    found = _read(whole, 0, now=now, zone=zone)
    if found is None and (from_now := _read(f"in {whole}", 0, now=now, zone=zone)):
        found = from_now[0], from_now[1] - len("in ")
    if found is None or whole[found[1] :].strip(" .!,"):
        rest = whole[found[1] if found else 0 :].strip()[:80]
        raise Unclear(lambda words: words.say("I do not understand “{said}”", said=rest))
    return found[0]


def read_request(text: str, *, now: datetime, zone: tzinfo) -> Request:
    """Read a time and what is to happen then, in either order. Raises `Unclear`."""
    whole = _tidy(text)
    start = _end(_ME, whole, 0)
    found = _read(whole, start, now=now, zone=zone)
    if found is None:
        return _read_time_last(whole, start, now=now, zone=zone)
    when, end = found
    return Request(when, _required(whole[_end(_LEAD_IN, whole, _end(_CONNECTOR, whole, end)) :]))


def _read_time_last(whole: str, start: int, *, now: datetime, zone: tzinfo) -> Request:
    """Read "call mum tomorrow at 8". No other time may be in it: nobody could say which one is meant."""
    for word in _WORD.finditer(whole[:SCHEDULE_PHRASE_CHARS_MAX], start + 1):
        try:
            found = _read(whole, word.start(), now=now, zone=zone)
        except Unclear as problem:
            raise _with_advice(problem) from None
        if found is not None:
            when, end = found
            if whole[end:].strip(" .!?,"):
                raise Unclear(lambda words: words.say("the time is in the middle: write it first"))
            return Request(when, _required(whole[start : word.start()].strip(" ,:;—–-")))
    raise Unclear(lambda words: words.say("I found no time in it"))


def _with_advice(problem: Unclear) -> Unclear:
    return Unclear(lambda words: words.say("{problem}; write the time first", problem=problem.why(words)))


def _required(text: str) -> str:
    if not text.strip():
        raise Unclear(lambda words: words.say("say what it is about, behind the time"))
    return text.strip()


def _tidy(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Say where the pattern ends if it is there, else `at`."""
    match = pattern.match(text, at)
    return at if match is None else match.end()


# --- the phrase


@dataclass(frozen=True, slots=True)
class _Day:
    """One day: `offset` days from today, the next of a weekday, or a date (year 0: the next there is)."""

    offset: int = 0
    weekday: int = 0
    is_next: bool = False
    date: tuple[int, int, int] | None = None


@dataclass(slots=True)
class _Phrase:
    """The parts of one time that have been read. Every part may be set once."""

    delay: tuple[int, int, int] | None = None  # seconds, days, months
    every_s: int = 0
    every_days: int = 0
    weekdays: frozenset[int] = frozenset()
    month_day: int = 0
    day: _Day | None = None
    clock: tuple[int, int] | None = None
    is_midnight: bool = False
    part: str = ""

    @property
    def is_repeating(self) -> bool:
        return bool(self.every_s or self.every_days or self.weekdays or self.month_day)

    def begin_date(self) -> None:
        """Make sure that no other day, delay or repetition was read. Raises `Unclear`."""
        if self.is_repeating or self.day is not None or self.delay is not None:
            raise Unclear(lambda words: words.say("it has two days"))

    def set_clock(self, hour: int, minute: int, part: str = "") -> None:
        """Set the time of day. Raises `Unclear` for a second one, and for one that does not exist."""
        if self.clock is not None:
            raise Unclear(lambda words: words.say("it has two times of day"))
        if hour > 23 or minute > 59:
            raise Unclear(lambda words: words.say("{time} is no time of day", time=f"{hour}:{minute:02}"))
        self.clock = hour, minute
        if part:
            self.set_part(part)

    def set_part(self, part: str) -> None:
        """Set the part of the day. Raises `Unclear` for a second one."""
        if self.part:
            raise Unclear(lambda words: words.say("it has two times of day"))
        self.part = part

    def time(self) -> time:
        """Give the time of day on the clock of 24 hours. Raises `Unclear` where it is missing or contradicts itself."""
        if self.clock is None:
            raise Unclear(lambda words: words.say("say at what time of day, as in “at 9:30”"))
        hour, minute = self.clock
        if not self.part:
            return time(hour, minute)
        if self.is_midnight:
            raise Unclear(lambda words: words.say("midnight is in no part of a day"))
        hours, later = _PART_HOURS[self.part]
        if hour not in hours:
            said = f"{hour}:{minute:02}"
            raise Unclear(lambda words: words.say("{time} and that part of the day do not go together", time=said))
        return time(0 if self.part == "am" and hour == 12 else hour + (12 if hour in later else 0), minute)


_Match = re.Match[str]


def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a part of a phrase: whole words, in any case, a space for any white space."""
    return re.compile(rf"(?<!\w)(?:{pattern})(?![\w’']|[:.]\d)".replace(" ", r"\s+"), re.IGNORECASE)


_NUMBER: Final = rf"(?:\d{{1,5}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
_UNIT: Final = r"(?:s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?|w(?:eeks?)?|months?)"
_AMOUNT: Final = rf"{_NUMBER}\s*{_UNIT}(?![a-z])"
_WEEKDAY: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_SHORT_WEEKDAY: Final = rf"(?:{_WEEKDAY}s?|mon|tues?|wed|thu(?:rs?)?|fri|sat|sun)"
_WEEKDAY_LIST: Final = rf"{_SHORT_WEEKDAY}(?:\s*(?:,|and|&|-|–|to|through)\s*(?:on )?{_SHORT_WEEKDAY}(?!\w))*"
_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_MONTH_DAY: Final = r"(\d{1,2})(?:st|nd|rd|th)"
_DATE_DAY: Final = rf"{_MONTH_DAY}?"
_YEAR: Final = r"(?:,? (20\d\d))?"
_EVERY: Final = "(?:every|each)"
_HALF: Final = r"(am|pm|a\.m\.?|p\.m\.?)"

_ONE_AMOUNT: Final = re.compile(rf"({_NUMBER})\s*({_UNIT})(?![a-z])", re.IGNORECASE)
_ONE_WEEKDAY: Final = re.compile(rf"(-|–|to|through)?\s*({_SHORT_WEEKDAY})(?!\w)", re.IGNORECASE)
_CRON: Final = re.compile(r"cron[\s:]+((?:[\d*/,\-a-z#]+\s+){4}[\d*/,\-a-z#]+)", re.IGNORECASE)
_BETWEEN_PARTS: Final = re.compile(r"[\s,]*")
_WORD: Final = re.compile(r"(?<!\w)\w")
_ME: Final = re.compile(r"(?:remind\s+)?me\s+(?:to\s+)?", re.IGNORECASE)
_LEAD_IN: Final = re.compile(r"(?:to|that|about)\s+", re.IGNORECASE)
_CONNECTOR: Final = re.compile(r"[\s,:;.—–-]*")


def _read_delay(phrase: _Phrase, match: _Match) -> None:
    if phrase != _Phrase():
        raise Unclear(lambda words: words.say("it has two times"))
    span, decimal, amounts = match.groups()
    if span:
        phrase.delay = _SPANS[" ".join(span.lower().split())] * 60, 0, 0
    elif decimal:
        phrase.delay = round(float(decimal) * 3_600), 0, 0
    else:
        phrase.delay = _sum(amounts)


def _sum(amounts: str) -> tuple[int, int, int]:
    """Add up `2 hours 15 minutes`: seconds, days and months. Raises `Unclear`."""
    found: dict[str, int] = {}
    for number, unit in _ONE_AMOUNT.findall(amounts):
        name = _unit(unit)
        if name in found:
            raise Unclear(lambda words: words.say("one unit is there twice"))
        found[name] = _number(number)
    if not (found.keys() <= _UNIT_SECONDS.keys() or found.keys().isdisjoint(_UNIT_SECONDS)):
        raise Unclear(lambda words: words.say("days and hours cannot be mixed"))
    seconds = sum(amount * _UNIT_SECONDS.get(unit, 0) for unit, amount in found.items())
    days = sum(amount * _UNIT_DAYS.get(unit, 0) for unit, amount in found.items())
    return seconds, days, found.get("month", 0)


def _unit(said: str) -> str:
    return "month" if said.lower().startswith("mo") else said[0].lower()


def _number(said: str) -> int:
    return int(said) if said.isdecimal() else _NUMBERS[" ".join(said.lower().split())]


def _repeat(phrase: _Phrase) -> None:
    """Make sure that nothing but a time of day was read before a repetition. Raises `Unclear`."""
    if phrase.is_repeating or phrase.day is not None or phrase.delay is not None:
        raise Unclear(lambda words: words.say("it has two times"))


def _read_every_weekday(phrase: _Phrase, match: _Match) -> None:
    _repeat(phrase)
    days: list[int] = []
    for range_, name in _ONE_WEEKDAY.findall(match[1] or match[2]):
        day = _weekday(name)
        if range_:
            days += [(each - 1) % 7 + 1 for each in range(days[-1], day + (7 if day < days[-1] else 0))]
        days.append(day)
    phrase.weekdays = frozenset(days)


def _weekday(name: str) -> int:
    return ("mon", "tue", "wed", "thu", "fri", "sat", "sun").index(name[:3].lower()) + 1


def _read_workdays(phrase: _Phrase, match: _Match) -> None:
    _repeat(phrase)
    phrase.weekdays = _WEEKEND if "weekend" in match[0].lower() else _WORKDAYS


def _read_every_part(phrase: _Phrase, match: _Match) -> None:
    _repeat(phrase)
    phrase.every_days = 1
    phrase.set_part(match[1].lower())


def _read_month_day(phrase: _Phrase, match: _Match) -> None:
    _repeat(phrase)
    day = int(match[1] or match[2])
    if day not in _MONTH_DAYS:
        raise Unclear(lambda words: words.say("not every month has that day: say one from 1 to 28"))
    phrase.month_day = day


def _read_every(phrase: _Phrase, match: _Match) -> None:
    _repeat(phrase)
    other, number, said, weekday = match.groups()
    amount = 2 if other else _number(number) if number else 1
    unit = _unit(said)
    if amount < 1:
        raise Unclear(lambda words: words.say("nothing can happen every 0"))
    if unit == "month":
        raise Unclear(lambda words: words.say("say a day of the month, as in “every month on the 1st at 9:00”"))
    if weekday and amount > 1:
        raise Unclear(
            lambda words: words.say("that leaves out weeks: say “every 14 days at 9:00” on the first of those days")
        )
    if weekday:
        phrase.weekdays = frozenset({_weekday(weekday)})
    elif unit in _UNIT_SECONDS:
        phrase.every_s = amount * _UNIT_SECONDS[unit]
    else:
        phrase.every_days = amount * _UNIT_DAYS[unit]


def _read_adverb(phrase: _Phrase, match: _Match) -> None:
    _repeat(phrase)
    if match[0].lower() == "hourly":
        phrase.every_s = 3_600
    else:
        phrase.every_days = 1


def _read_iso_date(phrase: _Phrase, match: _Match) -> None:
    year, month, day, hour, minute = match.groups()
    _set_date(phrase, int(year), int(month), int(day))
    if hour:
        phrase.set_clock(int(hour), int(minute))


def _read_date(phrase: _Phrase, match: _Match) -> None:
    day, month, month_first, day_last, year = match.groups()
    name = (month or month_first)[:3].lower()
    names = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
    _set_date(phrase, int(year or 0), names.index(name) + 1, int(day or day_last))


def _set_date(phrase: _Phrase, year: int, month: int, day: int) -> None:
    phrase.begin_date()
    leap_year = 2000  # for a 29 February without a year
    try:
        date(year or leap_year, month, day)
    except ValueError:
        raise Unclear(lambda words: words.say("there is no such date")) from None
    phrase.day = _Day(date=(year, month, day))


def _refuse_slashed(_phrase: _Phrase, match: _Match) -> None:
    said = match[0]
    raise Unclear(lambda words: words.say("“{date}” is read in two ways: write the date as 2026-12-24", date=said))


def _read_day(phrase: _Phrase, match: _Match) -> None:
    phrase.begin_date()
    said = " ".join(match[0].lower().split())
    offsets = {"yesterday": -1, "tomorrow": 1, "the day after tomorrow": 2, "day after tomorrow": 2}
    phrase.day = _Day(offset=offsets.get(said, 0))
    if said == "tonight":
        phrase.set_part("evening")
    elif said.startswith("this "):
        phrase.set_part(said.removeprefix("this "))


def _read_weekday(phrase: _Phrase, match: _Match) -> None:
    phrase.begin_date()
    is_next, name, short = match.groups()
    phrase.day = _Day(weekday=_weekday(name or short), is_next=is_next is not None)


def _read_clock(phrase: _Phrase, match: _Match) -> None:
    hour, minute, half = match.groups()
    phrase.set_clock(int(hour), int(minute or 0), (half or "").lower().replace(".", ""))


def _refuse_dotted(_phrase: _Phrase, match: _Match) -> None:
    said, meant = match[1], match[1].replace(".", ":")
    raise Unclear(lambda words: words.say("“{said}” may be a time or a date: write {time}", said=said, time=meant))


def _read_named_clock(phrase: _Phrase, match: _Match) -> None:
    phrase.set_clock(12 if match[1].lower() == "noon" else 0, 0)
    phrase.is_midnight = match[1].lower() == "midnight"


def _read_part(phrase: _Phrase, match: _Match) -> None:
    phrase.set_part(match[1].lower())


_Reader = Callable[[_Phrase, _Match], None]
_READERS: Final[tuple[tuple[re.Pattern[str], _Reader], ...]] = (
    (
        _compiled(
            rf"in (?:({'|'.join(_SPANS)})|(\d{{1,3}}\.\d{{1,2}})\s*h(?:(?:ou)?rs?)?"
            rf"|({_AMOUNT}(?:(?:\s*,\s*|\s+and\s+|\s*){_AMOUNT})*))"
        ),
        _read_delay,
    ),
    (
        _compiled(rf"every {_MONTH_DAY}(?: of (?:the|every|each) month)?|every month on (?:the )?{_MONTH_DAY}"),
        _read_month_day,
    ),
    (
        _compiled(rf"(?:every|each) ({_WEEKDAY_LIST})|(?:on )?({_WEEKDAY}s(?:\s*(?:,|and|&) {_WEEKDAY}s)*)"),
        _read_every_weekday,
    ),
    (
        _compiled(r"(?:every|each) (?:weekday|workday|working day|weekend)|(?:on )?(?:weekdays|weekends)"),
        _read_workdays,
    ),
    (_compiled(r"(?:every|each) (morning|afternoon|evening)"), _read_every_part),
    (_compiled(rf"(?:every|each) (?:(other) |({_NUMBER})\s*)?({_UNIT})(?: on ({_WEEKDAY}))?"), _read_every),
    (_compiled(r"daily|hourly"), _read_adverb),
    (re.compile(r"(?<!\w)(\d{4})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::00)?)?(?![\d:])"), _read_iso_date),
    (_compiled(rf"(?:on )?(?:the )?(?:{_DATE_DAY}(?: of)? ({_MONTH})|({_MONTH}) {_DATE_DAY}){_YEAR}"), _read_date),
    (_compiled(r"(?:on )?\d{1,4}/\d{1,2}(?:/\d{1,4})?"), _refuse_slashed),
    (
        _compiled(r"(?:the )?day after tomorrow|tomorrow|today|tonight|yesterday|this (?:morning|afternoon|evening)"),
        _read_day,
    ),
    (_compiled(rf"(?:on )?(?:(next) |this )?({_WEEKDAY})|on ({_SHORT_WEEKDAY})"), _read_weekday),
    (_compiled(rf"(?:at |@\s*)?(\d{{1,2}}):(\d\d)(?:\s*{_HALF})?"), _read_clock),
    (_compiled(rf"(?:at |@\s*)(\d{{1,2}})()(?:\s*{_HALF}|\s*o['’]clock)?"), _read_clock),
    (_compiled(rf"(\d{{1,2}})()\s*{_HALF}"), _read_clock),
    (_compiled(r"(?:at |@\s*)(\d{1,2}\.\d\d)"), _refuse_dotted),
    (_compiled(r"(?:at )?(noon|midnight)"), _read_named_clock),
)
_PART: Final = _compiled(r"(?:in the )?(morning|afternoon|evening)")
"""A part of the day is read after a day or a clock only."""

_REFUSED: Final = re.compile(
    r"[\s,]*(?P<word>except|but\s+not|until|till|excluding|starting|from|before|ago|past|(?:for\s+)?the\s+next)(?!\w)"
    r"|[\s,]*(?P<lasting>for\s+" + _AMOUNT + ")"
    r"|[\s,]*(?P<zone>[+-]\d\d:?\d\d|\(?(?:utc|gmt|z|[ecmp][sd]t|cest|cet|bst|ist|jst|eest|eet|wet|msk|et|pt)\b)"
    r"|\s*(?P<second>(?:[-–]|and|or|&)\s*(?:at\s*)?\d|[\s,]*(?:at|every|on|in)\s*:?\d)"
    r"|\s+(?P<minutes>\d\d\b|(?:five|ten|fifteen|twenty|thirty|forty|fifty)\b)",
    re.IGNORECASE,
)
"""Words that may not follow a time: they would change its meaning."""


def _read(text: str, start: int, *, now: datetime, zone: tzinfo) -> tuple[When, int] | None:
    """Read the time at `start`; None if there is none. Raises `Unclear` for half a time."""
    expression = _CRON.match(text, start)
    if expression is not None:
        return _by_cron(expression[1], now=now, zone=zone), expression.end()
    phrase, end = _Phrase(), start
    for match, read in _parts(text, start, phrase):
        read(phrase, match)
        end = match.end()
    if end == start:
        return None
    _refuse_what_follows(phrase, text, end)
    with suppress(OverflowError):  # at both ends of the calendar there are days that UTC does not have
        when = _resolve(phrase, now=now, zone=zone)
        if when.due - now <= timedelta(days=SCHEDULE_AHEAD_DAYS_MAX):
            return when, end
    raise Unclear(lambda words: words.say("that is too far away"))


def _parts(text: str, at: int, phrase: _Phrase) -> Iterator[tuple[_Match, _Reader]]:
    """Yield the parts that follow one another from `at` on."""
    while True:
        at = _end(_BETWEEN_PARTS, text, at)
        readers = _READERS if phrase == _Phrase() else (*_READERS, (_PART, _read_part))
        found = next(((match, read) for pattern, read in readers if (match := pattern.match(text, at))), None)
        if found is None:
            return
        yield found
        at = found[0].end()


def _refuse_what_follows(phrase: _Phrase, text: str, end: int) -> None:
    match = _REFUSED.match(text, end)
    if match is None:
        return
    said = " ".join(match[0].split()).strip(" ,")
    match match.lastgroup:
        case "word":
            raise Unclear(lambda words: words.say("I do not understand “{said}” after a time", said=said))
        case "lasting":
            if phrase.is_repeating:
                raise Unclear(lambda words: words.say("what recurs goes on until it is cancelled"))
        case "zone":
            if phrase.clock is not None:
                raise Unclear(lambda words: words.say("times are in your own zone, which /remind zone sets"))
        case "second":
            raise Unclear(lambda words: words.say("it has two times"))
        case _:
            if phrase.clock is not None and not phrase.clock[1]:
                raise Unclear(lambda words: words.say("the minutes of a time are written as in 9:30"))


# --- from a phrase to an instant


def _by_cron(expression: str, *, now: datetime, zone: tzinfo) -> When:
    try:
        rule = cron(expression)
        return When(rule.after(now, zone), rule)
    except BadRecurrence as error:
        reason = str(error)
        raise Unclear(
            lambda words: words.say("that cron expression does not work ({reason})", reason=reason)
        ) from error


def _resolve(phrase: _Phrase, *, now: datetime, zone: tzinfo) -> When:
    """Say what a phrase means at `now`. Raises `Unclear` where something is missing or past."""
    if phrase.every_s:
        if phrase.clock is not None or phrase.part:
            raise Unclear(lambda words: words.say("say either an interval or a time of day"))
        return When(now + timedelta(seconds=phrase.every_s), Every(phrase.every_s))
    if phrase.is_repeating:
        rule = _rule(phrase, now=now, zone=zone)
        return When(rule.after(now, zone), rule)
    if phrase.delay is not None:
        return When(_delayed(phrase, *phrase.delay, now=now, zone=zone))
    return When(_on_day(phrase, phrase.day, now=now, zone=zone))


def _rule(phrase: _Phrase, *, now: datetime, zone: tzinfo) -> Recurrence:
    at = phrase.time()
    if phrase.every_days > 1:
        today = now.astimezone(zone).date()
        is_past = at_wall(datetime.combine(today, at), zone) <= now
        return Days(phrase.every_days, at, today + timedelta(days=1) if is_past else today)
    weekdays = ",".join(str(day % 7) for day in sorted(phrase.weekdays)) or "*"
    return Cron(f"{at.minute} {at.hour} {phrase.month_day or '*'} * {weekdays}")


def _delayed(phrase: _Phrase, seconds: int, days: int, months: int, *, now: datetime, zone: tzinfo) -> datetime:
    """Count seconds as they elapse, days and months on the calendar."""
    if seconds and (phrase.clock is not None or phrase.part):
        raise Unclear(lambda words: words.say("say either how long from now or a time of day"))
    if not (seconds or days or months):
        raise Unclear(lambda words: words.say("I found no time in it"))
    if max(seconds // 86_400, days, months * 28) > SCHEDULE_AHEAD_DAYS_MAX:
        raise Unclear(lambda words: words.say("that is too far away"))
    if seconds:
        return now + timedelta(seconds=seconds)
    wall = now.astimezone(zone).replace(tzinfo=None)
    month = wall.month - 1 + months
    year, month = wall.year + month // 12, month % 12 + 1
    day = date(year, month, min(wall.day, monthrange(year, month)[1])) + timedelta(days=days)
    at = wall.time().replace(second=0, microsecond=0) if phrase.clock is None else phrase.time()
    return at_wall(datetime.combine(day, at), zone)


def _on_day(phrase: _Phrase, day: _Day | None, *, now: datetime, zone: tzinfo) -> datetime:
    today, at = now.astimezone(zone).date(), phrase.time()

    def on(date_: date) -> datetime:
        return at_wall(datetime.combine(date_, at), zone)

    if day is None:
        return on(today) if on(today) > now else on(today + timedelta(days=1))
    if phrase.is_midnight:
        raise Unclear(lambda words: words.say("midnight is between two days: say 0:00 or 23:59"))
    if day.weekday:
        return _on_weekday(day, on, today, now=now)
    if day.date is None:
        candidates = [today + timedelta(days=day.offset)]
    else:
        year, month, number = day.date
        years = (year,) if year else range(today.year, today.year + 9)  # a 29 February may be eight years away
        candidates = [date(each, month, number) for each in years if number <= monthrange(each, month)[1]]
    for candidate in candidates:
        if on(candidate) > now:
            return on(candidate)
    raise Unclear(lambda words: words.say("that has passed"))


def _on_weekday(day: _Day, on: Callable[[date], datetime], today: date, *, now: datetime) -> datetime:
    ahead = (day.weekday - today.isoweekday()) % 7
    nearest = today + timedelta(days=ahead)
    if not day.is_next:
        return on(nearest) if on(nearest) > now else on(nearest + timedelta(days=7))
    nearest = today + timedelta(days=ahead or 7)
    next_week = today + timedelta(days=7 - today.isoweekday() + day.weekday)
    if nearest != next_week:
        one, other = nearest.isoformat(), next_week.isoformat()
        raise Unclear(lambda words: words.say("it may mean {one} or {other}: write the date", one=one, other=other))
    return on(nearest)
