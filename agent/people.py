"""Who is asking, and where, as the policy of the tools and the commands see it."""

from __future__ import annotations

from collections.abc import Sequence

from agent.running.insisting import insist
from gateway.contracts.access import AccessPolicy, AccessView, Admittance, PlacePolicy, admit, least_of, levels_of
from gateway.contracts.entries import GrantRole
from gateway.contracts.ids import SessionKey
from gateway.contracts.limit_rules import LimitRule
from gateway.contracts.messages import InboundMessage
from gateway.contracts.ports import AccessBook, AccessBus


class People:
    """Looks up roles, as the bus shows them, and places, as SQL has them. Whom nobody decided about, and intake let in
    all the same, is a guest."""

    def __init__(self, access: AccessBus, book: AccessBook, policy: AccessPolicy) -> None:
        self._access = access
        self._book = book
        self._policy = policy
        self._noted: dict[SessionKey, str] = {}

    async def is_admitted(self, user: SessionKey, spoken_in: Sequence[str] = ()) -> bool:
        """Whether intake would let this user's words in now, in a direct message or in this place."""
        levels = await self._levels(user.channel, spoken_in)
        view = await insist(lambda: self._access.view(user, levels))
        place = self._policy.place(levels, view.places)
        return admit(user, view.granted, self._policy, place) is Admittance.ADMITTED

    async def role_of(self, user: SessionKey) -> GrantRole:
        """The role of one user (an owner key); a word that nobody knows is no role (fail closed)."""
        if user in self._policy.admins:
            return GrantRole.ADMIN
        return self._role(user, await insist(lambda: self._access.view(user)))

    async def limits_of(self, user: SessionKey) -> tuple[GrantRole, LimitRule]:
        """The role of one user, and what was decided about the limits of him or of his role, of one moment."""
        view = await insist(lambda: self._access.view(user))
        role = self._role(user, view)
        return role, view.limits_of(user, role)

    def _role(self, user: SessionKey, view: AccessView) -> GrantRole:
        return self._policy.role_of(user, view.granted) or GrantRole.GUEST

    async def unheard_among(self, messages: Sequence[InboundMessage]) -> frozenset[str]:
        """The ids of those whose authors are blocked, since they wrote them."""
        authors = dict.fromkeys(message.author for message in messages)
        blocked = {author for author in authors if await self.role_of(author) is GrantRole.BLOCKED}
        return frozenset(message.id for message in messages if message.author in blocked)

    async def role_behind(self, messages: Sequence[InboundMessage]) -> GrantRole:
        """The least of the roles of all who speak in `messages`: nobody borrows another's."""
        return least_of(
            [await self.role_of(author) for author in dict.fromkeys(message.author for message in messages)]
        )

    async def place_of(self, message: InboundMessage) -> PlacePolicy:
        """What holds where this was said."""
        if not message.spoken_in:
            return PlacePolicy()
        levels = await self._levels(message.key.channel, message.spoken_in, message.realm)
        return self._policy.place(levels, await insist(self._book.place_rules))

    async def _levels(self, channel: str, place: Sequence[str], realm: str = "") -> tuple[SessionKey, ...]:
        """The names of a place. What comes from a schedule or a sub-agent does not say to which server or workspace its
        place belongs; what a person said there before did, and that is kept."""
        if not place:
            return ()
        chat = SessionKey(channel, "", tuple(place[:1]))
        if realm and self._noted.get(chat) != realm:
            await insist(lambda: self._book.note_realm(chat, realm))
            self._noted[chat] = realm
        known = realm or self._noted.get(chat, "") or await insist(lambda: self._book.realm_of(chat))
        return levels_of(channel, known, place)
