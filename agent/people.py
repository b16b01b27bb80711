"""Who is asking, and where, as the policy of the tools and the commands see it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from agent.limits import LOOK_HOLDS_S, LOOKS_KEPT
from gateway.bus.access import Access
from gateway.contracts.access import AccessPolicy, AccessView, Admittance, PlacePolicy, admit, least_of, levels_of
from gateway.contracts.entries import GrantRole
from gateway.contracts.ids import SessionKey
from gateway.contracts.limit_rules import LimitRule
from gateway.contracts.messages import InboundMessage
from gateway.contracts.ports import Clock
from gateway.retry import retry_until_available
from gateway.store.access import AccessStore


@dataclass(frozen=True, slots=True)
class _Look:
    """What the bus showed of a person, and until when that may be asked again instead of the bus."""

    view: AccessView
    until_s: float


class People:
    """Looks up roles, as the bus shows them, and places, as SQL has them. Whom nobody decided about, and intake let in
    all the same, is a guest.

    Whether somebody is blocked is asked of the bus each time. A turn asks that when it begins, before each call and
    before its commit; the roles and limits it asks for in between are those of the last look, for LOOK_HOLDS_S.
    """

    def __init__(self, access: Access, book: AccessStore, policy: AccessPolicy, clock: Clock) -> None:
        self._access = access
        self._book = book
        self._policy = policy
        self._clock = clock
        self._looks: OrderedDict[SessionKey, _Look] = OrderedDict()
        self._noted: dict[SessionKey, str] = {}

    async def is_admitted(self, user: SessionKey, spoken_in: Sequence[str] = ()) -> bool:
        """Whether intake would let this user's words in now, in a direct message or in this place."""
        levels = await self._levels(user.channel, spoken_in)
        view = await retry_until_available(lambda: self._access.view(user, levels))
        place = self._policy.place(levels, view.places)
        return admit(user, view.granted, self._policy, place) is Admittance.ADMITTED

    async def role_of(self, user: SessionKey) -> GrantRole:
        """The role of one user (an owner key); a word that nobody knows is no role (fail closed)."""
        if user in self._policy.admins:
            self._looks.pop(user, None)  # what else is asked of him now is to be of this moment, too
            return GrantRole.ADMIN
        return self._role(user, await self._look(user))

    async def limits_of(self, user: SessionKey) -> tuple[GrantRole, LimitRule]:
        """The role of one user, and what was decided about the limits of him or of his role, of one moment."""
        view = await self._last_look(user)
        role = self._role(user, view)
        return role, view.limits_of(user, role)

    async def _last_look(self, user: SessionKey) -> AccessView:
        look = self._looks.get(user)
        return look.view if look and self._clock.monotonic_s() < look.until_s else await self._look(user)

    async def _look(self, user: SessionKey) -> AccessView:
        view = await retry_until_available(lambda: self._access.view(user))
        self._looks[user] = _Look(view, self._clock.monotonic_s() + LOOK_HOLDS_S)
        self._looks.move_to_end(user)
        while len(self._looks) > LOOKS_KEPT:
            self._looks.popitem(last=False)
        return view

    def _role(self, user: SessionKey, view: AccessView) -> GrantRole:
        return self._policy.role_of(user, view.granted) or GrantRole.GUEST

    async def unheard_among(self, messages: Sequence[InboundMessage]) -> frozenset[str]:
        """The ids of those whose authors are blocked, since they wrote them."""
        authors = dict.fromkeys(message.author for message in messages)
        blocked = {author for author in authors if await self.role_of(author) is GrantRole.BLOCKED}
        return frozenset(message.id for message in messages if message.author in blocked)

    async def least_among(self, authors: Sequence[SessionKey]) -> tuple[SessionKey, GrantRole]:
        """Return the person with the least role of all `authors`, of several the last one, and that role: nobody
        borrows another's."""
        roles = {author: self._role(author, await self._last_look(author)) for author in authors}
        least = least_of(roles.values())
        return next(author for author in reversed(roles) if roles[author] is least), least

    async def place_of(self, message: InboundMessage) -> PlacePolicy:
        """What holds where this was said."""
        if not message.spoken_in:
            return PlacePolicy()
        levels = await self._levels(message.key.channel, message.spoken_in, message.realm)
        return self._policy.place(levels, await retry_until_available(self._book.place_rules))

    async def _levels(self, channel: str, place: Sequence[str], realm: str = "") -> tuple[SessionKey, ...]:
        """The names of a place. What comes from a schedule or a sub-agent does not say to which server or workspace its
        place belongs; what a person said there before did, and that is kept."""
        if not place:
            return ()
        chat = SessionKey(channel, "", tuple(place[:1]))
        if realm and self._noted.get(chat) != realm:
            await retry_until_available(lambda: self._book.note_realm(chat, realm))
            self._noted[chat] = realm
        known = realm or self._noted.get(chat, "") or await retry_until_available(lambda: self._book.realm_of(chat))
        return levels_of(channel, known, place)
