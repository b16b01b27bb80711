"""The lock of a lane, for whoever writes beside its turns. Of several lanes it is taken in the order of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, bindparam, select, update

from gateway.store.subagent_tables import sub_tasks
from gateway.store.tables import lanes

_LOCK: Final = update(lanes).where(lanes.c.key == bindparam("k")).values(fence=lanes.c.fence)
_KEYS: Final = (
    select(sub_tasks.c.key)
    .where(sub_tasks.c.id.in_(bindparam("ids", expanding=True)))
    .distinct()
    .order_by(sub_tasks.c.key)
)


def lock_lane(connection: Connection, key: str) -> bool:
    """Until this transaction ends nobody else writes in the lane. False: there is no such lane."""
    return connection.execute(_LOCK, {"k": key}).rowcount == 1


def lock_lanes_of(connection: Connection, task_ids: Sequence[str]) -> None:
    """The same for every lane that one of these tasks belongs to."""
    for key in connection.execute(_KEYS, {"ids": list(task_ids)}).scalars().all():
        lock_lane(connection, key)
