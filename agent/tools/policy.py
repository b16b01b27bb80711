"""The policy on tools: permission sets as values that intersect, and the policy that grants them. Pure.

A set is a stack of rules, and every rule must agree: the strictest one decides. So a sub-agent's set is its
parent's, intersected with that of its type, and can never be wider than either."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gateway.contracts.messages import InboundMessage
from gateway.contracts.sessions import GrantRole


class Risk(StrEnum):
    """The worst a tool can do."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    NETWORK = "network"
    SPEND = "spend"


class Permission(StrEnum):
    """The decision on a call, from the mildest to the strictest."""

    ALLOW = "allow"
    """It runs."""
    ASK_SELF = "ask-self"
    """The person it is made for is asked first; an admin may answer, too."""
    ASK = "ask"
    """An admin has to approve it."""
    DENY = "deny"
    """It is refused."""


class Visibility(StrEnum):
    """The audience of a turn: it was asked for in private or before others."""

    DM = "dm"
    GROUP = "group"

    @classmethod
    def of(cls, message: InboundMessage) -> Visibility:
        """Return where this message was written."""
        return cls.DM if message.is_private else cls.GROUP


_STRICTNESS: Final = {word: rank for rank, word in enumerate(Permission)}


@dataclass(frozen=True, slots=True)
class PermissionRule:
    """One opinion on every tool: by its name, else by its risk, else `otherwise`."""

    tools: frozenset[tuple[str, Permission]] = frozenset()
    risks: frozenset[tuple[Risk, Permission]] = frozenset()
    otherwise: Permission = Permission.DENY

    def of(self, name: str, risk: Risk) -> Permission:
        """Return the permission that this rule gives to the tool `name`."""
        return dict(self.tools).get(name) or dict(self.risks).get(risk) or self.otherwise


@dataclass(frozen=True, slots=True)
class Permissions:
    """A permission set; the empty stack of rules allows everything. `a & b` allows what both allow."""

    rules: frozenset[PermissionRule] = frozenset()

    def of(self, name: str, risk: Risk) -> Permission:
        """Return the strictest permission that any rule gives to the tool `name`."""
        words = (rule.of(name, risk) for rule in self.rules)
        return max(words, key=_STRICTNESS.__getitem__, default=Permission.ALLOW)

    def __and__(self, other: Permissions) -> Permissions:
        return Permissions(self.rules | other.rules)

    @classmethod
    def only(cls, names: Iterable[str]) -> Permissions:
        """Allow the named tools and deny all others: the permissions of a sub-agent's type."""
        return cls(frozenset({PermissionRule(tools=frozenset((name, Permission.ALLOW) for name in names))}))


EVERYTHING: Final = Permissions()


def permissions(
    *,
    risks: Mapping[Risk, Permission] | None = None,
    tools: Mapping[str, Permission] | None = None,
    otherwise: Permission = Permission.DENY,
) -> Permissions:
    """Build a permission set of one rule."""
    rule = PermissionRule(frozenset((tools or {}).items()), frozenset((risks or {}).items()), otherwise)
    return Permissions(frozenset({rule}))


_READING: Final = {Risk.READ: Permission.ALLOW}
_NOTHING: Final = permissions()
_BY_DEFAULT: Final = {
    GrantRole.ADMIN: permissions(risks=_READING, otherwise=Permission.ASK),
    GrantRole.MEMBER: permissions(risks=_READING),
    GrantRole.GUEST: permissions(risks=_READING),
    GrantRole.BLOCKED: _NOTHING,
}


@dataclass(frozen=True, slots=True)
class PolicyLine:
    """One line of the operator's policy. Empty `roles` or `places` mean all of them; `subject` is a tool's
    name or a risk."""

    subject: str
    permission: Permission
    roles: tuple[GrantRole, ...] = ()
    places: tuple[Visibility, ...] = ()

    def concerns(self, role: GrantRole, place: Visibility) -> bool:
        """Tell whether this line applies to `role` in `place`."""
        return (not self.roles or role in self.roles) and (not self.places or place in self.places)


@dataclass(frozen=True, slots=True)
class Policy:
    """Hands out permission sets. Without lines: reading is allowed, an admin is asked about everything else,
    everybody else is denied it. A later line wins over an earlier one, a tool's name over its risk."""

    lines: tuple[PolicyLine, ...] = field(default=())

    def permissions(self, role: GrantRole, place: Visibility) -> Permissions:
        """Return the permissions of a turn that `role` asked for in `place`. A blocked user gets none."""
        default = _BY_DEFAULT[role]
        spoken = {line.subject: line.permission for line in self.lines if line.concerns(role, place)}
        if not spoken or default == _NOTHING:
            return default
        (rule,) = default.rules
        risks = dict(rule.risks) | {risk: spoken[risk] for risk in Risk if risk in spoken}
        named = {subject: word for subject, word in spoken.items() if subject not in set(Risk)}
        return permissions(risks=risks, tools=named, otherwise=rule.otherwise)
