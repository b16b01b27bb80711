"""Exclusive, ordered work on what people said, as the agent role does it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import (
    InboundMessage,
)


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
