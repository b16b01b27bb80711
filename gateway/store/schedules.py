"""Schedules: counted per owner, claimed for a firing by one worker, moved on once per due time.

What an owner asks names the owner in every statement. A firing is guarded by the due time itself: the worker that moves
a schedule away from it has fired it, and the others change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Row, bindparam, func, select, update

from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import Schedule, ScheduleState
from gateway.store import engine
from gateway.store.tables import calendars, schedules

_ACTIVE: Final = schedules.c.state == ScheduleState.ACTIVE.value
_OF_OWNER: Final = schedules.c.owner == bindparam("of_owner")

_BY_ID: Final = select(schedules).where(schedules.c.id == bindparam("s"), _OF_OWNER)
_COUNT: Final = select(func.count()).select_from(schedules).where(_OF_OWNER, _ACTIVE)
_ADD: Final = schedules.insert().returning(schedules)
_LIST: Final = select(schedules).where(_OF_OWNER, _ACTIVE).order_by(schedules.c.number)
_COMING: Final = (
    select(schedules).where(_ACTIVE).order_by(schedules.c.next_due_ms, schedules.c.id).limit(bindparam("page_limit"))
)
_COMING_OF_OWNER: Final = _COMING.where(_OF_OWNER)
_CANCEL: Final = (
    update(schedules)
    .where(_OF_OWNER, _ACTIVE, schedules.c.number == bindparam("n"))
    .values(state=ScheduleState.CANCELLED.value)
    .returning(schedules)
)
_ZONE: Final = select(calendars.c.zone).where(calendars.c.owner == bindparam("of_owner"))

_NEXT_DUE: Final = (
    select(schedules.c.next_due_ms)
    .where(_ACTIVE, schedules.c.held_until_ms == 0)
    .order_by(schedules.c.next_due_ms)
    .limit(1)
)
# A CTE is executed once; a subquery with a limit may be executed for each row (`outbox.py`).
_DUE: Final = (
    select(schedules.c.id)
    .where(_ACTIVE, schedules.c.next_due_ms <= bindparam("now_ms"))
    .where(schedules.c.held_until_ms <= bindparam("now_ms"))
    .order_by(schedules.c.next_due_ms)
    .limit(bindparam("page_limit"))
    .with_for_update(skip_locked=True)
    .cte("due")
)
_CLAIM: Final = (
    update(schedules)
    .where(schedules.c.id.in_(select(_DUE.c.id)))
    .values(held_until_ms=bindparam("until_ms"))
    .returning(schedules)
)
_OF_DUE_TIME: Final = update(schedules).where(
    schedules.c.id == bindparam("s"), schedules.c.next_due_ms == bindparam("due_ms"), _ACTIVE
)
_MOVE: Final = _OF_DUE_TIME.values(held_until_ms=0, firings=schedules.c.firings + 1)


_lock_calendar: Final = engine.upsert(
    calendars, last_number=calendars.c.last_number, returning=(calendars.c.last_number,)
)
"""Locks the owner's row, making it first if it is new."""

_set_zone: Final = engine.upsert(calendars, "zone")
_COUNT_UP: Final = update(calendars).where(calendars.c.owner == bindparam("of_owner"))


def to_schedule(row: Row[Any]) -> Schedule:
    """Read a row of `schedules`."""
    return engine.value_of(Schedule, row)


def zone_of(connection: engine.Connection, owner: SessionKey) -> str:
    """Return the name of the time zone that `owner` named, "" for none."""
    return connection.execute(_ZONE, {"of_owner": str(owner)}).scalar_one_or_none() or ""


class ScheduleStore(engine.Aggregate):
    """Every schedule, and each owner's time zone. Raises `StoreUnavailable`.

    Owners see and change their own only. A firing is claimed by one worker; whether it happened is decided by
    `move`: of all who believe that they fired the same due time, one moves the schedule on."""

    @engine.write
    def add(self, connection: engine.Connection, schedule: Schedule, *, active_max: int) -> Schedule | None:
        """Store it under the owner's next number. One with a known id is returned as it was stored, so that a turn
        may run again; None when the owner has `active_max` active ones."""
        owner = {"of_owner": str(schedule.owner)}
        calendar = {"owner": str(schedule.owner), "zone": "", "last_number": 0}
        last_number = connection.execute(_lock_calendar(connection), calendar).scalar_one()
        known = connection.execute(_BY_ID, owner | {"s": schedule.id}).one_or_none()
        if known is not None:
            return to_schedule(known)
        if connection.execute(_COUNT, owner).scalar_one() >= active_max:
            return None
        connection.execute(_COUNT_UP, owner | {"last_number": last_number + 1})
        new = {"number": last_number + 1, "held_until_ms": 0, "firings": 0, "fired_at_ms": 0}
        return to_schedule(connection.execute(_ADD, engine.row_of(schedules, schedule, **new)).one())

    @engine.read
    def active(self, connection: engine.Connection, owner: SessionKey) -> Sequence[Schedule]:
        """Return what is still to come for this owner, by number."""
        return [to_schedule(row) for row in connection.execute(_LIST, {"of_owner": str(owner)})]

    @engine.read
    def coming(self, connection: engine.Connection, owner: SessionKey | None, *, limit: int) -> Sequence[Schedule]:
        """Return what is still to come of an owner, or (None) of all, what is due first in front."""
        page: dict[str, Any] = {"page_limit": limit}
        if owner is None:
            return [to_schedule(row) for row in connection.execute(_COMING, page)]
        return [to_schedule(row) for row in connection.execute(_COMING_OF_OWNER, page | {"of_owner": str(owner)})]

    @engine.write
    def cancel(self, connection: engine.Connection, owner: SessionKey, number: int) -> Schedule | None:
        """End one for good; None when the owner has no active one of that number."""
        row = connection.execute(_CANCEL, {"of_owner": str(owner), "n": number}).one_or_none()
        return None if row is None else to_schedule(row)

    @engine.read
    def zone(self, connection: engine.Connection, owner: SessionKey) -> str | None:
        """Return the name of the owner's time zone, None if it was never said."""
        return zone_of(connection, owner) or None

    @engine.write
    def set_zone(self, connection: engine.Connection, owner: SessionKey, zone: str) -> None:
        """Set the owner's time zone."""
        connection.execute(_set_zone(connection), {"owner": str(owner), "zone": zone, "last_number": 0})

    @engine.read
    def next_due_ms(self, connection: engine.Connection) -> int | None:
        """Return the earliest due time that nobody has claimed and that is not put off; None when nothing waits."""
        due_ms: int | None = connection.execute(_NEXT_DUE).scalar_one_or_none()
        return due_ms

    @engine.write_unsynced  # else it is claimed again, which is cut by id
    def claim_due(self, connection: engine.Connection, *, now_ms: int, until_ms: int, limit: int) -> Sequence[Schedule]:
        """Claim what is due and claimed by nobody, oldest first; it is the caller's until `until_ms`."""
        page = {"now_ms": now_ms, "until_ms": until_ms, "page_limit": max(limit, 0)}
        found = [to_schedule(row) for row in connection.execute(_CLAIM, page)]
        return sorted(found, key=lambda schedule: (schedule.next_due_ms, schedule.id))

    @engine.write
    def move(self, connection: engine.Connection, schedule: Schedule, *, next_due_ms: int | None, now_ms: int) -> bool:
        """Record the firing of `schedule.next_due_ms`: the schedule waits for the next one, or is done (None). False:
        somebody else has moved it, or its owner has cancelled it."""
        state = ScheduleState.DONE if next_due_ms is None else ScheduleState.ACTIVE
        moved = connection.execute(
            _MOVE,
            {
                "s": schedule.id,
                "due_ms": schedule.next_due_ms,
                "next_due_ms": schedule.next_due_ms if next_due_ms is None else next_due_ms,
                "state": state.value,
                "fired_at_ms": now_ms,
            },
        )
        return moved.rowcount == 1

    @engine.write_unsynced
    def put_off(self, connection: engine.Connection, schedule: Schedule, *, until_ms: int) -> None:
        """Put off a firing that nobody could take: the same one is due again at `until_ms`."""
        due = {"s": schedule.id, "due_ms": schedule.next_due_ms}
        connection.execute(_OF_DUE_TIME, due | {"held_until_ms": until_ms})
