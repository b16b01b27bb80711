"""A door that writes down what it is given, and may be shut."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from channels.core.adapter import IntakeOutcome
from channels.core.message import Incoming, Retraction
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.messages import CleanText


@dataclass
class OpenDoor:
    """Takes everything. While `is_shut` it raises, as without a bus; while `lingers` is set, it waits for that."""

    heard: list[Incoming] = field(default_factory=list)
    pressed: list[Incoming] = field(default_factory=list)
    is_shut: bool = False
    lingers: asyncio.Event | None = None
    outcomes: list[IntakeOutcome] = field(default_factory=list)
    word: str = "Done."

    async def accept(self, incoming: Incoming) -> IntakeOutcome:
        await self._wait()
        self.heard.append(incoming)
        return self.outcomes.pop(0) if self.outcomes else IntakeOutcome.QUEUED

    async def retract(self, retraction: Retraction) -> IntakeOutcome:
        return IntakeOutcome.IGNORED

    async def press(self, press: Incoming) -> CleanText | None:
        await self._wait()
        self.pressed.append(press)
        return None

    async def told(self, press: Incoming) -> CleanText:
        return CleanText(self.word)

    async def invoke(self, chosen: Incoming) -> CleanText | None:
        self.heard.append(chosen)
        return None

    async def suggest(self, typing: Any) -> Any:
        return ()

    async def _wait(self) -> None:
        if self.lingers is not None:
            await self.lingers.wait()
        if self.is_shut:
            raise BusUnavailable("away")
