"""What somebody has used today, for whoever asks."""

from __future__ import annotations

from agent.usage.metering import Meter
from agent.usage.sentences import Day
from gateway.contracts.ids import SessionKey
from gateway.contracts.spending import Amounts, Period, UsageSum, day_begins_ms, day_of, nano_of
from gateway.store.usage import UsageStore


async def today_of(owner: SessionKey | None, book: UsageStore, meter: Meter, *, now_ms: int) -> Day:
    """Of one person, or (None) of everybody: as the limits count it; where nothing is limited, as it was charged."""
    day = day_of(now_ms)
    caps = meter.pot if owner is None else await meter.caps_of(owner)
    counted = None if caps.are_open else await meter.spent(owner)
    if counted is None:
        span = Period(day_begins_ms(day), day_begins_ms(day + 1))
        charged = sum((await book.by_purpose(owner, span)).values(), UsageSum())
        counted = Amounts(charged.tokens, nano_of(charged.cost_usd), charged.turns)
    return Day(counted, caps, day_begins_ms(day + 1))
