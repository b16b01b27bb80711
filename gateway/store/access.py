"""Operators' decisions about people, places and limits, with the audit of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import BindParameter, Row, Text, bindparam, delete, or_, select

from gateway.contracts.access import RANKS, PlaceApproval, PlaceRule, Projection
from gateway.contracts.budgets import LimitChange, Limited, LimitRule, limited_named
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import Grant, GrantRole
from gateway.store import engine
from gateway.store.accounts import linked_persons
from gateway.store.audit import USER, has_changed, write_down
from gateway.store.tables import access_revision, audit, grants, limit_rules, place_approvals, place_realms, place_rules

PLACE: Final = "place:"

_REVISION: Final = select(access_revision.c.revision)
_GRANTS: Final = select(grants).order_by(grants.c.created_at_ms, grants.c.owner)
_GRANT: Final = select(grants).where(grants.c.owner == bindparam("whose"))
_BY_ACTOR: Final = select(audit.c.id).where(audit.c.actor == bindparam("who")).limit(1)
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
    place_approvals.c.role.in_(bindparam("roles")),
)
_DROP_APPROVALS: Final = (
    delete(place_approvals)
    .where(place_approvals.c.place == bindparam("where_"), or_(place_approvals.c.tool == _TOOL, _TOOL == ""))
    .returning(place_approvals)
)
_REALM: Final = select(place_realms.c.realm).where(place_realms.c.place == bindparam("where_"))
_put_grant: Final = engine.upsert(grants, "role", "granted_by", "created_at_ms", "reason")
_put_rule: Final = engine.upsert(place_rules, "audience", "lets_guests", "tools", "profile", "roles")
_put_approval: Final = engine.insert_new(place_approvals)
_put_realm: Final = engine.upsert(place_realms, "realm")


def _revision(connection: engine.Connection) -> int:
    """Return a number that grows with every change."""
    return connection.execute(_REVISION).scalar_one_or_none() or 0


def _grants(connection: engine.Connection) -> list[Grant]:
    """Return all grants, oldest first."""
    return [engine.value_of(Grant, row, key=SessionKey.parse(row.owner)) for row in connection.execute(_GRANTS)]


def _told(row: Row[Any] | None) -> engine.Values | None:
    return None if row is None else {"role": row.role, "reason": row.reason}


def _decide(connection: engine.Connection, grant: Grant) -> bool:
    before = connection.execute(_GRANT, {"whose": str(grant.key.owner)}).first()
    if before is not None and (before.role, before.reason) == (grant.role.value, grant.reason):
        return False
    connection.execute(_put_grant(connection), engine.row_of(grants, grant, owner=str(grant.key.owner)))
    after = {"role": grant.role.value, "reason": grant.reason}
    subject = f"{USER}{grant.key.owner}"
    write_down(connection, grant.granted_by, "access.grant", subject, _told(before), after, grant.created_at_ms)
    return True


def _place_rules(connection: engine.Connection) -> dict[SessionKey, PlaceRule]:
    """Return what is different from the configuration, by the name of the place."""
    return {SessionKey.parse(row.place): engine.value_of(PlaceRule, row) for row in connection.execute(_RULES)}


def _drop_approvals(connection: engine.Connection, place: SessionKey, tool: str, *, actor: str, now_ms: int) -> bool:
    """Ask about a tool again in a place, about every tool where none is named. False: it was asked about."""
    dropped = [
        engine.value_of(PlaceApproval, row)
        for row in connection.execute(_DROP_APPROVALS, {"where_": str(place), "what": tool})
    ]
    for approval in dropped:
        _note_approval(connection, approval, actor, now_ms, is_given=False)
    return bool(dropped)


def _note_approval(
    connection: engine.Connection, approval: PlaceApproval, actor: str, now_ms: int, *, is_given: bool
) -> None:
    told = {"approved": approval.tool, "role": approval.role.value, "digest": approval.digest}
    before, after = (None, told) if is_given else (told, None)
    write_down(connection, actor, "access.place", f"{PLACE}{approval.place}", before, after, now_ms)


def _from_rule(rule: PlaceRule) -> engine.Values:
    return {
        "audience": None if rule.audience is None else rule.audience.value,
        "lets_guests": rule.lets_guests,
        "tools": None if rule.tools is None else json.dumps(rule.tools),
        "profile": rule.profile,
        "roles": None if rule.roles is None else json.dumps(rule.roles),
    }


def _said(rule: PlaceRule) -> engine.Values | None:
    """Return what a rule says, for the audit; what it is silent about is left out."""
    return None if rule.is_empty else {name: word for name, word in _from_rule(rule).items() if word is not None}


ROLE: Final = "role:"
"""The audit's prefix for all people of a role; the role follows."""

_LIMITS: Final = select(limit_rules).order_by(limit_rules.c.owner)
_LIMIT: Final = select(limit_rules).where(limit_rules.c.owner == bindparam("whose"))
_DROP_LIMIT: Final = delete(limit_rules).where(limit_rules.c.owner == bindparam("whose"))
_put_limit: Final = engine.upsert(limit_rules, "tokens", "nano_usd", "turns", "per_minute")


def _limit_rules(connection: engine.Connection) -> Mapping[Limited, LimitRule]:
    """Return what is different from the configuration, by whom it is for."""
    return {limited_named(row.owner): engine.value_of(LimitRule, row) for row in connection.execute(_LIMITS)}


def _said_of_limit(rule: LimitRule) -> dict[str, int] | None:
    """Return a rule for the audit; what it is silent about is left out."""
    return {name: number for name, number in asdict(rule).items() if number is not None} or None


class AccessStore(engine.Aggregate):
    """Operators' decisions, with a line of the audit for every change. Raises `StoreUnavailable`."""

    revision = engine.reading(_revision)

    @engine.read
    def projection(self, connection: engine.Connection) -> Projection:
        """Return everything, to be shown to intake."""
        revision = _revision(connection)  # first: what follows is as new, or newer
        return Projection(
            revision,
            _grants(connection),
            _place_rules(connection),
            tuple(linked_persons(connection)),
            _limit_rules(connection),
        )

    grants = engine.reading(_grants)

    @engine.write
    def put_grant(self, connection: engine.Connection, grant: Grant) -> bool:
        """Replace the decision about a user with the newest. False: it is what was decided before."""
        has_changed(connection)
        return _decide(connection, grant)

    @engine.write
    def put_owner(self, connection: engine.Connection, grant: Grant) -> bool:
        """Make a user the first admin. False: another one is admin, or `granted_by`, which stands for a one-time code,
        has made one before. The same user may ask again."""
        has_changed(connection)
        admins = {each.key: each.granted_by for each in _grants(connection) if each.role is GrantRole.ADMIN}
        if admins or connection.execute(_BY_ACTOR, {"who": grant.granted_by}).first() is not None:
            return admins.get(grant.key.owner) == grant.granted_by
        return _decide(connection, grant)

    @engine.write
    def drop_grant(self, connection: engine.Connection, owner: SessionKey, *, actor: str, now_ms: int) -> bool:
        """Withdraw the decision about a user. False: nothing was."""
        has_changed(connection)
        whose = {"whose": str(owner.owner)}
        before = connection.execute(_GRANT, whose).first()
        if before is None:
            return False
        connection.execute(_DROP_GRANT, whose)
        write_down(connection, actor, "access.revoke", f"{USER}{owner.owner}", _told(before), None, now_ms)
        return True

    @engine.write
    def note_denial(self, connection: engine.Connection, owner: SessionKey, *, actor: str, now_ms: int) -> None:
        """Write down that a stranger was turned down; nothing else is changed by it."""
        write_down(connection, actor, "access.deny", f"{USER}{owner.owner}", None, None, now_ms)

    place_rules = engine.reading(_place_rules)

    @engine.write
    def put_place_rule(
        self, connection: engine.Connection, place: SessionKey, rule: PlaceRule, *, actor: str, now_ms: int
    ) -> bool:
        """Replace what was decided about a place; an empty rule takes it back, with all that was approved there. False:
        nothing has changed."""
        has_changed(connection)
        row = connection.execute(_RULE, {"where_": str(place)}).first()
        before = PlaceRule() if row is None else engine.value_of(PlaceRule, row)
        is_asked_again = rule.is_empty and _drop_approvals(connection, place, "", actor=actor, now_ms=now_ms)
        if before == rule:
            return is_asked_again
        if rule.is_empty:
            connection.execute(_DROP_RULE, {"where_": str(place)})
        else:
            connection.execute(_put_rule(connection), {"place": str(place), **_from_rule(rule)})
        write_down(connection, actor, "access.place", f"{PLACE}{place}", _said(before), _said(rule), now_ms)
        return True

    @engine.read
    def place_approvals(self, connection: engine.Connection) -> Sequence[PlaceApproval]:
        """Return what admins approved for good: by place, oldest first."""
        return [engine.value_of(PlaceApproval, row) for row in connection.execute(_APPROVALS)]

    @engine.write
    def put_place_approval(self, connection: engine.Connection, approval: PlaceApproval) -> bool:
        """Write down what is not asked about any more. False: it was approved before."""
        if connection.execute(_put_approval(connection), engine.row_of(place_approvals, approval)).rowcount == 0:
            return False
        _note_approval(connection, approval, approval.approved_by, approval.approved_at_ms, is_given=True)
        return True

    drop_place_approvals = engine.writing(_drop_approvals)

    @engine.read
    def is_approved(self, connection: engine.Connection, call: PlaceApproval) -> bool:
        """Tell whether this call was approved for good, for its role or for a lesser one."""
        roles = [role.value for role in RANKS[: RANKS.index(call.role) + 1]]
        asked = {"where_": str(call.place), "what": call.tool, "which": call.digest, "roles": roles}
        return connection.execute(_APPROVAL, asked).first() is not None

    limit_rules = engine.reading(_limit_rules)

    @engine.write
    def change_limit_rule(
        self, connection: engine.Connection, whom: Limited, change: LimitChange, *, actor: str, now_ms: int
    ) -> bool:
        """Make of what was decided about the limits of a person or a role what `change` says, in one transaction: no
        change undoes another. An empty rule takes it back. False: nothing has changed."""
        has_changed(connection)
        row = connection.execute(_LIMIT, {"whose": str(whom)}).first()
        before = LimitRule() if row is None else engine.value_of(LimitRule, row)
        rule = change(before)
        if before == rule:
            return False
        if rule.is_empty:
            connection.execute(_DROP_LIMIT, {"whose": str(whom)})
        else:
            connection.execute(_put_limit(connection), {"owner": str(whom), **asdict(rule)})
        subject = f"{ROLE if isinstance(whom, GrantRole) else USER}{whom}"
        write_down(connection, actor, "access.limits", subject, _said_of_limit(before), _said_of_limit(rule), now_ms)
        return True

    @engine.write_unsynced
    def note_realm(self, connection: engine.Connection, place: SessionKey, realm: str) -> None:
        """Remember to which server or workspace a chat belongs."""
        connection.execute(_put_realm(connection), {"place": str(place), "realm": realm})

    @engine.read
    def realm_of(self, connection: engine.Connection, place: SessionKey) -> str:
        """Return the server or workspace of a chat; empty for one that nobody noted."""
        return connection.execute(_REALM, {"where_": str(place)}).scalar_one_or_none() or ""
