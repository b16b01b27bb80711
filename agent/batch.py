"""The messages of one turn, and the id of the one reply that it leaves. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.contracts.commands import find_command
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import InboundMessage
from gateway.contracts.subagents import is_wake

_ONLY: Final = ":1"


@dataclass(frozen=True, slots=True)
class Batch:
    """The messages one turn answers, all of one place, with the fence that guards their lane. `is_first`: no run of it
    was begun before; this one was at `begun_at_ms`."""

    turn_id: str
    key: SessionKey
    fence: int
    messages: tuple[InboundMessage, ...]
    is_first: bool = False
    begun_at_ms: int = 0

    @property
    def newest(self) -> InboundMessage:
        """The last that somebody wrote; where nobody did, the last."""
        return newest_of(self.messages)

    @property
    def authors(self) -> tuple[SessionKey, ...]:
        """Everybody whose words are answered; the one who is answered comes last."""
        newest = self.newest.author
        others = dict.fromkeys(message.author for message in self.messages if message.author != newest)
        return (*others, newest)

    @property
    def wakes(self) -> int:
        """How many wakes have led to one another since a person spoke; 0: one speaks here."""
        return max(message.wakes for message in self.messages) if is_wake(self.newest) else 0

    @property
    def is_command(self) -> bool:
        """A command is always alone in its batch (`agent.working.batches.first_batch`)."""
        return find_command(self.messages[0].text) is not None


def reply_id_of(turn_id: str) -> str:
    """The id of the one reply that a turn leaves, known before there is any."""
    return f"{turn_id}{_ONLY}"


def turn_of_reply(reply_id: str) -> str:
    """The turn that left this reply; "" for a status line, a title, or what no turn left."""
    return reply_id.removesuffix(_ONLY) if reply_id.endswith(_ONLY) and reply_id.count(":") == 1 else ""


def newest_of(messages: Sequence[InboundMessage]) -> InboundMessage:
    """Who is answered, and where: what the end of a sub-agent sent comes behind what a person wrote."""
    return (tuple(message for message in messages if not is_wake(message)) or messages)[-1]
