"""Questions to people while they are open, and the words that go back to the one who pressed a button."""

from __future__ import annotations

from typing import Protocol

from gateway.contracts.messages import ControlRequest, InboundMessage, Reply
from gateway.contracts.questions import PutQuestion, Standing


class PressBus(Protocol):
    """The way back to the one who pressed a button. Raises `BusUnavailable`."""

    async def told(self, press: InboundMessage, *, wait_s: float) -> Reply | None:
        """What the one who pressed a button is told, once; None if nobody said anything within `wait_s`."""
        ...


class QuestionBus(PressBus, Protocol):
    """Questions while somebody waits for the answer. What is forgotten by itself is no truth."""

    async def put(self, question: PutQuestion, *, ttl_s: float) -> None:
        """Open a question, unless its code is known; it is forgotten after `ttl_s`."""
        ...

    async def standing(self, code: str) -> Standing | None:
        """None for a code that nobody knows (any more)."""
        ...

    async def settle(self, code: str, answer: ControlRequest | None) -> Standing | None:
        """Settle an open question, or close it without an answer (None). The first one counts: how it stands now."""
        ...
