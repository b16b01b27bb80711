"""What people read about what they spend: that a limit is reached, that little is left, sums. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from gateway.contracts.entries import UsagePurpose
from gateway.contracts.errors import BudgetSpent
from gateway.contracts.ids import SessionKey
from gateway.contracts.spending import Amounts, Caps, Measure, UsageSum

_NAMES: Final = {Measure.TOKENS: "tokens", Measure.MONEY: "budget", Measure.TURNS: "turns"}
_MINUTE_MS: Final = 60_000


def spent_sentence(error: BudgetSpent, *, now_ms: int) -> str:
    """For whoever wrote a message that cannot be answered today any more."""
    whose = "everybody together has" if error.is_everybodys else "you have"
    again = f"I cannot answer until {reset_text(error.reset_at_ms, now_ms=now_ms)}."
    return f"That would take more {_NAMES[error.measure]} than {whose} left for today. {again}"


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


@dataclass(frozen=True, slots=True)
class Day:
    """What was spent today, as it counts against the caps, and when they are reset."""

    spent: Amounts
    caps: Caps
    reset_at_ms: int


def usage_text(today: Day, month: Mapping[UsagePurpose, UsageSum], *, now_ms: int) -> str:
    """The answer to /usage."""
    return "\n\n".join([day_text("Today", today, now_ms=now_ms), _month_text(month)])


def everybodys_usage_text(
    today: Day,
    month: Mapping[UsagePurpose, UsageSum],
    top: Sequence[tuple[SessionKey, UsageSum]],
    *,
    now_ms: int,
) -> str:
    """The answer to /usage all."""
    parts = [day_text("Everybody today", today, now_ms=now_ms), _month_text(month)]
    if top:
        lines = "\n".join(f"{place}. {owner}: {_sum_text(found)}" for place, (owner, found) in enumerate(top, 1))
        parts.append(f"**Most this month**\n\n{lines}")
    return "\n\n".join(parts)


def day_text(title: str, today: Day, *, now_ms: int) -> str:
    """What was spent on a day, of what it may take."""
    spent, caps = today.spent, today.caps
    lines = [
        f"- tokens: {_of(f'{spent.tokens:,}', f'{caps.tokens:,}', is_capped=caps.tokens > 0)}",
        f"- cost: {_of(_usd(spent.usd), _usd(Amounts(nano_usd=caps.nano_usd).usd), is_capped=caps.nano_usd > 0)}",
        f"- turns: {_of(f'{spent.turns:,}', f'{caps.turns:,}', is_capped=caps.turns > 0)}",
    ]
    until = reset_text(today.reset_at_ms, now_ms=now_ms)
    head = f"**{title}** (until {until})" if caps.are_open else f"**{title}** (limits are renewed at {until})"
    return "\n".join([head, "", *lines])


def _of(spent: str, cap: str, *, is_capped: bool) -> str:
    return f"{spent} of {cap}" if is_capped else spent


def _month_text(month: Mapping[UsagePurpose, UsageSum]) -> str:
    whole = sum(month.values(), UsageSum())
    lines = [f"**This month**: {_sum_text(whole)}"]
    by_tokens = sorted(month.items(), key=lambda item: (-item[1].tokens, item[0]))
    if len(by_tokens) > 1:
        lines += [
            "",
            *(f"- {purpose.value}: {found.tokens:,} tokens, {_usd(found.cost_usd)}" for purpose, found in by_tokens),
        ]
    return "\n".join(lines)


def _sum_text(found: UsageSum) -> str:
    cached = f" ({found.cached_tokens:,} of them cached)" if found.cached_tokens else ""
    turns = "1 turn" if found.turns == 1 else f"{found.turns:,} turns"
    return f"{found.tokens:,} tokens{cached}, {_usd(found.cost_usd)}, {turns}"


def _usd(dollars: float) -> str:
    """Cents for what costs dollars, four places for what costs cents."""
    return f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.4f}"
