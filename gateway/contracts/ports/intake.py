"""What the channels role may do with what people say, and who may say it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from gateway.contracts.access import Rate
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import (
    ControlRequest,
    InboundMessage,
)


class Verdict(StrEnum):
    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    LANE_FULL = "lane_full"
    QUEUE_FULL = "queue_full"
    TOO_FAST = "too_fast"


@dataclass(frozen=True, slots=True)
class Admission:
    """What the bus did with a message. After ACCEPTED or DUPLICATE the platform may be told "received".

    `queued` counts the messages now waiting in the lane, this one included; `is_running` says that a
    turn of the lane is in progress; neither is said of a control command. After TOO_FAST its author may write again in
    `wait_s`.
    """

    verdict: Verdict
    queued: int = 0
    is_running: bool = False
    wait_s: float = 0.0


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

    async def enqueue(
        self,
        message: InboundMessage,
        *,
        settle_ms: int = 0,
        interrupts: bool = False,
        rate: Rate = Rate(),  # noqa: B008 - frozen
    ) -> Admission:
        """Deduplicate by `message.id` and append to the lane of `message.key`: both or neither.

        With `interrupts` an accepted message cancels the running turn of its lane (RESTART), in the same step. With a
        `rate`, its author is not taken more from, in the same step: what comes again counts once.
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

    async def request_control(
        self,
        request: ControlRequest,
        *,
        rate: Rate = Rate(),  # noqa: B008 - frozen
    ) -> Admission:
        """Put a control command on the control lane, unless its message id is known.

        For STOP, in the same atomic step: the running turn is cancelled and what is queued in the
        lane is dropped; the request that arrives carries `dropped` and `was_running`. With a `rate`, its author is not
        taken more from, in the same step; the last STOPS_KEPT are for STOP, which needs none if it finds what to stop.
        """
        ...

    async def position(self, name: str) -> str | None:
        """An intake position (Telegram offset, last message of a place) kept for ever."""
        ...

    async def set_position(self, name: str, value: str) -> None: ...
