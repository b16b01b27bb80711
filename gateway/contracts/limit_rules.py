"""What admins decided about the limits of one person, or of all people of one role: the words for it. Pure.

Measure by measure, what is said of a person wins over what is said of his role, and both over the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

from gateway.contracts.entries import GrantRole
from gateway.contracts.errors import Declined
from gateway.contracts.ids import SessionKey
from gateway.contracts.spending import NANO_PER_USD, Caps, nano_of

USD_MAX: Final = 1_000_000  # its nanodollars, summed over all users, still fit into a database's integer
COUNT_MAX: Final = 10**15
PER_MINUTE_MAX: Final = 10_000  # as fast as no platform lets a person write

Limited = SessionKey | GrantRole
"""Whom a rule is for: one person by his owner key, or all people of a role."""

LIMITED_ROLES: Final = (GrantRole.GUEST, GrantRole.MEMBER, GrantRole.ADMIN)


class BadLimit(Declined):
    """What an admin wants of a limit cannot be; he is told what can."""


@dataclass(frozen=True, slots=True)
class LimitRule:
    """What was decided; None where nothing was, zero for no limit. `tokens`, `nano_usd` and `turns` are of one UTC
    day, `per_minute` counts messages."""

    tokens: int | None = None
    nano_usd: int | None = None
    turns: int | None = None
    per_minute: int | None = None

    @property
    def is_empty(self) -> bool:
        """True when it says nothing at all."""
        return self == LimitRule()

    def over(self, other: LimitRule) -> LimitRule:
        """What is said here, else what `other` says."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        return LimitRule(**{name: getattr(other, name) if number is None else number for name, number in said.items()})

    def caps_over(self, configured: Caps) -> Caps:
        """What a day may take, where the configuration says `configured`."""
        day = {"tokens": self.tokens, "nano_usd": self.nano_usd, "turns": self.turns}
        return replace(configured, **{name: number for name, number in day.items() if number is not None})

    def checked(self) -> LimitRule:
        """The same. Raises `BadLimit` for a number that no limit can be."""
        most = LimitRule(COUNT_MAX, USD_MAX * NANO_PER_USD, COUNT_MAX, PER_MINUTE_MAX)
        for each in fields(self):
            number = getattr(self, each.name)
            if number is not None and not 0 <= number <= getattr(most, each.name):
                raise _no_number()
        return self

    def __str__(self) -> str:
        """As an operator reads and writes it."""
        usd = None if self.nano_usd is None else f"{self.nano_usd / NANO_PER_USD:.6f}".rstrip("0").rstrip(".")
        said = {"tokens": self.tokens, "usd": usd, "turns": self.turns, "rate": self.per_minute}
        words = (f"{name} {'none' if word in (0, '0') else word}" for name, word in said.items() if word is not None)
        return ", ".join(words) or "as configured"


LimitChange = Callable[[LimitRule], LimitRule]
"""What becomes of what was decided before. It may be asked more than once. Raises `BadLimit`."""


def _no_number() -> BadLimit:
    return BadLimit(
        "tokens and turns of a day must be whole numbers up to {count}, usd a number of dollars up to {usd}, rate a "
        "whole number of messages a minute up to {rate}; none lifts a limit, default takes it back",
        count=COUNT_MAX,
        usd=USD_MAX,
        rate=PER_MINUTE_MAX,
    )


def rule_changed(before: LimitRule, words: Iterable[str]) -> LimitRule:
    """`before` with what these words say, such as `tokens 50000 usd 2.5 turns none rate default`. Raises `BadLimit`."""
    rule, left = before, iter(words)
    for name in left:
        rule = _changed(rule, name.casefold(), next(left, "").casefold())
    return rule.checked()


def _changed(rule: LimitRule, name: str, word: str) -> LimitRule:
    if name not in ("tokens", "usd", "turns", "rate"):
        raise BadLimit("I do not know {word}: tokens, usd, turns or rate may stand there", word=repr(name[:40]))
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
    """The number that is meant, None for what the configuration says."""
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
    """Whom people mean by `guest`, or by the key of a person. Raises `BadSessionKey`."""
    said = text.strip()
    return GrantRole(said) if said in LIMITED_ROLES else SessionKey.parse(said).owner


def said_of(owner: SessionKey, role: GrantRole, rules: Mapping[Limited, LimitRule]) -> LimitRule:
    """What was decided for this person in this role; whoever is blocked gets no more than a guest."""
    counted = role if role in LIMITED_ROLES else GrantRole.GUEST
    return rules.get(owner, LimitRule()).over(rules.get(counted, LimitRule()))


def strictest(rules: Iterable[LimitRule]) -> LimitRule:
    """The least that any of them leaves of a day, measure by measure. Pace is no part of a day."""
    found = list(rules)
    tokens, nano_usd, turns = (
        _least(getattr(rule, name) for rule in found) for name in ("tokens", "nano_usd", "turns")
    )
    return LimitRule(tokens, nano_usd, turns)


def _least(numbers: Iterable[int | None]) -> int | None:
    said = [number for number in numbers if number is not None]
    return min(filter(None, said), default=0) if said else None
