"""A model that a test holds by the hand: it thinks until it is let go, and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from agent.models.demo import ScriptedClient
from agent.models.requests import ModelEvent, ModelRequest
from gateway.contracts.sessions import Role, UsagePurpose
from tests.parts.waiting import until


class Mind(ScriptedClient):
    """The demo model. `think` is awaited in every call of a turn, before the answer; `asked` are those calls,
    `made` all calls."""

    def __init__(self) -> None:
        self.asked: list[ModelRequest] = []
        self.made: list[ModelRequest] = []
        self.think: Callable[[], object] = lambda: None
        self._gate: asyncio.Event | None = None

    @property
    def calls(self) -> int:
        """How often it was called, whatever for."""
        return len(self.made)

    def hold(self) -> asyncio.Event:
        """From now on every call of a turn waits for the event that is returned."""
        self._gate = asyncio.Event()
        return self._gate

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The scripted answer, once the test allows it."""
        self.made.append(request)
        if request.purpose is UsagePurpose.TURN:
            self.asked.append(request)
            self.think()
            if self._gate is not None:
                await self._gate.wait()
        async for event in super().stream(request):
            yield event

    async def until_asked(self, calls: int) -> None:
        """Wait for that many calls of turns."""
        await until(lambda: len(self.asked) >= calls, lambda: self.asked)

    def heard(self, call: int = -1) -> list[str]:
        """What users said in the prompt of one call, without our preamble."""
        return [
            message.text.rpartition("</now>")[2].strip()
            for message in self.asked[call].messages
            if message.role is Role.USER
        ]
