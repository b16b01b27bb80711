"""Who is asking, as the policy of the tools and the commands see it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from agent.insisting import insist
from gateway.contracts.entries import GrantRole
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import InboundMessage
from gateway.contracts.ports import AccessBus

_RANKS: Final = (GrantRole.BLOCKED, GrantRole.GUEST, GrantRole.MEMBER, GrantRole.ADMIN)


class People:
    """Looks up roles. An admin by configuration is one whatever the grants say; a user without a grant, whom
    `access.default` let in (`is_open`), is a guest."""

    def __init__(self, access: AccessBus, admins: Iterable[SessionKey], *, is_open: bool = True) -> None:
        self._access = access
        self._admins = frozenset(admins)
        self._is_open = is_open

    async def is_admitted(self, user: SessionKey) -> bool:
        """Whether intake would let this user's words in now."""
        if user in self._admins or self._is_open:
            return await self.role_of(user) is not GrantRole.BLOCKED
        word = await insist(lambda: self._access.role_of(user))
        return word in set(GrantRole) and word != GrantRole.BLOCKED

    async def role_of(self, user: SessionKey) -> GrantRole:
        """The role of one user (an owner key); a word that nobody knows is no role (fail closed)."""
        if user in self._admins:
            return GrantRole.ADMIN
        word = await insist(lambda: self._access.role_of(user))
        if word is None:
            return GrantRole.GUEST
        return GrantRole(word) if word in set(GrantRole) else GrantRole.BLOCKED

    async def role_behind(self, messages: Sequence[InboundMessage]) -> GrantRole:
        """The least of the roles of all who speak in `messages`: nobody borrows another's."""
        roles = [await self.role_of(author) for author in dict.fromkeys(message.author for message in messages)]
        return min(roles, key=_RANKS.index)
