"""Commands about later: /remind, /heartbeat, and the one that a reminder itself arrives as."""

from __future__ import annotations

from typing import Final

from agent.commands.table import Asked, CommandRow, Done
from agent.limits import LATE_S
from agent.prompts.library import PROMPTS
from agent.schedules.desk import Customer, Desk
from agent.schedules.parts import Unclear
from agent.schedules.sentences import (
    created_text,
    every_text,
    list_text,
    reminder_text,
    unclear_text,
    unknown_zone_text,
)
from agent.schedules.zones import ZONE_EXAMPLES
from gateway.contracts.entries import GrantRole
from gateway.contracts.messages import joined, own_words
from gateway.contracts.ports import Clock, Scrubber
from gateway.contracts.schedules import ScheduleKind, is_firing

REMINDER: Final = "reminder"
"""The command that a firing reminder is: alone in its turn, answered without a model."""

_LIST_WORDS: Final = frozenset({"", "list"})


def remind_commands(desk: Desk, scrubber: Scrubber, clock: Clock, *, heartbeat_minutes: int) -> tuple[CommandRow, ...]:
    """The rows, in the order of /help."""

    async def remind(asked: Asked) -> Done:
        word, _, rest = asked.argument.partition(" ")
        if asked.argument.lower() in _LIST_WORDS:
            return await _list(desk, asked)
        if word.lower() == "zone":
            return await _zone(desk, asked, rest.strip())
        if word.lower() == "cancel" and (not rest or rest.strip().isdecimal()):
            return await _cancel(desk, asked, rest.strip())
        try:
            schedule = await desk.remind(customer_of(asked), asked.argument)
        except Unclear as problem:
            return Done(unclear_text(problem.why(asked.words), asked.words))
        _, is_zone_known = await desk.zone(asked.session.key.owner)
        return Done(created_text(schedule, asked.words, is_zone_known=is_zone_known))

    async def heartbeat(asked: Asked) -> Done:
        return await _heartbeat(desk, asked, minutes=heartbeat_minutes)

    async def reminder(asked: Asked) -> Done:
        if not is_firing(asked.message):
            return Done(asked.words.say("I remind you of things with /remind."))
        zone, _ = await desk.zone(asked.session.key.owner)
        due_ms = asked.message.sent_at_ms
        text = scrubber.for_chat(str(asked.session.key)).scrub(
            reminder_text(asked.argument, asked.words, due_ms=due_ms, now_ms=clock.now_ms(), late_s=LATE_S, zone=zone)
        )
        return Done(text, noted=joined(own_words("(Delivered by the schedule)"), text, by="\n"))

    return (
        CommandRow("remind", remind),
        CommandRow("heartbeat", heartbeat, is_listed=heartbeat_minutes > 0),
        CommandRow(REMINDER, reminder, is_listed=False),
    )


def customer_of(asked: Asked) -> Customer:
    """Whoever gave a command, where it was given."""
    message = asked.message
    return Customer(
        key=message.key,
        address=message.address,
        author_id=message.author_id,
        author_name=message.author_name,
        is_private=message.is_private,
        role=asked.role,
        cause=message.id,
        place=message.place,
    )


async def _list(desk: Desk, asked: Asked) -> Done:
    owner = asked.session.key.owner
    zone, is_zone_known = await desk.zone(owner)
    found = await desk.active(owner, place=None if asked.message.is_private else asked.message.address)
    return Done(list_text(found, zone, asked.words, is_zone_known=is_zone_known))


async def _zone(desk: Desk, asked: Asked, wanted: str) -> Done:
    owner, words = asked.session.key.owner, asked.words
    if not wanted:
        zone, is_known = await desk.zone(owner)
        return Done(
            words.say("Your time zone is {zone}.", zone=zone.key) if is_known else unknown_zone_text(zone, words)
        )
    found = await desk.set_zone(owner, wanted)
    if found is None:
        return Done(words.say("I know no time zone of that name. For example: {zones}.", zones=ZONE_EXAMPLES))
    return Done(words.say("Your time zone is {zone} now. What is scheduled already keeps its own.", zone=found.key))


async def _cancel(desk: Desk, asked: Asked, number: str) -> Done:
    words = asked.words
    if not number:
        return Done(words.say("Say which one: `/remind cancel NUMBER`; /remind lists them."))
    place = None if asked.message.is_private else asked.message.address
    cancelled = await desk.cancel(asked.session.key.owner, int(number[:9]), place=place)
    if cancelled is None:
        return Done(words.say("Nothing is scheduled under number {number}; /remind lists what is.", number=number[:9]))
    return Done(words.say("Cancelled: {text}", text=cancelled.text))


async def _heartbeat(desk: Desk, asked: Asked, *, minutes: int) -> Done:
    words = asked.words
    if not minutes:
        return Done(words.say("The heartbeat is off: the operator can allow it with `schedules.heartbeat_minutes`."))
    if asked.role is not GrantRole.ADMIN:
        return Done(words.say("Only an admin can switch the heartbeat on or off."))
    if asked.argument.lower() not in ("on", "off"):
        return Done(words.say("Write /heartbeat on or /heartbeat off."))
    before = await desk.cancel_kind(asked.session.key.owner, ScheduleKind.HEARTBEAT)
    if asked.argument.lower() == "off":
        return Done(words.say("The heartbeat is off.") if before else words.say("The heartbeat was not on."))
    customer = customer_of(asked)
    await desk.order(customer, ScheduleKind.HEARTBEAT, f"every {minutes} minutes", PROMPTS.heartbeat)
    return Done(
        words.say(
            "I shall look {rule} from now on, at your cost. /heartbeat off ends it.",
            rule=every_text(minutes * 60, words),
        )
    )
