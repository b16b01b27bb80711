"""The doors between the rooms, as Protocols. Bus and store implement them; the roles depend on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from gateway.contracts.entries import (
    Effect,
    Entry,
    Fact,
    Grant,
    Session,
    Todo,
    TurnCommit,
    TurnStart,
    Usage,
)
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import (
    Activity,
    CleanText,
    ControlRequest,
    DeliveryRecord,
    Finding,
    InboundMessage,
    Receipt,
    Reply,
)

# --- intake (channels role) -------------------------------------------------------------------------


class Verdict(StrEnum):
    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    LANE_FULL = "lane_full"
    QUEUE_FULL = "queue_full"


@dataclass(frozen=True, slots=True)
class Admission:
    """What the bus did with a message. After ACCEPTED or DUPLICATE the platform may be told "received".

    `queued` counts the messages now waiting in the lane, this one included; `is_running` says that a
    turn of the lane is in progress.
    """

    verdict: Verdict
    queued: int = 0
    is_running: bool = False


class IntakeBus(Protocol):
    """What the channels role may do with inbound messages. Raises `BusUnavailable`.

    One connection, one order: calls from one task reach Redis in the order they were made.
    """

    async def enqueue(self, message: InboundMessage, *, settle_ms: int = 0) -> Admission:
        """Deduplicate by `message.id` and append to the lane of `message.key`: both or neither."""
        ...

    async def request_control(self, request: ControlRequest) -> bool:
        """Put a control command on the control lane; False for a duplicate message id.

        For STOP, in the same atomic step: the running turn is cancelled and what is queued in the
        lane is dropped; the request that arrives carries `dropped` and `was_running`.
        """
        ...

    async def position(self, name: str) -> str | None:
        """An intake position (Telegram offset, last message of a place) kept for ever."""
        ...

    async def set_position(self, name: str, value: str) -> None: ...


class AccessBus(Protocol):
    """The projection of the grants that intake reads, and pairing codes. Truth is in SQL."""

    async def role_of(self, owner: SessionKey) -> str | None:
        """The `GrantRole` value of a user, or None for a stranger."""
        ...

    async def project_grants(self, grants: Sequence[Grant]) -> None:
        """Replace the whole projection."""
        ...

    async def pairing_code(self, owner: SessionKey, *, new_code: str, ttl_s: int, pending_max: int) -> str | None:
        """The pending code of this stranger, made now from `new_code` if there is none; None when too
        many strangers of the channel are pending."""
        ...

    async def redeem_pairing(self, code: str) -> SessionKey | None:
        """Take a code: the stranger it was given to, once."""
        ...


# --- lanes (agent role) -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to answer one lane: worker id and fencing token. Grows with every takeover."""

    worker: str
    fence: int


@dataclass(frozen=True, slots=True)
class Claim:
    """One leased lane with the messages at its head, oldest first. `attempts` counts failed runs so far."""

    key: SessionKey
    lease: Lease
    attempts: int
    messages: tuple[InboundMessage, ...]


@dataclass(frozen=True, slots=True)
class ClaimBatch:
    """`next_due_s`: when a delayed lane becomes ready, None if none waits."""

    claims: tuple[Claim, ...]
    next_due_s: float | None
    dead: tuple[InboundMessage, ...] = ()


class LaneBus(Protocol):
    """Exclusive, ordered work on lanes. Raises `BusUnavailable`; a lost lease is an answer, not an error."""

    async def register(self, worker: str, *, lease_ttl_s: float) -> None:
        """Make `worker` known; it must beat before `lease_ttl_s` passes."""
        ...

    async def claim(self, worker: str, *, lanes_max: int, messages_max: int, attempts_max: int) -> ClaimBatch:
        """Lease up to `lanes_max` ready lanes. A message whose run failed `attempts_max` times goes to
        the dead letters and is returned in `dead` (once), so that its author can be told."""
        ...

    async def wait_for_work(self, *, timeout_s: float) -> None:
        """Return when a lane may be ready, at the latest after `timeout_s`."""
        ...

    async def commit(self, claim: Claim, *, handled: int, replies: Sequence[Reply] = ()) -> bool:
        """Acknowledge the first `handled` messages and publish the replies, atomically. False: fenced."""
        ...

    async def retry_later(self, claim: Claim, *, delay_s: float, error: str) -> bool:
        """Give the lane back after a failed run; it waits `delay_s`, in order. False: fenced."""
        ...

    async def extend(self, claim: Claim) -> tuple[InboundMessage, ...]:
        """Messages that arrived behind the claimed ones (steer mode), now part of the claim."""
        ...

    async def beat(self, worker: str, *, lease_ttl_s: float) -> tuple[str, ...] | None:
        """Renew every lease of `worker`; returns the lanes to cancel, None if the lease was lost."""
        ...

    def cancellations(self, worker: str) -> AsyncIterator[str]:
        """Lanes (text keys) whose running turn was stopped, as it happens."""
        ...

    async def reap(self) -> int:
        """Make the lanes of dead workers ready again; how many."""
        ...

    async def drain(self, worker: str, claims: Sequence[Claim]) -> None:
        """Hand back lanes at once, without counting an attempt, and forget the worker."""
        ...

    async def republish(self, replies: Sequence[Reply]) -> None:
        """Publish replies that may never have reached a channel; ids already known are skipped."""
        ...

    async def show_activity(self, activity: Activity) -> None:
        """Tell the channel that a turn runs. Lossy on purpose."""
        ...

    def control_requests(self, worker: str) -> AsyncIterator[tuple[str, ControlRequest]]:
        """Control commands, each to one worker, with the receipt to acknowledge them by."""
        ...

    async def finish_control(self, receipt: str, reply: Reply) -> None:
        """Publish the answer and acknowledge the control command, atomically."""
        ...

    async def receipts(self, worker: str, *, count: int, wait_s: float) -> Sequence[tuple[str, Receipt]]:
        """Ends of deliveries, to be written to SQL, then acknowledged by their first part."""
        ...

    async def finish_receipts(self, ids: Sequence[str]) -> None: ...


# --- delivery (channels role) -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PendingReply:
    """A reply taken from the outbound stream, with the ledger's word on it."""

    entry_id: str
    reply: Reply
    record: DeliveryRecord


class DeliveryBus(Protocol):
    """The outbound stream and the delivery ledger of one channel. Raises `BusUnavailable`."""

    async def replies(self, channel: str, consumer: str, *, count: int, wait_s: float) -> Sequence[PendingReply]:
        """New replies; first, once per consumer name, those an earlier process of ours left behind, and
        always those a dead consumer left for longer than the takeover time."""
        ...

    async def record(self, record: DeliveryRecord) -> None:
        """Write the ledger row: called with SENDING before each platform call."""
        ...

    async def finish(self, channel: str, entry_id: str, receipt: Receipt) -> None:
        """Write the last state, hand the receipt over and drop the stream entry, atomically."""
        ...

    def activities(self, channel: str) -> AsyncIterator[Activity]:
        """Running turns of this channel's addresses, as they are announced."""
        ...

    async def publish_notice(self, reply: Reply) -> None:
        """A reply that no turn made (queue full, pairing code); deduplicated by its id."""
        ...

    async def hold(self, name: str, holder: str, *, ttl_s: float) -> bool:
        """Take or renew a named lease (one poller per bot token). False: someone else holds it."""
        ...

    async def release(self, name: str, holder: str) -> None: ...

    async def take_send_token(self, bucket: str, *, per_s: float, burst: int) -> float:
        """Spend one token of a bucket shared by all processes; seconds to wait first (0 = go)."""
        ...

    async def pause_bucket(self, bucket: str, *, for_s: float) -> None:
        """A 429 said how long everybody has to wait."""
        ...


# --- what the operator asks the bus -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """The state of the bus for /readyz, /metrics and /status."""

    queued: int
    ready: int
    running: int
    delayed: int
    dead_letters: int
    workers_alive: int
    outbound_pending: dict[str, int]
    channels_connected: dict[str, str]


class LaneDepth(Protocol):
    async def lane_depth(self, key: SessionKey) -> tuple[int, bool]:
        """Messages waiting in a lane, those of a running turn included, and whether a turn runs."""
        ...


class OperatorBus(LaneDepth, Protocol):
    async def figures(self) -> QueueFigures: ...

    async def report_channel(self, channel: str, state: str, *, ttl_s: float) -> None:
        """A channel says how it is (`connected`, or a plain reason); forgotten after `ttl_s`."""
        ...

    async def ping(self) -> None: ...


# --- store (agent and gateway roles) ----------------------------------------------------------------


class Store(Protocol):
    """Truth. SQLite and PostgreSQL behind one code path. Raises `StoreUnavailable`, `Fenced`, `SchemaMismatch`."""

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
        no user entries are stored: a command is not part of the conversation."""
        ...

    async def commit_turn(self, commit: TurnCommit) -> Session:
        """One transaction guarded by the fence (raises `Fenced`): transcript, consumed ids, usage, effects,
        outbox. Returns the key's current session afterwards."""
        ...

    async def view(self, session_id: str) -> Sequence[Entry]:
        """The entries from the newest compaction's `tail_start_seq` on, the compaction entry first, in order."""
        ...

    async def transcript(self, session_id: str, *, after_seq: int = 0, limit: int = 1000) -> Sequence[Entry]:
        """Everything ever said, page by page."""
        ...

    async def append_compaction(self, session_id: str, *, fence: int, key: SessionKey, entry: Entry) -> Entry:
        """Add a summary (guarded by the fence); returns it with its `seq`."""
        ...

    async def record_usage(self, usage: Sequence[Usage], *, session_id: str) -> None: ...

    async def claim_title(self, session_id: str, *, tries_max: int) -> bool:
        """Count one try if the title is still the sentinel; False when it is not or the tries are spent."""
        ...

    async def set_title_if_untitled(self, session_id: str, title: CleanText) -> bool:
        """One conditional UPDATE, so that a user's /title always wins."""
        ...

    async def apply(self, key: SessionKey, effects: Sequence[Effect], *, now_ms: int) -> Session: ...

    async def current_session(self, key: SessionKey) -> Session | None: ...

    async def session(self, session_id: str) -> Session | None: ...

    async def sessions(self, *, key: SessionKey | None = None, limit: int = 50, offset: int = 0) -> Sequence[Session]:
        """Newest first; of one key or of all."""
        ...

    async def stale_outbox(self, *, before_ms: int, limit: int) -> Sequence[Reply]:
        """Replies still `new` since before `before_ms`: the relay publishes them again."""
        ...

    async def mark_published(self, reply_ids: Sequence[str]) -> None: ...

    async def record_receipts(self, receipts: Sequence[Receipt]) -> None: ...

    async def put_outbox(self, replies: Sequence[Reply]) -> None:
        """Commit replies that belong to no turn (answers of the control lane); known ids are skipped."""
        ...

    async def grants(self) -> Sequence[Grant]: ...

    async def put_grant(self, grant: Grant) -> None: ...

    async def todos(self, owner: SessionKey) -> Sequence[Todo]: ...

    async def replace_todos(self, owner: SessionKey, todos: Sequence[Todo]) -> None: ...

    async def remember(self, owner: SessionKey, text: CleanText, *, now_ms: int) -> Fact: ...

    async def recall(self, owner: SessionKey, query: str, *, limit: int) -> Sequence[Fact]:
        """Facts of this owner only, best match first; an empty query gives the newest."""
        ...

    async def check_schema(self) -> None:
        """Raises `SchemaMismatch` unless the schema is exactly ours, `StoreUnavailable` if unreachable."""
        ...

    async def close(self) -> None: ...


# --- foreign databases (agent role) ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rows:
    """What a question to a foreign database gave, as text; None is NULL. `is_cut`: there was more."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    is_cut: bool


class ForeignDatabases(Protocol):
    """Databases of the operator's that Trivet may read and never write."""

    @property
    def names(self) -> tuple[str, ...]:
        """How they are called, in the order of the configuration."""
        ...

    async def ask(self, name: str, statement: str) -> Rows:
        """Run one reading statement. Raises `QueryRefused` with a sentence fit for whoever wrote it."""
        ...


# --- scrubbing --------------------------------------------------------------------------------------


class Scrubber(Protocol):
    """The one maker of `CleanText`. Never raises: a failure inside replaces the whole text."""

    def scrub(self, text: str) -> CleanText: ...

    def findings(self, text: str) -> Sequence[Finding]: ...

    def stream(self) -> ScrubStream: ...


class ScrubStream(Protocol):
    """For any way of cutting a text into chunks, the joined output equals `scrub(text)`."""

    def feed(self, chunk: str) -> CleanText: ...

    def flush(self) -> CleanText: ...


# --- time and chance --------------------------------------------------------------------------------


class Clock(Protocol):
    """The only source of now() and of random ids."""

    def now_ms(self) -> int:
        """Unix time in milliseconds."""
        ...

    def monotonic_s(self) -> float: ...

    def new_id(self) -> str:
        """A sortable unique id, 26 characters."""
        ...

    def code(self, length: int) -> str:
        """A random code without look-alike characters, fit to be read aloud."""
        ...
