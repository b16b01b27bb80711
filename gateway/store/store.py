"""`gateway.contracts.ports.Store` on SQL: each method is one transaction of one module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from gateway.clock import SystemClock
from gateway.contracts.entries import (
    Committed,
    Effect,
    Entry,
    NewestView,
    Session,
    Standing,
    Todo,
    TurnCommit,
    TurnSaid,
    TurnStart,
    Usage,
)
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText, InboundMessage, Receipt, Reply, TurnTrace, Whereabouts
from gateway.contracts.ports import Clock
from gateway.limits import INSTALLATION_CHARS, SQLITE_BUSY_TIMEOUT_S
from gateway.store import (
    endings,
    files,
    outbox,
    retaking,
    schema,
    sessions,
    task_lists,
    tracing,
    transcript,
    turns,
    undoing,
)
from gateway.store.access import SqlAccess
from gateway.store.answers import SqlAnswers
from gateway.store.belongings import SqlPeople
from gateway.store.buttons import SqlButtons
from gateway.store.engine import Database, open_database
from gateway.store.links import SqlLinks
from gateway.store.loans import SqlLoans
from gateway.store.memories import SqlMemories
from gateway.store.schedules import SqlSchedules
from gateway.store.spending import SqlSpending
from gateway.store.sub_types import SqlSubTypes
from gateway.store.subtask_book import SqlSubTasks
from gateway.store.usage import SqlUsage


def open_store(url: str, clock: Clock | None = None, *, busy_timeout_s: float = SQLITE_BUSY_TIMEOUT_S) -> SqlStore:
    """The store at `url` (`sqlite+aiosqlite:///<file>` or `postgresql+asyncpg://…`).

    Connects on first use; for SQLite the folder and the file are made now. Raises `ConfigError`.
    `busy_timeout_s` is how long SQLite waits for another process's transaction.
    """
    return SqlStore(open_database(url, busy_timeout_s=busy_timeout_s), clock or SystemClock())


class SqlStore:
    """Truth in SQLite or PostgreSQL. Safe to use from any number of tasks of one event loop."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self.access = SqlAccess(database)
        self.spending = SqlSpending(database)
        self.usage = SqlUsage(database)
        self.answers = SqlAnswers(database)
        self.memories = SqlMemories(database, clock)
        self.people = SqlPeople(database, clock)
        self.schedules = SqlSchedules(database)
        self.loans = SqlLoans(database)
        self.links = SqlLinks(database, clock)
        self.buttons = SqlButtons(database)
        self.tasks = SqlSubTasks(database, clock)
        self.sub_types = SqlSubTypes(database)

    # --- turns

    async def begin_turn(
        self,
        *,
        turn_id: str,
        key: SessionKey,
        fence: int,
        messages: Sequence[InboundMessage],
        now_ms: int,
        is_said: bool = True,
    ) -> TurnStart:
        """Take the lane, store what the user said, say what is new. Raises `Fenced`."""
        return await self._database.write(
            partial(
                turns.begin,
                turn_id=turn_id,
                key=key,
                fence=fence,
                messages=messages,
                now_ms=now_ms,
                new_session_id=self._clock.new_id(),
                is_said=is_said,
            ),
            durable=False,  # the bus has the messages until the turn is committed
        )

    async def commit_turn(self, commit: TurnCommit) -> Committed:
        """Write all that a turn leaves behind, once. Raises `Fenced`."""
        new_ids = [self._clock.new_id() for _ in commit.effects]
        return await self._database.write(
            partial(turns.commit, done=commit, now_ms=self._clock.now_ms(), new_ids=new_ids)
        )

    async def join_turn(
        self, *, turn_id: str, key: SessionKey, fence: int, messages: Sequence[InboundMessage], now_ms: int
    ) -> Sequence[Entry]:
        """Store what joins a running turn; the entries it became. Raises `Fenced`."""
        return await self._database.write(
            partial(turns.join, turn_id=turn_id, key=key, fence=fence, messages=messages, now_ms=now_ms),
            durable=False,  # as with `begin_turn`
        )

    async def retell(self, *, turn_id: str, key: SessionKey, fence: int, texts: Mapping[str, CleanText]) -> None:
        """What messages of the running turn say from now on, by their ids. Raises `Fenced`."""
        await self._database.write(
            partial(turns.retell, turn_id=turn_id, key=key, fence=fence, texts=texts),
            durable=False,  # as with `begin_turn`
        )

    async def turn_began(self, key: SessionKey) -> int | None:
        """When the last run of the turn that is not committed began, in Unix milliseconds."""
        return await self._database.read(partial(turns.began, key=key))

    async def fence_off(self, key: SessionKey, fence: int) -> Sequence[Reply]:
        """Nobody writes under `fence` any more; the replies its turn had committed and no receipt ended."""
        return await self._database.write(partial(endings.fence_off, key=key, fence=fence))

    async def give_up(
        self,
        *,
        turn_id: str,
        message: InboundMessage,
        reply: Reply,
        note: CleanText,
        reference: str,
        letter_id: str,
        now_ms: int,
    ) -> bool:
        """Answer a message that failed too often with `reply`, unless it was answered meanwhile."""
        return await self._database.write(
            partial(
                endings.give_up,
                turn_id=turn_id,
                message=message,
                reply=reply,
                note=note,
                reference=reference,
                letter_id=letter_id,
                now_ms=now_ms,
            )
        )

    # --- transcripts

    async def view(self, session_id: str) -> Sequence[Entry]:
        """What the model sees: the newest compaction, then the entries it leaves in view."""
        return await self._database.read(partial(transcript.view, session_id=session_id))

    async def newest_view(self, session_id: str, *, chars_max: int) -> NewestView:
        """The newest entries of the view, about `chars_max` characters of them."""
        return await self._database.read(partial(transcript.newest_view, session_id=session_id, chars_max=chars_max))

    async def standing(self, session_id: str, *, key: SessionKey, chars_max: int) -> Standing:
        """The newest of the view, and the task list."""
        wanted = partial(transcript.standing, session_id=session_id, key=key, chars_max=chars_max)
        return await self._database.read(wanted)

    async def transcript(
        self, session_id: str, *, after_seq: int = 0, before_seq: int | None = None, limit: int = 1000
    ) -> Sequence[Entry]:
        """Everything ever said, page by page; with `before_seq` from the end on."""
        return await self._database.read(
            partial(transcript.page, session_id=session_id, after_seq=after_seq, before_seq=before_seq, limit=limit)
        )

    async def newest_turns(self, session_id: str, *, limit: int) -> Sequence[TurnSaid]:
        """The user-led turns that were not undone, newest first."""
        return await self._database.read(partial(undoing.newest_turns, session_id=session_id, limit=limit))

    async def append_compaction(self, session_id: str, *, fence: int, key: SessionKey, entry: Entry) -> Entry:
        """Add a summary; returns it with its `seq`. Raises `Fenced`."""
        return await self._database.write(
            partial(
                transcript.append_compaction,
                session_id=session_id,
                fence=fence,
                key=key,
                entry=entry,
                now_ms=self._clock.now_ms(),
            )
        )

    async def retake(self, session_id: str, *, fence: int, key: SessionKey) -> Sequence[Entry]:
        """Take the last answer out of view; what the user had said. Raises `Fenced`."""
        return await self._database.write(
            partial(retaking.retake, session_id=session_id, fence=fence, key=key),
            durable=False,  # the answer that comes instead is; until then the bus has the /retry
        )

    # --- sessions

    async def record_usage(self, usage: Sequence[Usage], *, session_id: str) -> None:
        """Charge model calls made outside of a turn's commit (titles, compactions)."""
        await self._database.write(
            partial(sessions.charge, calls=usage, session_id=session_id, now_ms=self._clock.now_ms())
        )

    async def first_said(self, session_id: str) -> CleanText | None:
        """The first words of a person."""
        return await self._database.read(partial(transcript.first_said, session_id=session_id))

    async def claim_title(self, session_id: str, *, tries_max: int, held_ms: int, now_ms: int) -> bool:
        """Count one try of the titler, if there is anything left to try and nobody is at it."""
        return await self._database.write(
            partial(sessions.claim_title, session_id=session_id, tries_max=tries_max, held_ms=held_ms, now_ms=now_ms)
        )

    async def release_title(self, session_id: str) -> None:
        """The try is over."""
        await self._database.write(partial(sessions.release_title, session_id=session_id))

    async def set_title_if_untitled(
        self, session_id: str, title: CleanText, *, made_of: CleanText, telling: Reply | None = None
    ) -> bool:
        """Set the title unless the user was faster, or what it was made of does not stand any more."""
        return await self._database.write(
            partial(transcript.title_if_untitled, session_id=session_id, title=title, made_of=made_of, telling=telling)
        )

    async def apply(self, key: SessionKey, effects: Sequence[Effect], *, now_ms: int) -> Session:
        """Apply effects outside of a turn; the current session afterwards, opened if there was none."""
        new_ids = [self._clock.new_id() for _ in range(len(effects) + 1)]
        return await self._database.write(
            partial(sessions.apply_now, key=key, effects=effects, now_ms=now_ms, new_ids=new_ids)
        )

    async def current_session(self, key: SessionKey) -> Session | None:
        """The session that the next message of `key` will join."""
        return await self._database.read(partial(sessions.current, key=key))

    async def session(self, session_id: str) -> Session | None:
        """The session of that id."""
        return await self._database.read(partial(sessions.by_id, session_id=session_id))

    async def session_numbered(self, key: SessionKey, number: int) -> Session | None:
        """The session that `key` calls by that number; never one of another key."""
        return await self._database.read(partial(sessions.numbered, key=key, number=number))

    async def sessions(
        self,
        *,
        key: SessionKey | None = None,
        parent_session_id: str | None = None,
        channel: str | None = None,
        limit: int = 50,
        offset: int = 0,
        with_sub_agents: bool = False,
    ) -> Sequence[Session]:
        """Newest first; all, or those that are wanted; sub-agents' too, where they are wanted."""
        wanted = sessions.WantedSessions(key, parent_session_id, channel)
        return await self._database.read(
            partial(sessions.page, wanted=wanted, limit=limit, offset=offset, with_sub_agents=with_sub_agents)
        )

    # --- outbox

    async def take_stale_outbox(self, *, after_ms: int, limit: int) -> Sequence[Reply]:
        """Replies without a receipt that nobody has looked at for `after_ms`, oldest first."""
        work = partial(outbox.take_stale, now_ms=self._clock.now_ms(), after_ms=after_ms, limit=limit)
        return await self._database.write(work, durable=False)  # else it is taken again, which is cut by id

    async def record_receipts(self, receipts: Sequence[Receipt]) -> None:
        """How deliveries ended."""
        await self._database.write(partial(outbox.record_receipts, receipts=receipts, now_ms=self._clock.now_ms()))

    async def recent_deliveries(self, key: SessionKey | None, *, limit: int) -> Sequence[Whereabouts]:
        """How far the newest replies of a key came (None: of all keys), newest first."""
        return await self._database.read(partial(outbox.recent, key=key, limit=limit))

    async def trace(self, id_: str) -> Sequence[TurnTrace]:
        """Find the turns that an id, or the reference in a chat, belongs to."""
        return await self._database.read(partial(tracing.trace, wanted=id_))

    async def last_address(self, key: SessionKey) -> ReplyAddress | None:
        """Where the newest reply to this key went; None before there was any."""
        return await self._database.read(partial(outbox.last_address, key=key))

    async def committed_reply(self, reply_id: str) -> Reply | None:
        return await self._database.read(partial(outbox.committed, reply_id=reply_id))

    async def put_outbox(self, replies: Sequence[Reply]) -> None:
        """Commit replies that belong to no turn; known ids are skipped."""
        await self._database.write(partial(outbox.put, replies=replies))

    async def file_content(self, key: SessionKey, reply_id: str, position: int) -> bytes | None:
        """The bytes of a file of a reply of this key; None once its delivery has ended."""
        return await self._database.read(partial(files.content, key=key, reply_id=reply_id, position=position))

    # --- users

    async def todos(self, key: SessionKey) -> Sequence[Todo]:
        """The task list of an key."""
        return await self._database.read(partial(task_lists.task_list, key=key))

    async def replace_todos(self, key: SessionKey, todos: Sequence[Todo]) -> None:
        """The whole list at once."""
        await self._database.write(partial(task_lists.replace_task_list, key=key, tasks=todos))

    # --- the database itself

    async def check_schema(self) -> None:
        """Raises `SchemaMismatch` unless the schema is exactly ours, `StoreUnavailable` if unreachable."""
        await self._database.read(schema.check)

    async def installation(self) -> str:
        """Whose the database is: the first to ask names it, for good."""
        known = await self.known_installation()
        if known is not None:
            return known
        new_id = self._clock.code(INSTALLATION_CHARS)
        return await self._database.write(partial(schema.name_installation, new_id=new_id))

    async def known_installation(self) -> str | None:
        """The same, None while nobody has asked."""
        return await self._database.read(schema.known_installation)

    async def renew_installation(self) -> str:
        """Give the database a new name, as a copy needs it that works beside the original; that name."""
        new_id = self._clock.code(INSTALLATION_CHARS)
        await self._database.write(partial(schema.rename_installation, new_id=new_id))
        return new_id

    async def close(self) -> None:
        """Close all connections."""
        await self._database.close()
