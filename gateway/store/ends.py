"""Who is the same person, as other statements ask: `gateway.contracts.links` says what is a person's."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from sqlalchemy import BindParameter, ColumnElement, Connection, Select, String, bindparam, cast, select, union

from gateway.contracts.ids import SessionKey
from gateway.contracts.links import Ends
from gateway.store.link_tables import links, purses
from gateway.store.tables import lanes

_WHOSE: Final[BindParameter[str]] = bindparam("end_", type_=String)
_OWN: Final[Select[Any]] = select(cast(_WHOSE, links.c.owner.type).label("owner"))
_MINE: Final = links.alias("mine")
_LINKED: Final = select(links.c.owner).join(_MINE, links.c.person == _MINE.c.person).where(_MINE.c.owner == _WHOSE)
_ENDS: Final = union(_OWN, _LINKED)
_PURSE: Final = purses.alias("purse_of")
_TODAY: Final = (
    select(purses.c.owner)
    .join(_PURSE, (purses.c.purse == _PURSE.c.purse) & (purses.c.day == _PURSE.c.day))
    .where(_PURSE.c.owner == _WHOSE, _PURSE.c.day == bindparam("day_"))
)
_PAYING: Final = union(_OWN, _LINKED, _TODAY)
_PERSONS: Final = select(links.c.person, links.c.owner)
_LOCK: Final = (
    select(lanes.c.key)
    .where(lanes.c.owner.in_(bindparam("owners", expanding=True)))
    .order_by(lanes.c.key)
    .with_for_update()
)


def ends_of(connection: Connection, owner: SessionKey | str) -> list[str]:
    """All ends of a person, in order of their names; at least the one that is asked about."""
    return sorted(connection.execute(_ENDS, {"end_": str(owner)}).scalars())


def paying_with(connection: Connection, owner: str, day: int) -> list[str]:
    """Everybody whose spending of that day counts against the caps of `owner`, himself among them."""
    return sorted(connection.execute(_PAYING, {"end_": owner, "day_": day}).scalars())


def is_of_person(column: ColumnElement[str]) -> ColumnElement[bool]:
    """True for what belongs to any end of the person whose end is the parameter `end_`."""
    return column.in_(_ENDS)


def persons(connection: Connection) -> list[Ends]:
    """Everybody who has more than one end."""
    found: defaultdict[str, set[SessionKey]] = defaultdict(set)
    for row in connection.execute(_PERSONS):
        found[row.person].add(SessionKey.parse(row.owner))
    return [frozenset(ends) for _, ends in sorted(found.items())]


def locked_ends(connection: Connection, owner: SessionKey) -> list[str]:
    """The same as `ends_of`; nobody else counts this person's facts, or links him, until this transaction ends."""
    ends = ends_of(connection, owner)
    while True:
        connection.execute(_LOCK, {"owners": ends}).all()  # SQLite writes one at a time anyway
        now = ends_of(connection, owner)
        if now == ends:
            return ends
        ends = now
