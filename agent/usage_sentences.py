"""What people read about daily limits: that one is reached, that little is left. Pure."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Final

from gateway.contracts.errors import BudgetSpent
from gateway.contracts.spending import Measure

_NAMES: Final = {Measure.TOKENS: "tokens", Measure.MONEY: "budget", Measure.TURNS: "turns"}
_MINUTE_MS: Final = 60_000


def spent_sentence(error: BudgetSpent, *, now_ms: int) -> str:
    """For whoever wrote a message that cannot be answered today any more."""
    name = _NAMES[error.measure]
    whose = f"everybody's {name} together have" if error.is_everybodys else f"your {name} for today have"
    again = f"I cannot answer until {reset_text(error.reset_at_ms, now_ms=now_ms)}."
    return f"That would take more than {whose} left. {again}"


def little_left_note(measures: Collection[Measure], *, reset_at_ms: int, now_ms: int) -> str:
    """One quiet line under an answer, empty where there is nothing to say."""
    if not measures:
        return ""
    names = " and ".join(_NAMES[each] for each in Measure if each in measures)
    return f"> Little is left of your {names} for today. Renewed at {reset_text(reset_at_ms, now_ms=now_ms)}."


def reset_text(reset_at_ms: int, *, now_ms: int) -> str:
    """`00:00 UTC (in 3 h 20 min)`."""
    hours, minutes = divmod(-(-max(reset_at_ms - now_ms, 0) // _MINUTE_MS), 60)
    left = f"{hours} h {minutes} min" if hours else f"{minutes} min"
    return f"{datetime.fromtimestamp(reset_at_ms / 1000, UTC):%H:%M} UTC (in {left})"
