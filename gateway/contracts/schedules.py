"""What is to happen later: reminders and scheduled tasks. Written by the agent, kept by the store."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText, InboundMessage

_FIRING: Final = "schedule:"
"""In front of the ids of firings. No channel can be called so: its ids begin with a platform's name."""


class ScheduleKind(StrEnum):
    REMINDER = "reminder"
    """Its text is delivered as it is."""
    TASK = "task"
    """Its text is a prompt: the agent takes a turn with nobody present."""
    HEARTBEAT = "heartbeat"
    """A task of ours: the agent looks whether something is to be done."""


class ScheduleState(StrEnum):
    ACTIVE = "active"
    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Schedule:
    """One reminder or task of a user, and when it is due next.

    `number` is what its owner calls it: counted from 1, never used twice (0 = not yet stored). `recurrence` is
    the text form of a rule in the wall-clock time of `zone`; empty: it happens once. `address` is where it was
    asked for and `author_id` who asked, as the channel wrote them; `place` is as in the message that asked for it.
    """

    id: str
    key: SessionKey
    address: ReplyAddress
    author_id: str
    author_name: CleanText
    is_private: bool
    kind: ScheduleKind
    text: CleanText
    recurrence: str
    zone: str
    next_due_ms: int
    created_at_ms: int
    number: int = 0
    state: ScheduleState = ScheduleState.ACTIVE
    place: tuple[str, ...] = ()

    @property
    def owner(self) -> SessionKey:
        """Whom it belongs to: nobody else sees or cancels it."""
        return self.key.owner

    @property
    def firing_id(self) -> str:
        """The message id of its next firing: the same, whoever fires it and however often."""
        return f"{_FIRING}{self.id}:{self.next_due_ms}"


def is_firing(message: InboundMessage) -> bool:
    """True for a message that a schedule sent: nobody sits in front of its turn."""
    return message.id.startswith(_FIRING)
