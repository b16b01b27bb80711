"""What the operator asks the bus."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import (
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
