"""Lanes and their sessions: opening, titles, sums, lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Row, Select, and_, bindparam, func, or_, select, update

from gateway.contracts.errors import StoreError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import (
    UNTITLED,
    Effect,
    EntryKind,
    OpenSession,
    ResumeSession,
    Session,
    SessionStatus,
    SetModel,
    SetProfile,
    SetTitle,
    SetVoice,
    Undo,
    Usage,
)
from gateway.store import passages
from gateway.store.engine import Aggregate, Connection, Values, like, read, reading, row_of, value_of, write
from gateway.store.tables import entries, lanes, sessions, usage


@dataclass(frozen=True, slots=True)
class Growth:
    """A transaction's addition to the sums of a session. `prompt_tokens` is the provider's count of its last prompt (0:
    unknown), which held all entries before and the first `prompt_entries` of the new ones."""

    entries: int = 0
    messages: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    prompt_tokens: int = 0
    prompt_entries: int = 0


def spent(calls: Sequence[Usage]) -> tuple[int, float]:
    """Return tokens and dollars of some model calls."""
    return sum(call.prompt_tokens + call.completion_tokens for call in calls), sum(call.cost_usd for call in calls)


# --- reading
def with_lane() -> Select[Any]:
    """Select sessions, each with the `current_id` and the `language` of its lane."""
    return select(sessions, lanes.c.session_id.label("current_id"), lanes.c.language).join_from(sessions, lanes)


_BY_ID: Final = with_lane().where(sessions.c.id == bindparam("id"))
_CURRENT: Final = (
    select(sessions, lanes.c.language)
    .join(lanes, lanes.c.session_id == sessions.c.id)
    .where(lanes.c.key == bindparam("k"))
)


_IS_CONVERSATION: Final = sessions.c.number.is_not(None)
_EVERY: Final = (
    with_lane()
    .order_by(sessions.c.created_at_ms.desc(), sessions.c.number.desc().nulls_last(), sessions.c.id.desc())
    .limit(bindparam("page_limit"))
    .offset(bindparam("page_offset"))
)
_PAGE: Final = _EVERY.where(_IS_CONVERSATION)
_OF_KEY: Final = sessions.c.key == bindparam("k")
_NUMBERED: Final = with_lane().where(sessions.c.key == bindparam("k"), sessions.c.number == bindparam("n"))


def current_session(connection: Connection, key: SessionKey) -> Session | None:
    """Return the session that the next message of `key` will join."""
    row = connection.execute(_CURRENT, {"k": str(key)}).one_or_none()
    return None if row is None else to_session(row, current_id=row.id, language=row.language)


@dataclass(frozen=True, slots=True)
class SessionSearch:
    """The operator's search for sessions: words in the title, the key or the messages, or one of `owners`; whose it is;
    when something happened last; what it cost at least."""

    words: str = ""
    owners: Sequence[SessionKey] = ()
    person: SessionKey | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    cost_min: float | None = None

    def narrow(self, statement: Select[Any]) -> Select[Any]:
        """Return the statement with these conditions. What was said is read through, entry by entry."""
        if self.words.strip():
            pattern = like(self.words)
            said = select(entries.c.seq).where(entries.c.session_id == sessions.c.id)
            statement = statement.where(
                or_(
                    func.lower(sessions.c.title).like(pattern, escape="\\"),
                    func.lower(sessions.c.key).like(pattern, escape="\\"),
                    lanes.c.owner.in_([str(owner) for owner in self.owners]),
                    said.where(func.lower(entries.c.text).like(pattern, escape="\\")).exists(),
                )
            )
        if self.person is not None:
            statement = statement.where(lanes.c.owner == str(self.person))
        if self.since_ms is not None:
            statement = statement.where(sessions.c.updated_at_ms >= self.since_ms)
        if self.until_ms is not None:
            statement = statement.where(sessions.c.updated_at_ms < self.until_ms)
        if self.cost_min is not None:
            statement = statement.where(sessions.c.cost_usd >= self.cost_min)
        return statement


# --- opening
_NEXT_NUMBER: Final = select(func.coalesce(func.max(sessions.c.number), 0) + 1).where(sessions.c.key == bindparam("k"))
_OPEN: Final = sessions.insert()
# Of an UPDATE without values, the parameters that are called as columns are what is set.
_SET_LANE: Final = update(lanes).where(lanes.c.key == bindparam("k"))
_SET: Final = update(sessions).where(sessions.c.id == bindparam("s"))

_NEW: Final[Values] = {
    "channel": "",
    "title": UNTITLED,
    "status": SessionStatus.ACTIVE.value,
    "title_tries": 0,
    "title_claimed_until_ms": 0,
    "model": "",
    "profile": "",
    "prompt_tokens": 0,
    "prompt_seq": 0,
    "parent_session_id": None,
    "last_seq": 0,
    "message_count": 0,
    "tokens": 0,
    "cost_usd": 0.0,
}
"""The values that every session begins with."""


def open_next(connection: Connection, key: SessionKey, *, new_id: str, now_ms: int) -> None:
    """Open the next session of a lane that this transaction has locked."""
    number = connection.execute(_NEXT_NUMBER, {"k": str(key)}).scalar_one()
    of_lane = {"id": new_id, "key": str(key), "number": number, "created_at_ms": now_ms, "updated_at_ms": now_ms}
    connection.execute(_OPEN, _NEW | of_lane)
    connection.execute(_SET_LANE, {"k": str(key), "session_id": new_id})


def open_child(connection: Connection, row: Values) -> None:
    """Open the session of a sub-agent: it has no number, and no lane ever points to it."""
    connection.execute(_OPEN, _NEW | row)


# --- changing
_REOPEN: Final = (
    update(sessions)
    .where(sessions.c.key == bindparam("k"), sessions.c.number == bindparam("n"))
    .values(status=SessionStatus.ACTIVE.value, updated_at_ms=bindparam("now_ms"))
    .returning(sessions.c.id)
)
_SET_UNTITLED: Final = _SET.where(sessions.c.title == UNTITLED)
_COUNT_TRY: Final = _SET_UNTITLED.where(
    sessions.c.title_tries < bindparam("tries_max"), sessions.c.title_claimed_until_ms <= bindparam("now_ms")
).values(title_tries=sessions.c.title_tries + 1, title_claimed_until_ms=bindparam("until_ms"))
_GROW: Final = (
    update(sessions)
    .where(sessions.c.id == bindparam("s"), sessions.c.key == bindparam("k"))
    .values(
        last_seq=sessions.c.last_seq + bindparam("entries"),
        message_count=sessions.c.message_count + bindparam("messages"),
        tokens=sessions.c.tokens + bindparam("more_tokens"),
        cost_usd=sessions.c.cost_usd + bindparam("more_usd"),
        updated_at_ms=bindparam("now_ms"),
    )
    .returning(sessions)
)
_GROW_COUNTED: Final = _GROW.values(
    prompt_tokens=bindparam("counted"), prompt_seq=sessions.c.last_seq + bindparam("counted_entries")
)
CHARGE: Final = _SET.values(
    tokens=sessions.c.tokens + bindparam("more_tokens"), cost_usd=sessions.c.cost_usd + bindparam("more_usd")
)
"""Adds to the sums of a session."""
_RECORD_USAGE: Final = usage.insert()


def apply(
    connection: Connection, key: SessionKey, session_id: str, effects: Sequence[Effect], clock: Clock, *, now_ms: int
) -> None:
    """Apply effects to a locked lane whose current session is `session_id`."""
    for effect in effects:
        match effect:
            case OpenSession():
                session_id = _follow(connection, key, session_id, clock, now_ms=now_ms)
            case SetTitle(title):
                connection.execute(_SET, {"s": session_id, "title": title, "updated_at_ms": now_ms})
            case Undo(from_seq):
                undo(connection, session_id, from_seq=from_seq)
            case SetModel(model):
                connection.execute(_SET, {"s": session_id, "model": model, "updated_at_ms": now_ms})
            case SetProfile(profile):
                connection.execute(_SET, {"s": session_id, "profile": profile, "updated_at_ms": now_ms})
            case SetVoice(is_on):
                connection.execute(_SET_LANE, {"k": str(key), "is_voiced": is_on})
            case ResumeSession(number):
                _leave(connection, key, session_id, now_ms=now_ms)
                reopened: str | None = connection.execute(
                    _REOPEN, {"k": str(key), "n": number, "now_ms": now_ms}
                ).scalar_one_or_none()
                if reopened is None:
                    raise StoreError(f"{key} has no session {number}")
                connection.execute(_SET_LANE, {"k": str(key), "session_id": reopened})
                session_id = reopened


def _leave(connection: Connection, key: SessionKey, session_id: str, *, now_ms: int) -> None:
    passages.mark_end(connection, key, session_id, now_ms=now_ms)
    close(connection, session_id, now_ms=now_ms)


def close(connection: Connection, session_id: str, *, now_ms: int) -> None:
    """End a session."""
    connection.execute(_SET, {"s": session_id, "status": SessionStatus.CLOSED.value, "updated_at_ms": now_ms})


_IS_IDLE: Final = select(sessions.c.id).where(
    sessions.c.id == bindparam("s"), sessions.c.updated_at_ms <= bindparam("since_ms"), sessions.c.last_seq > 0
)


def follow_idle(
    connection: Connection, key: SessionKey, session_id: str, *, since_ms: int, clock: Clock, now_ms: int
) -> str:
    """Open the next session of a locked lane, if something was said in its current one and nothing happened there after
    `since_ms` (0: whatever happened). Return the id of the one that is current then."""
    if not since_ms or connection.execute(_IS_IDLE, {"s": session_id, "since_ms": since_ms}).first() is None:
        return session_id
    return _follow(connection, key, session_id, clock, now_ms=now_ms)


def _follow(connection: Connection, key: SessionKey, session_id: str, clock: Clock, *, now_ms: int) -> str:
    """Leave a session and open the next; its id."""
    _leave(connection, key, session_id, now_ms=now_ms)
    new_id = clock.new_id()
    open_next(connection, key, new_id=new_id, now_ms=now_ms)
    return new_id


def grow(connection: Connection, key: SessionKey, session_id: str, growth: Growth, *, now_ms: int) -> Row[Any]:
    """Add to the sums and give out `growth.entries` sequence numbers: the row, whose `last_seq` is the
    highest of them. Raises `StoreError` for a session of another key."""
    grown = {
        "s": session_id,
        "k": str(key),
        "entries": growth.entries,
        "messages": growth.messages,
        "more_tokens": growth.tokens,
        "more_usd": growth.cost_usd,
        "now_ms": now_ms,
    }
    if growth.prompt_tokens:
        counted = {"counted": growth.prompt_tokens, "counted_entries": growth.prompt_entries}
        row = connection.execute(_GROW_COUNTED, grown | counted).one_or_none()
    else:
        row = connection.execute(_GROW, grown).one_or_none()
    if row is None:
        raise StoreError(f"session {session_id} is not one of {key}")
    return row


def write_usage(connection: Connection, calls: Sequence[Usage], *, session_id: str, turn_id: str, now_ms: int) -> None:
    """Write the rows alone; their sum is the caller's."""
    rows = [from_usage(call, session_id=session_id, turn_id=turn_id, now_ms=now_ms) for call in calls]
    if rows:
        connection.execute(_RECORD_USAGE, rows)


def retitle_untitled(connection: Connection, session_id: str, title: CleanText) -> bool:
    """Set the title unless somebody was faster."""
    return connection.execute(_SET_UNTITLED, {"s": session_id, "title": title}).rowcount == 1


_IN_FORCE: Final = (entries.c.session_id == bindparam("s"), ~entries.c.is_undone)
_FROM: Final = (*_IN_FORCE, entries.c.seq >= bindparam("from_seq"))
_COUNT: Final = select(func.count()).where(*_FROM, entries.c.kind == EntryKind.MESSAGE.value)
_UNDO: Final = update(entries).where(*_FROM).values(is_undone=True)
_COUNT_FEWER: Final = _SET.values(message_count=sessions.c.message_count - bindparam("fewer"))


def forget_count(connection: Connection, session_id: str) -> None:
    """Forget what the provider counted for the last prompt: the next one begins otherwise."""
    connection.execute(_SET, {"s": session_id, "prompt_tokens": 0, "prompt_seq": 0})


def undo(connection: Connection, session_id: str, *, from_seq: int) -> None:
    """Take everything from `from_seq` on out of view."""
    scope = {"s": session_id, "from_seq": from_seq}
    fewer = connection.execute(_COUNT, scope).scalar_one()
    if connection.execute(_UNDO, scope).rowcount:
        # The provider's count held what is now undone. Tokens and money stay: they were spent.
        connection.execute(_COUNT_FEWER, {"s": session_id, "fewer": fewer, "prompt_tokens": 0, "prompt_seq": 0})


def count_fewer(connection: Connection, fewer: Mapping[str, int]) -> None:
    """Count so many messages less in these sessions."""
    if fewer:
        rows = [{"s": session_id, "fewer": fewer[session_id]} for session_id in sorted(fewer)]
        connection.execute(_COUNT_FEWER, rows)


def to_session(row: Row[Any], *, current_id: str | None, language: str) -> Session:
    """Read a row of `sessions`; `current_id` is what its lane points to, `language` what its lane knows."""
    return value_of(Session, row, number=row.number or 0, is_current=row.id == current_id, language=language)


def from_usage(call: Usage, *, session_id: str, turn_id: str, now_ms: int) -> Values:
    """Make a row of `usage`; the turn and the time stand in for those the value does not name."""
    turn_id, at_ms = call.turn_id or turn_id, call.created_at_ms or now_ms
    owner = str(call.key.owner)
    return row_of(usage, call, session_id=session_id, owner=owner, turn_id=turn_id, created_at_ms=at_ms)


class SessionStore(Aggregate):
    """The sessions of every lane. Raises `StoreUnavailable`."""

    @write
    def charge(self, connection: Connection, usage: Sequence[Usage], *, session_id: str) -> None:
        """Charge model calls made outside of a turn's commit (titles, compactions)."""
        now_ms = self.clock.now_ms()
        if not usage:
            return
        tokens, cost_usd = spent(usage)
        charged = connection.execute(CHARGE, {"s": session_id, "more_tokens": tokens, "more_usd": cost_usd})
        if charged.rowcount != 1:
            raise StoreError(f"there is no session {session_id}")
        write_usage(connection, usage, session_id=session_id, turn_id="", now_ms=now_ms)

    @write
    def claim_title(
        self, connection: Connection, session_id: str, *, tries_max: int, held_ms: int, now_ms: int
    ) -> bool:
        """Count one try if the title is still the sentinel and tries are left. Until it is released, but for
        `held_ms` at most, nobody else gets the claim: two workers never pay for the same title."""
        claim = {"s": session_id, "tries_max": tries_max, "now_ms": now_ms, "until_ms": now_ms + held_ms}
        return connection.execute(_COUNT_TRY, claim).rowcount == 1

    @write
    def release_title(self, connection: Connection, session_id: str) -> None:
        """Release the claim: the try is over, with a title or without."""
        connection.execute(_SET, {"s": session_id, "title_claimed_until_ms": 0})

    current = reading(current_session)

    @read
    def by_id(self, connection: Connection, session_id: str) -> Session | None:
        """Return the session of that id."""
        row = connection.execute(_BY_ID, {"id": session_id}).one_or_none()
        return None if row is None else to_session(row, current_id=row.current_id, language=row.language)

    @read
    def numbered(self, connection: Connection, key: SessionKey, number: int) -> Session | None:
        """Return the session that `key` calls by that number; never one of another key."""
        row = connection.execute(_NUMBERED, {"k": str(key), "n": number}).one_or_none()
        return None if row is None else to_session(row, current_id=row.current_id, language=row.language)

    @read
    def page(
        self,
        connection: Connection,
        *,
        key: SessionKey | None = None,
        parent_session_id: str | None = None,
        channel: str | None = None,
        limit: int = 50,
        offset: int = 0,
        with_sub_agents: bool = False,
        search: SessionSearch = SessionSearch(),
    ) -> Sequence[Session]:
        """List sessions, newest first; of one key or of all, of one parent, of one platform or one type
        (`subagent:<type>`). People's own conversations, unless sub-agents' are wanted, too."""
        parameters: dict[str, Any] = {"page_limit": max(limit, 0), "page_offset": max(offset, 0)}
        statement = _EVERY if with_sub_agents else _PAGE
        if key is not None:
            statement, parameters = statement.where(_OF_KEY), {**parameters, "k": str(key)}
        if parent_session_id is not None:
            statement = statement.where(sessions.c.parent_session_id == parent_session_id)
        if channel is not None:
            # A person's conversation has the platform of its key, of which there may be several workspaces.
            own = or_(
                sessions.c.key.startswith(f"{channel}:", autoescape=True),
                sessions.c.key.startswith(f"{channel}.", autoescape=True),
            )
            statement = statement.where(or_(sessions.c.channel == channel, and_(_IS_CONVERSATION, own)))
        statement = search.narrow(statement)
        return [
            to_session(row, current_id=row.current_id, language=row.language)
            for row in connection.execute(statement, parameters)
        ]
