"""What admins decided about the limits of people, with the audit: a part of `gateway.store.access`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import Connection, Executable, Row, bindparam, delete, select

from gateway.contracts.entries import GrantRole
from gateway.contracts.limit_rules import LimitChange, Limited, LimitRule, limited_named
from gateway.store.access_tables import limit_rules
from gateway.store.auditing import USER, has_changed, write_down
from gateway.store.dialects import InsertInto, per_dialect

ROLE: Final = "role:"
"""How the audit names all people of a role; what follows is the role."""

_RULES: Final = select(limit_rules).order_by(limit_rules.c.owner)
_RULE: Final = select(limit_rules).where(limit_rules.c.owner == bindparam("whose"))
_DROP: Final = delete(limit_rules).where(limit_rules.c.owner == bindparam("whose"))


@per_dialect
def _put(insert: InsertInto) -> Executable:
    statement = insert(limit_rules)
    names = ("tokens", "nano_usd", "turns", "per_minute")
    return statement.on_conflict_do_update(
        index_elements=[limit_rules.c.owner], set_={name: statement.excluded[name] for name in names}
    )


def rules(connection: Connection) -> Mapping[Limited, LimitRule]:
    """All of them."""
    return {limited_named(row.owner): _to_rule(row) for row in connection.execute(_RULES)}


def change_rule(connection: Connection, whom: Limited, change: LimitChange, actor: str, now_ms: int) -> bool:
    """Make of what was decided what `change` says; an empty rule takes it back. False: it is what was decided before.
    Changes wait for each other, so none undoes what another did meanwhile."""
    has_changed(connection)
    row = connection.execute(_RULE, {"whose": str(whom)}).first()
    before = LimitRule() if row is None else _to_rule(row)
    rule = change(before)
    if before == rule:
        return False
    if rule.is_empty:
        connection.execute(_DROP, {"whose": str(whom)})
    else:
        connection.execute(_put(connection), {"owner": str(whom), **asdict(rule)})
    subject = f"{ROLE if isinstance(whom, GrantRole) else USER}{whom}"
    write_down(connection, actor, "access.limits", subject, _said(before), _said(rule), now_ms)
    return True


def _to_rule(row: Row[Any]) -> LimitRule:
    return LimitRule(row.tokens, row.nano_usd, row.turns, row.per_minute)


def _said(rule: LimitRule) -> dict[str, int] | None:
    """For the audit; what a rule is silent about is left out."""
    return {name: number for name, number in asdict(rule).items() if number is not None} or None
