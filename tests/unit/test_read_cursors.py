"""What is on record about the places of a channel, should it be killed at the worst moment."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from channels.core.adapter import IntakeOutcome
from channels.core.backfill import Listener, RawMessage, ReadCursors
from channels.core.message import Incoming, Retraction
from channels.discord.history import ORDER
from tests.doubles import MemoryBus
from tests.parts.incoming import private_message

NAME = "discord:1:marks"


class LiveOnly:
    """A source without history that understands everything."""

    async def rooms(self) -> Sequence[str]:
        return ()

    async def missed(self, room: str) -> AsyncIterator[RawMessage[str]]:
        nothing: tuple[RawMessage[str], ...] = ()
        for heard in nothing:
            yield heard

    async def understand(self, heard: RawMessage[str]) -> Incoming | None:
        return private_message(heard.raw)

    async def taken(self, incoming: Incoming) -> None:
        """Nobody keeps threads here."""


class WatchfulDoor:
    """Notes which places are on record in the moment a message is taken."""

    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus
        self.on_record: list[tuple[str, ...]] = []

    async def accept(self, incoming: Incoming) -> IntakeOutcome:
        marks = ReadCursors(self._bus, NAME, ORDER)
        await marks.load()
        self.on_record.append(marks.places)
        return IntakeOutcome.QUEUED

    async def retract(self, retraction: Retraction) -> IntakeOutcome:
        raise AssertionError(retraction)


async def test_the_first_start_is_on_record_at_once() -> None:
    """Who is killed right afterwards still knows from where to read back."""
    bus = MemoryBus()
    await ReadCursors(bus, NAME, ORDER).begin("100")
    again = ReadCursors(bus, NAME, ORDER)
    assert await again.load()
    assert again.of("any place") == "100"


async def test_a_new_place_is_on_record_before_its_first_message_is_taken() -> None:
    """A direct chat that nobody can list would be forgotten with the process."""
    bus = MemoryBus()
    marks, door = ReadCursors(bus, NAME, ORDER), WatchfulDoor(bus)
    await marks.begin("100")
    listener = Listener("discord", door, marks, LiveOnly())
    running = asyncio.create_task(listener.run())
    await listener.hear(RawMessage("chat", "101", "hello"))
    await listener.hear(RawMessage("other chat", "102", "hello"))
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert door.on_record == [("chat",), ("chat", "other chat")]
