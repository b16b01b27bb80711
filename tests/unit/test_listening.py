"""Live messages in order, history first after a gap."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest

from channels.adapter import Outcome
from channels.listening import WAITING_MAX, Heard, HistoryUnavailable, Listener, NotTaken
from channels.marks import PLACES_MAX, Marks
from channels.normalized import Incoming
from gateway.contracts.errors import BusUnavailable
from tests.doubles import MemoryBus
from tests.parts.incoming import private_message


@dataclass
class Room:
    """A door that writes down what came through, and a platform that remembers what was said."""

    bus: MemoryBus = field(default_factory=MemoryBus)
    accepted: list[str] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    is_away: bool = False
    history_failures: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def accept(self, incoming: Incoming) -> Outcome:
        if self.is_away:
            raise BusUnavailable("away")
        self.accepted.append(incoming.text)
        self.changed.set()
        return Outcome.QUEUED

    async def missed(self) -> AsyncIterator[Heard[str]]:
        if self.history_failures:
            self.history_failures -= 1
            raise HistoryUnavailable("not now")
        mark = int(self.marks.of("place") or 0)
        for text in self.history:
            if int(text) > mark:
                yield Heard("place", text, text)

    async def understand(self, heard: Heard[str]) -> Incoming | None:
        if heard.raw == "poison":
            raise KeyError(heard.raw)
        return None if heard.raw.startswith("-") else replace(private_message(), text=heard.raw)

    async def taken(self, incoming: Incoming) -> None:
        return

    def __post_init__(self) -> None:
        self.marks = Marks(self.bus, "room", int)

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Listener[str]]:
        listener = Listener("room", self, self.marks, self)
        running = asyncio.create_task(listener.run())
        try:
            yield listener
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def until_accepted(self, texts: list[str]) -> None:
        async with asyncio.timeout(10):
            while self.accepted != texts:
                self.changed.clear()
                await self.changed.wait()


def live(text: str) -> Heard[str]:
    return Heard("place", text.lstrip("-"), text)


async def test_live_messages_pass_in_the_order_they_were_heard() -> None:
    room = Room()
    async with room.listening() as listener:
        for number in range(1, 6):
            listener.hear(live(str(number)))
        await room.until_accepted(["1", "2", "3", "4", "5"])


async def test_history_comes_before_the_first_live_message() -> None:
    """What was said before the start, and is not on the bus, comes first."""
    room = Room(history=["1", "2"])
    async with room.listening() as listener:
        listener.hear(live("3"))
        await room.until_accepted(["1", "2", "3"])


async def test_a_message_is_acknowledged_when_the_bus_has_it() -> None:
    room = Room()
    async with room.listening() as listener:
        await listener.hear(live("1"))
    assert room.accepted == ["1"]


async def test_a_bus_that_is_away_acknowledges_nothing_and_loses_nothing() -> None:
    """The message is refused, and read back from the history when the bus has returned."""
    room = Room()
    async with room.listening() as listener:
        await listener.hear(live("1"))
        room.is_away = True
        room.history = ["1", "2", "3"]
        with pytest.raises(NotTaken):
            await listener.hear(live("2"))
        room.is_away = False
        await room.until_accepted(["1", "2", "3"])


async def test_a_history_that_fails_is_asked_again() -> None:
    room = Room(history=["1"], history_failures=2)
    async with room.listening():
        await room.until_accepted(["1"])


async def test_a_poisonous_message_is_counted_and_skipped() -> None:
    room = Room()
    async with room.listening() as listener:
        listener.hear(Heard("place", "1", "poison"))
        await listener.hear(live("2"))
        assert listener.poisoned == 1
    assert room.accepted == ["2"]


async def test_a_flood_is_dropped_and_read_back() -> None:
    """Memory is bounded; history is not."""
    room = Room()
    async with room.listening() as listener:
        await listener.hear(live("1"))
        room.history = [str(number) for number in range(1, WAITING_MAX + 10)]
        flood = [listener.hear(live(text)) for text in room.history[1:]]
        outcomes = await asyncio.gather(*flood, return_exceptions=True)
        assert any(isinstance(outcome, NotTaken) for outcome in outcomes)
        await until_all(room)


async def until_all(room: Room) -> None:
    """Wait until everything in the history has come through, some of it perhaps twice."""
    async with asyncio.timeout(10):
        while set(room.accepted) != set(room.history):
            room.changed.clear()
            await room.changed.wait()


async def test_marks_survive_a_restart() -> None:
    """The next process begins where this one stopped."""
    room = Room()
    async with room.listening() as listener:
        await listener.hear(live("7"))
        await listener.hear(live("-8"))
    again = Marks(room.bus, "room", int)
    assert await again.load()
    assert again.of("place") == "8"


async def test_a_cancellation_ends_it_whatever_happens_at_that_moment() -> None:
    """A wake-up and a cancellation at once must not keep the listener alive."""
    room = Room()
    for _ in range(50):
        listener = Listener("room", room, room.marks, room)
        running = asyncio.create_task(listener.run())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        listener.hear(live("-1"))
        running.cancel()
        async with asyncio.timeout(5):
            await asyncio.gather(running, return_exceptions=True)


class TestMarks:
    async def test_never_go_back(self) -> None:
        marks = Marks(MemoryBus(), "room", int)
        marks.reach("place", "5")
        marks.reach("place", "3")
        assert marks.of("place") == "5"

    async def test_of_an_unknown_place_begin_at_the_newest_of_the_account(self) -> None:
        marks = Marks(MemoryBus(), "room", int)
        marks.reach("place", "5")
        assert marks.of("elsewhere") == ""
        marks.settle()
        assert marks.of("elsewhere") == "5"

    async def test_are_bounded(self) -> None:
        marks = Marks(MemoryBus(), "room", int)
        for number in range(PLACES_MAX + 5):
            marks.reach(f"place {number}", str(number + 1))
        assert len(marks.places) == PLACES_MAX

    async def test_are_kept_when_the_bus_did_not_take_them(self) -> None:
        bus = MemoryBus()
        marks = Marks(bus, "room", int)
        marks.reach("place", "5")
        bus.away = True
        with pytest.raises(BusUnavailable):
            await marks.save()
        bus.away = False
        await marks.save()
        assert "5" in bus.positions["room"]

    async def test_say_when_an_account_listens_for_the_first_time(self) -> None:
        assert not await Marks(MemoryBus(), "room", int).load()
