"""The cost of a day: its caps, its use, and admins' decisions about the limits of people and roles. Pure.

Days are UTC days, counted from 1970. Money is whole nanodollars, so that sums are exact in every database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Final

from gateway.contracts.errors import Declined
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import GrantRole

DAY_MS: Final = 86_400_000
NANO_PER_USD: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Period:
    """A stretch of time in Unix milliseconds, its end excluded."""

    from_ms: int
    to_ms: int


class Measure(StrEnum):
    """The measures of a limit."""

    TOKENS = "tokens"
    MONEY = "money"
    TURNS = "turns"


@dataclass(frozen=True, slots=True)
class Amounts:
    """Tokens in and out, nanodollars, turns."""

    tokens: int = 0
    nano_usd: int = 0
    turns: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.tokens + other.tokens, self.nano_usd + other.nano_usd, self.turns + other.turns)

    def of(self, measure: Measure) -> int:
        """Return the amount of one measure."""
        return {Measure.TOKENS: self.tokens, Measure.MONEY: self.nano_usd, Measure.TURNS: self.turns}[measure]

    @property
    def usd(self) -> float:
        """Return the money in dollars, for people to read."""
        return self.nano_usd / NANO_PER_USD


@dataclass(frozen=True, slots=True)
class Caps(Amounts):
    """The amounts that one day may take at most. Zero: no limit."""

    @property
    def are_open(self) -> bool:
        """Tell whether nothing is capped."""
        return not (self.tokens or self.nano_usd or self.turns)

    def exceeded_by(self, amounts: Amounts) -> Measure | None:
        """Return the first measure of which `amounts` is more than the cap."""
        return next((each for each in Measure if 0 < self.of(each) < amounts.of(each)), None)

    def reached_by(self, amounts: Amounts, *, percent: int) -> frozenset[Measure]:
        """Return the measures of which `amounts` is at least `percent` of the cap."""
        return frozenset(
            each for each in Measure if self.of(each) and amounts.of(each) * 100 >= self.of(each) * percent
        )


@dataclass(frozen=True, slots=True)
class Reservation:
    """The highest cost of one model call, set aside until it is settled or `expires_at_ms` has passed.

    With a `turn_id` it is refused unless that turn is counted already or may still be; with `begins_turn` it
    counts the turn, once per id."""

    id: str
    owner: SessionKey
    day: int
    tokens: int
    nano_usd: int
    expires_at_ms: int
    turn_id: str = ""
    begins_turn: bool = False


@dataclass(frozen=True, slots=True)
class BudgetRefusal:
    """Why nothing was reserved. `is_everybodys`: the pot that all share is spent, not the user's own allowance."""

    measure: Measure
    is_everybodys: bool = False


def day_of(at_ms: int) -> int:
    """Return the UTC day of a moment."""
    return at_ms // DAY_MS


def day_begins_ms(day: int) -> int:
    """Return the first millisecond of a UTC day; caps are reset at the first millisecond of the next day."""
    return day * DAY_MS


def nano_of(usd: float) -> int:
    """Convert dollars to whole nanodollars."""
    return round(usd * NANO_PER_USD)


@dataclass(frozen=True, slots=True)
class UsageSum:
    """The cost of model calls together. `prompt_tokens` includes the cached ones; `turns` are those they served."""

    calls: int = 0
    turns: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: UsageSum) -> UsageSum:
        return UsageSum(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    @property
    def tokens(self) -> int:
        """Return the sum of input and output tokens."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class DailyUsage:
    """The cost of one owner's calls on one UTC day."""

    owner: SessionKey
    day: int
    sum: UsageSum


# What admins decided about the limits of one person, or of all people of one role: the words for it. Pure.
#
# Measure by measure, what is said of a person wins over what is said of the role, and both over the configuration.


USD_MAX: Final = 1_000_000  # its nanodollars, summed over all users, still fit into a database's integer
COUNT_MAX: Final = 10**15
PER_MINUTE_MAX: Final = 10_000  # as fast as no platform lets a person write

Limited = SessionKey | GrantRole
"""Whom a rule is for: one person by owner key, or all people of a role."""

LIMITED_ROLES: Final = (GrantRole.GUEST, GrantRole.MEMBER, GrantRole.ADMIN)


class BadLimit(Declined):
    """An admin's wish for a limit that cannot be; the text says what can."""


@dataclass(frozen=True, slots=True)
class LimitRule:
    """A decided limit; None where nothing was decided, zero for no limit. `tokens`, `nano_usd` and `turns` are of one
    UTC day, `per_minute` counts messages."""

    tokens: int | None = None
    nano_usd: int | None = None
    turns: int | None = None
    per_minute: int | None = None

    @property
    def is_empty(self) -> bool:
        """Tell whether the rule says nothing at all."""
        return self == _NOTHING_SAID

    def over(self, other: LimitRule) -> LimitRule:
        """Merge two rules: return what this rule says, and what `other` says where this one says nothing."""
        if self.is_empty:
            return other
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        return LimitRule(**{name: getattr(other, name) if number is None else number for name, number in said.items()})

    def caps_over(self, configured: Caps) -> Caps:
        """Return the caps of a day, where the configuration says `configured`."""
        day = {"tokens": self.tokens, "nano_usd": self.nano_usd, "turns": self.turns}
        return replace(configured, **{name: number for name, number in day.items() if number is not None})

    def checked(self) -> LimitRule:
        """Return the same rule. Raises `BadLimit` for a number that no limit can be."""
        most = LimitRule(COUNT_MAX, USD_MAX * NANO_PER_USD, COUNT_MAX, PER_MINUTE_MAX)
        for each in fields(self):
            number = getattr(self, each.name)
            if number is not None and not 0 <= number <= getattr(most, each.name):
                raise _no_number()
        return self

    def __str__(self) -> str:
        """Return the text that an operator reads and writes."""
        usd = None if self.nano_usd is None else f"{self.nano_usd / NANO_PER_USD:.6f}".rstrip("0").rstrip(".")
        said = {"tokens": self.tokens, "usd": usd, "turns": self.turns, "rate": self.per_minute}
        words = (f"{name} {'none' if word in (0, '0') else word}" for name, word in said.items() if word is not None)
        return ", ".join(words) or "as configured"


_NOTHING_SAID: Final = LimitRule()

LimitChange = Callable[[LimitRule], LimitRule]
"""Returns the new rule for the old one. It may be asked more than once. Raises `BadLimit`."""


def _no_number() -> BadLimit:
    return BadLimit(
        "tokens and turns of a day must be whole numbers up to {count}, usd a number of dollars up to {usd}, rate a "
        "whole number of messages a minute up to {rate}; none lifts a limit, default takes it back",
        count=COUNT_MAX,
        usd=USD_MAX,
        rate=PER_MINUTE_MAX,
    )


def rule_changed(before: LimitRule, words: Iterable[str]) -> LimitRule:
    """Change `before` by what these words say, such as `tokens 50000 usd 2.5 turns none rate default`. Raises
    `BadLimit`."""
    rule, left = before, iter(words)
    for name in left:
        rule = _changed(rule, name.casefold(), next(left, "").casefold())
    return rule.checked()


def _changed(rule: LimitRule, name: str, word: str) -> LimitRule:
    if name not in ("tokens", "usd", "turns", "rate"):
        raise BadLimit("I do not know {word}: it must be tokens, usd, turns or rate", word=repr(name[:40]))
    number = _number(word)
    match name:
        case "tokens":
            return replace(rule, tokens=_whole(number))
        case "usd":
            return replace(rule, nano_usd=None if number is None else nano_of(number))
        case "turns":
            return replace(rule, turns=_whole(number))
    return replace(rule, per_minute=_whole(number))


def _number(word: str) -> float | None:
    """Read a number; `none` is 0 (no limit), `default` is None (as configured). Raises `BadLimit` for anything else."""
    if word in ("none", "default"):
        return 0 if word == "none" else None
    if not word.isascii() or not word.replace(".", "", 1).isdigit() or len(word) > len(str(COUNT_MAX)):
        raise _no_number()
    return float(word)


def _whole(number: float | None) -> int | None:
    if number is not None and number != int(number):
        raise _no_number()
    return None if number is None else int(number)


def limited_named(text: str) -> Limited:
    """Return the person or role that people mean by `guest`, or by the key of a person. Raises `BadSessionKey`."""
    said = text.strip()
    return GrantRole(said) if said in LIMITED_ROLES else SessionKey.parse(said).owner


def said_of(owner: SessionKey, role: GrantRole, rules: Mapping[Limited, LimitRule]) -> LimitRule:
    """Return the decisions for this person in this role; a blocked person gets no more than a guest."""
    counted = role if role in LIMITED_ROLES else GrantRole.GUEST
    return rules.get(owner, LimitRule()).over(rules.get(counted, LimitRule()))


def strictest(rules: Iterable[LimitRule]) -> LimitRule:
    """Combine the rules to the least that any of them leaves of a day, measure by measure. The message rate is no part
    of a day."""
    found = list(rules)
    tokens, nano_usd, turns = (
        _least(getattr(rule, name) for rule in found) for name in ("tokens", "nano_usd", "turns")
    )
    return LimitRule(tokens, nano_usd, turns)


def _least(numbers: Iterable[int | None]) -> int | None:
    said = [number for number in numbers if number is not None]
    return min(filter(None, said), default=0) if said else None
