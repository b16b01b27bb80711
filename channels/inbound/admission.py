"""Who is let in at the door of a channel, and how fast he may write.

The decision is pure (`gateway.contracts.access`); what operators decided is read from its projection on the bus.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from channels.normalized import Incoming
from gateway.bus.access import Access
from gateway.contracts.access import AccessPolicy, AccessView, Admittance, Rate, admit, levels_of
from gateway.contracts.entries import GrantRole
from gateway.contracts.ids import SessionKey
from gateway.limits import RATED_AUTHORS_MAX

K = TypeVar("K")
V = TypeVar("V")
RateOf = Callable[[GrantRole], Rate]


def unlimited(_role: GrantRole) -> Rate:
    """As fast as anybody likes."""
    return Rate()


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast one person may do what."""

    messages: Rate
    commands: Rate


class Reception:
    """Looks at each message that comes to the door of one channel."""

    def __init__(self, access: Access, policy: AccessPolicy, rate_of: RateOf, command_rate_of: RateOf) -> None:
        self._access = access
        self._policy = policy
        self._rate_of = rate_of
        self._command_rate_of = command_rate_of
        self._paces: OrderedDict[SessionKey, Pace] = OrderedDict()
        self._albums: OrderedDict[str, None] = OrderedDict()

    async def admit(self, incoming: Incoming) -> Admittance:
        """What happens to the message. Raises `BusUnavailable` where nobody can say who is blocked; an admin by
        configuration is let in even then."""
        owner = SessionKey(incoming.channel, incoming.user_id)
        levels = levels_of(incoming.channel, incoming.realm, incoming.place)
        is_admin = owner in self._policy.admins
        view = AccessView() if is_admin else await self._access.view(owner, levels)
        admittance = admit(owner, view.granted, self._policy, self._policy.place(levels, view.places), incoming.roles)
        if admittance is Admittance.ADMITTED:
            _remember(self._paces, owner, self._pace(owner, view))
        else:
            self._paces.pop(owner, None)
        return admittance

    def rate_of(self, incoming: Incoming) -> Rate:
        """How fast the author of an admitted message may write. An album is one message, however many parts it has."""
        if incoming.album_id and _album(incoming) in self._albums:
            return Rate()
        return self._pace_of(incoming).messages

    def command_rate_of(self, incoming: Incoming) -> Rate:
        """How fast somebody may give commands and press buttons; whoever is not admitted is no faster than a guest."""
        return self._pace_of(incoming).commands

    def _pace_of(self, incoming: Incoming) -> Pace:
        known = self._paces.get(SessionKey(incoming.channel, incoming.user_id))
        return known or Pace(self._rate_of(GrantRole.GUEST), self._command_rate_of(GrantRole.GUEST))

    def _pace(self, owner: SessionKey, view: AccessView) -> Pace:
        role = self._policy.role_of(owner, view.granted) or GrantRole.GUEST
        configured, decided = self._rate_of(role), view.limits_of(owner, role).per_minute
        messages = configured if decided is None else replace(configured, per_minute=decided)
        return Pace(messages, self._command_rate_of(role))

    def taken(self, incoming: Incoming) -> None:
        """The message is on the bus."""
        if incoming.album_id:
            _remember(self._albums, _album(incoming), None)


def _album(incoming: Incoming) -> str:
    return f"{incoming.user_id}:{incoming.album_id}"


def _remember(known: OrderedDict[K, V], key: K, value: V) -> None:
    known[key] = value
    known.move_to_end(key)
    if len(known) > RATED_AUTHORS_MAX:
        known.popitem(last=False)
