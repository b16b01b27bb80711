"""What a day may cost: amounts, caps, and the reservation that a model call makes before it is begun.

Days are UTC days, counted from 1970. Money is whole nanodollars, so that sums are exact in every database.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.contracts.ids import SessionKey

DAY_MS: Final = 86_400_000
NANO_PER_USD: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Period:
    """A stretch of time in Unix milliseconds, its end excluded."""

    from_ms: int
    to_ms: int


class Measure(StrEnum):
    """What is counted."""

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
        """The amount of one measure."""
        return {Measure.TOKENS: self.tokens, Measure.MONEY: self.nano_usd, Measure.TURNS: self.turns}[measure]

    @property
    def usd(self) -> float:
        """The money, for people."""
        return self.nano_usd / NANO_PER_USD


@dataclass(frozen=True, slots=True)
class Caps:
    """How much of each measure one day may take. Zero: as much as there is."""

    tokens: int = 0
    nano_usd: int = 0
    turns: int = 0

    @property
    def are_open(self) -> bool:
        """True when nothing is capped."""
        return not (self.tokens or self.nano_usd or self.turns)

    def of(self, measure: Measure) -> int:
        """The cap of one measure, 0 for none."""
        return Amounts(self.tokens, self.nano_usd, self.turns).of(measure)

    def exceeded_by(self, amounts: Amounts) -> Measure | None:
        """The first measure of which `amounts` is more than the cap."""
        return next((each for each in Measure if 0 < self.of(each) < amounts.of(each)), None)

    def reached_by(self, amounts: Amounts, *, percent: int) -> frozenset[Measure]:
        """The measures of which `amounts` is at least `percent` of the cap."""
        return frozenset(
            each for each in Measure if self.of(each) and amounts.of(each) * 100 >= self.of(each) * percent
        )


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one model call may cost at most, set aside until it is settled or `expires_at_ms` has passed.

    With a `turn_id` it is refused unless that turn is counted already or may still be; with `begins_turn` it
    counts the turn, once per id.
    """

    id: str
    owner: SessionKey
    day: int
    tokens: int
    nano_usd: int
    expires_at_ms: int
    turn_id: str = ""
    begins_turn: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing was reserved. `is_everybodys`: the pot that all share is spent, not the user's own allowance."""

    measure: Measure
    is_everybodys: bool = False


def day_of(at_ms: int) -> int:
    """The UTC day of a moment."""
    return at_ms // DAY_MS


def day_begins_ms(day: int) -> int:
    """The first millisecond of a UTC day; that of the next one is when its caps are reset."""
    return day * DAY_MS


def nano_of(usd: float) -> int:
    """Dollars as whole nanodollars."""
    return round(usd * NANO_PER_USD)


@dataclass(frozen=True, slots=True)
class UsageSum:
    """What model calls cost together. `prompt_tokens` includes the cached ones; `turns` are those they served."""

    calls: int = 0
    turns: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: UsageSum) -> UsageSum:
        return UsageSum(
            self.calls + other.calls,
            self.turns + other.turns,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cost_usd + other.cost_usd,
        )

    @property
    def tokens(self) -> int:
        """In and out."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class DailyUsage:
    """What the calls of one owner cost on one UTC day."""

    owner: SessionKey
    day: int
    sum: UsageSum
