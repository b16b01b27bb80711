"""What operators decided about people and places, with the audit of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import BindParameter, Connection, Executable, Row, Text, bindparam, delete, or_, select

from gateway.contracts.access import RANKS, Audience, PlaceApproval, PlaceRule, Projection
from gateway.contracts.entries import Grant, GrantRole
from gateway.contracts.ids import SessionKey
from gateway.contracts.limit_rules import LimitChange, Limited, LimitRule
from gateway.store import limits
from gateway.store.access_tables import access_revision, place_approvals, place_realms, place_rules
from gateway.store.auditing import USER, has_changed, write_down
from gateway.store.dialects import InsertInto, per_dialect
from gateway.store.ends import persons
from gateway.store.engine import Database
from gateway.store.rows import Values, from_grant, to_grant
from gateway.store.tables import grants

PLACE: Final = "place:"

_REVISION: Final = select(access_revision.c.revision)
_GRANTS: Final = select(grants).order_by(grants.c.created_at_ms, grants.c.owner)
_GRANT: Final = select(grants).where(grants.c.owner == bindparam("whose"))
_DROP_GRANT: Final = delete(grants).where(grants.c.owner == bindparam("whose"))
_RULES: Final = select(place_rules).order_by(place_rules.c.place)
_RULE: Final = select(place_rules).where(place_rules.c.place == bindparam("where_"))
_DROP_RULE: Final = delete(place_rules).where(place_rules.c.place == bindparam("where_"))
_TOOL: Final[BindParameter[str]] = bindparam("what", type_=Text)
_APPROVALS: Final = select(place_approvals).order_by(place_approvals.c.place, place_approvals.c.approved_at_ms)
_APPROVAL: Final = select(place_approvals.c.place).where(
    place_approvals.c.place == bindparam("where_"),
    place_approvals.c.tool == _TOOL,
    place_approvals.c.digest == bindparam("which"),
    place_approvals.c.role.in_(bindparam("roles", expanding=True)),
)
_DROP_APPROVALS: Final = (
    delete(place_approvals)
    .where(place_approvals.c.place == bindparam("where_"), or_(place_approvals.c.tool == _TOOL, _TOOL == ""))
    .returning(place_approvals)
)
_REALM: Final = select(place_realms.c.realm).where(place_realms.c.place == bindparam("where_"))


@per_dialect
def _put_grant(insert: InsertInto) -> Executable:
    statement = insert(grants)
    names = ("role", "granted_by", "created_at_ms", "reason")
    return statement.on_conflict_do_update(
        index_elements=[grants.c.owner], set_={name: statement.excluded[name] for name in names}
    )


@per_dialect
def _put_rule(insert: InsertInto) -> Executable:
    statement = insert(place_rules)
    names = ("audience", "lets_guests", "tools", "profile", "roles")
    return statement.on_conflict_do_update(
        index_elements=[place_rules.c.place], set_={name: statement.excluded[name] for name in names}
    )


@per_dialect
def _put_approval(insert: InsertInto) -> Executable:
    return insert(place_approvals).on_conflict_do_nothing()


@per_dialect
def _put_realm(insert: InsertInto) -> Executable:
    statement = insert(place_realms)
    return statement.on_conflict_do_update(
        index_elements=[place_realms.c.place], set_={"realm": statement.excluded.realm}
    )


class SqlAccess:
    """`gateway.contracts.ports.AccessBook`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def revision(self) -> int:
        """A number that grows with every change."""
        return await self._database.read(_revision)

    async def projection(self) -> Projection:
        """Everything. What changes while it is read may be in it; its number is never too high."""
        return await self._database.read(_projection)

    async def grants(self) -> Sequence[Grant]:
        """All of them, oldest first."""
        return await self._database.read(_grants)

    async def put_grant(self, grant: Grant) -> bool:
        """The newest decision about a user replaces the one before; both are written down."""
        return await self._database.write(partial(_decide, grant=grant))

    async def drop_grant(self, owner: SessionKey, *, actor: str, now_ms: int) -> bool:
        """Nothing is decided about this user any more."""
        return await self._database.write(partial(_withdraw, owner=owner.owner, actor=actor, now_ms=now_ms))

    async def note_denial(self, owner: SessionKey, *, actor: str, now_ms: int) -> None:
        """Write down that a stranger was turned down."""
        await self._database.write(partial(_note_denial, owner=owner.owner, actor=actor, now_ms=now_ms))

    async def place_rules(self) -> Mapping[SessionKey, PlaceRule]:
        """By the name of the place."""
        return await self._database.read(_place_rules)

    async def put_place_rule(self, place: SessionKey, rule: PlaceRule, *, actor: str, now_ms: int) -> bool:
        """Replace what was decided about a place; an empty rule takes it back, with all that was approved there."""
        return await self._database.write(partial(_rule, place=place, rule=rule, actor=actor, now_ms=now_ms))

    async def place_approvals(self) -> Sequence[PlaceApproval]:
        """All of them, by place, oldest first."""
        return await self._database.read(_place_approvals)

    async def put_place_approval(self, approval: PlaceApproval) -> bool:
        """Write down what is not asked about any more."""
        return await self._database.write(partial(_approve, approval=approval))

    async def drop_place_approvals(self, place: SessionKey, tool: str, *, actor: str, now_ms: int) -> bool:
        """Ask about a tool again in a place."""
        return await self._database.write(partial(_drop_approvals, place=place, tool=tool, actor=actor, now_ms=now_ms))

    async def is_approved(self, call: PlaceApproval) -> bool:
        """Whether somebody approved it for that role, or for a lesser one."""
        return await self._database.read(partial(_is_approved, call=call))

    async def limit_rules(self) -> Mapping[Limited, LimitRule]:
        """By whom they are for."""
        return await self._database.read(limits.rules)

    async def change_limit_rule(self, whom: Limited, change: LimitChange, *, actor: str, now_ms: int) -> bool:
        """Make of what was decided about the limits of a person or a role what `change` says, in one transaction; an
        empty rule takes it back."""
        return await self._database.write(
            partial(limits.change_rule, whom=whom, change=change, actor=actor, now_ms=now_ms)
        )

    async def note_realm(self, place: SessionKey, realm: str) -> None:
        """Remember to which server or workspace a chat belongs."""
        await self._database.write(partial(_note_realm, place=place, realm=realm), durable=False)

    async def realm_of(self, place: SessionKey) -> str:
        """Empty for a chat that nobody noted."""
        return await self._database.read(partial(_realm_of, place=place))


def _revision(connection: Connection) -> int:
    return connection.execute(_REVISION).scalar() or 0


def _projection(connection: Connection) -> Projection:
    revision = _revision(connection)  # first: what follows is as new, or newer
    return Projection(
        revision, _grants(connection), _place_rules(connection), tuple(persons(connection)), limits.rules(connection)
    )


def _grants(connection: Connection) -> list[Grant]:
    return [to_grant(row) for row in connection.execute(_GRANTS)]


def _decide(connection: Connection, grant: Grant) -> bool:
    has_changed(connection)
    before = connection.execute(_GRANT, {"whose": str(grant.key.owner)}).first()
    if before is not None and (before.role, before.reason) == (grant.role.value, grant.reason):
        return False
    connection.execute(_put_grant(connection), from_grant(grant))
    after = {"role": grant.role.value, "reason": grant.reason}
    subject = f"{USER}{grant.key.owner}"
    write_down(connection, grant.granted_by, "access.grant", subject, _told(before), after, grant.created_at_ms)
    return True


def _withdraw(connection: Connection, owner: SessionKey, actor: str, now_ms: int) -> bool:
    has_changed(connection)
    before = connection.execute(_GRANT, {"whose": str(owner)}).first()
    if before is None:
        return False
    connection.execute(_DROP_GRANT, {"whose": str(owner)})
    write_down(connection, actor, "access.revoke", f"{USER}{owner}", _told(before), None, now_ms)
    return True


def _note_denial(connection: Connection, owner: SessionKey, actor: str, now_ms: int) -> None:
    write_down(connection, actor, "access.deny", f"{USER}{owner}", None, None, now_ms)


def _told(row: Row[Any] | None) -> Values | None:
    return None if row is None else {"role": row.role, "reason": row.reason}


def _place_rules(connection: Connection) -> dict[SessionKey, PlaceRule]:
    return {SessionKey.parse(row.place): _to_rule(row) for row in connection.execute(_RULES)}


def _rule(connection: Connection, place: SessionKey, rule: PlaceRule, actor: str, now_ms: int) -> bool:
    has_changed(connection)
    row = connection.execute(_RULE, {"where_": str(place)}).first()
    before = PlaceRule() if row is None else _to_rule(row)
    is_asked_again = rule.is_empty and _drop_approvals(connection, place, "", actor, now_ms)
    if before == rule:
        return is_asked_again
    if rule.is_empty:
        connection.execute(_DROP_RULE, {"where_": str(place)})
    else:
        connection.execute(_put_rule(connection), {"place": str(place), **_from_rule(rule)})
    write_down(connection, actor, "access.place", f"{PLACE}{place}", _said(before), _said(rule), now_ms)
    return True


def _place_approvals(connection: Connection) -> list[PlaceApproval]:
    return [_to_approval(row) for row in connection.execute(_APPROVALS)]


def _approve(connection: Connection, approval: PlaceApproval) -> bool:
    if connection.execute(_put_approval(connection), _from_approval(approval)).rowcount == 0:
        return False
    _note_approval(connection, approval, approval.approved_by, approval.approved_at_ms, is_given=True)
    return True


def _drop_approvals(connection: Connection, place: SessionKey, tool: str, actor: str, now_ms: int) -> bool:
    """Take back what was approved of a tool in a place; of every tool where none is named."""
    dropped = [_to_approval(row) for row in connection.execute(_DROP_APPROVALS, {"where_": str(place), "what": tool})]
    for approval in dropped:
        _note_approval(connection, approval, actor, now_ms, is_given=False)
    return bool(dropped)


def _note_approval(connection: Connection, approval: PlaceApproval, actor: str, now_ms: int, *, is_given: bool) -> None:
    told = {"approved": approval.tool, "role": approval.role.value, "digest": approval.digest}
    before, after = (None, told) if is_given else (told, None)
    write_down(connection, actor, "access.place", f"{PLACE}{approval.place}", before, after, now_ms)


def _is_approved(connection: Connection, call: PlaceApproval) -> bool:
    roles = [role.value for role in RANKS[: RANKS.index(call.role) + 1]]
    asked = {"where_": str(call.place), "what": call.tool, "which": call.digest, "roles": roles}
    return connection.execute(_APPROVAL, asked).first() is not None


def _note_realm(connection: Connection, place: SessionKey, realm: str) -> None:
    connection.execute(_put_realm(connection), {"place": str(place), "realm": realm})


def _realm_of(connection: Connection, place: SessionKey) -> str:
    return connection.execute(_REALM, {"where_": str(place)}).scalar() or ""


def _from_rule(rule: PlaceRule) -> Values:
    return {
        "audience": None if rule.audience is None else rule.audience.value,
        "lets_guests": rule.lets_guests,
        "tools": None if rule.tools is None else json.dumps(rule.tools),
        "profile": rule.profile,
        "roles": None if rule.roles is None else json.dumps(rule.roles),
    }


def _to_rule(row: Row[Any]) -> PlaceRule:
    return PlaceRule(
        None if row.audience is None else Audience(row.audience),
        row.lets_guests,
        None if row.tools is None else tuple(json.loads(row.tools)),
        row.profile,
        None if row.roles is None else tuple(json.loads(row.roles)),
    )


def _from_approval(approval: PlaceApproval) -> Values:
    return {
        "place": str(approval.place),
        "tool": approval.tool,
        "role": approval.role.value,
        "digest": approval.digest,
        "approved_by": approval.approved_by,
        "approved_at_ms": approval.approved_at_ms,
    }


def _to_approval(row: Row[Any]) -> PlaceApproval:
    return PlaceApproval(
        SessionKey.parse(row.place), row.tool, GrantRole(row.role), row.digest, row.approved_by, row.approved_at_ms
    )


def _said(rule: PlaceRule) -> Values | None:
    """What a rule says, for the audit; what it is silent about is left out."""
    return None if rule.is_empty else {name: word for name, word in _from_rule(rule).items() if word is not None}
