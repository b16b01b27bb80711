"""Who may speak: the book in SQL, what the bus shows of it, and strangers who ask to be let in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from gateway.contracts.access import PlaceApproval, PlaceRule, Projection
from gateway.contracts.entries import Grant
from gateway.contracts.ids import SessionKey
from gateway.contracts.limit_rules import LimitChange, Limited, LimitRule


class AccessBook(Protocol):
    """What operators decided, with a line of the audit for every change of it. Raises `StoreUnavailable`."""

    async def revision(self) -> int:
        """A number that grows with every change."""
        ...

    async def projection(self) -> Projection:
        """Everything, to be shown to intake."""
        ...

    async def grants(self) -> Sequence[Grant]:
        """All of them, oldest first."""
        ...

    async def put_grant(self, grant: Grant) -> bool:
        """The newest decision about a user replaces the one before. False: it is what was decided before."""
        ...

    async def drop_grant(self, owner: SessionKey, *, actor: str, now_ms: int) -> bool:
        """Nothing is decided about this user any more. False: nothing was."""
        ...

    async def note_denial(self, owner: SessionKey, *, actor: str, now_ms: int) -> None:
        """Write down that a stranger was turned down; nothing else is changed by it."""
        ...

    async def place_rules(self) -> Mapping[SessionKey, PlaceRule]:
        """What is different from the configuration, by the name of the place."""
        ...

    async def put_place_rule(self, place: SessionKey, rule: PlaceRule, *, actor: str, now_ms: int) -> bool:
        """Replace what was decided about a place; an empty rule takes it back, with all that was approved there. False:
        nothing has changed."""
        ...

    async def place_approvals(self) -> Sequence[PlaceApproval]:
        """What admins approved for good: by place, oldest first."""
        ...

    async def put_place_approval(self, approval: PlaceApproval) -> bool:
        """Write down what is not asked about any more. False: it was approved before."""
        ...

    async def drop_place_approvals(self, place: SessionKey, tool: str, *, actor: str, now_ms: int) -> bool:
        """Ask about a tool again in a place. False: it was asked about."""
        ...

    async def is_approved(self, call: PlaceApproval) -> bool:
        """Whether this call was approved for good, for whoever has its role or for a lesser one."""
        ...

    async def limit_rules(self) -> Mapping[Limited, LimitRule]:
        """What is different from the configuration, by whom it is for."""
        ...

    async def change_limit_rule(self, whom: Limited, change: LimitChange, *, actor: str, now_ms: int) -> bool:
        """Make of what was decided about the limits of a person or a role what `change` says, in one transaction: no
        change undoes another. An empty rule takes it back. False: nothing has changed."""
        ...

    async def note_realm(self, place: SessionKey, realm: str) -> None:
        """Remember to which server or workspace a chat belongs."""
        ...

    async def realm_of(self, place: SessionKey) -> str:
        """The server or workspace of a chat; empty for one that nobody noted."""
        ...
