"""Texts about schedules: the understood time, always with its zone. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final

from agent.features.schedules.recurrence import BadRecurrence, Cron, Days, Every, recurrence_from, zone_named
from gateway.contracts.sessions import Schedule, ScheduleKind
from gateway.i18n import Words, sentence

_EXAMPLES: Final = sentence(
    "For example: `/remind in 30 minutes call mum`, `/remind tomorrow at 8 take the bins out`, "
    "`/remind on 24 December at 10:00 presents`, `/remind every day at 9:30 stand-up`, "
    "`/remind every Monday and Thursday at 18:00 gym`. "
    "Or ask me without a command, in your own words."
)
"""The command reads English times only; the model understands any language."""

_MONDAY_FIRST: Final = (
    *(sentence("Mon"), sentence("Tue"), sentence("Wed"), sentence("Thu"), sentence("Fri")),
    *(sentence("Sat"), sentence("Sun")),
)
_MONTHS: Final = (
    *(sentence("Jan"), sentence("Feb"), sentence("Mar"), sentence("Apr"), sentence("May"), sentence("Jun")),
    *(sentence("Jul"), sentence("Aug"), sentence("Sep"), sentence("Oct"), sentence("Nov"), sentence("Dec")),
)
_WEEKDAYS: Final = (
    *(sentence("Sunday"), sentence("Monday"), sentence("Tuesday"), sentence("Wednesday"), sentence("Thursday")),
    *(sentence("Friday"), sentence("Saturday"), sentence("Sunday")),
)
_KINDS: Final = {ScheduleKind.TASK: sentence("(task)"), ScheduleKind.HEARTBEAT: sentence("(heartbeat)")}
_TEXT_SHOWN: Final = 200


def moment_text(due_ms: int, zone: tzinfo, words: Words) -> str:
    """Write an instant in the local time of a zone: `Mon 23 Nov 2026, 09:30 (Europe/Berlin)`."""
    moment = datetime.fromtimestamp(due_ms / 1000, UTC).astimezone(zone)
    return words.say(
        "{weekday} {day} {month} {year}, {time} ({zone})",
        weekday=words.say(_MONDAY_FIRST[moment.weekday()]),
        day=f"{moment:%d}",
        month=words.say(_MONTHS[moment.month - 1]),
        year=moment.year,
        time=f"{moment:%H:%M}",
        zone=str(zone),
    )


def rule_text(recurrence: str, words: Words) -> str:
    """Write a rule in words, empty for what happens once."""
    if not recurrence:
        return ""
    try:
        rule = recurrence_from(recurrence)
    except BadRecurrence:
        return recurrence
    match rule:
        case Every(seconds):
            return every_text(seconds, words)
        case Days(count, at):
            days = words.count("every {count} day", "every {count} days", count)
            return words.say("{rule} at {time}", rule=days, time=f"{at:%H:%M}")
        case Cron(expression):
            return _cron_text(expression, words)


def created_text(schedule: Schedule, words: Words, *, is_zone_known: bool) -> str:
    """Write the answer to a request that was understood."""
    when, text = _when(schedule, words), _shown(schedule.text)
    lines = [
        words.say("I shall remind you {when}: {text}", when=when, text=text)
        if schedule.kind is ScheduleKind.REMINDER
        else words.say("I shall do this {when}: {text}", when=when, text=text),
        words.say("`/remind cancel {number}` takes it back.", number=schedule.number),
    ]
    if not is_zone_known:
        lines.append(unknown_zone_text(zone_named(schedule.zone), words))
    return "\n\n".join(lines)


def unknown_zone_text(zone: tzinfo, words: Words) -> str:
    """Tell the zone in which times are read to a person who never named one."""
    return words.say(
        "I read times in {zone}. If yours differ, say so first: `/remind zone Europe/Berlin`.", zone=str(zone)
    )


def list_text(schedules: Sequence[Schedule], zone: tzinfo, words: Words, *, is_zone_known: bool) -> str:
    """Write the answer to a bare /remind."""
    lines: list[str]
    if not schedules:
        lines = [f"{words.say('Nothing is scheduled.')} {words.say(_EXAMPLES)}"]
    else:
        listed = "\n".join(_line(schedule, words) for schedule in schedules)
        lines = [listed, words.say("`/remind cancel NUMBER` takes one back.")]
    if not is_zone_known:
        lines.append(unknown_zone_text(zone, words))
    return "\n\n".join(lines)


def unclear_text(why: str, words: Words) -> str:
    """Write the answer to a time that was not understood."""
    return f"{words.say('I did not schedule anything: {why}.', why=why)} {words.say(_EXAMPLES)}"


def reminder_text(text: str, words: Words, *, due_ms: int, now_ms: int, late_s: float, zone: tzinfo) -> str:
    """Write the message that arrives when a reminder fires."""
    said = words.say("⏰ **Reminder**: {text}", text=text)
    if now_ms - due_ms <= late_s * 1000:
        return said
    return said + "\n\n" + words.say("(It was due {moment}.)", moment=moment_text(due_ms, zone, words))


def every_text(seconds: int, words: Words) -> str:
    """Write an interval in its largest whole unit: `every 2 hours`, `every day`."""
    if seconds % 86_400 == 0:
        count = seconds // 86_400
        many = words.count("every {count} day", "every {count} days", count)
        return words.say("every day") if count == 1 else many
    if seconds % 3_600 == 0:
        count = seconds // 3_600
        many = words.count("every {count} hour", "every {count} hours", count)
        return words.say("every hour") if count == 1 else many
    if seconds % 60 == 0:
        count = seconds // 60
        many = words.count("every {count} minute", "every {count} minutes", count)
        return words.say("every minute") if count == 1 else many
    many = words.count("every {count} second", "every {count} seconds", seconds)
    return words.say("every second") if seconds == 1 else many


def _line(schedule: Schedule, words: Words) -> str:
    kind = " " + words.say(_KINDS[schedule.kind]) if schedule.kind in _KINDS else ""
    return f"- **{schedule.number}**{kind} {_when(schedule, words)}: {_shown(schedule.text)}"


def _when(schedule: Schedule, words: Words) -> str:
    """Write the time in the zone in which it was ordered: the rule refers to that zone."""
    rule = rule_text(schedule.recurrence, words)
    moment = moment_text(schedule.next_due_ms, zone_named(schedule.zone), words)
    return (
        words.say("{rule}, next {moment}", rule=rule, moment=moment)
        if rule
        else words.say("on {moment}", moment=moment)
    )


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_SHOWN else f"{line[: _TEXT_SHOWN - 1]}…"


def _cron_text(expression: str, words: Words) -> str:
    """Write the cron expressions that our own phrases produce in words, and any other as it is."""
    minute, hour, day, month, weekdays = expression.split()
    bare = words.say("by cron `{expression}`", expression=expression)
    if not (minute.isdecimal() and hour.isdecimal() and month == "*"):
        return bare
    at = f"{int(hour):02}:{int(minute):02}"
    if weekdays == "*":
        if day == "*":
            return words.say("{rule} at {time}", rule=words.say("every day"), time=at)
        if not day.isdecimal():
            return bare
        return words.say("on day {day} of every month at {time}", day=int(day), time=at)
    if day != "*" or not all(part.isdecimal() for part in weekdays.split(",")):
        return bare
    return words.say("every {weekdays} at {time}", weekdays=_named(weekdays.split(","), words), time=at)


def _named(weekdays: Sequence[str], words: Words) -> str:
    in_order = sorted(weekdays, key=lambda number: int(number) or 7)
    return words.listed(*(words.say(_WEEKDAYS[int(number)]) for number in in_order))
