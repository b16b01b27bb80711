"""What the operator asks the bus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import (
    DeliveryRecord,
    InboundMessage,
)


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
    """How much waited at one moment of the last QUEUE_PAST_S."""

    at_ms: int
    queued: int
    oldest_wait_ms: int


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
    """What an operator has to mend before a provider answers again."""

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


class LaneDepth(Protocol):
    async def lane_depth(self, key: SessionKey) -> tuple[int, bool]:
        """Messages waiting in a lane behind those of a running turn, and whether a turn runs."""
        ...

    async def is_in_work(self, key: SessionKey, fence: int) -> bool:
        """Whether the turn with this fencing token still owns the lane."""
        ...


class OperatorBus(LaneDepth, Protocol):
    async def figures(self) -> QueueFigures: ...

    async def note_queue(self, figures: QueueFigures) -> None:
        """Keep how much waits now, unless another process has kept it just before."""
        ...

    async def queue_past(self) -> Sequence[QueueMoment]:
        """What `note_queue` kept, oldest first."""
        ...

    async def stop(self, key: SessionKey) -> None:
        """End the running turn of a lane and drop what waits in it, as /stop does; nobody is told. It returns at once:
        `lane_depth` says when the turn has ended."""
        ...

    async def delivery_records(self, key: SessionKey, reply_ids: Sequence[str]) -> Sequence[DeliveryRecord]:
        """What the ledger says of replies of a key, for as long as it lives; PENDING when it says nothing."""
        ...

    async def dead_letters(self, limit: int) -> Sequence[DeadLetter]:
        """The newest dead letters, newest first."""
        ...

    async def dead_letter(self, entry_id: str) -> DeadLetter | None:
        """One dead letter by its id."""
        ...

    async def waiting(self, message_ids: Sequence[str]) -> Sequence[WaitingMessage]:
        """Find messages that are in their lanes, by the ids they came with; also those that are tried again."""
        ...

    async def retry_dead(self, entry_id: str) -> bool:
        """Put a dead message back on its lane, behind what waits there. False: it is no dead message."""
        ...

    async def drop_dead(self, entry_id: str) -> bool:
        """Forget a dead letter. False: there is none with this id."""
        ...

    async def forget(self, owner: SessionKey) -> int:
        """Drop the dead letters of an owner; how many there were. What a server wrote down of messages that are on the
        bus no more, whosesoever, is on no disk from then on."""
        ...

    async def report_channel(self, channel: str, state: str, *, ttl_s: float) -> None:
        """A channel says how it is (`connected`, or a plain reason); forgotten after `ttl_s`."""
        ...

    async def report_models(self, news: Mapping[str, ModelTrouble | None]) -> None:
        """What became of the newest call of each of these models; None: it answered."""
        ...

    async def model_troubles(self) -> Sequence[ModelTrouble]:
        """The models that do not answer, by name; forgotten MODEL_TROUBLES_TTL_S after anything new was reported."""
        ...

    async def add_counts(self, counts: Mapping[str, int]) -> None:
        """Add to what is counted over all processes, for /metrics. A connection that breaks may count twice."""
        ...

    async def counts(self) -> Mapping[str, int]:
        """All that was counted since this bus was new."""
        ...

    async def ping(self) -> None: ...
