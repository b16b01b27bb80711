"""Decisions of admins on who may speak, made by chat, command line or API.

Every change is written to SQL with its line of the audit, then shown on the bus, so that the next message is judged by
it; a person who is let in is told so where they asked. The next look of any agent process shows the rest."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, LiteralString

from gateway.contracts import access
from gateway.contracts.budgets import LimitChange, Limited, LimitRule
from gateway.contracts.errors import Declined
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, clipped
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import Grant, GrantRole
from gateway.limits import PAIRING_TTL_S, REASON_CHARS_MAX

if TYPE_CHECKING:
    from gateway.bus.access import Access
    from gateway.bus.deliveries import Deliveries
    from gateway.store.access import AccessStore


_MINUTE_S: Final = 60


class NoSuchCode(Declined):
    """The pairing code was never given out, is too old, or was used."""


class LockedOut(Declined):
    """Too many wrong codes came from there; the next one is looked at in `wait_s`."""

    def __init__(self, own: LiteralString, /, *, wait_s: float) -> None:
        super().__init__(own, minutes=max(1, math.ceil(wait_s / _MINUTE_S)))
        self.wait_s = wait_s


@dataclass(eq=False, repr=False)
class AccessService:
    """Decides for one who may: who is an admin is for the callers to check. Raises `Declined`, `StoreUnavailable` and
    `BusUnavailable`; after the last, what was decided is in SQL and shown within seconds."""

    book: AccessStore
    bus: Access
    deliveries: Deliveries
    policy: access.AccessPolicy
    clean: Callable[[str], CleanText]
    clock: Clock

    # --- strangers

    async def pair(self, code: str, role: GrantRole, *, actor: str, by: str, taker: str) -> access.Pairing:
        """Let in the stranger with `code`. `by` is who enters it and may err so often; the same `taker` may repeat
        itself and does nothing twice."""
        code = _code(code)
        taken = await self.bus.take_pairing(code, by=by, taker=taker)
        if taken.is_locked:
            raise LockedOut(
                "too many wrong codes were entered: the next one is looked at in {minutes} minutes; who a person is by "
                "the key can be let in without a code",
                wait_s=taken.wait_s,
            )
        if taken.pairing is None:
            raise NoSuchCode(
                "no person waits with the code {code}: codes hold for {hours} hour and are used up once; tries left "
                "within the hour: {left}",
                code=code[:16],
                hours=PAIRING_TTL_S // 3600,
                left=taken.tries_left,
            )
        await self.grant(taken.pairing.owner, role, actor=actor)
        await self.deliveries.publish([replace(taken.pairing.welcome, created_at_ms=self.clock.now_ms())])
        return taken.pairing

    async def deny(self, code: str, *, actor: str) -> SessionKey:
        """Turn down the stranger with `code`, who gets no other for an hour."""
        owner = await self.bus.deny_pairing(_code(code))
        if owner is None:
            raise NoSuchCode("no person waits with the code {code}", code=_code(code)[:16])
        await self.book.note_denial(owner, actor=actor, now_ms=self.clock.now_ms())
        return owner

    async def claim(self, person: SessionKey, at_ms: int) -> bool:
        """Make the person who sent the owner code at `at_ms` (Unix) the first admin. False: there is no such code, it
        came too late, or somebody is admin already."""
        code, owner = self.policy.owner_code, person.owner
        if code is None or at_ms >= code.expires_at_ms or self.policy.admins:
            return False
        grant = Grant(owner, GrantRole.ADMIN, code.name, self.clock.now_ms())
        is_owner = await self.book.put_owner(grant)
        await self.project()
        if is_owner:
            await self.bus.forget_pairing(owner)
        return is_owner

    # --- people

    async def grant(self, person: SessionKey, role: GrantRole, *, actor: str, reason: str = "") -> bool:
        """Give a person a role, or block them; who waited to be let in waits no more. False: it was decided so
        before."""
        owner = person.owner
        if role is GrantRole.BLOCKED and owner in self.policy.admins:
            raise Declined(
                "{person} is an admin by configuration and cannot be blocked: remove the key from access.admins",
                person=str(owner),
            )
        why = clipped(self.clean(reason.strip()), REASON_CHARS_MAX)
        has_changed = await self.book.put_grant(Grant(owner, role, actor, self.clock.now_ms(), why))
        await self.project()
        await self.bus.forget_pairing(owner)
        return has_changed

    async def revoke(self, person: SessionKey, *, actor: str) -> bool:
        """Take back what was decided about a person: now a stranger, or what the configuration says. False: nothing
        was."""
        has_changed = await self.book.drop_grant(person.owner, actor=actor, now_ms=self.clock.now_ms())
        await self.project()
        return has_changed

    def role_of(self, person: SessionKey, granted: str) -> GrantRole | None:
        """Return the role of a person with this grant (empty: none), by what the configuration says as well;
        None for a stranger."""
        return self.policy.role_of(person.owner, granted or None)

    async def blocked_through(self, person: SessionKey) -> SessionKey | None:
        """Return the linked account whose block holds for this one as well; None if there is none."""
        held = await self.book.projection()
        return access.blocked_through(person.owner, held.grants, held.persons, self.policy)

    # --- places

    async def set_place(self, place: SessionKey, rule: access.PlaceRule, *, actor: str) -> bool:
        """Replace what was decided about a place; an empty rule takes it back, with all that was approved there. False:
        nothing has changed."""
        has_changed = await self.book.put_place_rule(place, rule, actor=actor, now_ms=self.clock.now_ms())
        await self.project()
        return has_changed

    async def ask_again(self, place: SessionKey, tool: str, *, actor: str) -> bool:
        """Take back what was approved of a tool in a place. False: nothing was."""
        return await self.book.drop_place_approvals(place, tool, actor=actor, now_ms=self.clock.now_ms())

    # --- limits

    async def change_limits(self, whom: Limited, change: LimitChange, *, actor: str) -> bool:
        """Make of what was decided about the limits of a person or of a role what `change` says: what others change
        meanwhile stays. An empty rule takes it back. False: nothing has changed."""

        def checked(before: LimitRule) -> LimitRule:
            rule = change(before)
            if whom in self.policy.admins and rule.per_minute is not None:
                raise Declined(
                    "{person} is an admin by configuration: the rate of messages is set in "
                    "limits.admin.messages_per_minute",
                    person=str(whom),
                )
            return rule

        now_ms = self.clock.now_ms()
        has_changed = await self.book.change_limit_rule(whom, checked, actor=actor, now_ms=now_ms)
        await self.project()
        return has_changed

    # --- the projection

    async def project(self) -> None:
        """Show on the bus what SQL holds."""
        await self.bus.project(await self._projection())

    async def keep_projected(self) -> None:
        """Project the decisions again if the bus shows anything else: it lost its memory, a process died between a
        change and its projection, or the database was put back to an earlier day."""
        shown = await self.bus.projected()
        if shown is None or shown != await self.book.revision():
            projection = await self._projection()
            await self.bus.project(projection, is_forced=shown is not None and projection.revision < shown)

    async def _projection(self) -> access.Projection:
        held = await self.book.projection()
        return replace(
            held,
            grants=access.blocking_all(held.grants, held.persons, self.policy),
            limits=access.limiting_all(held.limits, held.persons),
        )


def _code(text: str) -> str:
    return text.strip().upper()
