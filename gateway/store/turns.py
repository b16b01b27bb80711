"""The transactions of a turn: what is known before the model is asked, what joins it, all it leaves behind.

Each locks the lane's row first and compares its fence, so that of two workers which both believe they own
a lane only the newer one writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection, Executable, Row, bindparam, func, select, update

from gateway.contracts.entries import Committed, Entry, EntryKind, Role, Session, TurnCommit, TurnStart, TurnState
from gateway.contracts.errors import Fenced, StoreError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, InboundMessage
from gateway.store import boundaries, buttons, files, outbox, sessions, transcript, unanswered, wakes
from gateway.store.dialects import InsertInto, per_dialect
from gateway.store.rows import Values, to_session
from gateway.store.sessions import Growth
from gateway.store.tables import consumed, entries, lanes, turns
from gateway.words import language_of

WORKER_LOST: Final = "worker_lost"
"""The error reference of a turn whose worker died and whose messages another turn answered."""

# --- begin


@per_dialect
def _take_lane(insert: InsertInto) -> Executable:
    """Lock the lane under a fence that is not older than the one it has. An equal one is the same claim,
    begun again. A language that is not known changes none that is."""
    statement = insert(lanes)
    return statement.on_conflict_do_update(
        index_elements=[lanes.c.key],
        set_={
            "fence": statement.excluded.fence,
            "turn_id": statement.excluded.turn_id,
            "lost_turn_id": lanes.c.turn_id,
            "language": func.coalesce(func.nullif(statement.excluded.language, ""), lanes.c.language),
        },
        where=lanes.c.fence <= statement.excluded.fence,
    ).returning(lanes.c.session_id, lanes.c.lost_turn_id, lanes.c.language)


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
    ).returning(turns.c.runs)


LOSE_TURN: Final = (
    update(turns)
    .where(turns.c.id == bindparam("t"), turns.c.state == TurnState.RUNNING.value)
    .values(state=TurnState.FAILED.value, error_reference=bindparam("reference"), finished_at_ms=bindparam("now_ms"))
)
"""Ends a turn that nobody will commit any more."""


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
    lane = _take(connection, turn_id, key, fence, _language(messages), now_ms=now_ms)
    session_id: str | None = lane.session_id
    if session_id is None:
        sessions.open_next(connection, key, new_id=new_session_id, now_ms=now_ms)
        session_id = new_session_id
    by_id = {message.id: message for message in messages}
    answered, homes = unanswered.known(connection, list(by_id))
    fresh = [message for message in by_id.values() if message.id not in answered]
    said = unanswered.user_entries(fresh if is_said else (), turn_id=turn_id, now_ms=now_ms)
    left = unanswered.left_by(connection, lane.lost_turn_id)
    joining = unanswered.reconcile(connection, session_id, said, left=left, homes=homes)
    row, _ = append(connection, key, session_id, joining, now_ms=now_ms)
    runs: int | None = None
    if fresh:
        opening = _turn_row(turn_id, session_id, key, fence, now_ms=now_ms)
        runs = connection.execute(_open_turn(connection), opening).scalar_one_or_none()
    return TurnStart(
        session=to_session(row, current_id=session_id, language=lane.language),
        fresh_ids=frozenset(message.id for message in fresh),
        unsent=outbox.unsent(connection, key, sorted(set(answered.values()))) if answered else (),
        is_first=runs == 1,
    )


def _language(messages: Sequence[InboundMessage]) -> str:
    """What the newest of them shows that shows any; empty for nothing."""
    shown = (language_of(message) for message in reversed(messages))
    return next((language.value for language in shown if language is not None), "")


def _take(connection: Connection, turn_id: str, key: SessionKey, fence: int, language: str, *, now_ms: int) -> Row[Any]:
    """Take the lane: the id of its current session, None if it never had one, of the turn that began before this one
    and was not committed, and what is known of the language."""
    taken = {"key": str(key), "owner": str(key.owner), "fence": fence, "turn_id": turn_id, "language": language}
    lane = connection.execute(_take_lane(connection), taken).one_or_none()
    if lane is None:
        raise fenced(key, fence)
    if lane.lost_turn_id not in (None, turn_id):
        connection.execute(LOSE_TURN, {"t": lane.lost_turn_id, "reference": WORKER_LOST, "now_ms": now_ms})
    return lane


def append(
    connection: Connection, key: SessionKey, session_id: str, said: Sequence[Entry], *, now_ms: int
) -> tuple[Row[Any], list[Entry]]:
    """Add entries outside of a commit; the session's row and the entries with their numbers."""
    messages = sum(entry.kind is EntryKind.MESSAGE for entry in said)
    row = sessions.grow(connection, key, session_id, Growth(len(said), messages), now_ms=now_ms)
    numbered = numbered_to(row.last_seq, said)
    transcript.append(connection, session_id, numbered)
    return row, numbered


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


_BEGAN: Final = (
    select(turns.c.started_at_ms)
    .join(lanes, lanes.c.turn_id == turns.c.id)
    .where(lanes.c.key == bindparam("k"), turns.c.state == TurnState.RUNNING.value)
)


def began(connection: Connection, key: SessionKey) -> int | None:
    """`Store.turn_began`."""
    return connection.execute(_BEGAN, {"k": str(key)}).scalar_one_or_none()


# --- join

_HELD: Final = (
    update(lanes)
    .where(lanes.c.key == bindparam("k"), lanes.c.fence == bindparam("f"), lanes.c.turn_id == bindparam("t"))
    .values(fence=lanes.c.fence)
    .returning(select(turns.c.session_id).where(turns.c.id == bindparam("t")).scalar_subquery())
)


def join(
    connection: Connection,
    *,
    turn_id: str,
    key: SessionKey,
    fence: int,
    messages: Sequence[InboundMessage],
    now_ms: int,
) -> list[Entry]:
    """`Store.join_turn` in one transaction."""
    session_id = connection.execute(_HELD, {"k": str(key), "f": fence, "t": turn_id}).scalar_one_or_none()
    if session_id is None:
        raise fenced(key, fence)
    by_id = {message.id: message for message in messages}
    answered, homes = unanswered.known(connection, list(by_id))
    unanswered.withdraw(connection, homes)
    fresh = [message for message in by_id.values() if message.id not in answered]
    said = unanswered.user_entries(fresh, turn_id=turn_id, now_ms=now_ms)
    return append(connection, key, session_id, said, now_ms=now_ms)[1]


_RETELL: Final = update(entries).where(entries.c.message_id == bindparam("m")).values(text=bindparam("words"))


def retell(
    connection: Connection, *, turn_id: str, key: SessionKey, fence: int, texts: Mapping[str, CleanText]
) -> None:
    """`Store.retell` in one transaction."""
    if connection.execute(_HELD, {"k": str(key), "f": fence, "t": turn_id}).scalar_one_or_none() is None:
        raise fenced(key, fence)
    if texts:
        connection.execute(_RETELL, [{"m": message_id, "words": words} for message_id, words in texts.items()])


# --- commit

_LEAVE_LANE: Final = (
    update(lanes)
    .where(lanes.c.key == bindparam("k"), lanes.c.fence == bindparam("f"))
    .values(turn_id=None)
    .returning(lanes.c.session_id, lanes.c.language, boundaries.IS_ANY_DUE_OF_KEY)
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


def consume(connection: Connection, message_ids: Sequence[str], *, turn_id: str, now_ms: int) -> None:
    """These messages are answered, for ever."""
    rows = [{"message_id": id_, "turn_id": turn_id, "consumed_at_ms": now_ms} for id_ in dict.fromkeys(message_ids)]
    if rows:
        connection.execute(_consume(connection), rows)


def give_up(
    connection: Connection, message_id: str, *, turn_id: str, reference: str, letter_id: str, now_ms: int
) -> None:
    """Answer a message with an apology, for ever; only another try of it has another answer."""
    given_up = {"is_given_up": True, "error_reference": reference, "letter_id": letter_id}
    row = {"message_id": message_id, "turn_id": turn_id, "consumed_at_ms": now_ms}
    connection.execute(_consume(connection), row | given_up)


def commit(connection: Connection, done: TurnCommit, *, now_ms: int, new_ids: Sequence[str]) -> Committed:
    """`Store.commit_turn` in one transaction; `new_ids` has an id for each effect."""
    finished_at_ms = done.finished_at_ms or now_ms
    held = {"k": str(done.key), "f": done.fence}
    lane = connection.execute(_LEAVE_LANE, held | boundaries.at(finished_at_ms)).one_or_none()
    if lane is None:
        raise fenced(done.key, done.fence)
    turn = _turn_row(done.turn_id, done.session_id, done.key, done.fence, now_ms=finished_at_ms) | {
        "state": done.state.value,
        "error_reference": done.error_reference,
        "finished_at_ms": finished_at_ms,
    }
    if connection.execute(_close_turn(connection), turn).one_or_none() is None:
        return Committed(_current(connection, done.key), lane.is_any_due)
    row = _write(connection, done, now_ms=finished_at_ms)
    if not done.effects and lane.session_id == done.session_id:
        return Committed(to_session(row, current_id=lane.session_id, language=lane.language), lane.is_any_due)
    effects = list(zip(done.effects, new_ids, strict=True))
    sessions.apply(connection, done.key, lane.session_id, effects, now_ms=finished_at_ms)
    return Committed(_current(connection, done.key), lane.is_any_due or bool(effects))


def _write(connection: Connection, done: TurnCommit, *, now_ms: int) -> Row[Any]:
    """Transcript, sums, consumed ids, usage, outbox."""
    tokens, cost_usd = sessions.spent(done.usage)
    # What joined the turn on its way moves to where the model read it.
    unanswered.withdraw(connection, {entry.message_id: done.session_id for entry in done.entries if entry.message_id})
    messages = sum(entry.kind is EntryKind.MESSAGE for entry in done.entries)
    growth = Growth(
        len(done.entries),
        messages,
        tokens,
        cost_usd,
        prompt_tokens=done.prompt_tokens,
        prompt_entries=_last_speech(done.entries),
    )
    row = sessions.grow(connection, done.key, done.session_id, growth, now_ms=now_ms)
    numbered = numbered_to(row.last_seq, done.entries)
    transcript.append(
        connection,
        done.session_id,
        [
            replace(entry, turn_id=entry.turn_id or done.turn_id, created_at_ms=entry.created_at_ms or now_ms)
            for entry in numbered
        ],
    )
    consume(connection, done.consumed, turn_id=done.turn_id, now_ms=now_ms)
    sessions.write_usage(connection, done.usage, session_id=done.session_id, turn_id=done.turn_id, now_ms=now_ms)
    outbox.put(connection, done.outbox)
    files.put(connection, done.key, done.contents)
    buttons.put(connection, done.buttons, now_ms=now_ms)
    if done.collected:
        wakes.collect(connection, done.collected)
    if done.state is TurnState.STOPPED:
        wakes.forget_turn(connection, done.turn_id)
    elif done.state is TurnState.DONE and done.barrier is not None:
        wakes.put(connection, done.key, done.barrier)
    return row


def numbered_to(last_seq: int, new: Sequence[Entry]) -> list[Entry]:
    """The entries with the sequence numbers that end with `last_seq`."""
    return [replace(entry, seq=seq) for seq, entry in enumerate(new, last_seq - len(new) + 1)]


def _last_speech(written: Sequence[Entry]) -> int:
    """The index of the answer to the last prompt: all before it was in that prompt."""
    return max((index for index, entry in enumerate(written) if entry.role is Role.ASSISTANT), default=0)


def _current(connection: Connection, key: SessionKey) -> Session:
    session = sessions.current(connection, key)
    if session is None:
        raise StoreError(f"lane {key} has no session: a turn was committed that never began")
    return session


def fenced(key: SessionKey, fence: int) -> Fenced:
    return Fenced(f"lane {key} has a newer owner than fence {fence}")
