"""The settings of what happens by the clock."""

from __future__ import annotations

from collections.abc import Set
from functools import cache
from typing import Annotated, Final
from zoneinfo import available_timezones

from pydantic import AfterValidator, Field

from gateway.config.section import Section, expecting

HEARTBEAT_MINUTES_MIN: Final = 5
"""A turn every few minutes, day and night, is a mistake and not a heartbeat."""


@cache
def _zones() -> Set[str]:
    return available_timezones()  # reads a hundred files


def _known(zone: str) -> str:
    if zone not in _zones():
        raise ValueError("not a time zone")
    return zone


def _rare(minutes: int) -> int:
    if 0 < minutes < HEARTBEAT_MINUTES_MIN:
        raise ValueError("too often")
    return minutes


class Schedules(Section):
    """Reminders, scheduled tasks, the heartbeat."""

    time_zone: Annotated[str, AfterValidator(_known)] = Field(
        default="UTC",
        description="Time zone of everybody who has not said /remind zone.",
        json_schema_extra=expecting("the name of a time zone such as Europe/Berlin"),
    )
    heartbeat_minutes: Annotated[int, AfterValidator(_rare)] = Field(
        default=0,
        ge=0,
        description="How often /heartbeat on has the agent look, unasked, whether something is to be done; each look "
        "is a turn that the admin who switched it on pays for. 0: nobody can switch it on.",
        json_schema_extra=expecting(f"0, or {HEARTBEAT_MINUTES_MIN} and more"),
    )
