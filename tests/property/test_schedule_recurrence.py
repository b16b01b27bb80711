"""Rules keep their wall-clock time through every change of the clocks, and what was missed happens once."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.features.schedules.recurrence import (
    BadRecurrence,
    Cron,
    Days,
    Every,
    Recurrence,
    at_wall,
    cron,
    next_after,
    recurrence_from,
    shortest_gap_s,
)

BERLIN, NEW_YORK, LORD_HOWE = (ZoneInfo(name) for name in ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe"))
ZONES = st.sampled_from(
    [BERLIN, NEW_YORK, LORD_HOWE, ZoneInfo("Asia/Shanghai"), ZoneInfo("Africa/Cairo"), ZoneInfo("UTC")]
)
INSTANTS = st.integers(1_500_000_000, 1_900_000_000).map(lambda at_s: datetime.fromtimestamp(at_s, UTC))
TIMES = st.builds(time, st.integers(0, 23), st.sampled_from([0, 1, 15, 30, 45, 59]))


def firings(rule: Recurrence, zone: ZoneInfo, after: datetime, count: int) -> list[datetime]:
    """The next `count` instants, each from the one before."""
    found: list[datetime] = []
    while len(found) < count:
        after = rule.after(after, zone)
        found.append(after)
    return found


def walls(rule: Recurrence, zone: ZoneInfo, after: datetime, count: int) -> list[str]:
    return [f"{found.astimezone(zone):%d %H:%M}" for found in firings(rule, zone, after, count)]


# --- the days on which clocks change


@pytest.mark.parametrize(
    ("zone", "expression", "after", "expected"),
    [
        # Berlin skips 2:00 to 3:00 on 2026-03-29: 2:30 happens at 3:00.
        (BERLIN, "30 2 * * *", datetime(2026, 3, 27, 12, tzinfo=UTC), ["28 02:30", "29 03:00", "30 02:30"]),
        (BERLIN, "30 9 * * *", datetime(2026, 3, 27, 12, tzinfo=UTC), ["28 09:30", "29 09:30", "30 09:30"]),
        # Berlin has 2:00 to 3:00 twice on 2026-10-25: 2:30 happens once, the first time.
        (BERLIN, "30 2 * * *", datetime(2026, 10, 23, 12, tzinfo=UTC), ["24 02:30", "25 02:30", "26 02:30"]),
        # New York: the second Sunday of March, the first of November.
        (NEW_YORK, "15 2 * * *", datetime(2026, 3, 6, 12, tzinfo=UTC), ["07 02:15", "08 03:00", "09 02:15"]),
        (NEW_YORK, "30 1 * * *", datetime(2026, 10, 30, 12, tzinfo=UTC), ["31 01:30", "01 01:30", "02 01:30"]),
        # Lord Howe's clocks change by half an hour: 2:00 to 2:30 is skipped on 2026-10-04.
        (LORD_HOWE, "10 2 * * *", datetime(2026, 10, 2, 12, tzinfo=UTC), ["03 02:10", "04 02:30", "05 02:10"]),
        (LORD_HOWE, "*/15 9 * * *", datetime(2026, 10, 3, 20, tzinfo=UTC), ["04 09:00", "04 09:15", "04 09:30"]),
        # ... and 1:30 to 2:00 comes twice on 2026-04-05.
        (LORD_HOWE, "45 1 * * *", datetime(2026, 4, 3, 12, tzinfo=UTC), ["04 01:45", "05 01:45", "06 01:45"]),
    ],
)
def test_a_time_of_day_keeps_its_wall_clock(
    zone: ZoneInfo, expression: str, after: datetime, expected: list[str]
) -> None:
    assert walls(cron(expression), zone, after, 3) == expected


def test_a_repeated_time_happens_the_first_time_and_never_in_the_past() -> None:
    """Asked for between the two 2:30, it is due tomorrow: the first is over."""
    (first,) = firings(cron("30 2 * * *"), BERLIN, datetime(2026, 10, 25, 0, 0, tzinfo=UTC), 1)
    assert first == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    (then,) = firings(cron("30 2 * * *"), BERLIN, datetime(2026, 10, 25, 0, 45, tzinfo=UTC), 1)
    assert then == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


def test_every_hour_does_not_pause_while_an_hour_is_repeated() -> None:
    found = firings(cron("0 * * * *"), BERLIN, datetime(2026, 10, 24, 23, 30, tzinfo=UTC), 4)
    assert [later - sooner for sooner, later in pairwise(found)] == [timedelta(hours=1)] * 3


def test_several_times_that_are_skipped_together_happen_once() -> None:
    """2:00, 2:15, 2:30 and 2:45 do not exist that day: one firing at 3:00 stands for all of them."""
    found = walls(cron("*/15 2 * * *"), BERLIN, datetime(2026, 3, 28, 12, tzinfo=UTC), 2)
    assert found == ["29 03:00", "30 02:00"]


def test_every_so_many_days_keeps_its_time_and_its_rhythm() -> None:
    rule = Days(2, time(2, 30), date(2026, 3, 27))
    assert walls(rule, BERLIN, datetime(2026, 3, 26, tzinfo=UTC), 3) == ["27 02:30", "29 03:00", "31 02:30"]


# --- properties


@settings(max_examples=20)
@given(ZONES, TIMES, INSTANTS)
def test_a_daily_rule_fires_once_a_day_for_ever(zone: ZoneInfo, at: time, after: datetime) -> None:
    """200 days in a row: each local day once, later than the one before, at its time unless the clocks skip it."""
    found = firings(Cron(f"{at.minute} {at.hour} * * *"), zone, after, 200)
    days = [firing.astimezone(zone).date() for firing in found]
    assert days == [days[0] + timedelta(days=number) for number in range(200)]
    for firing in found:
        assert firing == at_wall(datetime.combine(firing.astimezone(zone).date(), at), zone)


@given(ZONES, st.dates(date(2017, 1, 1), date(2030, 1, 1)), TIMES)
def test_a_wall_clock_is_the_first_instant_that_shows_it_or_the_next_there_is(
    zone: ZoneInfo, day: date, at: time
) -> None:
    wall = datetime.combine(day, at)
    found = at_wall(wall, zone)
    shown = found.astimezone(zone).replace(tzinfo=None)
    assert shown >= wall
    an_hour_before = [(found - timedelta(minutes=ago)).astimezone(zone).replace(tzinfo=None) for ago in range(1, 70)]
    if shown == wall:
        assert wall not in an_hour_before
    else:
        assert an_hour_before[0] < wall


RULES = st.one_of(
    st.integers(60, 1_000_000).map(Every),
    st.builds(Days, st.integers(1, 400), TIMES, st.dates(date(2017, 1, 1), date(2030, 1, 1))),
    st.sampled_from(["30 9 * * *", "*/15 * * * *", "0 2 * * 0", "0 0 29 2 *", "0 12 1 1-6 *", "5 4 * * 1#2"]).map(Cron),
)


@given(RULES, ZONES, INSTANTS, st.integers(0, 10_000_000))
def test_what_was_missed_happens_once_and_the_rule_goes_on(
    rule: Recurrence, zone: ZoneInfo, due: datetime, away_s: int
) -> None:
    """However long nobody fired it, the next due time lies ahead; and an interval keeps its rhythm."""
    now = due + timedelta(seconds=away_s)
    following = next_after(rule, zone, due=due, now=now)
    assert following > now
    if isinstance(rule, Every):
        assert (following - due) % timedelta(seconds=rule.seconds) == timedelta(0)
        assert following - now <= timedelta(seconds=rule.seconds)


@given(RULES)
def test_a_rule_is_read_back_as_it_was_written(rule: Recurrence) -> None:
    assert recurrence_from(str(rule)) == rule


@pytest.mark.parametrize(
    "text", ["", "cron", "cron * * *", "every x", "every", "days 1", "days x 09:00 2026-01-01", "x"]
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(BadRecurrence):
        recurrence_from(text)


def test_a_rule_that_never_happens_is_refused() -> None:
    with pytest.raises(BadRecurrence):
        cron("0 0 30 2 *")
    with pytest.raises(BadRecurrence, match="never"):
        cron("* * */20 * 1L").after(datetime(2026, 1, 1, tzinfo=UTC), BERLIN)


@pytest.mark.parametrize(
    ("rule", "gap_s"),
    [
        (Every(90), 90),
        (Days(2, time(9), date(2026, 1, 1)), 2 * 86_400),
        (Cron("* * * * *"), 60),
        (Cron("59,0 0,23 * * *"), 60),
        (Cron("30 9 * * 1-5"), 86_400),
        (Cron("0 0 29 2 *"), 4 * 366 * 86_400 - 3 * 86_400),
    ],
)
def test_the_shortest_time_between_two_firings_is_known(rule: Recurrence, gap_s: int) -> None:
    assert shortest_gap_s(rule) == gap_s
