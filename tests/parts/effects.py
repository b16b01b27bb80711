"""What a turn changes about the sessions of a lane, without a turn."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Executable

from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import Effect, Session
from gateway.store import Store, sessions
from gateway.store.engine import Connection, InsertInto, per_dialect
from gateway.store.tables import lanes


@per_dialect
def _touch_lane(insert: InsertInto) -> Executable:
    """Lock the lane of a key, making it first if it is new."""
    statement = insert(lanes)
    return statement.on_conflict_do_update(
        index_elements=[lanes.c.key], set_={"owner": statement.excluded.owner}
    ).returning(lanes.c.session_id)


async def apply_effects(store: Store, key: SessionKey, effects: Sequence[Effect], *, now_ms: int) -> Session:
    """Apply effects outside of a turn; the current session afterwards, opened if there was none."""

    def work(connection: Connection) -> Session:
        unfenced = {"key": str(key), "owner": str(key.owner), "fence": 0}
        session_id: str | None = connection.execute(_touch_lane(connection), unfenced).scalar_one()
        if session_id is None:
            session_id = store.clock.new_id()
            sessions.open_next(connection, key, new_id=session_id, now_ms=now_ms)
        sessions.apply(connection, key, session_id, effects, store.clock, now_ms=now_ms)
        session = sessions.current_session(connection, key)
        assert session is not None
        return session

    return await store.database.write(work)
