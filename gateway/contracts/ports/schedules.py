"""The schedules in SQL, as the agent role uses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gateway.contracts.ids import SessionKey
from gateway.contracts.schedules import Schedule


class ScheduleBook(Protocol):
    """Every schedule, and each owner's time zone. Raises `StoreUnavailable`.

    Owners see and change their own only. A firing is claimed by one worker; whether it happened is decided by
    `move`: of all who believe that they fired the same due time, one moves the schedule on.
    """

    async def add(self, schedule: Schedule, *, active_max: int) -> Schedule | None:
        """Store it under the owner's next number. One with a known id is returned as it was stored, so that a turn
        may run again; None when the owner has `active_max` active ones."""
        ...

    async def active(self, owner: SessionKey) -> Sequence[Schedule]:
        """What is still to come for this owner, by number."""
        ...

    async def cancel(self, owner: SessionKey, number: int) -> Schedule | None:
        """End one for good; None when the owner has no active one of that number."""
        ...

    async def cancel_all(self, owner: SessionKey) -> int:
        """End everything that is still to come for this owner; how many there were."""
        ...

    async def zone(self, owner: SessionKey) -> str | None:
        """The name of the owner's time zone, None if it was never said."""
        ...

    async def set_zone(self, owner: SessionKey, zone: str) -> None: ...

    async def next_due_ms(self) -> int | None:
        """The earliest due time that nobody has claimed and that is not put off; None when nothing waits."""
        ...

    async def claim_due(self, *, now_ms: int, until_ms: int, limit: int) -> Sequence[Schedule]:
        """What is due and claimed by nobody, oldest first; it is the caller's until `until_ms`."""
        ...

    async def move(self, schedule: Schedule, *, next_due_ms: int | None, now_ms: int) -> bool:
        """The firing of `schedule.next_due_ms` is on record, and the schedule waits for the next one, or is done
        (None). False: somebody else has moved it, or its owner has cancelled it."""
        ...

    async def put_off(self, schedule: Schedule, *, until_ms: int) -> None:
        """Nobody could take the firing: the same one is due again at `until_ms`."""
        ...
