"""Exclusive, ordered work on what people said, as the agent role does it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import (
    Activity,
    ControlRequest,
    Draft,
    InboundMessage,
    Receipt,
    Reply,
)
from gateway.contracts.ports.deliveries import WantedFile


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

    async def show_draft(self, draft: Draft) -> None:
        """Let the channel show the answer as far as it is. Lossy on purpose."""
        ...

    def control_requests(self, worker: str) -> AsyncIterator[tuple[str, ControlRequest]]:
        """Control commands, each to one worker, with the receipt to acknowledge them by."""
        ...

    async def finish_control(self, receipt: str, reply: Reply) -> None:
        """Publish the answer and acknowledge the control command, atomically."""
        ...

    async def finish_press(self, receipt: str, press: InboundMessage, answer: Reply) -> None:
        """Hand the answer to the one who pressed a button (`QuestionBus.told`) and acknowledge the press,
        atomically."""
        ...

    async def receipts(self, worker: str, *, count: int, wait_s: float) -> Sequence[tuple[str, Receipt]]:
        """Ends of deliveries, to be written to SQL, then acknowledged by their first part."""
        ...

    async def finish_receipts(self, ids: Sequence[str]) -> None: ...

    async def wanted_file(self, *, wait_s: float) -> WantedFile | None:
        """A file whose bytes a channel waits for, each wish to one caller; None when nobody wished for any."""
        ...

    async def lend_file(self, wanted: WantedFile, content: bytes) -> None:
        """Give the bytes to whoever wanted them; empty: nobody keeps them any more."""
        ...
