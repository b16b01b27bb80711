"""Access: the words for who may speak to the agent, where, and as what, and their rules. Pure.

A person is an admin by configuration, has a role that an operator granted, is listed in the configuration, or is a
stranger. A place is described from the widest name to the narrowest: the server or workspace it belongs to, the chat
or channel, the thread. What is said of a narrower one wins; but nobody's word opens what another closes: `nobody`
counts wherever it is said, and the tools of a place are those that every word on it allows."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Final

from gateway.contracts.budgets import Limited, LimitRule, strictest
from gateway.contracts.errors import BadSessionKey, Declined
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText, Reply
from gateway.contracts.profiles import PROFILE_ROWS
from gateway.contracts.sessions import Grant, GrantRole

PLACE_TOOLS_MAX: Final = 128  # what models take at all
PLACE_ROLES_MAX: Final = 64  # Discord allows 250 in a server; nobody lists that many
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
TERMINAL: Final = SessionKey("cli", "default")
"""The person at `trivet chat`: the machine has let them in, and they may run `trivet pair` and read data_dir, too. So
this is an admin, whatever the configuration says."""
RANKS: Final = (GrantRole.BLOCKED, GrantRole.GUEST, GrantRole.MEMBER, GrantRole.ADMIN)
"""From the least to the most."""
GIVEN: Final = RANKS[1:]
"""The roles that somebody can be given; a person who is not to be heard is blocked."""


class StrangerRule(StrEnum):
    """The rights of a person about whom no operator has decided."""

    OPEN = "open"
    PAIRING = "pairing"
    CLOSED = "closed"


class BadRule(Declined):
    """An operator's wish for a place that cannot be; the text says what can."""


class Audience(StrEnum):
    """Whom the bot listens to in a place, of those who may speak to it at all."""

    EVERYBODY = "everybody"
    MEMBERS = "members"
    ADMINS = "admins"
    NOBODY = "nobody"


_LEAST: Final = {
    Audience.EVERYBODY: GrantRole.GUEST,
    Audience.MEMBERS: GrantRole.MEMBER,
    Audience.ADMINS: GrantRole.ADMIN,
}


@dataclass(frozen=True, slots=True)
class PlaceRule:
    """An operator's decision about one place; None where nothing was decided. `lets_guests`: strangers may speak there,
    as guests. `tools` are those that may be used there at most, `profile` who the agent is until somebody chooses.
    `roles`, where the platform has roles: strangers speak there, as guests, who have one of these, and no others."""

    audience: Audience | None = None
    lets_guests: bool | None = None
    tools: tuple[str, ...] | None = None
    profile: str | None = None
    roles: tuple[str, ...] | None = None

    def over(self, other: PlaceRule) -> PlaceRule:
        """Merge two rules: return what this rule says, and what `other` says where this one says nothing."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        return PlaceRule(**{name: getattr(other, name) if word is None else word for name, word in said.items()})

    @property
    def is_empty(self) -> bool:
        """Tell whether the rule says nothing at all."""
        return self == PlaceRule()

    def checked(self) -> PlaceRule:
        """Return the same rule with each tool and role named once. Raises `BadRule` for text that cannot be the name of
        a tool or of a profile, or the id of a role."""
        tools, roles = _each_once(self.tools), _each_once(self.roles)
        if not _are_names(tools or (), PLACE_TOOLS_MAX):
            raise BadRule("tools must be at most {count} names of tools", count=PLACE_TOOLS_MAX)
        if not _are_names(roles or (), PLACE_ROLES_MAX):
            raise BadRule("roles must be at most {count} ids of roles", count=PLACE_ROLES_MAX)
        if self.profile is not None and self.profile not in PROFILE_ROWS:
            raise BadRule("profile must be one of {names}", names=", ".join(PROFILE_ROWS))
        return replace(self, tools=tools, roles=roles)

    def __str__(self) -> str:
        """Return the text that an operator reads."""
        words = (
            self.audience.value if self.audience is not None else "",
            "" if self.lets_guests is None else f"guests {'on' if self.lets_guests else 'off'}",
            "" if self.tools is None else f"tools {','.join(self.tools) or 'none'}",
            "" if self.profile is None else f"profile {self.profile}",
            "" if self.roles is None else f"roles {','.join(self.roles) or 'any'}",
        )
        return ", ".join(filter(None, words)) or "as configured"


@dataclass(frozen=True, slots=True)
class PlaceApproval:
    """An admin's lasting approval: calls of `tool` in `place`, asked for by somebody with `role` or a higher one.
    `digest` is that of the one call that is meant; empty: every call."""

    place: SessionKey
    tool: str
    role: GrantRole
    digest: str = ""
    approved_by: str = ""
    approved_at_ms: int = 0

    def __str__(self) -> str:
        """Return the text that an operator reads."""
        calls = f"one call of {self.tool}, {self.digest[:8]}" if self.digest else self.tool
        return f"{calls}: approved for {self.role.value} and above"


def _each_once(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(dict.fromkeys(names))


def _are_names(names: tuple[str, ...], count_max: int) -> bool:
    return len(names) <= count_max and all(map(_NAME.fullmatch, names))


@dataclass(frozen=True, slots=True)
class PlacePolicy:
    """The rules of a place once all words on it are heard. Each of `ceilings` is a list of tools; a tool has to be in
    all of them. Without anything said, and in direct messages: everything that holds everywhere."""

    audience: Audience = Audience.EVERYBODY
    lets_guests: bool = False
    ceilings: tuple[tuple[str, ...], ...] = ()
    profile: str = ""
    roles: tuple[str, ...] = ()

    def lets_in(self, rule: StrangerRule, roles: Collection[str] | None) -> bool:
        """Tell whether a stranger with these roles may speak in this place. Roles of None mean that the channel has
        already checked them."""
        if self.audience is not Audience.EVERYBODY:
            return rule is StrangerRule.OPEN and not self.roles
        if self.roles:
            return roles is None or not frozenset(self.roles).isdisjoint(roles)
        return rule is StrangerRule.OPEN or self.lets_guests


@dataclass(frozen=True, slots=True)
class ChannelPolicy:
    """The configuration of one platform: ids as the platform writes them. `rule` is for its strangers; `users` are
    members, `blocked` are not heard; `places` are the only ones where the bot speaks, if any is named."""

    rule: StrangerRule | None = None
    users: frozenset[str] = frozenset()
    blocked: frozenset[str] = frozenset()
    places: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class OwnerCode:
    """The one-time code with which the first admin is let in, as its SHA-256 in hexadecimal, and when it ends."""

    digest: str
    expires_at_ms: int

    @classmethod
    def of(cls, code: str, expires_at_ms: int) -> OwnerCode:
        """Keep of a code what is enough to know it again."""
        return cls(_digest_of(code), expires_at_ms)

    @classmethod
    def parse(cls, text: str) -> OwnerCode:
        """Read what `str` writes. Raises `ValueError`."""
        match = _OWNER_CODE.fullmatch(text)
        if match is None:
            raise ValueError("no digest of an owner code and its end")
        return cls(match[1], int(match[2]))

    def __str__(self) -> str:
        return f"{self.digest}:{self.expires_at_ms}"

    @property
    def name(self) -> str:
        """Return the audit's name of the person with this code; no other code has the same name."""
        return f"owner-code:{self.digest[:16]}"

    def is_meant_by(self, text: str, now_ms: int) -> bool:
        """Tell whether a text is the code, in time; how long that takes says nothing of how near it is."""
        return hmac.compare_digest(_digest_of(text), self.digest) and now_ms < self.expires_at_ms


_OWNER_CODE: Final = re.compile(r"([0-9a-f]{64}):([0-9]{1,15})")
_NO_CODE_CHAR: Final = re.compile(r"[^A-Z0-9]+")


def _digest_of(code: str) -> str:
    """Digest a code without its hyphens, spaces and quotes, in capitals."""
    return hashlib.sha256(_NO_CODE_CHAR.sub("", code.upper()).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """Everything that the configuration says of access. `channels` by the name of the platform."""

    rule: StrangerRule
    admins: frozenset[SessionKey] = frozenset()
    channels: Mapping[str, ChannelPolicy] = field(default_factory=dict)
    places: Mapping[SessionKey, PlaceRule] = field(default_factory=dict)
    owner_code: OwnerCode | None = None

    def rule_for(self, owner: SessionKey) -> StrangerRule:
        """Return the rule for this person while no decision about them exists."""
        return self._channel(owner).rule or self.rule

    def role_of(self, owner: SessionKey, granted: str | None) -> GrantRole | None:
        """Return the role of a person with this grant, None for a stranger. A role of an unknown name blocks. A person
        whom the configuration blocks stays blocked under any grant; an admin by configuration stays an admin."""
        if owner in self.admins or owner == TERMINAL:
            return GrantRole.ADMIN
        channel = self._channel(owner)
        if _names(channel.blocked, owner):
            return GrantRole.BLOCKED
        if granted is not None:
            return GrantRole(granted) if granted in set(GrantRole) else GrantRole.BLOCKED
        return GrantRole.MEMBER if _names(channel.users, owner) else None

    def place(self, levels: Sequence[SessionKey], changes: Mapping[SessionKey, PlaceRule]) -> PlacePolicy:
        """Return the policy for the place with these names, the widest first. `changes` were made after the
        configuration was written, and override it."""
        if not levels:
            return PlacePolicy()
        rules = [changes.get(level, PlaceRule()).over(self.places.get(level, PlaceRule())) for level in levels]
        merged = PlaceRule()
        for rule in rules:
            merged = rule.over(merged)
        audience = merged.audience or Audience.EVERYBODY
        is_closed = any(rule.audience is Audience.NOBODY for rule in rules)
        if is_closed or (merged.audience is None and not self._is_listed(levels)):
            audience = Audience.NOBODY
        return PlacePolicy(
            audience,
            lets_guests=bool(merged.lets_guests),
            ceilings=tuple(rule.tools for rule in rules if rule.tools is not None),
            profile=merged.profile or "",
            roles=merged.roles or (),
        )

    def _is_listed(self, levels: Sequence[SessionKey]) -> bool:
        listed = self._channel(levels[0]).places
        return not listed or any(level.place[-1] in listed or str(level) in listed for level in levels)

    def _channel(self, key: SessionKey) -> ChannelPolicy:
        return self.channels.get(key.platform, ChannelPolicy())


def _names(listed: frozenset[str], owner: SessionKey) -> bool:
    """Tell whether the list names this owner. A bare id names nobody in a workspace, because other workspaces may have
    the same id."""
    return str(owner) in listed or (owner.channel == owner.platform and owner.user in listed)


class Admittance(StrEnum):
    """The judgement on a message of this person in this place."""

    ADMITTED = "admitted"
    BLOCKED = "blocked"
    MAY_PAIR = "may_pair"
    CLOSED = "closed"
    NOT_HERE = "not_here"
    """The place is for others."""
    SILENT_HERE = "silent_here"
    """The place is for nobody: the bot says nothing there."""


_TURNED_AWAY: Final = {
    StrangerRule.OPEN: Admittance.NOT_HERE,
    StrangerRule.PAIRING: Admittance.MAY_PAIR,
    StrangerRule.CLOSED: Admittance.CLOSED,
}
"""The judgement on a stranger who is not let in."""


def admit(
    owner: SessionKey,
    granted: str | None,
    policy: AccessPolicy,
    place: PlacePolicy,
    roles: Collection[str] | None = None,
) -> Admittance:
    """Decide whether a person may speak. An admin by configuration can never be locked out; a denial always overrides a
    permission. `roles` are the author's roles on the platform, in this place; None if only the channel could see them,
    which has then let the author in."""
    if owner in policy.admins:
        return Admittance.ADMITTED
    role = policy.role_of(owner, granted)
    if role is GrantRole.BLOCKED:
        return Admittance.BLOCKED
    if place.audience is Audience.NOBODY:
        return Admittance.SILENT_HERE
    if role is None:
        rule = policy.rule_for(owner)
        if not place.lets_in(rule, roles):
            return _TURNED_AWAY[rule]
        role = GrantRole.GUEST
    is_enough = RANKS.index(role) >= RANKS.index(_LEAST[place.audience])
    return Admittance.ADMITTED if is_enough else Admittance.NOT_HERE


def levels_of(channel: str, realm: str, place: Sequence[str]) -> tuple[SessionKey, ...]:
    """Return the names of a place, the widest first: its server or workspace, the chat, the thread. A direct message
    has none. Each name is the key of a session that everybody who speaks there would share."""
    if not place:
        return ()
    names = (*(((realm,),) if realm else ()), *(tuple(place[: end + 1]) for end in range(len(place))))
    return tuple(SessionKey(channel, "", name) for name in names)


def room_of(key: SessionKey, place: Sequence[str]) -> SessionKey:
    """Return the name of the place where a message was sent, its threads included; for a direct message, where `place`
    is empty, the name of the person's own place. `/place` uses the same name."""
    return SessionKey(key.channel, "", tuple(place[:1]) or (key.user,))


def place_named(text: str) -> SessionKey:
    """Return the place that people mean by `discord:987`, `discord:/987` or the key of a session in it. Raises
    `BadSessionKey`."""
    key = SessionKey.parse(text.strip())
    if not key.place and not key.user:
        raise BadSessionKey(text)
    return SessionKey(key.channel, "", key.place or (key.user,))


@dataclass(frozen=True, slots=True)
class Projection:
    """The decisions of operators, as intake is shown them. A higher `revision` knows more. `persons` are the users who
    are one person with several accounts: the projection blocks all of one, and limits the day of all."""

    revision: int = 0
    grants: Sequence[Grant] = ()
    places: Mapping[SessionKey, PlaceRule] = field(default_factory=dict)
    persons: Sequence[frozenset[SessionKey]] = ()
    limits: Mapping[Limited, LimitRule] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KnownPerson:
    """Somebody, or a shared place, that has a conversation or was decided about. `granted` is the word of the grant,
    empty for none; `seen_at_ms` when something last happened in one of `lanes` lanes, 0 for never."""

    key: SessionKey
    granted: str
    seen_at_ms: int
    lanes: int


@dataclass(frozen=True, slots=True)
class ShownAccess:
    """The projection that a shard of the bus shows. The next one has another mark, also if it was shown before; the
    mark is empty where nothing is shown."""

    shard: int
    mark: bytes


@dataclass(frozen=True, slots=True)
class AccessView:
    """The projection's view of one person and some places, all of one moment. `granted` is the word of the person's
    grant, None without one; `limits` those of the person and of every role. `shown` is the projection that says it."""

    granted: str | None = None
    places: Mapping[SessionKey, PlaceRule] = field(default_factory=dict)
    limits: Mapping[Limited, LimitRule] = field(default_factory=dict)
    shown: ShownAccess | None = None


@dataclass(frozen=True, slots=True)
class Rate:
    """The rate at which a person may write: so many messages a minute, and `burst` more that may come at once with
    them. Zero a minute: no limit."""

    per_minute: int = 0
    burst: int = 0


@dataclass(frozen=True, slots=True)
class Pairing:
    """A stranger who waits to be let in. `welcome` is what the stranger is told then, where the question was asked."""

    code: str
    owner: SessionKey
    name: CleanText
    welcome: Reply
    asked_at_ms: int


@dataclass(frozen=True, slots=True)
class PairingOffer:
    """The offer to a stranger: a code, which holds for `left_ms` more; or none, because too many wait, or because the
    stranger was turned down (`is_denied`)."""

    code: str = ""
    is_denied: bool = False
    left_ms: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class PairingResult:
    """The result of an entered code. `is_locked`: this person has entered too many that nobody was given, and is not
    listened to for `wait_s`; else `tries_left` more may be wrong."""

    pairing: Pairing | None = None
    is_locked: bool = False
    wait_s: float = 0.0
    tries_left: int = 0


def least_of(roles: Iterable[GrantRole]) -> GrantRole:
    """Return the least of several roles, so that nobody gains the role of another person."""
    return min(roles, key=RANKS.index)


# Accounts on several platforms that are one person: what passes between them and the store.
#
# A *person* is one or more owners (`SessionKey.owner`), each an *account*. What is whose:
#
#     person   facts learned in direct messages or shared by hand, their numbers, /forget all; the daily budget;
#              /usage, /export, erasure; a block (of one account it blocks all: who is kept out has no other way in)
#     account  conversations, their index, workspaces, schedules, secrets in the vault, message rate, language, cached
#              answers; facts learned in a place (what was said in a group is never carried to another platform);
#              the role: rights were given to an account by somebody who trusted that account, and an account that is
#              taken over must not bring an admin's rights along


Accounts = frozenset[SessionKey]
"""All accounts of one person."""


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
    """The result of an entered code, or of the answer whether to join."""

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
class RedeemedLink:
    """A verdict, and what belongs to it. `other` is the account that had asked for the code, `name` what it calls
    itself, `along` are the accounts that are one person with it already."""

    verdict: LinkVerdict
    other: SessionKey | None = None
    name: str = ""
    along: tuple[SessionKey, ...] = ()
    tries_left: int = 0
    wait_s: float = 0.0


def blocking_all(grants: Sequence[Grant], persons: Iterable[Accounts], policy: AccessPolicy) -> Sequence[Grant]:
    """Extend the decisions: a block of one account is written out for all accounts of the same person. Pure."""
    decided = {grant.key: grant for grant in grants}
    for accounts in persons:
        blocks = [account for account in sorted(accounts, key=str) if _is_blocked(account, decided, policy)]
        for account in accounts if blocks else ():
            cause = decided.get(blocks[0]) or Grant(blocks[0], GrantRole.BLOCKED, "configuration", 0)
            decided[account] = replace(cause, key=account)
    return list(decided.values())


def blocked_through(
    owner: SessionKey, grants: Sequence[Grant], persons: Iterable[Accounts], policy: AccessPolicy
) -> SessionKey | None:
    """Return the account whose block also counts for `owner`, because both belong to one person; None if there is none.
    Pure."""
    decided = {grant.key: grant for grant in grants}
    accounts = next((accounts for accounts in persons if owner in accounts), frozenset[SessionKey]())
    others = sorted(accounts - {owner}, key=str)
    return next((account for account in others if _is_blocked(account, decided, policy)), None)


def limiting_all(rules: Mapping[Limited, LimitRule], persons: Iterable[Accounts]) -> Mapping[Limited, LimitRule]:
    """Extend the decisions: a daily limit of one account is written out for all accounts of the same person, and the
    least of several counts. The limit on message rate stays with its own account. Pure."""
    shown = dict(rules)
    for accounts in persons:
        day = strictest(rules[account] for account in accounts if account in rules)
        for account in accounts if not day.is_empty else ():
            shown[account] = day.over(rules.get(account, LimitRule()))
    return shown


def _is_blocked(account: SessionKey, decided: dict[SessionKey, Grant], policy: AccessPolicy) -> bool:
    granted = decided.get(account)
    return policy.role_of(account, None if granted is None else granted.role.value) is GrantRole.BLOCKED
