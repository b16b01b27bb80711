"""Names of time zones, as people write them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

_OLD_AREAS: Final = ("Etc/", "SystemV/", "US/", "Brazil/", "Canada/", "Chile/", "Mexico/")
ZONE_EXAMPLES: Final = "Europe/Berlin, America/New_York, Asia/Shanghai, UTC"


def zone_named(name: str) -> ZoneInfo:
    """A zone by the name that `find_zone` gave; UTC for one that this machine has no rules of any more."""
    return ZoneInfo(name if name in available_zones() else "UTC")


def find_zone(wanted: str) -> str | None:
    """The zone that somebody means: by its name, in any case, or by its city where only one has it."""
    folded = "_".join(wanted.casefold().split())
    exact = [name for name in available_zones() if name.casefold() == folded]
    return exact[0] if exact else _by_city().get(folded)


@cache
def available_zones() -> frozenset[str]:
    """Every zone this machine or the tzdata package knows."""
    return frozenset(available_timezones())


@cache
def _by_city() -> Mapping[str, str]:
    """The cities that only one zone is named after."""
    found: dict[str, set[str]] = {}
    for name in available_zones():
        area, _, city = name.rpartition("/")
        if area and not area.startswith(_OLD_AREAS):
            found.setdefault(city.casefold(), set()).add(name)
    return {city: names.pop() for city, names in found.items() if len(names) == 1}
