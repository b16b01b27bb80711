"""Commands of admins about the house: /limits, /queue."""

from __future__ import annotations

from typing import Final

from agent.commands.table import Asked, CommandRow, Done
from agent.insisting import insist
from agent.metering import Meter
from agent.people import People
from agent.usage_sentences import Day, day_text
from gateway.config.limits import Limits
from gateway.contracts.access import Rate
from gateway.contracts.errors import BadSessionKey
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import Clock, OperatorBus, QueueFigures
from gateway.contracts.spending import Amounts, day_begins_ms, day_of

_SECOND_MS: Final = 1000


def house_commands(
    limits: Limits, people: People, meter: Meter, operator: OperatorBus, clock: Clock
) -> tuple[CommandRow, ...]:
    """The rows, in the order of /help."""

    async def limits_of(asked: Asked) -> Done:
        try:
            owner = SessionKey.parse(asked.argument).owner if asked.argument else asked.message.author
        except BadSessionKey:
            return Done("Write /limits and a person by his key, such as `telegram:123456789`.")
        if asked.argument and not asked.message.is_private:
            return Done("That names people: ask me in a direct message.")
        role, now_ms = await people.role_of(owner), clock.now_ms()
        spent = await meter.spent(owner) or Amounts()
        today = Day(spent, await meter.caps_of(owner), day_begins_ms(day_of(now_ms) + 1))
        head = f"{owner} is {role.value} here. {_rate_text(limits.rate_of(role))}"
        return Done(f"{head}\n\n{day_text('Today', today, now_ms=now_ms)}")

    async def queue(asked: Asked) -> Done:
        return Done(_queue_text(await insist(operator.figures)))

    return (
        CommandRow("limits", "how much a person may ask: /limits [PERSON]", limits_of),
        CommandRow("queue", "how much there is to do", queue),
    )


def _rate_text(rate: Rate) -> str:
    if not rate.per_minute:
        return "No limit of messages a minute."
    return f"{rate.per_minute} messages a minute, and {rate.burst} more that may come at once."


def _queue_text(figures: QueueFigures) -> str:
    oldest_s = figures.oldest_wait_ms // _SECOND_MS
    pending = sum(figures.outbound_pending.values())
    channels = ", ".join(f"{name} {state}" for name, state in sorted(figures.channels_connected.items()))
    lines = (
        f"- messages: {figures.queued:,}" + (f", the oldest has waited for {oldest_s:,} s" if oldest_s else ""),
        f"- lanes: {figures.running:,} running, {figures.ready:,} ready, {figures.delayed:,} delayed",
        f"- replies on their way: {pending:,}",
        f"- dead letters: {figures.dead_letters:,}" + (" (`trivet dead` lists them)" if figures.dead_letters else ""),
        f"- agent processes: {figures.workers_alive:,}",
        f"- channels: {channels or 'none'}",
    )
    return "\n".join(lines)
