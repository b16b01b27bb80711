"""What operators decided about people and places, with the audit of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection, Executable, Row, bindparam, delete, select

from gateway.contracts.access import Audience, PlaceRule, Projection
from gateway.contracts.entries import Grant
from gateway.contracts.ids import SessionKey
from gateway.contracts.limit_rules import LimitChange, Limited, LimitRule
from gateway.store import limits
from gateway.store.access_tables import access_revision, place_realms, place_rules
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
        """Replace what was decided about a place; an empty rule takes it back."""
        return await self._database.write(partial(_rule, place=place, rule=rule, actor=actor, now_ms=now_ms))

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
    if before == rule:
        return False
    if rule.is_empty:
        connection.execute(_DROP_RULE, {"where_": str(place)})
    else:
        connection.execute(_put_rule(connection), {"place": str(place), **_from_rule(rule)})
    write_down(connection, actor, "access.place", f"{PLACE}{place}", _said(before), _said(rule), now_ms)
    return True


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


def _said(rule: PlaceRule) -> Values | None:
    """What a rule says, for the audit; what it is silent about is left out."""
    return None if rule.is_empty else {name: word for name, word in _from_rule(rule).items() if word is not None}
