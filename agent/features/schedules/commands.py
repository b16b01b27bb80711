"""Commands about later: /remind, /heartbeat, and the one that a reminder itself arrives as."""

from __future__ import annotations

from typing import Final

from agent.commands.table import Asked, CommandRow, Done
from agent.features.schedules.recurrence import ZONE_EXAMPLES
from agent.features.schedules.service import Requester, ScheduleService
from agent.features.schedules.texts import (
    created_text,
    every_text,
    list_text,
    reminder_text,
    unclear_text,
    unknown_zone_text,
)
from agent.features.schedules.times import Unclear
from agent.limits import LATE_S
from agent.prompts.library import PROMPTS
from gateway.contracts.entries import GrantRole
from gateway.contracts.messages import joined, own_words
from gateway.contracts.ports import Clock, Scrubber
from gateway.contracts.schedules import ScheduleKind, is_firing

REMINDER: Final = "reminder"
"""The command that a firing reminder is: alone in its turn, answered without a model."""

_LIST_WORDS: Final = frozenset({"", "list"})


def remind_commands(
    service: ScheduleService, scrubber: Scrubber, clock: Clock, *, heartbeat_minutes: int
) -> tuple[CommandRow, ...]:
    """The rows, in the order of /help."""

    async def remind(asked: Asked) -> Done:
        word, _, rest = asked.argument.partition(" ")
        if asked.argument.lower() in _LIST_WORDS:
            return await _list(service, asked)
        if word.lower() == "zone":
            return await _zone(service, asked, rest.strip())
        if word.lower() == "cancel" and (not rest or rest.strip().isdecimal()):
            return await _cancel(service, asked, rest.strip())
        try:
            schedule = await service.remind(requester_of(asked), asked.argument)
        except Unclear as problem:
            return Done(unclear_text(problem.why(asked.words), asked.words))
        _, is_zone_known = await service.zone(asked.session.key.owner)
        return Done(created_text(schedule, asked.words, is_zone_known=is_zone_known))

    async def heartbeat(asked: Asked) -> Done:
        return await _heartbeat(service, asked, minutes=heartbeat_minutes)

    async def reminder(asked: Asked) -> Done:
        if not is_firing(asked.message):
            return Done(asked.words.say("I remind you of things with /remind."))
        zone, _ = await service.zone(asked.session.key.owner)
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


def requester_of(asked: Asked) -> Requester:
    """Whoever gave a command, where it was given."""
    message = asked.message
    return Requester(
        key=message.key,
        address=message.address,
        author_id=message.author_id,
        author_name=message.author_name,
        is_private=message.is_private,
        role=asked.role,
        cause=message.id,
        place=message.place,
    )


async def _list(service: ScheduleService, asked: Asked) -> Done:
    owner = asked.session.key.owner
    zone, is_zone_known = await service.zone(owner)
    found = await service.active(owner, place=None if asked.message.is_private else asked.message.address)
    return Done(list_text(found, zone, asked.words, is_zone_known=is_zone_known))


async def _zone(service: ScheduleService, asked: Asked, wanted: str) -> Done:
    owner, words = asked.session.key.owner, asked.words
    if not wanted:
        zone, is_known = await service.zone(owner)
        return Done(
            words.say("Your time zone is {zone}.", zone=zone.key) if is_known else unknown_zone_text(zone, words)
        )
    found = await service.set_zone(owner, wanted)
    if found is None:
        return Done(words.say("I know no time zone of that name. For example: {zones}.", zones=ZONE_EXAMPLES))
    return Done(words.say("Your time zone is {zone} now. What is scheduled already keeps its own.", zone=found.key))


async def _cancel(service: ScheduleService, asked: Asked, number: str) -> Done:
    words = asked.words
    if not number:
        return Done(words.say("Say which one: `/remind cancel NUMBER`; /remind lists them."))
    place = None if asked.message.is_private else asked.message.address
    cancelled = await service.cancel(asked.session.key.owner, int(number[:9]), place=place)
    if cancelled is None:
        return Done(words.say("Nothing is scheduled under number {number}; /remind lists what is.", number=number[:9]))
    return Done(words.say("Cancelled: {text}", text=cancelled.text))


async def _heartbeat(service: ScheduleService, asked: Asked, *, minutes: int) -> Done:
    words = asked.words
    if not minutes:
        return Done(words.say("The heartbeat is off: the operator can allow it with `schedules.heartbeat_minutes`."))
    if asked.role is not GrantRole.ADMIN:
        return Done(words.say("Only an admin can switch the heartbeat on or off."))
    if asked.argument.lower() not in ("on", "off"):
        return Done(words.say("Write /heartbeat on or /heartbeat off."))
    before = await service.cancel_kind(asked.session.key.owner, ScheduleKind.HEARTBEAT)
    if asked.argument.lower() == "off":
        return Done(words.say("The heartbeat is off.") if before else words.say("The heartbeat was not on."))
    requester = requester_of(asked)
    await service.order(requester, ScheduleKind.HEARTBEAT, f"every {minutes} minutes", PROMPTS.heartbeat)
    return Done(
        words.say(
            "I shall look {rule} from now on, at your cost. /heartbeat off ends it.",
            rule=every_text(minutes * 60, words),
        )
    )
