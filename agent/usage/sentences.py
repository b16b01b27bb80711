"""What people read about what they spend: that a limit is reached, that little is left, sums. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from gateway.contracts.entries import UsagePurpose
from gateway.contracts.errors import BudgetSpent
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.spending import Amounts, Caps, Measure, UsageSum
from gateway.words import Words, sentence

_SPENT: Final = {
    Measure.TOKENS: (
        sentence("That would take more tokens than you have left for today."),
        sentence("That would take more tokens than everybody together has left for today."),
    ),
    Measure.MONEY: (
        sentence("That would take more budget than you have left for today."),
        sentence("That would take more budget than everybody together has left for today."),
    ),
    Measure.TURNS: (
        sentence("That would take more turns than you have left for today."),
        sentence("That would take more turns than everybody together has left for today."),
    ),
}
"""Of each measure: somebody's own, and everybody's."""

_NAMES: Final = {
    Measure.TOKENS: sentence("tokens"),
    Measure.MONEY: sentence("budget"),
    Measure.TURNS: sentence("turns"),
}
_PURPOSES: Final = {
    UsagePurpose.TURN: sentence("turn"),
    UsagePurpose.TITLE: sentence("title"),
    UsagePurpose.COMPACTION: sentence("compaction"),
    UsagePurpose.MEMORY: sentence("memory"),
    UsagePurpose.PLAN: sentence("plan"),
    UsagePurpose.EMBEDDING: sentence("embedding"),
    UsagePurpose.SUBAGENT: sentence("subagent"),
}
_MINUTE_MS: Final = 60_000


def spent_sentence(error: BudgetSpent, words: Words, *, now_ms: int) -> str:
    """For whoever wrote a message that cannot be answered today any more."""
    return words.say(
        "{spent} I cannot answer until {time}.",
        spent=words.say(_SPENT[error.measure][error.is_everybodys]),
        time=reset_text(error.reset_at_ms, words, now_ms=now_ms),
    )


def little_left_note(measures: Collection[Measure], words: Words, *, reset_at_ms: int, now_ms: int) -> str:
    """One quiet line under an answer, empty where there is nothing to say."""
    if not measures:
        return ""
    return words.say(
        "> Little is left of your {measures} for today. Renewed at {time}.",
        measures=words.listed(*(words.say(_NAMES[each]) for each in Measure if each in measures)),
        time=reset_text(reset_at_ms, words, now_ms=now_ms),
    )


def reset_text(reset_at_ms: int, words: Words, *, now_ms: int) -> str:
    """`00:00 UTC (in 3 h 20 min)`."""
    hours, minutes = divmod(-(-max(reset_at_ms - now_ms, 0) // _MINUTE_MS), 60)
    moment = f"{datetime.fromtimestamp(reset_at_ms / 1000, UTC):%H:%M}"
    if hours:
        return words.say("{time} UTC (in {hours} h {minutes} min)", time=moment, hours=hours, minutes=minutes)
    return words.say("{time} UTC (in {minutes} min)", time=moment, minutes=minutes)


@dataclass(frozen=True, slots=True)
class Day:
    """What was spent today, as it counts against the caps, and when they are reset."""

    spent: Amounts
    caps: Caps
    reset_at_ms: int


def usage_text(today: Day, month: Mapping[UsagePurpose, UsageSum], words: Words, *, now_ms: int) -> str:
    """The answer to /usage."""
    return "\n\n".join([day_text(words.say("Today"), today, words, now_ms=now_ms), _month_text(month, words)])


def everybodys_usage_text(
    today: Day,
    month: Mapping[UsagePurpose, UsageSum],
    top: Sequence[tuple[SessionKey, UsageSum]],
    words: Words,
    *,
    now_ms: int,
) -> str:
    """The answer to /usage all."""
    parts = [day_text(words.say("Everybody today"), today, words, now_ms=now_ms), _month_text(month, words)]
    if top:
        lines = "\n".join(f"{place}. {owner}: {_sum_text(found, words)}" for place, (owner, found) in enumerate(top, 1))
        parts.append(words.say("**Most this month**") + "\n\n" + lines)
    return "\n\n".join(parts)


def day_text(title: str, today: Day, words: Words, *, now_ms: int) -> str:
    """What was spent on a day, of what it may take."""
    spent, caps, number = today.spent, today.caps, words.number
    tokens = _of(number(spent.tokens), number(caps.tokens), words, is_capped=caps.tokens > 0)
    cap_usd = Amounts(nano_usd=caps.nano_usd).usd
    cost = _of(_usd(spent.usd, words), _usd(cap_usd, words), words, is_capped=caps.nano_usd > 0)
    turns = _of(number(spent.turns), number(caps.turns), words, is_capped=caps.turns > 0)
    until = reset_text(today.reset_at_ms, words, now_ms=now_ms)
    head = (
        words.say("**{title}** (until {time})", title=title, time=until)
        if caps.are_open
        else words.say("**{title}** (limits are renewed at {time})", title=title, time=until)
    )
    lines = [
        words.say("- tokens: {spent}", spent=tokens),
        words.say("- cost: {spent}", spent=cost),
        words.say("- turns: {spent}", spent=turns),
    ]
    return "\n".join([head, "", *lines])


def _of(spent: str, cap: str, words: Words, *, is_capped: bool) -> str:
    return words.say("{spent} of {cap}", spent=spent, cap=cap) if is_capped else spent


def _month_text(month: Mapping[UsagePurpose, UsageSum], words: Words) -> str:
    whole = sum(month.values(), UsageSum())
    lines = [words.say("**This month**: {sums}", sums=_sum_text(whole, words))]
    by_tokens = sorted(month.items(), key=lambda item: (-item[1].tokens, item[0]))
    if len(by_tokens) > 1:
        lines += ["", *(_purpose_line(purpose, found, words) for purpose, found in by_tokens)]
    return "\n".join(lines)


def _purpose_line(purpose: UsagePurpose, found: UsageSum, words: Words) -> str:
    return f"- {words.say(_PURPOSES[purpose])}: {_tokens(found.tokens, words)}, {_usd(found.cost_usd, words)}"


def _sum_text(found: UsageSum, words: Words) -> str:
    tokens = _tokens(found.tokens, words)
    if found.cached_tokens:
        tokens = words.say(
            "{tokens} ({cached} of them cached)", tokens=tokens, cached=words.number(found.cached_tokens)
        )
    turns = words.count("{count} turn", "{count} turns", found.turns)
    return f"{tokens}, {_usd(found.cost_usd, words)}, {turns}"


def _tokens(count: int, words: Words) -> CleanText:
    return words.count("{count} token", "{count} tokens", count)


def _usd(dollars: float, words: Words) -> str:
    """Cents for what costs dollars, four places for what costs cents."""
    return f"${words.number(dollars, 2 if dollars >= 1 else 4)}"
