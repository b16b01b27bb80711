"""Where a part of a session left the model's view, and whether memory has gone through it.

A boundary is written in the transaction that makes it, so that no crash loses one, and done once: whoever
goes through it claims it for a while; if he dies, somebody else may try again, not for ever.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, Executable, Row, bindparam, exists, func, select, update

from gateway.contracts.ids import SessionKey
from gateway.contracts.memories import Boundary
from gateway.limits import BOUNDARIES_KEPT_H, BOUNDARY_TRIES_MAX
from gateway.store.dialects import InsertInto, per_dialect
from gateway.store.ends import is_of_person
from gateway.store.rows import Values
from gateway.store.tables import boundaries, lanes, sessions

_HOUR_MS: Final = 3_600_000


@per_dialect
def _mark(insert: InsertInto) -> Executable:
    return insert(boundaries).on_conflict_do_nothing(index_elements=[boundaries.c.session_id, boundaries.c.seq])


_LAST_SEQ: Final = select(sessions.c.last_seq).where(sessions.c.id == bindparam("s"))


def mark(connection: Connection, key: SessionKey, session_id: str, *, seq: int, now_ms: int) -> None:
    """What lies before `seq` has left the view; marking it again changes nothing."""
    row = {
        "session_id": session_id,
        "seq": seq,
        "key": str(key),
        "created_at_ms": now_ms,
        "claimed_until_ms": 0,
        "tries": 0,
        "done_at_ms": None,
    }
    connection.execute(_mark(connection), row)


def mark_end(connection: Connection, key: SessionKey, session_id: str, *, now_ms: int) -> None:
    """The session is left, with all that was said in it."""
    last_seq = connection.execute(_LAST_SEQ, {"s": session_id}).scalar_one()
    if last_seq:
        mark(connection, key, session_id, seq=last_seq, now_ms=now_ms)


_IS_DUE: Final = (
    boundaries.c.done_at_ms.is_(None),
    boundaries.c.claimed_until_ms < bindparam("now_ms"),
    boundaries.c.tries < BOUNDARY_TRIES_MAX,
)
_DUE: Final = (
    select(boundaries)
    .where(*_IS_DUE, boundaries.c.created_at_ms > bindparam("since_ms"))
    .order_by(boundaries.c.created_at_ms, boundaries.c.seq)
    .limit(1)
)
IS_ANY_DUE_OF_KEY: Final = (
    exists()
    .where(*_IS_DUE, boundaries.c.created_at_ms > bindparam("since_ms"), boundaries.c.key == bindparam("k"))
    .label("is_any_due")
)
"""Of a key `k`, as a column of another statement; with what `at` gives."""
_DUE_OF_KEY: Final = _DUE.where(boundaries.c.key == bindparam("k"))
_CLAIM: Final = (
    update(boundaries)
    .where(boundaries.c.session_id == bindparam("s"), boundaries.c.seq == bindparam("claimed_seq"), *_IS_DUE)
    .values(claimed_until_ms=bindparam("until_ms"), tries=boundaries.c.tries + 1)
)
_BEFORE: Final = select(func.coalesce(func.max(boundaries.c.seq), 0)).where(
    boundaries.c.session_id == bindparam("s"), boundaries.c.seq < bindparam("claimed_seq")
)


def at(now_ms: int) -> Values:
    """What is due at that time depends on."""
    return {"now_ms": now_ms, "since_ms": now_ms - BOUNDARIES_KEPT_H * _HOUR_MS}


def _due(connection: Connection, key: SessionKey | None, now_ms: int) -> Row[Any] | None:
    wanted = at(now_ms)
    if key is None:
        return connection.execute(_DUE, wanted).one_or_none()
    return connection.execute(_DUE_OF_KEY, wanted | {"k": str(key)}).one_or_none()


def is_any_due(connection: Connection, key: SessionKey | None, *, now_ms: int) -> bool:
    """Whether a claim could find anything: to ask costs no lock."""
    return _due(connection, key, now_ms) is not None


def claim(connection: Connection, key: SessionKey | None, *, now_ms: int, for_ms: int) -> Boundary | None:
    """`MemoryStore.claim_boundary` in one transaction. Of two who see the same row one gets it; the other
    comes again with the next occasion."""
    due = _due(connection, key, now_ms)
    if due is None:
        return None
    which = {"s": due.session_id, "claimed_seq": due.seq}
    claimed = connection.execute(_CLAIM, which | {"now_ms": now_ms, "until_ms": now_ms + for_ms})
    if claimed.rowcount != 1:
        return None
    return Boundary(due.session_id, SessionKey.parse(due.key), connection.execute(_BEFORE, which).scalar_one(), due.seq)


_FINISH: Final = (
    update(boundaries)
    .where(boundaries.c.session_id == bindparam("s"), boundaries.c.seq == bindparam("finished_seq"))
    .values(done_at_ms=bindparam("now_ms"))
)


def finish(connection: Connection, boundary: Boundary, *, now_ms: int) -> None:
    """Nobody need go through it again."""
    connection.execute(_FINISH, {"s": boundary.session_id, "finished_seq": boundary.seq, "now_ms": now_ms})


_SKIP_OF_KEY: Final = (
    update(boundaries)
    .where(boundaries.c.done_at_ms.is_(None), boundaries.c.key == bindparam("k"))
    .values(done_at_ms=bindparam("now_ms"))
)
_SKIP_OF_OWNER: Final = (
    update(boundaries)
    .where(
        boundaries.c.done_at_ms.is_(None),
        boundaries.c.key.in_(select(lanes.c.key).where(is_of_person(lanes.c.owner))),
    )
    .values(done_at_ms=bindparam("now_ms"))
)


def skip(connection: Connection, key: SessionKey, *, now_ms: int) -> None:
    """Nobody shall go through what was said before: under this key, in a direct message under any of its
    person's."""
    if key.is_private:
        connection.execute(_SKIP_OF_OWNER, {"end_": str(key.owner), "now_ms": now_ms})
    else:
        connection.execute(_SKIP_OF_KEY, {"k": str(key), "now_ms": now_ms})
