"""The values between bus and roles, and the few Protocols that have more than one implementation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from gateway.contracts.access import ShownAccess
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import DeliveryRecord, InboundMessage, Preview, Reply

# The only source of now() and of random ids.


class Clock(Protocol):
    """The only source of now() and of random ids."""

    def now_ms(self) -> int:
        """Return Unix time in milliseconds."""

    def monotonic_s(self) -> float: ...

    def new_id(self) -> str:
        """Return a sortable unique id, 26 characters."""

    def code(self, length: int) -> str:
        """Return a random code without look-alike characters, fit to be read aloud."""


# What the channels role may do with what people say, and who may say it.


class Verdict(StrEnum):
    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    LANE_FULL = "lane_full"
    QUEUE_FULL = "queue_full"
    TOO_FAST = "too_fast"
    STALE = "stale"
    """The author was judged by a projection that is not shown any more. Look again, and enqueue again."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The bus's verdict on a message. After ACCEPTED or DUPLICATE the platform may be told "received".

    `queued` counts the messages now waiting in the lane, this one included; `is_running` says that a
    turn of the lane is in progress; neither is said of a control command. After TOO_FAST its author may write again in
    `wait_s`."""

    verdict: Verdict
    queued: int = 0
    is_running: bool = False
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Position:
    """The position up to which a platform's messages are taken: `value` is kept under `name`."""

    name: str
    value: str


class Amendment(StrEnum):
    """The fate of a message that its author changed or deleted."""

    CHANGED = "changed"
    """It was still waiting: nobody will see what it was before."""
    RESTARTED = "restarted"
    """It was being answered: that turn is cancelled, and its lane starts again with the change."""
    TOO_LATE = "too_late"
    """It is not on the bus any more, is being stopped, or a change has restarted its turn before."""


# Exclusive, ordered work on what people said, as the agent role does it.


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to answer one lane: worker id and fencing token. Grows with every takeover."""

    worker: str
    fence: int


@dataclass(frozen=True, slots=True)
class Claim:
    """One leased lane with the messages at its head, oldest first. `attempts` counts failed runs so far.

    `is_stopped`: a /stop came for these messages while their worker died or stalled; commit them as
    stopped, do not run them. `access` is the projection that was shown when the lane was leased, `met` the rows of what
    was found in it (`gateway.scrub.known.MetInChat`)."""

    key: SessionKey
    lease: Lease
    attempts: int
    messages: tuple[InboundMessage, ...]
    is_stopped: bool = False
    access: ShownAccess | None = None
    met: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Ownership:
    """The ownership of a lane by a turn; the projection that was shown, and the rows of what was found in the lane, at
    that moment."""

    is_held: bool
    access: ShownAccess
    met: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class DeadMessage:
    """A message that was given up, with the id of its dead letter."""

    letter_id: str
    message: InboundMessage


@dataclass(frozen=True, slots=True)
class ClaimBatch:
    """`next_due_s`: when a delayed lane becomes ready, None if none waits."""

    claims: tuple[Claim, ...]
    next_due_s: float | None
    dead: tuple[DeadMessage, ...] = ()


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


# Committed replies on their way to the platforms, and what is known of the places they go to.


@dataclass(frozen=True, slots=True)
class PendingReply:
    """A reply taken from the outbound stream. `record` is what we know of its row in the ledger: a blank one until
    somebody has asked."""

    entry_id: str
    reply: Reply
    record: DeliveryRecord


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A committed file that a channel is about to send: `Reply.files[position]`."""

    key: SessionKey
    reply_id: str
    position: int


@dataclass(frozen=True, slots=True)
class TokenWish:
    """A token of a bucket that gains `per_s`, up to `burst`.

    An answer waits only for what answers have spent. What may be left undone asks with `spare`: it waits for whatever
    was spent, and so many tokens must remain."""

    bucket: str
    per_s: float
    burst: int
    spare: float | None = None


@dataclass(frozen=True, slots=True)
class Destination:
    """An address as the bus knows it: the account, the place that may be dead, and where our messages are remembered,
    which is empty on a platform that can be asked for them."""

    account: str
    place: str
    sent_place: str = ""


@dataclass(frozen=True, slots=True)
class SentMessages:
    """Messages of ours that have arrived, by the platform's ids, and where they are remembered."""

    place: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SendAttempt:
    """An attempt at a reply that is to begin: its row of the ledger, None to look only, and the tokens it spends.

    `id` is that of no other attempt: who begins again with it has begun. `is_first`: nobody has read the row, so it
    begins only if there is none, no preview, and nothing to be said against the place. `adopts` is the preview's row as
    it was found, whose messages are `record.shown`."""

    id: str
    reply_id: str
    destination: Destination
    record: DeliveryRecord | None = None
    wishes: tuple[TokenWish, ...] = ()
    is_first: bool = False
    adopts: bytes = b""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The beginning of an attempt. If it `has_begun`, the ledger has `record`. Else nothing was written or spent: after
    `wait_s` there may be tokens; if that is 0, `record` is what the ledger has. `dead_because`: the place took nothing
    lately; `is_account_unsure`: sends of the account got lost lately. `preview_row` is the preview as it lies there."""

    record: DeliveryRecord
    has_begun: bool = False
    wait_s: float = 0.0
    dead_because: str = ""
    is_account_unsure: bool = False
    preview: Preview | None = None
    preview_row: bytes = b""


# Files that came with messages, on their way from a channel, which can fetch them, to the turn that needs them.


@dataclass(frozen=True, slots=True)
class WantedAttachment:
    """A file that a turn of `key` needs, at most `bytes_max` of it. Only `channel` can read `reference`. `ticket`
    names this wish and no other: who asks again does so with a new one."""

    ticket: str
    channel: str
    key: SessionKey
    reference: str
    bytes_max: int


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """A file that came with a message, as its platform gave it. `media_type` is what the platform says."""

    name: str
    media_type: str
    content: bytes = field(repr=False)


# What the operator asks the bus.


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """The state of the bus for /readyz, /metrics and /queue. `oldest_wait_ms`: how long the oldest message has waited,
    of the lanes that are next."""

    queued: int
    ready: int
    running: int
    delayed: int
    dead_letters: int
    workers_alive: int
    outbound_pending: dict[str, int]
    channels_connected: dict[str, str]
    ambiguous_sends: dict[str, int] = field(default_factory=dict)
    oldest_wait_ms: int = 0


@dataclass(frozen=True, slots=True)
class QueueMoment:
    """The length of the queue at one moment of the last QUEUE_PAST_S."""

    at_ms: int
    queued: int
    oldest_wait_ms: int


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a process's log, as it was written there, and how important it is (`info`, `warning`, …)."""

    at_ms: int
    level: str
    text: str


@dataclass(frozen=True, slots=True)
class CountedSpan:
    """The counts of one TALLY_SLOT_S, from `at_ms` on, as `gateway.telemetry.metrics` reads them."""

    at_ms: int
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Something that was given up. `message` is None for what is no inbound message, or cannot be read."""

    entry_id: str
    died_at_ms: int
    reason: str
    attempts: int
    error: str
    message: InboundMessage | None


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message in its lane: `ahead` others are before it. One that is in work belongs to the turn that runs."""

    message_id: str
    key: SessionKey
    arrived_at_ms: int
    ahead: int
    is_in_work: bool


class ModelFault(StrEnum):
    """The fault that an operator has to mend before a provider answers again."""

    KEY = "key"
    QUOTA = "quota"


@dataclass(frozen=True, slots=True)
class ModelTrouble:
    """Why a model does not answer: its name in the settings, whose it is, and when it was last asked in vain. Never a
    key, and no word of the provider's."""

    model: str
    provider: str
    fault: ModelFault
    at_ms: int


# What a trace of one turn consists of, and who takes its parts.


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """A stretch of work for one turn, told when it is over. Times are Unix milliseconds.

    `id` is its own within the turn, `parent` that of the span it belongs to; "" for the outermost one. A process that
    knows the turn can name both, so a trace grows in several processes and nothing is passed along. `operation` and
    `subject` make its name, such as `chat gpt-4o`. With a `failure`, a code, it did not succeed."""

    turn_id: str
    id: str
    parent: str
    operation: str
    began_ms: int
    ended_ms: int
    subject: str = ""
    failure: str = ""
    is_call: bool = False
    """Somebody else's server did the work."""
    attributes: Mapping[str, str | int] = field(default_factory=dict)


class SpanSink(Protocol):
    """Takes spans. Never raises and never waits: what cannot be passed on is dropped."""

    def record(self, span: TraceSpan) -> None: ...
