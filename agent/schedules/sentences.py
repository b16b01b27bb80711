"""What people read about their schedules: the understood time, always with its zone. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final

from agent.schedules.recurrence import BadRecurrence, Cron, Days, Every, recurrence_from
from agent.schedules.zones import zone_named
from gateway.contracts.schedules import Schedule, ScheduleKind

EXAMPLES: Final = (
    "`/remind in 30 minutes call mum`, `/remind tomorrow at 8 take the bins out`, "
    "`/remind on 24 December at 10:00 presents`, `/remind every day at 9:30 stand-up`, "
    "`/remind every Monday and Thursday at 18:00 gym`"
)
_WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_TEXT_SHOWN: Final = 200


def moment_text(due_ms: int, zone: tzinfo) -> str:
    """An instant on the wall of a zone: `Mon 23 Nov 2026, 09:30 (Europe/Berlin)`."""
    return f"{datetime.fromtimestamp(due_ms / 1000, UTC).astimezone(zone):%a %d %b %Y, %H:%M} ({zone})"


def rule_text(recurrence: str) -> str:
    """A rule in words, empty for what happens once."""
    if not recurrence:
        return ""
    try:
        rule = recurrence_from(recurrence)
    except BadRecurrence:
        return recurrence
    match rule:
        case Every(seconds):
            return f"every {_length(seconds)}"
        case Days(count, at):
            return f"every {count} days at {at:%H:%M}"
        case Cron(expression):
            return _cron_text(expression)


def created_text(schedule: Schedule, *, is_zone_known: bool) -> str:
    """The answer to a request that was understood."""
    what = "remind you" if schedule.kind is ScheduleKind.REMINDER else "do this"
    lines = [
        f"I shall {what} {_when(schedule)}: {_shown(schedule.text)}",
        f"`/remind cancel {schedule.number}` takes it back.",
    ]
    if not is_zone_known:
        lines.append(unknown_zone_text(zone_named(schedule.zone)))
    return "\n\n".join(lines)


def unknown_zone_text(zone: tzinfo) -> str:
    """For somebody who never said where the clock is read."""
    return f"I read times in {zone}. If yours differ, say so first: `/remind zone Europe/Berlin`."


def list_text(schedules: Sequence[Schedule], zone: tzinfo, *, is_zone_known: bool) -> str:
    """The answer to a bare /remind."""
    if not schedules:
        lines = [f"Nothing is scheduled. {examples_text()}"]
    else:
        lines = ["\n".join(_line(schedule) for schedule in schedules), "`/remind cancel NUMBER` takes one back."]
    if not is_zone_known:
        lines.append(unknown_zone_text(zone))
    return "\n\n".join(lines)


def unclear_text(why: str) -> str:
    """For a time that was not understood."""
    return f"I did not schedule anything: {why}. {examples_text()}"


def examples_text() -> str:
    """How to say it."""
    return f"For example: {EXAMPLES}. A colon ends the time: `/remind every day at 9: 5 things to do`."


def reminder_text(text: str, *, due_ms: int, now_ms: int, late_s: float, zone: tzinfo) -> str:
    """What arrives when a reminder fires."""
    late = f"\n\n(It was due {moment_text(due_ms, zone)}.)" if now_ms - due_ms > late_s * 1000 else ""
    return f"⏰ **Reminder**: {text}{late}"


def length_text(seconds: int) -> str:
    """A length of time in its largest whole unit."""
    return _length(seconds)


def _line(schedule: Schedule) -> str:
    kind = "" if schedule.kind is ScheduleKind.REMINDER else f" ({schedule.kind.value})"
    return f"- **{schedule.number}**{kind} {_when(schedule)}: {_shown(schedule.text)}"


def _when(schedule: Schedule) -> str:
    """In the zone it was ordered in, which its rule is about."""
    rule = rule_text(schedule.recurrence)
    moment = moment_text(schedule.next_due_ms, zone_named(schedule.zone))
    return f"{rule}, next {moment}" if rule else f"on {moment}"


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_SHOWN else f"{line[: _TEXT_SHOWN - 1]}…"


def _length(seconds: int) -> str:
    size, name = next((unit for unit in _UNITS if seconds % unit[0] == 0), _UNITS[-1])
    count = seconds // size
    return f"{count} {name}s" if count != 1 else name


def _cron_text(expression: str) -> str:
    """Those that our own phrases make, in words; any other as it is."""
    minute, hour, day, month, weekdays = expression.split()
    if not (minute.isdecimal() and hour.isdecimal() and month == "*"):
        return f"by cron `{expression}`"
    at = f"at {int(hour):02}:{int(minute):02}"
    if weekdays == "*":
        if day == "*":
            return f"every day {at}"
        return f"on day {day} of every month {at}" if day.isdecimal() else f"by cron `{expression}`"
    if day != "*" or not all(part.isdecimal() for part in weekdays.split(",")):
        return f"by cron `{expression}`"
    return f"every {_named(weekdays.split(','))} {at}"


def _named(weekdays: Sequence[str]) -> str:
    names = [_WEEKDAYS[int(number)] for number in sorted(weekdays, key=lambda number: int(number) or 7)]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
