"""A time is read as its writer means it, or not at all."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import product
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.features.schedules.recurrence import recurrence_from
from agent.features.schedules.times import Request, Unclear, read_request, read_time

BERLIN = ZoneInfo("Europe/Berlin")
SUNDAY = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
"""10:00 in Berlin."""


def understood(text: str, *, now: datetime = SUNDAY, zone: ZoneInfo = BERLIN) -> Request:
    return read_request(text, now=now, zone=zone)


def local(request: Request, zone: ZoneInfo = BERLIN) -> str:
    return f"{request.when.due.astimezone(zone):%Y-%m-%d %H:%M}"


ONCE = [
    ("in 30 minutes tea", "2026-11-22 10:30"),
    ("in half an hour tea", "2026-11-22 10:30"),
    ("in an hour and a half tea", "2026-11-22 11:30"),
    ("in 1h30m tea", "2026-11-22 11:30"),
    ("in 2 hours 15 minutes tea", "2026-11-22 12:15"),
    ("in 1.5 hours tea", "2026-11-22 11:30"),
    ("in five minutes tea", "2026-11-22 10:05"),
    ("in 3 days tea", "2026-11-25 10:00"),
    ("in 2 weeks at 9:00 tea", "2026-12-06 09:00"),
    ("in 3 months at 9:00 tea", "2027-02-22 09:00"),
    ("at 17:45 tea", "2026-11-22 17:45"),
    ("17:45 tea", "2026-11-22 17:45"),
    ("at 9:30 tea", "2026-11-23 09:30"),
    ("at 5pm tea", "2026-11-22 17:00"),
    ("at 12 am tea", "2026-11-23 00:00"),
    ("at 12 pm tea", "2026-11-22 12:00"),
    ("at 8 in the evening tea", "2026-11-22 20:00"),
    ("tonight at 8 tea", "2026-11-22 20:00"),
    ("tomorrow at 8 tea", "2026-11-23 08:00"),
    ("at 8 tomorrow tea", "2026-11-23 08:00"),
    ("tomorrow morning at 9 tea", "2026-11-23 09:00"),
    ("Monday at 9 tea", "2026-11-23 09:00"),
    ("on Fri at 18:00 tea", "2026-11-27 18:00"),
    ("on Sunday at 9:00 tea", "2026-11-29 09:00"),
    ("on Sunday at 11:00 tea", "2026-11-22 11:00"),
    ("on 24 December at 10:00 tea", "2026-12-24 10:00"),
    ("on December 24th, 2027 at 10:00 tea", "2027-12-24 10:00"),
    ("on 1 March at 10:00 tea", "2027-03-01 10:00"),
    ("on 29 February at 10:00 tea", "2028-02-29 10:00"),
    ("2026-12-24 10:00 tea", "2026-12-24 10:00"),
    ("2026-12-24T10:00 tea", "2026-12-24 10:00"),
    ("at noon tea", "2026-11-22 12:00"),
    ("at midnight tea", "2026-11-23 00:00"),
]

AGAIN = [
    ("every day at 9:30 tea", "cron 30 9 * * *"),
    ("at 9:30 every day tea", "cron 30 9 * * *"),
    ("daily at 9:30 tea", "cron 30 9 * * *"),
    ("every evening at 8 tea", "cron 0 20 * * *"),
    ("at 8 every morning tea", "cron 0 8 * * *"),
    ("every Monday 18:00 tea", "cron 0 18 * * 1"),
    ("every monday and thursday at 7 tea", "cron 0 7 * * 1,4"),
    ("every Mon-Fri at 9 tea", "cron 0 9 * * 1,2,3,4,5"),
    ("every sunday at 9 tea", "cron 0 9 * * 0"),
    ("every weekday at 9 tea", "cron 0 9 * * 1,2,3,4,5"),
    ("on weekends at 9 tea", "cron 0 9 * * 6,0"),
    ("every month on the 1st at 9 tea", "cron 0 9 1 * *"),
    ("every 30 minutes tea", "every 1800"),
    ("every hour tea", "every 3600"),
    ("every other day at 9:00 tea", "days 2 09:00 2026-11-23"),
    ("every 3 days at 11:00 tea", "days 3 11:00 2026-11-22"),
    ("cron 30 9 * * 1-5 tea", "cron 30 9 * * 1-5"),
]

UNCLEAR = [
    ("call mum", "no time"),
    ("tomorrow tea", "time of day"),
    ("every day tea", "time of day"),
    ("every week tea", "time of day"),
    ("tomorrow at 25 tea", "no time of day"),
    ("at 9:75 tea", "no time of day"),
    ("on 31 February at 10:00 tea", "no such date"),
    ("12/24 10:00 tea", "two ways"),
    ("today at 8 tea", "passed"),
    ("yesterday at 8 tea", "passed"),
    ("2026-11-01 10:00 tea", "passed"),
    ("tomorrow at midnight tea", "two days"),
    ("at 9 30 tea", "minutes"),
    ("at nine thirty tea", "no time"),
    ("at ten to nine tea", "no time"),
    ("at 8.30 tea", "time or a date"),
    ("24.12. 10:00 tea", "in the middle"),
    ("2026-12-24T10:00Z tea", "zone"),
    ("2026-12-24T10:00+02:00 tea", "zone"),
    ("morgen um 8 tea", "no time"),
    ("明天九点开会", "no time"),
    ("at 9-10 tea", "two times"),
    ("at 9ish tea", "no time"),
    ("at half past nine tea", "no time"),
    ("every day at 9:30 for 3 days tea", "until it is cancelled"),
    ("every morning at 20:00 tea", "do not go together"),
    ("every day at 9:30 and 17:00 tea", "two times"),
    ("every day at 9:30 except sunday tea", "except"),
    ("every day at 9 until friday tea", "until"),
    ("every hour at :30 tea", "two times"),
    ("every hour at 9:30 tea", "interval"),
    ("in 2 hours at 9:30 tea", "how long"),
    ("at 9:30 UTC tea", "zone"),
    ("at 13 in the morning tea", "do not go together"),
    ("every month on the 31st at 9 tea", "not every month"),
    ("every 2 weeks on monday at 9 tea", "14 days"),
    ("in 3000 days tea", "too far"),
    ("in 99999 months tea", "too far"),
    ("0001-01-01 0:00 tea", "too far"),  # in UTC there is no such day
    ("cron 61 9 * * * tea", "cron"),
    ("cron 0 0 30 2 * tea", "cron"),
    ("call mum on Monday about cats at 9:00", "write the time first"),
    ("call mum tomorrow at 9 about cats", "write it first"),
    ("in 30 minutes", "what it is about"),
]


@pytest.mark.parametrize(("text", "expected"), ONCE)
def test_one_time_is_the_time_that_was_meant(text: str, expected: str) -> None:
    request = understood(text)
    assert (local(request), request.text, request.when.rule) == (expected, "tea", None)


@pytest.mark.parametrize(("text", "expected"), AGAIN)
def test_a_recurrence_is_the_rule_that_was_meant(text: str, expected: str) -> None:
    request = understood(text)
    assert (str(request.when.rule), request.text) == (expected, "tea")
    assert request.when.due > SUNDAY


@pytest.mark.parametrize(("text", "why"), UNCLEAR)
def test_what_is_not_clear_is_refused_with_its_reason(text: str, why: str) -> None:
    with pytest.raises(Unclear, match=why):
        understood(text)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (datetime(2026, 11, 27, 9, tzinfo=UTC), "2026-11-30"),  # on a Friday, both readings are the same Monday
        (datetime(2026, 11, 25, 9, tzinfo=UTC), "2026-11-30"),  # on a Wednesday, too: next week's is the nearest
        (datetime(2026, 11, 23, 9, tzinfo=UTC), "2026-11-30"),  # today is Monday
    ],
)
def test_next_weekday_is_understood_where_both_readings_agree(now: datetime, expected: str) -> None:
    assert local(understood("next monday at 9 tea", now=now)) == f"{expected} 09:00"


def test_next_weekday_is_refused_where_it_may_be_this_week_or_next() -> None:
    """On a Monday "next Friday" is this week's to some, next week's to others: both dates are named."""
    with pytest.raises(Unclear, match="2026-11-27 or 2026-12-04"):
        understood("next friday at 9 tea", now=datetime(2026, 11, 23, 9, tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "expected", "about"),
    [
        ("call mum tomorrow at 8", "2026-11-23 08:00", "call mum"),
        ("me to call mum in 10 minutes", "2026-11-22 10:10", "call mum"),
        ("me in 10 minutes to call mum", "2026-11-22 10:10", "call mum"),
        ("at 9: 5 things to do", "2026-11-23 09:00", "5 things to do"),
        ("tomorrow at 8 meeting at 10:00", "2026-11-23 08:00", "meeting at 10:00"),
        ("at 9 a walk", "2026-11-23 09:00", "a walk"),
        ("in 2 hours 15 people arrive", "2026-11-22 12:00", "15 people arrive"),
        ("at 9:30 sun cream", "2026-11-23 09:30", "sun cream"),
    ],
)
def test_the_text_is_what_is_not_the_time(text: str, expected: str, about: str) -> None:
    request = understood(text)
    assert (local(request), request.text) == (expected, about)


def test_a_time_alone_leaves_nothing_unread() -> None:
    """The tool's `when` is a time and nothing else."""
    assert read_time("every day at 9:30", now=SUNDAY, zone=BERLIN).rule is not None
    with pytest.raises(Unclear, match="stand-up"):
        read_time("every day at 9:30 stand-up", now=SUNDAY, zone=BERLIN)


@pytest.mark.parametrize("span", ["1 minute", "2h", "half an hour", "an hour and a half", "three days."])
def test_a_duration_alone_is_from_now(span: str) -> None:
    """Models write it into `when`; where words follow it could be anything."""
    assert read_time(span, now=SUNDAY, zone=BERLIN) == read_time(f"in {span}", now=SUNDAY, zone=BERLIN)
    with pytest.raises(Unclear, match="walk"):
        read_time(f"{span} walk", now=SUNDAY, zone=BERLIN)


# --- properties

WORDS = [
    *("in", "at", "on", "every", "tomorrow", "today", "monday", "9", "9:30", "30", "minutes", "days", "and", "next"),
    *("half", "an", "hour", "other", "morning", "5pm", "weekday", "mon", "-", "fri", "or", "for", "T10:00", "12/24"),
    *("24", "december", "2026", "24.12.", "cron", "*", "call", "mum", ",", ":", "-", "the", "1st", "month", "noon"),
]
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Shanghai"]).map(
    ZoneInfo
)
INSTANTS = st.integers(1_700_000_000, 1_900_000_000).map(lambda at_s: datetime.fromtimestamp(at_s, UTC))


@given(st.lists(st.sampled_from(WORDS), max_size=12), INSTANTS, ZONES)
def test_whatever_is_written_is_understood_for_the_future_or_refused(
    words: list[str], now: datetime, zone: ZoneInfo
) -> None:
    """Nothing else ever comes of a text: no other error, no time in the past, no rule that cannot be read back."""
    try:
        request = read_request(" ".join(words), now=now, zone=zone)
    except Unclear:
        return
    assert request.when.due > now
    assert request.when.due.tzinfo is UTC
    assert request.text
    if request.when.rule is not None:
        assert recurrence_from(str(request.when.rule)) == request.when.rule


@given(st.text(max_size=60), INSTANTS)
def test_any_text_at_all_is_survived(text: str, now: datetime) -> None:
    with suppress(Unclear):
        assert read_request(text, now=now, zone=BERLIN).when.due > now


@given(st.integers(1, 500), st.sampled_from(["minutes", "hours"]), INSTANTS, ZONES)
def test_a_delay_is_elapsed_time_in_every_zone(amount: int, unit: str, now: datetime, zone: ZoneInfo) -> None:
    length = timedelta(**{unit: amount})
    assert understood(f"in {amount} {unit} tea", now=now, zone=zone).when.due == now + length


@given(st.integers(0, 23), st.integers(0, 59), INSTANTS, ZONES)
def test_a_time_of_day_is_the_next_there_is(hour: int, minute: int, now: datetime, zone: ZoneInfo) -> None:
    """Within a day and an hour (a day may have 25), on that time of the wall unless the clocks skip it."""
    due = understood(f"at {hour}:{minute:02} tea", now=now, zone=zone).when.due
    assert timedelta(0) < due - now <= timedelta(hours=25)
    wall = due.astimezone(zone)
    skipped = [due - timedelta(minutes=1), due]
    offsets = {moment.astimezone(zone).utcoffset() for moment in skipped}
    assert (wall.hour, wall.minute) == (hour, minute) or len(offsets) == 2


@pytest.mark.parametrize(("hour", "part"), list(product(range(1, 13), ("am", "pm"))))
def test_half_days_are_the_clock_of_twelve_hours(hour: int, part: str) -> None:
    due = understood(f"at {hour}{part} tea").when.due.astimezone(BERLIN)
    assert due.hour == hour % 12 + (12 if part == "pm" else 0)
