"""What the channels role may do with what people say, and who may say it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
