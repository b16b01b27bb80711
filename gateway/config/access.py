"""The settings of access: who may talk to the agent, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, PlainValidator, SecretStr, WithJsonSchema

from gateway.clients import CHANNEL
from gateway.config.section import Secret, Section, setting
from gateway.contracts.access import (
    PLACE_ROLES_MAX,
    PLACE_TOOLS_MAX,
    AccessPolicy,
    Audience,
    BadRule,
    ChannelPolicy,
    OwnerCode,
    PlaceRule,
    StrangerRule,
    place_named,
)
from gateway.contracts.errors import BadSessionKey
from gateway.contracts.ids import SessionKey
from gateway.contracts.profiles import PROFILE_ROWS

_TOOLS: Final = f"a list of at most {PLACE_TOOLS_MAX} names of tools; an empty one allows none"
_ROLES: Final = f"a list of at most {PLACE_ROLES_MAX} ids of roles"
_PROFILE: Final = f"one of {', '.join(PROFILE_ROWS)}"
_IDS: Final = "a list of ids as the platform writes them"


def _to_key(value: object) -> SessionKey:
    if isinstance(value, SessionKey):
        return value
    try:
        return SessionKey.parse(str(value))
    except BadSessionKey as error:
        raise ValueError(str(error)) from error


def _in_text(value: object) -> object:
    """Read ids as text: those of Telegram and Discord are numbers, and are written as such."""
    return str(value) if type(value) is int else value


def _checked_place(text: str) -> str:
    try:
        return str(place_named(text))
    except BadSessionKey as error:
        raise ValueError(str(error)) from error


def _checked(rule: PlaceRule) -> PlaceRule:
    try:
        return rule.checked()
    except BadRule as error:
        raise ValueError(str(error)) from error


def _checked_owner_code(code: SecretStr | None) -> SecretStr | None:
    if code is not None:
        OwnerCode.parse(code.get_secret_value())
    return code


def _checked_tools(tools: tuple[str, ...]) -> tuple[str, ...]:
    return _checked(PlaceRule(tools=tools)).tools or ()


def _checked_roles(roles: tuple[str, ...]) -> tuple[str, ...]:
    return _checked(PlaceRule(roles=roles)).roles or ()


def _checked_profile(name: str) -> str:
    _checked(PlaceRule(profile=name))
    return name


Key = Annotated[
    SessionKey, PlainValidator(_to_key), PlainSerializer(str), WithJsonSchema({"type": "string"}, mode="validation")
]
PlaceName = Annotated[str, AfterValidator(_checked_place)]
PlaceTools = Annotated[tuple[str, ...], AfterValidator(_checked_tools)]
PlaceRoles = Annotated[tuple[Annotated[str, BeforeValidator(_in_text)], ...], AfterValidator(_checked_roles)]
PlaceProfile = Annotated[str, AfterValidator(_checked_profile)]
Ids = tuple[Annotated[str, BeforeValidator(_in_text)], ...]


class ChannelAccess(Section):
    """The people who may talk to the agent on one platform, besides those whom admins let in."""

    default: StrangerRule | None = None
    """What a stranger may do on this platform. Empty: as access.default."""
    users: Ids = setting((), _IDS)
    """Ids of people who are members without being let in; of a Slack with several workspaces, their session keys."""
    blocked: Ids = setting((), _IDS)
    """Ids of people who are not heard, whatever else is said of them."""
    places: Ids = setting((), _IDS)
    """Ids of the chats, channels, servers and workspaces where the agent speaks, besides direct messages and the places
    that have an audience of their own. Empty: wherever it is."""

    @property
    def policy(self) -> ChannelPolicy:
        """Return the same as a value for decisions."""
        return ChannelPolicy(self.default, *map(frozenset, (self.users, self.blocked, self.places)))


class PlaceSetting(Section):
    """The differences of one place."""

    audience: Audience | None = None
    """Whom the agent listens to there, of those who may talk to it: everybody, members, admins, nobody. Empty: as in
    the server or workspace that the place belongs to, else everybody."""
    guests: bool | None = None
    """Whether strangers may talk to it there, as guests with the limits of guests. Empty: as around it, else no."""
    tools: PlaceTools | None = setting(None, _TOOLS)
    """The tools that anybody may use there at most. Empty: what the policy allows."""
    profile: PlaceProfile | None = setting(None, _PROFILE)
    """Who the agent is there, until somebody chooses with /agent. Empty: as around it."""
    roles: PlaceRoles | None = setting(None, _ROLES)
    """Ids of roles of a Discord server: strangers who have one of these may talk to it there, as guests with the limits
    of guests, and no other strangers. Empty: as around it, else roles do not matter."""

    @property
    def rule(self) -> PlaceRule:
        """Return the same as a value for decisions."""
        return PlaceRule(self.audience, self.guests, self.tools, self.profile, self.roles)


class AccessSettings(Section):
    """The people who may talk to the agent."""

    admins: tuple[Key, ...] = setting((), 'a list of session keys such as ["telegram:123456789"]')
    """Session keys of admins, such as ["telegram:123456789"]."""
    notify: tuple[Key, ...] = setting((), 'a list of session keys such as ["telegram:123456789"]')
    """Session keys of those admins who are told, with buttons to let in and to refuse, when a stranger asks to be let
    in. Each is told in the direct chat in which they last wrote to the agent. Empty: all admins."""
    owner_code: Annotated[Secret, AfterValidator(_checked_owner_code)] = setting(
        None, "empty or a SHA-256 in hexadecimal, a colon and Unix milliseconds"
    )
    """The one-time code of `trivet up`, digested, and when it ends: who sends it first in a direct message is admin,
    while nobody else is. `trivet up` sets it for its roles."""
    default: StrangerRule = StrangerRule.PAIRING
    """What a stranger may do: talk (open), ask for a code that an admin approves (pairing), nothing (closed)."""
    telegram: ChannelAccess = ChannelAccess()
    discord: ChannelAccess = ChannelAccess()
    slack: ChannelAccess = ChannelAccess()
    places: Mapping[PlaceName, PlaceSetting] = setting({}, 'tables named by places, such as "telegram:-100456"')
    """What is different in single places: tables such as [access.places."telegram:-100456"],
    [access.places."discord:<server or channel>"] or [access.places."slack:C024BE91L"] with audience, guests, tools,
    profile and roles. A thread has what its channel has. What admins change while it runs wins over them."""

    def each(self) -> dict[str, ChannelAccess]:
        """Return every platform by its name."""
        return {"telegram": self.telegram, "discord": self.discord, "slack": self.slack}

    @property
    def open_keys(self) -> tuple[str, ...]:
        """Return the settings that let everybody in, for a warning."""
        channels = {f"access.{name}.default": channel.default for name, channel in self.each().items()}
        doors = {"access.default": self.default} | channels
        return tuple(key for key, rule in doors.items() if rule is StrangerRule.OPEN)

    @property
    def policy(self) -> AccessPolicy:
        """Return the same as a value for decisions."""
        return AccessPolicy(
            self.default,
            frozenset(self.admins),
            {
                **{name: channel.policy for name, channel in self.each().items()},
                CHANNEL: ChannelPolicy(StrangerRule.CLOSED),
            },
            {SessionKey.parse(place): setting.rule for place, setting in self.places.items()},
            None if self.owner_code is None else OwnerCode.parse(self.owner_code.get_secret_value()),
        )
