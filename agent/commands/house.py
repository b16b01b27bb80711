"""/queue: how much there is to do, for admins."""

from __future__ import annotations

from typing import Final

from agent.commands.table import Asked, CommandRow, Done
from gateway.bus.operator import Operator
from gateway.contracts.ports import QueueFigures
from gateway.retry import retry_until_available
from gateway.words import Words

_SECOND_MS: Final = 1000


def queue_command(operator: Operator) -> CommandRow:
    """The row of /queue."""

    async def queue(asked: Asked) -> Done:
        return Done(_queue_text(await retry_until_available(operator.figures), asked.words))

    return CommandRow("queue", queue)


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
