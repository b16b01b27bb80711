"""Schedules: counted per owner, claimed for a firing by one worker, moved on once per due time.

What an owner asks names the owner in every statement. A firing is guarded by the due time itself: whoever moves a
schedule away from it has fired it, and everybody else changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from sqlalchemy import Connection, Executable, bindparam, func, select, update

from gateway.contracts.ids import SessionKey
from gateway.contracts.schedules import Schedule, ScheduleState
from gateway.store.dialects import InsertInto, per_dialect
from gateway.store.engine import Database
from gateway.store.rows import from_schedule, to_schedule
from gateway.store.tables import calendars, schedules

_ACTIVE: Final = schedules.c.state == ScheduleState.ACTIVE.value
_OF_OWNER: Final = schedules.c.owner == bindparam("of_owner")

_BY_ID: Final = select(schedules).where(schedules.c.id == bindparam("s"), _OF_OWNER)
_COUNT: Final = select(func.count()).select_from(schedules).where(_OF_OWNER, _ACTIVE)
_ADD: Final = schedules.insert().returning(schedules)
_LIST: Final = select(schedules).where(_OF_OWNER, _ACTIVE).order_by(schedules.c.number)
_CANCEL_ALL: Final = update(schedules).where(_OF_OWNER, _ACTIVE).values(state=ScheduleState.CANCELLED.value)
_CANCEL: Final = _CANCEL_ALL.where(schedules.c.number == bindparam("n")).returning(schedules)
_ZONE: Final = select(calendars.c.zone).where(calendars.c.owner == bindparam("of_owner"))

_NEXT_DUE: Final = (
    select(schedules.c.next_due_ms)
    .where(_ACTIVE, schedules.c.held_until_ms == 0)
    .order_by(schedules.c.next_due_ms)
    .limit(1)
)
_CLAIM: Final = (
    update(schedules)
    .where(
        schedules.c.id.in_(
            select(schedules.c.id)
            .where(_ACTIVE, schedules.c.next_due_ms <= bindparam("now_ms"))
            .where(schedules.c.held_until_ms <= bindparam("now_ms"))
            .order_by(schedules.c.next_due_ms)
            .limit(bindparam("page_limit"))
            .with_for_update(skip_locked=True)
        )
    )
    .values(held_until_ms=bindparam("until_ms"))
    .returning(schedules)
)
_OF_DUE_TIME: Final = (
    update(schedules)
    .where(schedules.c.id == bindparam("s"), schedules.c.next_due_ms == bindparam("due_ms"))
    .where(_ACTIVE)
)
_MOVE: Final = _OF_DUE_TIME.values(
    next_due_ms=bindparam("then_ms"),
    state=bindparam("then_state"),
    held_until_ms=0,
    firings=schedules.c.firings + 1,
    fired_at_ms=bindparam("now_ms"),
)
_PUT_OFF: Final = _OF_DUE_TIME.values(held_until_ms=bindparam("until_ms"))


@per_dialect
def _lock_calendar(insert: InsertInto) -> Executable:
    """Lock the owner's row, making it first if it is new."""
    statement = insert(calendars)
    return statement.on_conflict_do_update(
        index_elements=[calendars.c.owner], set_={"last_number": calendars.c.last_number}
    ).returning(calendars.c.last_number)


@per_dialect
def _set_zone(insert: InsertInto) -> Executable:
    statement = insert(calendars)
    return statement.on_conflict_do_update(index_elements=[calendars.c.owner], set_={"zone": statement.excluded.zone})


_COUNT_UP: Final = (
    update(calendars).where(calendars.c.owner == bindparam("of_owner")).values(last_number=bindparam("given_out"))
)


def _add(connection: Connection, schedule: Schedule, *, active_max: int) -> Schedule | None:
    owner = {"of_owner": str(schedule.owner)}
    calendar = {"owner": str(schedule.owner), "zone": "", "last_number": 0}
    last_number = connection.execute(_lock_calendar(connection), calendar).scalar_one()
    known = connection.execute(_BY_ID, owner | {"s": schedule.id}).one_or_none()
    if known is not None:
        return to_schedule(known)
    if connection.execute(_COUNT, owner).scalar_one() >= active_max:
        return None
    connection.execute(_COUNT_UP, owner | {"given_out": last_number + 1})
    return to_schedule(connection.execute(_ADD, from_schedule(schedule, number=last_number + 1)).one())


def _active(connection: Connection, owner: SessionKey) -> list[Schedule]:
    return [to_schedule(row) for row in connection.execute(_LIST, {"of_owner": str(owner)})]


def _cancel(connection: Connection, owner: SessionKey, number: int) -> Schedule | None:
    row = connection.execute(_CANCEL, {"of_owner": str(owner), "n": number}).one_or_none()
    return None if row is None else to_schedule(row)


def _cancel_all(connection: Connection, owner: SessionKey) -> int:
    return connection.execute(_CANCEL_ALL, {"of_owner": str(owner)}).rowcount


def _zone(connection: Connection, owner: SessionKey) -> str | None:
    return connection.execute(_ZONE, {"of_owner": str(owner)}).scalar_one_or_none() or None


def _put_zone(connection: Connection, owner: SessionKey, zone: str) -> None:
    connection.execute(_set_zone(connection), {"owner": str(owner), "zone": zone, "last_number": 0})


def _next_due(connection: Connection) -> int | None:
    return connection.execute(_NEXT_DUE).scalar_one_or_none()


def _claim(connection: Connection, *, now_ms: int, until_ms: int, limit: int) -> list[Schedule]:
    page = {"now_ms": now_ms, "until_ms": until_ms, "page_limit": max(limit, 0)}
    found = [to_schedule(row) for row in connection.execute(_CLAIM, page)]
    return sorted(found, key=lambda schedule: (schedule.next_due_ms, schedule.id))


def _move(connection: Connection, schedule: Schedule, *, next_due_ms: int | None, now_ms: int) -> bool:
    state = ScheduleState.DONE if next_due_ms is None else ScheduleState.ACTIVE
    moved = connection.execute(
        _MOVE,
        {
            "s": schedule.id,
            "due_ms": schedule.next_due_ms,
            "then_ms": schedule.next_due_ms if next_due_ms is None else next_due_ms,
            "then_state": state.value,
            "now_ms": now_ms,
        },
    )
    return moved.rowcount == 1


def _put_off(connection: Connection, schedule: Schedule, *, until_ms: int) -> None:
    connection.execute(_PUT_OFF, {"s": schedule.id, "due_ms": schedule.next_due_ms, "until_ms": until_ms})


class SqlSchedules:
    """`gateway.contracts.ports.ScheduleBook`: each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, schedule: Schedule, *, active_max: int) -> Schedule | None:
        """Store it under the owner's next number; None when the owner has enough."""
        return await self._database.write(partial(_add, schedule=schedule, active_max=active_max))

    async def active(self, owner: SessionKey) -> Sequence[Schedule]:
        """What is still to come for this owner, by number."""
        return await self._database.read(partial(_active, owner=owner))

    async def cancel(self, owner: SessionKey, number: int) -> Schedule | None:
        """End one for good; None when the owner has no active one of that number."""
        return await self._database.write(partial(_cancel, owner=owner, number=number))

    async def cancel_all(self, owner: SessionKey) -> int:
        """End everything that is still to come for this owner."""
        return await self._database.write(partial(_cancel_all, owner=owner))

    async def zone(self, owner: SessionKey) -> str | None:
        """The name of the owner's time zone, None if it was never said."""
        return await self._database.read(partial(_zone, owner=owner))

    async def set_zone(self, owner: SessionKey, zone: str) -> None:
        """The newest word counts."""
        await self._database.write(partial(_put_zone, owner=owner, zone=zone))

    async def next_due_ms(self) -> int | None:
        """The earliest due time that nobody has claimed."""
        return await self._database.read(_next_due)

    async def claim_due(self, *, now_ms: int, until_ms: int, limit: int) -> Sequence[Schedule]:
        """What is due and claimed by nobody, oldest first; the caller's until `until_ms`."""
        work = partial(_claim, now_ms=now_ms, until_ms=until_ms, limit=limit)
        return await self._database.write(work, durable=False)  # else it is claimed again, which is cut by id

    async def move(self, schedule: Schedule, *, next_due_ms: int | None, now_ms: int) -> bool:
        """The firing of `schedule.next_due_ms` is on record. False: it was before, or the owner cancelled it."""
        return await self._database.write(partial(_move, schedule=schedule, next_due_ms=next_due_ms, now_ms=now_ms))

    async def put_off(self, schedule: Schedule, *, until_ms: int) -> None:
        """The same firing is due again at `until_ms`."""
        await self._database.write(partial(_put_off, schedule=schedule, until_ms=until_ms), durable=False)
