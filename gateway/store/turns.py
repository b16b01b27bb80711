"""The transactions of a turn: what is known before the model is asked, what joins it, all it leaves behind, how it ends
without its worker, and how it is traced.

Each locks the lane's row first and compares its fence, so that of two workers which both believe they own a lane only
the newer one writes. A worker that was paused or cut off may come back at any time and commit what it has. Before a
user is told that a turn has ended (fenced off after a stop, given up after too many tries), it has, under the lane's
lock.

A message is in the transcript from the moment a turn begins, so that no crash loses it. Until that turn is
committed the entry is provisional: its author may change or delete the message, the lane may give it up, another run
may take other messages along. So to begin, join or give up compares what is there with what the lane still holds, and
the transcript follows the lane. By the order in which turns begin, everything unanswered was written by the lane's last
turn that was not committed (`lanes.turn_id`), and is at the end of that turn's session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import (
    BindParameter,
    Executable,
    Row,
    bindparam,
    delete,
    exists,
    false,
    func,
    literal,
    or_,
    select,
    union,
    union_all,
    update,
)

from gateway.contracts.context_blocks import told
from gateway.contracts.errors import Fenced, StoreError
from gateway.contracts.ids import SessionKey, earlier_ids_of, first_id_of, is_firing, is_wake, retry_id_of
from gateway.contracts.messages import CleanText, InboundMessage, MessageTrace, Reply, TurnTrace
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import (
    Committed,
    Entry,
    EntryKind,
    PromptQuery,
    Role,
    Session,
    TurnCommit,
    TurnStart,
    TurnState,
)
from gateway.i18n import language_of
from gateway.store import board, outbox, passages, sessions, transcript
from gateway.store.engine import (
    Aggregate,
    Connection,
    Database,
    InsertInto,
    Values,
    insert_new,
    per_dialect,
    read,
    upsert,
    write,
    write_unsynced,
)
from gateway.store.sessions import Growth, count_fewer, to_session
from gateway.store.tables import AnyText, consumed, entries, lanes, turns
from gateway.store.tables import outbox as replies

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
    ).returning(lanes.c.session_id, lanes.c.lost_turn_id, lanes.c.language, lanes.c.is_voiced)


_IS_OPEN: Final = turns.c.state == TurnState.RUNNING.value
_open_turn: Final = upsert(
    turns, *("session_id", "fence", "started_at_ms"), runs=turns.c.runs + 1, where=_IS_OPEN, returning=(turns.c.runs,)
)
"""One that is begun again keeps its row; one that was committed stays as it is."""

LOSE_TURN: Final = (
    update(turns)
    .where(turns.c.id == bindparam("t"), _IS_OPEN)
    .values(state=TurnState.FAILED.value, error_reference=bindparam("reference"), finished_at_ms=bindparam("now_ms"))
)
"""Ends a turn that nobody will commit any more."""


def _language(messages: Sequence[InboundMessage]) -> str:
    """Return what the newest of them shows that shows any; empty for nothing."""
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
    numbered = numbered_to(row.last_seq, said, "", now_ms)
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
    .where(lanes.c.key == bindparam("k"), _IS_OPEN)
)

# --- join
_HELD: Final = (
    update(lanes)
    .where(lanes.c.key == bindparam("k"), lanes.c.fence == bindparam("f"), lanes.c.turn_id == bindparam("t"))
    .values(fence=lanes.c.fence)
    .returning(select(turns.c.session_id).where(turns.c.id == bindparam("t")).scalar_subquery())
)

_RETELL: Final = update(entries).where(entries.c.message_id == bindparam("m"))

# --- commit
_LEAVE_LANE: Final = (
    update(lanes)
    .where(lanes.c.key == bindparam("k"), lanes.c.fence == bindparam("f"))
    .values(turn_id=None)
    .returning(lanes.c.session_id, lanes.c.language, passages.IS_ANY_DUE_OF_KEY)
)


_close_turn: Final = upsert(
    turns, "state", "error_reference", "finished_at_ms", where=_IS_OPEN, returning=(turns.c.id,)
)
"""No row if the turn was committed before. A turn that answers nothing new was never opened: it gets its row here."""
_consume: Final = insert_new(consumed)


def _give_up(
    connection: Connection, message_id: str, *, turn_id: str, reference: str, letter_id: str, now_ms: int
) -> None:
    """Answer a message with an apology, for ever; only another try of it has another answer."""
    given_up = {"is_given_up": True, "error_reference": reference, "letter_id": letter_id}
    row = {"message_id": message_id, "turn_id": turn_id, "consumed_at_ms": now_ms}
    connection.execute(_consume(connection), row | given_up)


def _write(connection: Connection, done: TurnCommit, *, now_ms: int) -> Row[Any]:
    """Write transcript, sums, consumed ids, usage, outbox."""
    tokens, cost_usd = sessions.spent(done.usage)
    # What joined the turn on its way moves to where the model read it.
    withdraw(connection, {entry.message_id: done.session_id for entry in done.entries if entry.message_id})
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
    transcript.append(connection, done.session_id, numbered_to(row.last_seq, done.entries, done.turn_id, now_ms))
    rows = [
        {"message_id": id_, "turn_id": done.turn_id, "consumed_at_ms": now_ms} for id_ in dict.fromkeys(done.consumed)
    ]
    if rows:
        connection.execute(_consume(connection), rows)
    sessions.write_usage(connection, done.usage, session_id=done.session_id, turn_id=done.turn_id, now_ms=now_ms)
    outbox.put_replies(connection, done.outbox)
    outbox.put_files(connection, done.key, done.contents)
    outbox.put_buttons(connection, done.buttons, now_ms=now_ms)
    if done.collected:
        board.collect_tasks(connection, done.collected)
    if done.state is TurnState.STOPPED:
        board.forget_turn(connection, done.turn_id)
    elif done.state is TurnState.DONE and done.barrier is not None:
        board.put(connection, done.key, done.barrier)
    return row


def numbered_to(last_seq: int, new: Sequence[Entry], turn_id: str, now_ms: int) -> list[Entry]:
    """Return the entries with the sequence numbers that end with `last_seq`; one that has no turn or no time is of
    this."""
    return [
        replace(entry, seq=seq, turn_id=entry.turn_id or turn_id, created_at_ms=entry.created_at_ms or now_ms)
        for seq, entry in enumerate(new, last_seq - len(new) + 1)
    ]


def _last_speech(written: Sequence[Entry]) -> int:
    """Return the index of the answer to the last prompt: all before it was in that prompt."""
    return max((index for index, entry in enumerate(written) if entry.role is Role.ASSISTANT), default=0)


def _current(connection: Connection, key: SessionKey) -> Session:
    session = sessions.current_session(connection, key)
    if session is None:
        raise StoreError(f"lane {key} has no session: a turn was committed that never began")
    return session


def fenced(key: SessionKey, fence: int) -> Fenced:
    return Fenced(f"lane {key} has a newer owner than fence {fence}")


_FENCE_OFF: Final = (
    update(lanes).where(lanes.c.key == bindparam("k"), lanes.c.fence <= bindparam("f")).values(fence=bindparam("f") + 1)
)
_TURNS_OF: Final = select(turns.c.id).where(turns.c.key == bindparam("k"), turns.c.fence == bindparam("f"))
_LOCK: Final = (
    update(lanes)
    .where(lanes.c.key == bindparam("k"))
    .values(fence=lanes.c.fence)
    .returning(lanes.c.turn_id, lanes.c.session_id)
)
_CLOSE_LANE: Final = update(lanes).where(lanes.c.key == bindparam("k")).values(fence=lanes.c.fence + 1, turn_id=None)


_SPOKEN: Final = entries.alias("spoken")
_LAST_ANSWER: Final = (
    select(_SPOKEN.c.seq)
    .where(
        _SPOKEN.c.session_id == turns.c.session_id,
        _SPOKEN.c.role != Role.USER.value,
        _SPOKEN.c.kind == EntryKind.MESSAGE.value,
    )
    .order_by(_SPOKEN.c.seq.desc())
    .limit(1)
    .correlate(turns)
    .scalar_subquery()
)
_LEFT_BY: Final = (
    select(entries.c.session_id, entries.c.seq, entries.c.message_id, entries.c.text)
    .join(turns, turns.c.session_id == entries.c.session_id)
    .where(turns.c.id == bindparam("t"), entries.c.message_id.is_not(None))
    .where(entries.c.seq > func.coalesce(_LAST_ANSWER, 0))
    .where(~exists().where(consumed.c.message_id == entries.c.message_id).correlate(entries))
    .order_by(entries.c.seq)
)
_KNOWN: Final = union_all(
    select(
        consumed.c.message_id,
        consumed.c.turn_id.label("answered_by"),
        consumed.c.is_given_up,
        literal("").label("session_id"),
    ).where(consumed.c.message_id.in_(bindparam("ids"))),
    select(
        entries.c.message_id, literal("").label("answered_by"), false().label("is_given_up"), entries.c.session_id
    ).where(entries.c.message_id.in_(bindparam("ids"))),
)
_WITHDRAW: Final = delete(entries).where(entries.c.message_id == bindparam("m"))


def known(connection: Connection, ids: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Find, of these messages, the turn that answered each, and the session that holds each unanswered one. What is
    tried again is answered where an earlier try of it was after all; that it was given up is no answer."""
    tries = {earlier: id_ for id_ in ids for earlier in earlier_ids_of(id_)} | {id_: id_ for id_ in ids}
    answered: dict[str, str] = {}
    homes: dict[str, str] = {}
    for row in connection.execute(_KNOWN, {"ids": list(tries)}) if ids else ():
        id_ = tries[row.message_id]
        if row.session_id:
            if row.message_id == id_:
                homes[id_] = row.session_id
        elif row.message_id == id_ or not row.is_given_up:
            answered[id_] = row.answered_by
    return answered, {message_id: home for message_id, home in homes.items() if message_id not in answered}


def left_by(connection: Connection, turn_id: str | None) -> list[Row[Any]]:
    """Return what the turn that was not committed left behind, in order; nothing where there is no such turn."""
    return list(connection.execute(_LEFT_BY, {"t": turn_id})) if turn_id is not None else []


def reconcile(
    connection: Connection, session_id: str, wanted: Sequence[Entry], *, left: Sequence[Row[Any]], homes: dict[str, str]
) -> Sequence[Entry]:
    """Make the unanswered part of the transcript begin as `wanted` does; the entries that have to be added.

    `left` stays if it is what `wanted` begins with, word for word. Else all of it goes: a message was
    changed, deleted, given up, or waits for a later turn. `homes` may name places outside of `left`."""
    placed = [(row.session_id, row.message_id, row.text) for row in left]
    expected = [(session_id, entry.message_id, entry.text) for entry in wanted]
    strays = {message_id: home for message_id, home in homes.items() if message_id not in {row[1] for row in placed}}
    if not strays and placed == expected[: len(placed)]:
        return wanted[len(placed) :]
    withdraw(connection, {message_id: home for home, message_id, _ in placed} | strays)
    return wanted


def withdraw(connection: Connection, homes: dict[str, str]) -> None:
    """Take these messages out of the transcripts that hold them."""
    if homes:
        connection.execute(_WITHDRAW, [{"m": message_id} for message_id in homes])
    count_fewer(connection, Counter(home for message_id, home in homes.items() if not is_wake(message_id)))


def user_entries(messages: Iterable[InboundMessage], *, turn_id: str, now_ms: int) -> list[Entry]:
    """Return what these messages say in a transcript, not yet numbered."""
    return [_user_entry(message, turn_id, now_ms) for message in messages]


def _is_of_person(message: InboundMessage) -> bool:
    return not is_wake(message.id) and not is_firing(message.id)


def _user_entry(message: InboundMessage, turn_id: str, now_ms: int) -> Entry:
    return Entry(
        role=Role.USER,
        kind=EntryKind.NOTE if is_wake(message.id) else EntryKind.MESSAGE,
        text=told(message),
        message_id=message.id,
        turn_id=turn_id,
        created_at_ms=now_ms,
        author="" if message.key.user else str(message.author),
    )


# --- tracing

TURNS_TRACED_MAX: Final = 20
"""Of one session or lane, the newest: more than that nobody reads hop by hop."""

TRIES_TRACED_MAX: Final = 20
"""Of one message that was tried again and again: each is looked up by an id of its own."""

_WANTED: Final[BindParameter[str]] = bindparam("wanted", type_=AnyText)
_REFERENCE: Final[BindParameter[str]] = bindparam("reference", type_=AnyText)
_IDS: Final[BindParameter[Any]] = bindparam("ids", type_=AnyText)
_OF_WANTED: Final = union(
    select(turns.c.id).where(turns.c.id == _WANTED),
    select(replies.c.turn_id).where(
        or_(replies.c.id == _WANTED, replies.c.turn_id == _WANTED), replies.c.turn_id != ""
    ),
    select(turns.c.id).where(turns.c.error_reference == _REFERENCE).where(turns.c.error_reference != ""),
    select(consumed.c.turn_id).where(consumed.c.error_reference == _REFERENCE).where(consumed.c.error_reference != ""),
    select(consumed.c.turn_id).where(consumed.c.letter_id == _WANTED).where(consumed.c.letter_id != ""),
)
_OF_MESSAGES: Final = union(
    select(consumed.c.turn_id).where(consumed.c.message_id.in_(_IDS)),
    select(entries.c.turn_id).where(entries.c.message_id.in_(_IDS)),
)
_NEWEST_OF: Final = (
    select(turns.c.id)
    .where(or_(turns.c.session_id == _WANTED, turns.c.key == _WANTED))
    .order_by(turns.c.started_at_ms.desc())
    .limit(TURNS_TRACED_MAX)
)
_TURN: Final = select(turns).where(turns.c.id == bindparam("turn"))
_IS_SAID: Final = (entries.c.turn_id == bindparam("turn")) & entries.c.message_id.is_not(None)
_SAID: Final = select(entries.c.message_id, entries.c.created_at_ms).where(_IS_SAID).order_by(entries.c.seq)
_ANSWERED: Final = select(consumed).where(consumed.c.turn_id == bindparam("turn")).order_by(consumed.c.message_id)
_KEY_OF_REPLIES: Final = select(replies.c.key).where(replies.c.turn_id == bindparam("turn")).limit(1)


def _turns_of(connection: Connection, message_ids: Collection[str]) -> list[str]:
    """Return the turns of these messages and of all their tries."""
    ids = set(message_ids)
    for message_id in message_ids:
        tried = first_id_of(message_id)
        for _ in range(TRIES_TRACED_MAX):
            ids.add(tried)
            tried = retry_id_of(tried)
    found = connection.execute(_OF_MESSAGES, {"ids": sorted(ids)}).scalars() if ids else ()
    return list(filter(None, found))  # without a turn there are all notices


def _turn(connection: Connection, turn_id: str) -> TurnTrace | None:
    """Trace one turn; of a message that was given up before any began, only that. None where nothing is kept of it."""
    turn = connection.execute(_TURN, {"turn": turn_id}).one_or_none()
    key = turn.key if turn else connection.execute(_KEY_OF_REPLIES, {"turn": turn_id}).scalar_one_or_none()
    if key is None:
        return None
    began_at_ms = turn.started_at_ms if turn else 0
    said = {row.message_id: row.created_at_ms for row in connection.execute(_SAID, {"turn": turn_id})}
    answered = {row.message_id: row for row in connection.execute(_ANSWERED, {"turn": turn_id})}
    return TurnTrace(
        turn_id=turn_id,
        key=SessionKey.parse(key),
        state=turn.state if turn else "",
        runs=turn.runs if turn else 0,
        error_reference=turn.error_reference if turn else "",
        started_at_ms=began_at_ms,
        finished_at_ms=turn.finished_at_ms or 0 if turn else 0,
        messages=tuple(
            _message(id_, said.get(id_, began_at_ms), answered.get(id_)) for id_ in dict.fromkeys((*said, *answered))
        ),
        replies=tuple(outbox.of_turn(connection, turn_id)),
    )


def _is_one_of_several(message: MessageTrace) -> bool:
    return message.is_given_up or message.message_id != first_id_of(message.message_id)


def _message(message_id: str, taken_at_ms: int, answered: Row[Any] | None) -> MessageTrace:
    if answered is None:
        return MessageTrace(message_id, taken_at_ms)
    return MessageTrace(
        message_id, taken_at_ms, answered.consumed_at_ms, answered.is_given_up, answered.error_reference
    )


def _of_no_turn(connection: Connection, reply_id: str) -> list[TurnTrace]:
    found = outbox.notice(connection, reply_id)
    return [TurnTrace("", found[0], "", 0, "", 0, 0, (), (found[1],))] if found else []


def _began_at_ms(turn: TurnTrace) -> int:
    return turn.started_at_ms or min((message.answered_at_ms for message in turn.messages), default=0)


class TurnStore(Aggregate):
    """The turns of every lane, one worker at a time. Raises `Fenced` and `StoreUnavailable`."""

    def __init__(self, database: Database, clock: Clock, histories: transcript.Histories) -> None:
        super().__init__(database, clock)
        self._histories = histories

    @write_unsynced  # the bus has the messages until the turn is committed
    def begin(
        self,
        connection: Connection,
        *,
        turn_id: str,
        key: SessionKey,
        fence: int,
        messages: Sequence[InboundMessage],
        now_ms: int,
        is_said: bool = True,
        idle_since_ms: int = 0,
        prompt: PromptQuery | None = None,
    ) -> TurnStart:
        """Begin a turn: fence the lane (raises `Fenced`), open its first session if it has none, store the user entries
        that are new (idempotent on the message id), open the turn. With `is_said` False no user entries are stored: a
        command is not part of the conversation. The lane remembers the language that the newest of the messages shows;
        where none shows any, what it knows stays. What `prompt` asks is read where there is anything new to answer.

        What a person says opens the next session, as /new does, where nothing has happened in the current one after
        `idle_since_ms`. A turn that was begun and not committed keeps the session: somebody still waits there.

        The transcript follows the lane: an unanswered message reads as it does in `messages`, and one that is not among
        them (deleted, given up, waiting for a later turn) is in no transcript any more."""
        lane = _take(connection, turn_id, key, fence, _language(messages), now_ms=now_ms)
        session_id: str | None = lane.session_id
        by_id = {message.id: message for message in messages}
        answered, homes = known(connection, list(by_id))
        fresh = [message for message in by_id.values() if message.id not in answered]
        if session_id is None:
            session_id = self.clock.new_id()
            sessions.open_next(connection, key, new_id=session_id, now_ms=now_ms)
        elif is_said and lane.lost_turn_id is None and any(map(_is_of_person, fresh)):
            session_id = sessions.follow_idle(
                connection, key, session_id, since_ms=idle_since_ms, clock=self.clock, now_ms=now_ms
            )
        said = user_entries(fresh if is_said else (), turn_id=turn_id, now_ms=now_ms)
        left = left_by(connection, lane.lost_turn_id)
        joining = reconcile(connection, session_id, said, left=left, homes=homes)
        row, _ = append(connection, key, session_id, joining, now_ms=now_ms)
        runs: int | None = None
        if fresh:
            opening = _turn_row(turn_id, session_id, key, fence, now_ms=now_ms)
            runs = connection.execute(_open_turn(connection), opening).scalar_one_or_none()
        found = None
        if prompt is not None and fresh:
            view = transcript.newest_of_view(
                connection, session_id, chars_max=prompt.chars_max, histories=self._histories
            )
            found = transcript.prompt_start(connection, session_id, key, prompt, view)
        return TurnStart(
            session=replace(to_session(row, current_id=session_id, language=lane.language), is_voiced=lane.is_voiced),
            fresh_ids=frozenset(message.id for message in fresh),
            unsent=outbox.unsent(connection, key, sorted(set(answered.values()))) if answered else (),
            is_first=runs == 1,
            prompt=found,
        )

    @write
    def commit(self, connection: Connection, commit: TurnCommit) -> Committed:
        """Commit a turn, guarded by the fence (raises `Fenced`): transcript, consumed ids, usage, effects, outbox."""
        finished_at_ms = commit.finished_at_ms or self.clock.now_ms()
        held = {"k": str(commit.key), "f": commit.fence}
        lane = connection.execute(_LEAVE_LANE, held | passages.at(finished_at_ms)).one_or_none()
        if lane is None:
            raise fenced(commit.key, commit.fence)
        turn = _turn_row(commit.turn_id, commit.session_id, commit.key, commit.fence, now_ms=finished_at_ms) | {
            "state": commit.state.value,
            "error_reference": commit.error_reference,
            "finished_at_ms": finished_at_ms,
        }
        if connection.execute(_close_turn(connection), turn).one_or_none() is None:
            return Committed(_current(connection, commit.key), lane.is_any_due)
        row = _write(connection, commit, now_ms=finished_at_ms)
        if not commit.effects and lane.session_id == commit.session_id:
            return Committed(to_session(row, current_id=lane.session_id, language=lane.language), lane.is_any_due)
        sessions.apply(connection, commit.key, lane.session_id, commit.effects, self.clock, now_ms=finished_at_ms)
        return Committed(_current(connection, commit.key), lane.is_any_due or bool(commit.effects))

    @write_unsynced  # as with `begin`
    def join(
        self,
        connection: Connection,
        *,
        turn_id: str,
        key: SessionKey,
        fence: int,
        messages: Sequence[InboundMessage],
        now_ms: int,
    ) -> Sequence[Entry]:
        """Steer: store messages that join the running turn (raises `Fenced`). Returns their user entries;
        one that was answered before has none. The commit moves them to where its `entries` hold them."""
        session_id = connection.execute(_HELD, {"k": str(key), "f": fence, "t": turn_id}).scalar_one_or_none()
        if session_id is None:
            raise fenced(key, fence)
        by_id = {message.id: message for message in messages}
        answered, homes = known(connection, list(by_id))
        withdraw(connection, homes)
        fresh = [message for message in by_id.values() if message.id not in answered]
        said = user_entries(fresh, turn_id=turn_id, now_ms=now_ms)
        return append(connection, key, session_id, said, now_ms=now_ms)[1]

    @write_unsynced  # as with `begin`
    def replace_texts(
        self, connection: Connection, *, turn_id: str, key: SessionKey, fence: int, texts: Mapping[str, CleanText]
    ) -> None:
        """Change messages of the running turn, once what came along with them was looked at: from now on they say
        `texts`, by their ids, where they are (raises `Fenced`). A turn that is taken again finds them as they
        were."""
        if connection.execute(_HELD, {"k": str(key), "f": fence, "t": turn_id}).scalar_one_or_none() is None:
            raise fenced(key, fence)
        if texts:
            connection.execute(_RETELL, [{"m": message_id, "text": words} for message_id, words in texts.items()])

    @read
    def began(self, connection: Connection, key: SessionKey) -> int | None:
        """Tell when the last run of the turn that this lane has not committed began; None when there is none."""
        began_ms: int | None = connection.execute(_BEGAN, {"k": str(key)}).scalar_one_or_none()
        return began_ms

    @write
    def fence_off(self, connection: Connection, key: SessionKey, fence: int) -> Sequence[Reply]:
        """Shut out the worker of a turn: from now on nobody writes in this lane under `fence` or an older one. Returns
        the replies that its turn had committed before and whose delivery no receipt has ended."""
        connection.execute(_FENCE_OFF, {"k": str(key), "f": fence})
        turn_ids = list(connection.execute(_TURNS_OF, {"k": str(key), "f": fence}).scalars())
        return outbox.unsent(connection, key, turn_ids) if turn_ids else ()

    @write
    def give_up(
        self,
        connection: Connection,
        *,
        turn_id: str,
        message: InboundMessage,
        replies: Sequence[Reply],
        note: CleanText,
        reference: str,
        letter_id: str,
        now_ms: int,
    ) -> bool:
        """Give up a message whose runs all failed: it is consumed, answered with `replies`, and followed by `note`
        where it is in a transcript. `reference` is what the first tells to quote, `letter_id` names the dead letter
        for the operator. No run of it that still lives may commit. False: it was answered before."""
        lane = connection.execute(_LOCK, {"k": str(message.key)}).one_or_none()
        # The operator may have it tried again before its author was told: an apology after the answer would mislead.
        answered, _ = known(connection, [message.id, retry_id_of(message.id)])
        if answered:
            return False
        if lane is not None and lane.turn_id == turn_id:
            # Nobody has begun since the last try, which may still be alive somewhere: it commits no more.
            connection.execute(_CLOSE_LANE, {"k": str(message.key)})
            connection.execute(LOSE_TURN, {"t": turn_id, "reference": WORKER_LOST, "now_ms": now_ms})
            # The transcript says what became of the message, if it was part of the conversation. What was said
            # after it joins the transcript again when its own turn begins.
            left = left_by(connection, turn_id)
            withdraw(connection, {row.message_id: row.session_id for row in left})
            home = next((row.session_id for row in left if row.message_id == message.id), None)
            if home is not None:
                said = user_entries([message], turn_id=turn_id, now_ms=now_ms)
                noted = Entry(Role.ASSISTANT, note, turn_id=turn_id, created_at_ms=now_ms)
                append(connection, message.key, home, [*said, noted], now_ms=now_ms)
        _give_up(connection, message.id, turn_id=turn_id, reference=reference, letter_id=letter_id, now_ms=now_ms)
        outbox.put_replies(connection, replies)
        return True

    @write
    def put_operator_message(self, connection: Connection, session_id: str, reply: Reply, *, note: CleanText) -> None:
        """Commit a message of the operator to a lane, and a note of it in its session. It takes no fence: a turn that
        runs goes on, and reads the note in the next one."""
        entry = Entry(Role.USER, note, kind=EntryKind.NOTE, created_at_ms=reply.created_at_ms)
        append(connection, reply.key, session_id, [entry], now_ms=reply.created_at_ms)
        outbox.put_replies(connection, [reply])

    @read
    def trace(self, connection: Connection, id_: str) -> Sequence[TurnTrace]:
        """Find turns, oldest first, by the id of an inbound message, a turn or a reply, or by the reference that a
        chat shows; all tries of a message that was tried again. By the id of a session or a session key: its newest."""
        named = {"wanted": id_, "reference": id_.upper()}  # as it is read aloud, a reference has no case
        turn_ids = {*connection.execute(_OF_WANTED, named).scalars(), *_turns_of(connection, [id_])}
        found = {turn_id: _turn(connection, turn_id) for turn_id in turn_ids}
        messages = [message for turn in found.values() if turn for message in turn.messages]
        others = _turns_of(connection, {each.message_id for each in messages if _is_one_of_several(each)})
        newest = [] if found else connection.execute(_NEWEST_OF, named).scalars().all()
        found |= {turn_id: _turn(connection, turn_id) for turn_id in (*others, *newest) if turn_id not in found}
        traces = [turn for turn in found.values() if turn is not None] or _of_no_turn(connection, id_)
        return sorted(traces, key=_began_at_ms)
