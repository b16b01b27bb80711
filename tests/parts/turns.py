"""A turn that has begun, without a lane or a database, for the tests of engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from agent.engine import Batch, Hold, Joined, Turn
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Entry, Session, SessionStatus
from tests.parts.agents import message

KEY: Final = SessionKey("telegram", "1")
SESSION: Final = Session(
    id="s",
    key=KEY,
    number=1,
    title=CleanText("New Chat"),
    status=SessionStatus.ACTIVE,
    parent_session_id=None,
    created_at_ms=0,
    updated_at_ms=0,
    message_count=0,
    tokens=0,
    cost_usd=0.0,
)


class FreeHold:
    """A hold that nothing ends; `drafts` are what could be seen of each stream when it had ended."""

    def __init__(self) -> None:
        self.drafts: list[Callable[[], CleanText]] = []

    async def permit(self) -> None:
        return

    async def join(self) -> Sequence[Joined]:
        return ()

    def showing(self, text: Callable[[], CleanText]) -> AbstractContextManager[None]:
        """Remember how to look at the draft."""
        self.drafts.append(text)
        return nullcontext()


class Boundless:
    """A window in which everything fits."""

    async def condensed(self, in_flight: Sequence[Entry], *, counted: int, is_refused: bool = False) -> None:
        return


def begun_turn(hold: Hold | None = None) -> Turn:
    """Begin a turn that answers one message."""
    return Turn(Batch("turn-1", KEY, 1, (message("hello"),)), SESSION, hold or FreeHold())
