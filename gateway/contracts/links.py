"""Accounts on several platforms that are one person: what passes between them and the store.

A *person* is one or more owners (`SessionKey.owner`), each an *end*. What is a person's, and what stays an end's:

    person  facts learned in direct messages or shared by hand, their numbers, /forget all; the daily budget;
            /usage, /export, erasure; a block (of one end it blocks all: whoever is kept out has no other door)
    end     conversations, their index, workspaces, schedules, secrets in the vault, message rate, language, cached
            answers; facts learned in a place (what was said in a group is never carried to another platform);
            the role: rights were given to an account by somebody who trusted that account, and an account that is
            taken over must not bring an admin's rights along
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gateway.contracts.access import AccessPolicy
from gateway.contracts.entries import Grant, GrantRole
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.limit_rules import Limited, LimitRule, strictest
from gateway.contracts.messages import CleanText

Ends = frozenset[SessionKey]
"""All ends of one person."""


@dataclass(frozen=True, slots=True)
class LinkOffer:
    """A code that was given out: to whom, what that account calls itself, and where and in which language it is told
    that the code was used."""

    owner: SessionKey
    name: CleanText
    address: ReplyAddress
    language: str
    expires_at_ms: int


class LinkVerdict(StrEnum):
    """What became of a code that somebody entered, or of the answer whether to join."""

    PROPOSED = "proposed"
    """It is the code of `other`; nobody but who entered it can use it any more, and nothing is joined yet."""
    LINKED = "linked"
    UNKNOWN = "unknown"
    """Never given out, too old, used, or replaced by a newer one."""
    OWN = "own"
    """Entered by the account that asked for it, or by one that is linked with it already."""
    FULL = "full"
    LOCKED = "locked"
    GONE = "gone"
    """No code of that account was entered here, or it is too old by now."""


@dataclass(frozen=True, slots=True)
class Redeemed:
    """A verdict, and what belongs to it. `other` is the account that had asked for the code, `name` what it calls
    itself, `along` are the accounts that are one person with it already."""

    verdict: LinkVerdict
    other: SessionKey | None = None
    name: str = ""
    along: tuple[SessionKey, ...] = ()
    tries_left: int = 0
    wait_s: float = 0.0


def blocking_all(grants: Sequence[Grant], persons: Iterable[Ends], policy: AccessPolicy) -> Sequence[Grant]:
    """What was decided, with the block of one end written out for all ends of the same person. Pure."""
    decided = {grant.key: grant for grant in grants}
    for ends in persons:
        blocks = [end for end in sorted(ends, key=str) if _is_blocked(end, decided, policy)]
        for end in ends if blocks else ():
            cause = decided.get(blocks[0]) or Grant(blocks[0], GrantRole.BLOCKED, "configuration", 0)
            decided[end] = replace(cause, key=end)
    return list(decided.values())


def blocked_through(
    owner: SessionKey, grants: Sequence[Grant], persons: Iterable[Ends], policy: AccessPolicy
) -> SessionKey | None:
    """The account whose block counts for `owner` too, because they are one person; None if there is none. Pure."""
    decided = {grant.key: grant for grant in grants}
    ends = next((ends for ends in persons if owner in ends), frozenset[SessionKey]())
    return next((end for end in sorted(ends - {owner}, key=str) if _is_blocked(end, decided, policy)), None)


def limiting_all(rules: Mapping[Limited, LimitRule], persons: Iterable[Ends]) -> Mapping[Limited, LimitRule]:
    """What was decided, with what limits the day of one end written out for all ends of the same person: the least that
    was said of any. How fast somebody may write stays an end's. Pure."""
    shown = dict(rules)
    for ends in persons:
        day = strictest(rules[end] for end in ends if end in rules)
        for end in ends if not day.is_empty else ():
            shown[end] = day.over(rules.get(end, LimitRule()))
    return shown


def _is_blocked(end: SessionKey, decided: dict[SessionKey, Grant], policy: AccessPolicy) -> bool:
    granted = decided.get(end)
    return policy.role_of(end, None if granted is None else granted.role.value) is GrantRole.BLOCKED
