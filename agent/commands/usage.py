"""/usage: what was spent, by whoever asks; admins may see everybody's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from agent.commands.table import Asked, CommandRow, Done
from agent.usage.metering import Meter
from agent.usage.sentences import everybodys_usage_text, usage_text
from agent.usage.today import today_of
from gateway.contracts.entries import GrantRole
from gateway.contracts.ports import Clock
from gateway.contracts.spending import Period
from gateway.store.usage import UsageStore

_TOP_SHOWN: Final = 10


def usage_commands(book: UsageStore, meter: Meter, clock: Clock) -> tuple[CommandRow, ...]:
    """The row of /usage."""

    async def usage(asked: Asked) -> Done:
        now_ms = clock.now_ms()
        if asked.argument.casefold() == "all":
            return Done(await all_of_it(asked, now_ms))
        owner = asked.session.key.owner
        month = await book.by_purpose(owner, _month(now_ms))
        return Done(usage_text(await today_of(owner, book, meter, now_ms=now_ms), month, asked.words, now_ms=now_ms))

    async def all_of_it(asked: Asked, now_ms: int) -> str:
        if asked.role is not GrantRole.ADMIN:
            return asked.words.say("Only admins may see what everybody uses. /usage shows what you use.")
        if not asked.message.is_private:
            return asked.words.say("That names people: ask me in a direct message.")
        month = _month(now_ms)
        return everybodys_usage_text(
            await today_of(None, book, meter, now_ms=now_ms),
            await book.by_purpose(None, month),
            await book.top(month, limit=_TOP_SHOWN),
            asked.words,
            now_ms=now_ms,
        )

    return (CommandRow("usage", usage),)


def _month(now_ms: int) -> Period:
    """From the first of the month, UTC, to this moment."""
    first = datetime.fromtimestamp(now_ms / 1000, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return Period(int(first.timestamp() * 1000), now_ms + 1)
