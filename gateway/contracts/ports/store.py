"""The truth in SQL, as the agent and gateway roles use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

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
from gateway.contracts.messages import (
    CleanText,
    InboundMessage,
    Receipt,
    Reply,
    TurnTrace,
    Whereabouts,
)
from gateway.contracts.ports.access import AccessBook
from gateway.contracts.ports.answers import AnswerShelf
from gateway.contracts.ports.buttons import ButtonBook
from gateway.contracts.ports.links import LinkBook
from gateway.contracts.ports.loans import LoanBook
from gateway.contracts.ports.memories import MemoryStore
from gateway.contracts.ports.people import PeopleStore
from gateway.contracts.ports.schedules import ScheduleBook
from gateway.contracts.ports.spending import SpendingLedger
from gateway.contracts.ports.subtasks import SubTaskBook, SubTypeBook
from gateway.contracts.ports.usage import UsageBook


class Store(Protocol):
    """Truth. SQLite and PostgreSQL behind one code path. Raises `StoreUnavailable`, `Fenced`, `SchemaMismatch`."""

    @property
    def access(self) -> AccessBook:
        """What operators decided about people and places."""
        ...

    @property
    def spending(self) -> SpendingLedger:
        """What was spent today, against caps."""
        ...

    @property
    def usage(self) -> UsageBook:
        """What was spent ever, in sums."""
        ...

    @property
    def answers(self) -> AnswerShelf:
        """Answers to be given again."""
        ...

    @property
    def memories(self) -> MemoryStore: ...

    @property
    def people(self) -> PeopleStore: ...

    @property
    def links(self) -> LinkBook:
        """Which accounts are one person."""
        ...

    @property
    def loans(self) -> LoanBook:
        """Which tool was given which secret."""
        ...

    @property
    def buttons(self) -> ButtonBook:
        """What stands behind buttons."""
        ...

    @property
    def schedules(self) -> ScheduleBook:
        """What is to happen later."""
        ...

    @property
    def tasks(self) -> SubTaskBook:
        """What sub-agents do and did."""
        ...

    @property
    def sub_types(self) -> SubTypeBook:
        """What operators changed about the types of sub-agents."""
        ...

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
        """One transaction: fence the lane (raises `Fenced`), open its first session if it has none, store
        the user entries that are new (idempotent on the message id), open the turn. With `is_said` False
        no user entries are stored: a command is not part of the conversation. The lane remembers the
        language that the newest of the messages shows; where none shows any, what it knows stays.

        The transcript follows the lane: an unanswered message reads as it does in `messages`, and one that
        is not among them (deleted, given up, waiting for a later turn) stands in no transcript any more."""
        ...

    async def join_turn(
        self, *, turn_id: str, key: SessionKey, fence: int, messages: Sequence[InboundMessage], now_ms: int
    ) -> Sequence[Entry]:
        """Steer: store messages that join the running turn (raises `Fenced`). Returns their user entries;
        one that was answered before has none. The commit moves them to where its `entries` hold them."""
        ...

    async def retell(self, *, turn_id: str, key: SessionKey, fence: int, texts: Mapping[str, CleanText]) -> None:
        """What came along with messages of the running turn has been looked at: from now on they say `texts`, by
        their ids, where they stand (raises `Fenced`). A turn that is taken again finds them as they were."""
        ...

    async def commit_turn(self, commit: TurnCommit) -> Committed:
        """One transaction guarded by the fence (raises `Fenced`): transcript, consumed ids, usage, effects,
        outbox."""
        ...

    async def turn_began(self, key: SessionKey) -> int | None:
        """When the last run of the turn that this lane has not committed began; None when there is none."""
        ...

    async def fence_off(self, key: SessionKey, fence: int) -> Sequence[Reply]:
        """From now on nobody writes in this lane under `fence` or an older one. Returns the replies that its
        turn had committed before and whose delivery no receipt has ended."""
        ...

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
        """A message whose runs all failed: consumed, answered with `reply`, and followed by `note` where it
        stands in a transcript. `reference` is what `reply` tells to quote, `letter_id` names the dead letter for
        the operator. No run of it that still lives may commit. False: it was answered before."""
        ...

    async def view(self, session_id: str) -> Sequence[Entry]:
        """The entries from the newest compaction's `tail_start_seq` on, the compaction entry first, in order."""
        ...

    async def newest_view(self, session_id: str, *, chars_max: int) -> NewestView:
        """The newest entries of the view, read until they hold `chars_max` characters: to begin a turn in time,
        however long the history is."""
        ...

    async def standing(self, session_id: str, *, key: SessionKey, chars_max: int) -> Standing:
        """`newest_view` of a session and the `todos` of its key, in one."""
        ...

    async def transcript(
        self, session_id: str, *, after_seq: int = 0, before_seq: int | None = None, limit: int = 1000
    ) -> Sequence[Entry]:
        """Everything ever said, page by page: what follows `after_seq`, or, with `before_seq`, the newest of what is
        between the two. Oldest first in either case."""
        ...

    async def newest_turns(self, session_id: str, *, limit: int) -> Sequence[TurnSaid]:
        """The user-led turns that were not undone, newest first, on both sides of any compaction."""
        ...

    async def append_compaction(self, session_id: str, *, fence: int, key: SessionKey, entry: Entry) -> Entry:
        """Add a summary (guarded by the fence); returns it with its `seq`."""
        ...

    async def retake(self, session_id: str, *, fence: int, key: SessionKey) -> Sequence[Entry]:
        """For /retry (guarded by the fence): of the newest thing the user said, take all that was answered out
        of view. Returns the user entries, in order; empty if the user has said nothing yet."""
        ...

    async def record_usage(self, usage: Sequence[Usage], *, session_id: str) -> None: ...

    async def first_said(self, session_id: str) -> CleanText | None:
        """The first words of a person in a session that were not taken back; None while there are none."""
        ...

    async def claim_title(self, session_id: str, *, tries_max: int, held_ms: int, now_ms: int) -> bool:
        """Count one try if the title is still the sentinel and tries are left. Until it is released, but for
        `held_ms` at most, nobody else gets the claim: two workers never pay for the same title."""
        ...

    async def release_title(self, session_id: str) -> None:
        """The try is over, with a title or without."""
        ...

    async def set_title_if_untitled(
        self, session_id: str, title: CleanText, *, made_of: CleanText, telling: Reply | None = None
    ) -> bool:
        """One conditional UPDATE, so that a user's /title always wins. Nothing happens either if the first words of
        the session are not `made_of` any more: a secret may have been taken out of them. `telling` is committed with
        the title, so that whoever is to hear of it does."""
        ...

    async def apply(self, key: SessionKey, effects: Sequence[Effect], *, now_ms: int) -> Session: ...

    async def current_session(self, key: SessionKey) -> Session | None: ...

    async def session(self, session_id: str) -> Session | None: ...

    async def session_numbered(self, key: SessionKey, number: int) -> Session | None:
        """The session that `key` calls by that number; never one of another key."""
        ...

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
        """Newest first; of one key or of all, of one parent, of one platform or one type (`subagent:<type>`). People's
        own conversations, unless sub-agents' are wanted, too."""
        ...

    async def take_stale_outbox(self, *, after_ms: int, limit: int) -> Sequence[Reply]:
        """Replies without a receipt that were committed `after_ms` ago, for the relay to publish again. Each
        is given to one caller, and again only after it has waited for as long again as it had before."""
        ...

    async def record_receipts(self, receipts: Sequence[Receipt]) -> None: ...

    async def recent_deliveries(self, key: SessionKey | None, *, limit: int) -> Sequence[Whereabouts]:
        """How far the newest replies of a key came (None: of all keys), newest first."""
        ...

    async def trace(self, id_: str) -> Sequence[TurnTrace]:
        """Find turns, oldest first, by the id of an inbound message, a turn or a reply, or by the reference that a
        chat shows; all tries of a message that was tried again. By the id of a session or a session key: its newest.
        """
        ...

    async def put_outbox(self, replies: Sequence[Reply]) -> None:
        """Commit replies that belong to no turn (answers of the control lane); known ids are skipped."""
        ...

    async def last_address(self, key: SessionKey) -> ReplyAddress | None:
        """Where the newest reply to this key went; None before there was any."""
        ...

    async def committed_reply(self, reply_id: str) -> Reply | None:
        """A reply as it was committed."""
        ...

    async def file_content(self, key: SessionKey, reply_id: str, position: int) -> bytes | None:
        """The bytes of a file of a reply of this key; None once its delivery has ended."""
        ...

    async def todos(self, key: SessionKey) -> Sequence[Todo]: ...

    async def replace_todos(self, key: SessionKey, todos: Sequence[Todo]) -> None: ...

    async def check_schema(self) -> None:
        """Raises `SchemaMismatch` unless the schema is exactly ours, `StoreUnavailable` if unreachable."""
        ...

    async def installation(self) -> str:
        """Whose the database is: the first to ask names it, for good."""
        ...

    async def known_installation(self) -> str | None:
        """The same, None while nobody has asked."""
        ...

    async def renew_installation(self) -> str:
        """Give the database a new name; that name."""
        ...

    async def close(self) -> None: ...
