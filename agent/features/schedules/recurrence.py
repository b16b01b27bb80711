"""Find the next instant of a rule by the wall clock of a zone, through all its changes; and name zones. Pure.

A wall-clock time that a change skips happens at the next instant there is (2:30 at 3:00); one that a change
repeats happens once, the first time. Rules that count minutes or hours count elapsed time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache
from itertools import islice, pairwise
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

_FIELDS: Final = 5
_SAMPLES: Final = 512  # firings that are looked at for the shortest time between two
_YEAR_S: Final = 366 * 86_400
_MINUTE: Final = timedelta(minutes=1)


class BadRecurrence(ValueError):
    """Text that is no rule, or a rule that never happens."""


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression of five fields, read by the wall clock."""

    expression: str

    def __str__(self) -> str:
        return f"cron {self.expression}"

    def after(self, instant: datetime, zone: tzinfo) -> datetime:
        """Return the first instant of the rule after `instant`. Raises `BadRecurrence` when there is none."""
        local = instant.astimezone(zone)
        if self.expression.split()[1] == "*":
            # Every hour there is, so that nothing pauses while an hour is repeated: cronsim steps through instants.
            candidates: Iterator[datetime] = CronSim(self.expression, local)
        else:
            # From the day before: on the wall a repeated hour comes later than it is.
            start = local.replace(tzinfo=None) - timedelta(days=1)
            candidates = (at_wall(wall, zone) for wall in CronSim(self.expression, start))
        for found in candidates:
            if found.astimezone(UTC) > instant:
                return found.astimezone(UTC)
        raise BadRecurrence(f"{self.expression} never happens")


@dataclass(frozen=True, slots=True)
class Every:
    """Again and again after so many seconds."""

    seconds: int

    def __str__(self) -> str:
        return f"every {self.seconds}"

    def after(self, instant: datetime, zone: tzinfo) -> datetime:
        """Return the instant one interval later. A caller with a due time continues from that one by `next_after`."""
        return instant + timedelta(seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class Days:
    """Every so many days, from a first day on, at a time of the wall clock."""

    count: int
    at: time
    first: date

    def __str__(self) -> str:
        return f"days {self.count} {self.at:%H:%M} {self.first.isoformat()}"

    def after(self, instant: datetime, zone: tzinfo) -> datetime:
        """Return the first instant of the rule after `instant`."""
        today = instant.astimezone(zone).date() - timedelta(days=1)
        rounds = max(0, -(-(today - self.first).days // self.count))
        while True:
            day = self.first + timedelta(days=rounds * self.count)
            found = at_wall(datetime.combine(day, self.at), zone).astimezone(UTC)
            if found > instant:
                return found
            rounds += 1


Recurrence = Cron | Every | Days


def next_after(rule: Recurrence, zone: tzinfo, *, due: datetime, now: datetime) -> datetime:
    """Return when a schedule that was due at `due` is due next: later than `now`, so that missed firings happen only
    once.

    Raises `BadRecurrence` when it never happens again."""
    if isinstance(rule, Every):
        missed = max(0, (now - due) // timedelta(seconds=rule.seconds))
        return due + timedelta(seconds=rule.seconds) * (missed + 1)
    return rule.after(max(due, now), zone)


def at_wall(wall: datetime, zone: tzinfo) -> datetime:
    """Return the instant at which the clocks of `zone` show `wall`: the first of two, the next there is if they skip
    it."""
    found = wall.replace(tzinfo=zone, fold=0)
    while found.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != wall:
        wall += _MINUTE
        found = wall.replace(tzinfo=zone, fold=0)
    return found.astimezone(UTC)


def cron(expression: str) -> Cron:
    """Check a cron expression of five fields. Raises `BadRecurrence`."""
    tidy = " ".join(expression.upper().split())
    if len(tidy.split()) != _FIELDS:
        raise BadRecurrence("a cron expression has five fields: minute, hour, day, month, weekday")
    try:
        CronSim(tidy, datetime(2000, 1, 1))  # noqa: DTZ001 - a wall clock
    except CronSimError as error:
        raise BadRecurrence(str(error)) from error
    return Cron(tidy)


def recurrence_from(text: str) -> Recurrence:
    """Parse the text form of a rule, the inverse of `str`. Raises `BadRecurrence`."""
    name, _, rest = text.partition(" ")
    try:
        match name:
            case "cron":
                return cron(rest)
            case "every":
                return Every(int(rest))
            case "days":
                count, at, first = rest.split()
                return Days(int(count), time.fromisoformat(at), date.fromisoformat(first))
    except ValueError as error:
        raise BadRecurrence(str(error)) from error
    raise BadRecurrence(f"not a rule: {text[:80]!r}")


def shortest_gap_s(rule: Recurrence) -> int:
    """Return a lower bound in seconds for the time between two firings of a rule, which limits how often anybody may be
    called."""
    match rule:
        case Every(seconds):
            return seconds
        case Days(count):
            return count * 86_400
        case Cron():
            walls = CronSim(rule.expression, datetime(2000, 1, 1))  # noqa: DTZ001 - a wall clock
            gaps = [(later - sooner).total_seconds() for sooner, later in pairwise(islice(walls, _SAMPLES))]
            return int(min(gaps, default=_YEAR_S))


# --- zones

_OLD_AREAS: Final = ("Etc/", "SystemV/", "US/", "Brazil/", "Canada/", "Chile/", "Mexico/")
ZONE_EXAMPLES: Final = "Europe/Berlin, America/New_York, Asia/Shanghai, UTC"


def zone_named(name: str) -> ZoneInfo:
    """Return a zone by the name that `find_zone` gave; UTC for one that this machine has no rules of any more."""
    return ZoneInfo(name if name in available_zones() else "UTC")


def find_zone(wanted: str) -> str | None:
    """Find the zone that somebody means: by its name, in any case, or by its city where only one has it."""
    folded = "_".join(wanted.casefold().split())
    exact = [name for name in available_zones() if name.casefold() == folded]
    return exact[0] if exact else _by_city().get(folded)


@cache
def available_zones() -> frozenset[str]:
    """List every zone that this machine or the tzdata package knows."""
    return frozenset(available_timezones())


@cache
def _by_city() -> Mapping[str, str]:
    """Map the cities that only one zone is named after to their zones."""
    found: dict[str, set[str]] = {}
    for name in available_zones():
        area, _, city = name.rpartition("/")
        if area and not area.startswith(_OLD_AREAS):
            found.setdefault(city.casefold(), set()).add(name)
    return {city: names.pop() for city, names in found.items() if len(names) == 1}
