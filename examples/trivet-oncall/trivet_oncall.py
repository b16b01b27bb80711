"""A command of its own: who is on call, by the week of the year."""

from __future__ import annotations

from datetime import UTC, datetime

from gateway.plugins import Caller, command

TRIVET_PLUGIN_API = 1
TEAM = ("Ada", "Ben", "Noor")


@command(argument="week", role="member")
def oncall(argument: str, caller: Caller) -> str:
    """who is on call"""
    this_week = datetime.now(UTC).isocalendar().week
    if argument and not argument.isdecimal():
        return f"{argument!r} is no week: ask for a number, such as {this_week}."
    week = int(argument or this_week)
    shown = "" if caller.is_private else " Please call only for what cannot wait."
    return f"In week {week} it is {TEAM[week % len(TEAM)]}.{shown}"
