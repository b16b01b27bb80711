"""The two transactions of a turn: what is known before the model is asked, and all it leaves behind.

Both lock the lane's row first and compare its fence, so that of two workers which both believe they own
a lane only the newer one writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection, Executable, Row, bindparam, delete, literal, select, union_all, update

from gateway.contracts.entries import Entry, EntryKind, Role, Session, TurnCommit, TurnStart, TurnState
from gateway.contracts.errors import Fenced, StoreError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, InboundMessage
from gateway.store import outbox, sessions, transcript
from gateway.store.dialects import InsertInto, per_dialect
from gateway.store.rows import Values, to_session
from gateway.store.sessions import Growth
from gateway.store.tables import consumed, entries, lanes, turns
from gateway.store.tables import sessions as sessions_table

WORKER_LOST: Final = "worker_lost"
"""The error reference of a turn whose worker died and whose messages another turn answered."""

# --- begin


@per_dialect
def _take_lane(insert: InsertInto) -> Executable:
    """Lock the lane under a fence that is not older than the one it has. An equal one is the same claim,
    begun again."""
    statement = insert(lanes)
    return statement.on_conflict_do_update(
        index_elements=[lanes.c.key],
        set_={
            "fence": statement.excluded.fence,
            "turn_id": statement.excluded.turn_id,
            "lost_turn_id": lanes.c.turn_id,
        },
        where=lanes.c.fence <= statement.excluded.fence,
    ).returning(lanes.c.session_id, lanes.c.lost_turn_id)


@per_dialect
def _open_turn(insert: InsertInto) -> Executable:
    """A turn that is begun again keeps its row; one that was committed stays as it is."""
    statement = insert(turns)
    return statement.on_conflict_do_update(
        index_elements=[turns.c.id],
        set_={
            "session_id": statement.excluded.session_id,
            "runs": turns.c.runs + 1,
            "fence": statement.excluded.fence,
            "started_at_ms": statement.excluded.started_at_ms,
        },
        where=turns.c.state == TurnState.RUNNING.value,
    )


_KNOWN: Final = union_all(
    select(consumed.c.message_id, consumed.c.turn_id.label("answered_by"), literal("").label("session_id")).where(
        consumed.c.message_id.in_(bindparam("ids", expanding=True))
    ),
    select(entries.c.message_id, literal("").label("answered_by"), entries.c.session_id).where(
        entries.c.message_id.in_(bindparam("ids", expanding=True))
    ),
)
_LOSE_TURN: Final = (
    update(turns)
    .where(turns.c.id == bindparam("t"), turns.c.state == TurnState.RUNNING.value)
    .values(state=TurnState.FAILED.value, error_reference=WORKER_LOST, finished_at_ms=bindparam("now_ms"))
)


_WITHDRAW: Final = delete(entries).where(entries.c.message_id == bindparam("m"))
_UNCOUNT: Final = (
    update(sessions_table)
    .where(sessions_table.c.id == bindparam("s"))
    .values(message_count=sessions_table.c.message_count - 1)
)


def begin(
    connection: Connection,
    *,
    turn_id: str,
    key: SessionKey,
    fence: int,
    messages: Sequence[InboundMessage],
    now_ms: int,
    new_session_id: str,
    is_said: bool,
) -> TurnStart:
    """`Store.begin_turn` in one transaction."""
    session_id = _take(connection, turn_id, key, fence, now_ms=now_ms)
    if session_id is None:
        sessions.open_next(connection, key, new_id=new_session_id, now_ms=now_ms)
        session_id = new_session_id
    by_id = {message.id: message for message in messages}
    answered, homes = _known(connection, list(by_id))
    fresh = [message for message in by_id.values() if message.id not in answered]
    joining = [message for message in fresh if homes.get(message.id) != session_id] if is_said else []
    _withdraw(connection, {message.id: homes[message.id] for message in joining if message.id in homes})

    row = sessions.grow(connection, key, session_id, Growth(entries=len(joining), messages=len(joining)), now_ms=now_ms)
    first_seq = row.last_seq - len(joining) + 1
    transcript.append(
        connection,
        session_id,
        [_user_entry(message, first_seq + index, turn_id, now_ms) for index, message in enumerate(joining)],
    )
    if fresh:
        connection.execute(_open_turn(connection), _turn_row(turn_id, session_id, key, fence, now_ms=now_ms))
    return TurnStart(
        session=to_session(row, current_id=session_id),
        fresh_ids=frozenset(message.id for message in fresh),
        unsent=outbox.unsent(connection, key, sorted(set(answered.values()))) if answered else (),
    )


def _take(connection: Connection, turn_id: str, key: SessionKey, fence: int, *, now_ms: int) -> str | None:
    """Take the lane; the id of its current session, None if it never had one."""
    lane = connection.execute(
        _take_lane(connection), {"key": str(key), "owner": str(key.owner), "fence": fence, "turn_id": turn_id}
    ).one_or_none()
    if lane is None:
        raise _fenced(key, fence)
    if lane.lost_turn_id not in (None, turn_id):
        connection.execute(_LOSE_TURN, {"t": lane.lost_turn_id, "now_ms": now_ms})
    session_id: str | None = lane.session_id
    return session_id


def _known(connection: Connection, ids: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Of these messages: the turn that answered each, and the session that holds each as an entry."""
    answered: dict[str, str] = {}
    homes: dict[str, str] = {}
    for row in connection.execute(_KNOWN, {"ids": ids}) if ids else ():
        if row.session_id:
            homes[row.message_id] = row.session_id
        else:
            answered[row.message_id] = row.answered_by
    return answered, homes


def _withdraw(connection: Connection, homes: dict[str, str]) -> None:
    """Take unanswered messages out of a session that was closed under them: they join the current one."""
    if homes:
        connection.execute(_WITHDRAW, [{"m": message_id} for message_id in homes])
        connection.execute(_UNCOUNT, [{"s": session_id} for session_id in sorted(homes.values())])


def _user_entry(message: InboundMessage, seq: int, turn_id: str, now_ms: int) -> Entry:
    """In a shared place several people speak in one session, so each message carries its author's name."""
    author = "" if message.key.user else f"{message.author_name or message.author_id}: "
    return Entry(
        role=Role.USER,
        text=CleanText(author + message.text),
        seq=seq,
        message_id=message.id,
        turn_id=turn_id,
        created_at_ms=now_ms,
    )


def _turn_row(turn_id: str, session_id: str, key: SessionKey, fence: int, *, now_ms: int) -> Values:
    return {
        "id": turn_id,
        "session_id": session_id,
        "key": str(key),
        "state": TurnState.RUNNING.value,
        "runs": 1,
        "fence": fence,
        "error_reference": "",
        "started_at_ms": now_ms,
        "finished_at_ms": None,
    }


# --- commit

_LEAVE_LANE: Final = (
    update(lanes)
    .where(lanes.c.key == bindparam("k"), lanes.c.fence == bindparam("f"))
    .values(turn_id=None)
    .returning(lanes.c.session_id)
)


@per_dialect
def _close_turn(insert: InsertInto) -> Executable:
    """Gives no row if the turn was committed before. A turn that answers nothing new was never opened: it
    gets its row here."""
    statement = insert(turns)
    return statement.on_conflict_do_update(
        index_elements=[turns.c.id],
        set_={
            "state": statement.excluded.state,
            "error_reference": statement.excluded.error_reference,
            "finished_at_ms": statement.excluded.finished_at_ms,
        },
        where=turns.c.state == TurnState.RUNNING.value,
    ).returning(turns.c.id)


@per_dialect
def _consume(insert: InsertInto) -> Executable:
    return insert(consumed).on_conflict_do_nothing(index_elements=[consumed.c.message_id])


def commit(connection: Connection, done: TurnCommit, *, now_ms: int, new_ids: Sequence[str]) -> Session:
    """`Store.commit_turn` in one transaction; `new_ids` has an id for each effect."""
    finished_at_ms = done.finished_at_ms or now_ms
    lane = connection.execute(_LEAVE_LANE, {"k": str(done.key), "f": done.fence}).one_or_none()
    if lane is None:
        raise _fenced(done.key, done.fence)
    turn = _turn_row(done.turn_id, done.session_id, done.key, done.fence, now_ms=finished_at_ms) | {
        "state": done.state.value,
        "error_reference": done.error_reference,
        "finished_at_ms": finished_at_ms,
    }
    if connection.execute(_close_turn(connection), turn).one_or_none() is None:
        return _current(connection, done.key)
    row = _write(connection, done, now_ms=finished_at_ms)
    if not done.effects and lane.session_id == done.session_id:
        return to_session(row, current_id=lane.session_id)
    effects = list(zip(done.effects, new_ids, strict=True))
    sessions.apply(connection, done.key, lane.session_id, effects, now_ms=finished_at_ms)
    return _current(connection, done.key)


def _write(connection: Connection, done: TurnCommit, *, now_ms: int) -> Row[Any]:
    """Transcript, sums, consumed ids, usage, outbox."""
    tokens, cost_usd = sessions.spent(done.usage)
    messages = sum(entry.kind is EntryKind.MESSAGE for entry in done.entries)
    growth = Growth(len(done.entries), messages, tokens, cost_usd)
    row = sessions.grow(connection, done.key, done.session_id, growth, now_ms=now_ms)
    first_seq = row.last_seq - len(done.entries) + 1
    transcript.append(
        connection,
        done.session_id,
        [
            replace(
                entry,
                seq=first_seq + index,
                turn_id=entry.turn_id or done.turn_id,
                created_at_ms=entry.created_at_ms or now_ms,
            )
            for index, entry in enumerate(done.entries)
        ],
    )
    if done.prompt_tokens:
        sessions.measure(
            connection,
            done.session_id,
            prompt_tokens=done.prompt_tokens,
            prompt_seq=first_seq + _last_speech(done.entries) - 1,
        )
    if done.consumed:
        connection.execute(
            _consume(connection),
            [
                {"message_id": id_, "turn_id": done.turn_id, "consumed_at_ms": now_ms}
                for id_ in dict.fromkeys(done.consumed)
            ],
        )
    sessions.write_usage(connection, done.usage, session_id=done.session_id, turn_id=done.turn_id, now_ms=now_ms)
    outbox.put(connection, done.outbox, now_ms=now_ms)
    return row


def _last_speech(written: Sequence[Entry]) -> int:
    """The index of the answer to the last prompt: all before it was in that prompt."""
    return max((index for index, entry in enumerate(written) if entry.role is Role.ASSISTANT), default=0)


def _current(connection: Connection, key: SessionKey) -> Session:
    session = sessions.current(connection, key)
    if session is None:
        raise StoreError(f"lane {key} has no session: a turn was committed that never began")
    return session


def _fenced(key: SessionKey, fence: int) -> Fenced:
    return Fenced(f"lane {key} has a newer owner than fence {fence}")
