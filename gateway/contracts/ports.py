"""The doors between the rooms, as Protocols. Bus and store implement them; the roles depend on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
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
    TurnTrace,
    Whereabouts,
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


class Amendment(StrEnum):
    """What became of a message that its author changed or deleted."""

    CHANGED = "changed"
    """It was still waiting: nobody will see what it was before."""
    RESTARTED = "restarted"
    """It was being answered: that turn is cancelled, and its lane starts again with the change."""
    TOO_LATE = "too_late"
    """It is not on the bus any more, is being stopped, or a change has restarted its turn before."""


class IntakeBus(Protocol):
    """What the channels role may do with inbound messages. Raises `BusUnavailable`.

    One connection, one order: calls from one task reach Redis in the order they were made.
    """

    async def enqueue(self, message: InboundMessage, *, settle_ms: int = 0, interrupts: bool = False) -> Admission:
        """Deduplicate by `message.id` and append to the lane of `message.key`: both or neither.

        With `interrupts` an accepted message cancels the running turn of its lane (RESTART), in the same step.
        """
        ...

    async def amend(self, message: InboundMessage) -> Amendment:
        """Put an edited message in the place of the one with its id and key. A turn that is answering
        it is restarted, once per message."""
        ...

    async def withdraw(self, key: SessionKey, message_id: str) -> Amendment:
        """Take a message that its author deleted off its lane. A turn that is answering it is
        restarted without it."""
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
    """One leased lane with the messages at its head, oldest first. `attempts` counts failed runs so far.

    `is_stopped`: a /stop came for these messages while their worker died or stalled; commit them as
    stopped, do not run them.
    """

    key: SessionKey
    lease: Lease
    attempts: int
    messages: tuple[InboundMessage, ...]
    is_stopped: bool = False


@dataclass(frozen=True, slots=True)
class ClaimBatch:
    """`next_due_s`: when a delayed lane becomes ready, None if none waits."""

    claims: tuple[Claim, ...]
    next_due_s: float | None
    dead: tuple[InboundMessage, ...] = ()


class CancelKind(StrEnum):
    """Why a running turn ends early."""

    STOP = "stop"
    RESTART = "restart"
    """Newer words came: an interrupting message, an edit, a deletion."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """The running turn of a lane (text key) is to end. Meant for that turn only, never for the next one."""

    lane: str
    kind: CancelKind


class LaneBus(Protocol):
    """Exclusive, ordered work on lanes. Raises `BusUnavailable`; a lost lease is an answer, not an error."""

    async def register(self, worker: str, *, lease_ttl_s: float) -> None:
        """Make `worker` known; it must beat before `lease_ttl_s` passes."""
        ...

    async def claim(self, worker: str, *, lanes_max: int, messages_max: int, attempts_max: int) -> ClaimBatch:
        """Lease up to `lanes_max` ready lanes. A message whose run failed `attempts_max` times goes to
        the dead letters and is returned in `dead`, so that its author can be told, until `finish_dead`."""
        ...

    async def finish_dead(self, message: InboundMessage) -> None:
        """The author of a message that a claim found dead was told. Until then, should this worker die,
        the claim of another one finds it again."""
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

    async def restart(self, claim: Claim) -> bool:
        """Give the lane back to start at once, in front, without counting a failed run; a lane from which
        everything was withdrawn is gone. False: fenced."""
        ...

    async def revoke(self, key: SessionKey, fence: int) -> bool:
        """Take the lane from a worker that does not react to a stop; the next claim has `is_stopped`.
        False: the turn with this fence does not own the lane."""
        ...

    async def extend(self, claim: Claim, *, messages_max: int) -> tuple[InboundMessage, ...]:
        """Up to `messages_max` messages that arrived behind the claimed ones (steer mode), now part of the claim."""
        ...

    async def beat(self, worker: str, *, lease_ttl_s: float) -> tuple[Cancel, ...] | None:
        """Renew every lease of `worker`; returns the turns to cancel, None if the lease was lost."""
        ...

    def cancellations(self, worker: str) -> AsyncIterator[Cancel]:
        """Running turns to end, as it happens; each is told once, here or by the beat."""
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
        """New replies; first those that other consumers left behind. Only the holder of the channel's
        delivery lease may ask, so whatever another consumer still has is left behind."""
        ...

    async def record(self, channel: str, entry_id: str, record: DeliveryRecord) -> bool:
        """Write the ledger row: called with SENDING before each platform call. False, and nothing is written:
        another process took the entry over."""
        ...

    def put_back(self, channel: str) -> None:
        """Whatever was handed out and is not finished is handed out again, to whoever asks next."""
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

    async def take_send_token(self, bucket: str, *, per_s: float, burst: int, spare: float = 0) -> float:
        """Spend one token of a bucket shared by all processes; seconds to wait first (0 = go). What may be
        left undone asks with `spare`, the tokens that must remain for what may not."""
        ...

    async def pause_bucket(self, bucket: str, *, for_s: float) -> None:
        """A 429 said how long everybody has to wait."""
        ...


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known of an address before something is sent to it."""

    dead_because: str = ""
    is_account_unsure: bool = False


class PlaceBus(Protocol):
    """What all processes of the channels role know about accounts and places. Raises `BusUnavailable`.

    Names begin with the account, `<channel>:<account id>`, and are the adapter's own.
    """

    async def outlook(self, account: str, place: str) -> Outlook:
        """What is known of a place, and whether the account had a send of unknown outcome lately."""
        ...

    async def bury(self, account: str, place: str, *, reason: str) -> int:
        """Remember that a place takes nothing any more; how many refusals the account met lately."""
        ...

    async def revive(self, place: str) -> None:
        """Somebody spoke there: it may be written to again."""
        ...

    async def doubt(self, account: str) -> None:
        """A send had an unknown outcome: for a while every process sends more carefully."""
        ...

    async def note_sent(self, place: str, ids: Sequence[str]) -> None:
        """Messages of ours in a place, as the platform numbers them."""
        ...

    async def sent_lately(self, place: str) -> frozenset[str]:
        """Every message of ours in a place that was noted within the last hours."""
        ...

    async def note_move(self, channel: str, old: str, new: str) -> None:
        """A chat has another id from now on, for ever."""
        ...

    async def newest_ids(self, channel: str, chats: Sequence[str]) -> Sequence[str]:
        """Where each of these chats lives now; itself when it never moved."""
        ...

    async def first_ids(self, channel: str, chats: Sequence[str]) -> Sequence[str]:
        """The id under which each of these chats was known at first: session keys keep it."""
        ...

    async def count_ambiguous(self, channel: str) -> None:
        """A chunk was sent again although an earlier attempt may have arrived."""
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
    ambiguous_sends: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Something that was given up. `message` is None for what is no inbound message, or cannot be read."""

    entry_id: str
    died_at_ms: int
    reason: str
    attempts: int
    error: str
    message: InboundMessage | None


class LaneDepth(Protocol):
    async def lane_depth(self, key: SessionKey) -> tuple[int, bool]:
        """Messages waiting in a lane behind those of a running turn, and whether a turn runs."""
        ...

    async def is_in_work(self, key: SessionKey, fence: int) -> bool:
        """Whether the turn with this fencing token still owns the lane."""
        ...


class OperatorBus(LaneDepth, Protocol):
    async def figures(self) -> QueueFigures: ...

    async def delivery_records(self, key: SessionKey, reply_ids: Sequence[str]) -> Sequence[DeliveryRecord]:
        """What the ledger says of replies of a key, for as long as it lives; PENDING when it says nothing."""
        ...

    async def dead_letters(self, limit: int) -> Sequence[DeadLetter]:
        """The newest dead letters, newest first."""
        ...

    async def retry_dead(self, entry_id: str) -> bool:
        """Put a dead message back on its lane, behind what waits there. False: it is no dead message."""
        ...

    async def drop_dead(self, entry_id: str) -> bool:
        """Forget a dead letter. False: there is none with this id."""
        ...

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
        no user entries are stored: a command is not part of the conversation.

        The transcript follows the lane: an unanswered message reads as it does in `messages`, and one that
        is not among them (deleted, given up, waiting for a later turn) stands in no transcript any more."""
        ...

    async def join_turn(
        self, *, turn_id: str, key: SessionKey, fence: int, messages: Sequence[InboundMessage], now_ms: int
    ) -> Sequence[Entry]:
        """Steer: store messages that join the running turn (raises `Fenced`). Returns their user entries;
        one that was answered before has none. The commit moves them to where its `entries` hold them."""
        ...

    async def commit_turn(self, commit: TurnCommit) -> Session:
        """One transaction guarded by the fence (raises `Fenced`): transcript, consumed ids, usage, effects,
        outbox. Returns the key's current session afterwards."""
        ...

    async def turn_began(self, key: SessionKey) -> int | None:
        """When the last run of the turn that this lane has not committed began; None when there is none."""
        ...

    async def fence_off(self, key: SessionKey, fence: int) -> Sequence[Reply]:
        """From now on nobody writes in this lane under `fence` or an older one. Returns the replies that its
        turn had committed before and whose delivery no receipt has ended."""
        ...

    async def give_up(
        self, *, turn_id: str, message: InboundMessage, reply: Reply, note: CleanText, now_ms: int
    ) -> bool:
        """A message whose runs all failed: consumed, answered with `reply`, and followed by `note` where it
        stands in a transcript. No run of it that still lives may commit. False: it was answered before."""
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

    async def take_stale_outbox(self, *, after_ms: int, limit: int) -> Sequence[Reply]:
        """Replies without a receipt that were committed `after_ms` ago, for the relay to publish again. Each
        is given to one caller, and again only after it has waited for as long again as it had before."""
        ...

    async def record_receipts(self, receipts: Sequence[Receipt]) -> None: ...

    async def recent_deliveries(self, key: SessionKey | None, *, limit: int) -> Sequence[Whereabouts]:
        """How far the newest replies of a key came (None: of all keys), newest first."""
        ...

    async def trace(self, id_: str) -> TurnTrace | None:
        """The turn that `id_` belongs to: an inbound message's id, a turn's or a reply's."""
        ...

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
