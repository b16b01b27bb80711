"""Who may talk to the agent: admins by configuration, others by their grant, strangers by `access.default`.

The decision is pure; the grants are read from their projection on the bus.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gateway.contracts.entries import GrantRole
from gateway.contracts.ids import SessionKey


class StrangerRule(StrEnum):
    """What a user without a grant may do (`access.default`)."""

    OPEN = "open"
    PAIRING = "pairing"
    CLOSED = "closed"


class Admittance(StrEnum):
    """What happens to a message of this user."""

    ADMITTED = "admitted"
    BLOCKED = "blocked"
    MAY_PAIR = "may_pair"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """The part of the configuration that decides about access."""

    rule: StrangerRule
    admins: frozenset[SessionKey] = frozenset()


def admit(owner: SessionKey, role: str | None, policy: AccessPolicy) -> Admittance:
    """An admin by configuration can never be locked out; an unknown role is nobody's (fail closed)."""
    if owner in policy.admins:
        return Admittance.ADMITTED
    if role is not None:
        known = role in (GrantRole.GUEST, GrantRole.MEMBER, GrantRole.ADMIN)
        return Admittance.ADMITTED if known else Admittance.BLOCKED
    match policy.rule:
        case StrangerRule.OPEN:
            return Admittance.ADMITTED
        case StrangerRule.PAIRING:
            return Admittance.MAY_PAIR
        case StrangerRule.CLOSED:
            return Admittance.CLOSED
