"""Commands of admins about the house: /limits, /queue."""

from __future__ import annotations

from typing import Final

from agent.commands.access import ROLE_NAMES
from agent.commands.table import Asked, CommandRow, Done
from agent.people import People
from agent.running.insisting import insist
from agent.usage.metering import Meter
from agent.usage.sentences import Day, day_text
from gateway.config.limits import Limits
from gateway.contracts.access import Rate
from gateway.contracts.errors import BadSessionKey
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import Clock, OperatorBus, QueueFigures
from gateway.contracts.spending import Amounts, day_begins_ms, day_of
from gateway.words import Words

_SECOND_MS: Final = 1000


def house_commands(
    limits: Limits, people: People, meter: Meter, operator: OperatorBus, clock: Clock
) -> tuple[CommandRow, ...]:
    """The rows, in the order of /help."""

    async def limits_of(asked: Asked) -> Done:
        words = asked.words
        try:
            owner = SessionKey.parse(asked.argument).owner if asked.argument else asked.message.author
        except BadSessionKey:
            return Done(words.say("Write /limits and a person by his key, such as `telegram:123456789`."))
        if asked.argument and not asked.message.is_private:
            return Done(words.say("That names people: ask me in a direct message."))
        role, now_ms = await people.role_of(owner), clock.now_ms()
        spent = await meter.spent(owner) or Amounts()
        today = Day(spent, await meter.caps_of(owner), day_begins_ms(day_of(now_ms) + 1))
        head = words.say("{person} is {role} here.", person=str(owner), role=words.say(ROLE_NAMES[role]))
        day = day_text(words.say("Today"), today, words, now_ms=now_ms)
        return Done(f"{head} {_rate_text(limits.rate_of(role), words)}\n\n{day}")

    async def queue(asked: Asked) -> Done:
        return Done(_queue_text(await insist(operator.figures), asked.words))

    return (
        CommandRow("limits", limits_of),
        CommandRow("queue", queue),
    )


def _rate_text(rate: Rate, words: Words) -> str:
    if not rate.per_minute:
        return words.say("No limit of messages a minute.")
    return words.say(
        "{many} messages a minute, and {burst} more that may come at once.", many=rate.per_minute, burst=rate.burst
    )


def _queue_text(figures: QueueFigures, words: Words) -> str:
    oldest_s = figures.oldest_wait_ms // _SECOND_MS
    pending = sum(figures.outbound_pending.values())
    channels = ", ".join(f"{name} {state}" for name, state in sorted(figures.channels_connected.items()))
    number, queued, dead = words.number, words.number(figures.queued), words.number(figures.dead_letters)
    lines = (
        words.say(
            "- messages: {queued}, the oldest has waited for {seconds} s", queued=queued, seconds=number(oldest_s)
        )
        if oldest_s
        else words.say("- messages: {queued}", queued=queued),
        words.say(
            "- lanes: {running} running, {ready} ready, {delayed} delayed",
            running=number(figures.running),
            ready=number(figures.ready),
            delayed=number(figures.delayed),
        ),
        words.say("- replies on their way: {pending}", pending=number(pending)),
        words.say("- dead letters: {dead} (`trivet dead` lists them)", dead=dead)
        if figures.dead_letters
        else words.say("- dead letters: {dead}", dead=dead),
        words.say("- agent processes: {processes}", processes=number(figures.workers_alive)),
        words.say("- channels: {channels}", channels=channels or words.say("none")),
    )
    return "\n".join(lines)
