"""Live messages in order, history first after a gap."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from channels.core import backfill
from channels.core.adapter import IntakeOutcome, QueueFull
from channels.core.backfill import (
    PLACES_MAX,
    WAITING_MAX,
    HistoryUnavailable,
    Listener,
    MessageOrder,
    NotTaken,
    RawMessage,
    ReadCursors,
)
from channels.core.message import Incoming, Retraction
from gateway.contracts.commands import find_command
from gateway.contracts.errors import BusUnavailable
from tests.doubles import MemoryBus
from tests.parts.incoming import private_message
from tests.parts.waiting import PATIENCE_S

NUMBERS = MessageOrder(key=int, before=lambda number: str(int(number) - 1))


@dataclass
class Room:
    """A door that writes down what came through, and a platform that remembers what was said.

    `history` is what was said in the one place that can be listed, `letters` what was said elsewhere: as
    direct chats on Discord these are read back only if their marks are known.
    """

    bus: MemoryBus = field(default_factory=MemoryBus)
    accepted: list[str] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    letters: dict[str, list[str]] = field(default_factory=dict)
    full_for: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)
    is_away: bool = False
    history_failures: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def accept(self, incoming: Incoming) -> IntakeOutcome:
        if self.is_away:
            raise BusUnavailable("away")
        if incoming.text in self.full_for:
            raise QueueFull("full")
        self.accepted.append(incoming.text)
        self.changed.set()
        return IntakeOutcome.QUEUED

    async def rooms(self) -> Sequence[str]:
        return ("place", *(place for place in self.marks.places if place in self.letters))

    async def missed(self, room: str) -> AsyncIterator[RawMessage[str]]:
        if self.history_failures or room in self.unread:
            self.history_failures -= 1
            raise HistoryUnavailable("not now")
        mark = int(self.marks.of(room) or 0)
        for text in self.history if room == "place" else self.letters[room]:
            if int(text) > mark:
                yield RawMessage(room, text, text)

    async def retract(self, retraction: Retraction) -> IntakeOutcome:
        raise AssertionError(retraction)

    async def understand(self, heard: RawMessage[str]) -> Incoming | None:
        if heard.raw == "poison":
            raise KeyError(heard.raw)
        if heard.raw.startswith("-"):
            return None
        return replace(private_message(), text=heard.raw, command=find_command(heard.raw))

    async def taken(self, incoming: Incoming) -> None:
        return

    def __post_init__(self) -> None:
        self.marks = ReadCursors(self.bus, "room", NUMBERS)

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Listener[str]]:
        listener = Listener("room", self, self.marks, self)
        running = asyncio.create_task(listener.run())
        try:
            yield listener
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def until_accepted(self, texts: list[str], *, in_order: bool = True) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while (self.accepted if in_order else sorted(self.accepted)) != texts:
                self.changed.clear()
                await self.changed.wait()


def live(text: str, place: str = "place") -> RawMessage[str]:
    return RawMessage(place, text.lstrip("-"), text)


async def test_live_messages_pass_in_the_order_they_were_heard() -> None:
    room = Room()
    async with room.listening() as listener:
        for number in range(1, 6):
            listener.hear(live(str(number)))
        await room.until_accepted(["1", "2", "3", "4", "5"])


async def test_what_was_said_earlier_comes_first_though_it_was_heard_later() -> None:
    """Several connections bring events in no order. What was said elsewhere is not kept waiting for it."""
    room = Room()
    async with room.listening() as listener:
        for text, place in (("1", "place"), ("3", "place"), ("9", "other"), ("2", "place"), ("4", "place")):
            listener.hear(live(text, place))
        await room.until_accepted(["1", "2", "3", "9", "4"])


async def test_while_others_are_connected_a_message_is_read_back_with_what_came_before_it() -> None:
    """What went to a connection that leads nowhere comes later, or never."""
    room = Room()
    async with room.listening() as listener:
        listener.hear(live("1"))
        await room.until_accepted(["1"])
        room.history = ["1", "2", "3"]
        listener.share(True)
        listener.hear(live("3"))
        await room.until_accepted(["1", "2", "3", "3"])
        room.history.append("4")
        listener.share(False)
        listener.hear(live("5"))
        await room.until_accepted(["1", "2", "3", "3", "5"])


async def test_while_others_are_connected_what_is_not_heard_at_all_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backfill, "SHARED_LOOK_EVERY_S", 0.01)
    room = Room()
    async with room.listening() as listener:
        listener.hear(live("1"))
        await room.until_accepted(["1"])
        listener.share(True)
        for said in ("2", "3"):
            room.history.append(said)
            await room.until_accepted(["1", "2", "3"][: int(said)])


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


async def test_strangers_who_speak_while_the_bus_is_away_are_read_back() -> None:
    """None of them is known, nobody can list their chats, and only the first is being taken when it fails."""
    room = Room()
    async with room.listening() as listener:
        await listener.hear(live("1"))
        room.is_away = True
        room.letters = {"ann": ["2"], "ben": ["3"], "cleo": ["4"]}
        heard = [listener.hear(live(text, place)) for place, (text,) in room.letters.items()]
        outcomes = await asyncio.gather(*heard, return_exceptions=True)
        assert all(isinstance(outcome, NotTaken) for outcome in outcomes)
        room.is_away = False
        await until_all(room, {"1", "2", "3", "4"})


async def test_a_stranger_who_speaks_while_history_is_read_is_not_passed_over() -> None:
    """Newer messages come back from the history meanwhile: the account's mark moves on, his place must not."""
    room = Room(history=["1", "5"])
    room.marks.reach("place", "1")
    async with room.listening() as listener:
        listener.hear(live("3", "ann"))
        await room.until_accepted(["3", "5"], in_order=False)
        room.is_away = True
        room.letters = {"ben": ["4"]}
        with pytest.raises(NotTaken):
            await listener.hear(live("4", "ben"))
        room.is_away = False
        await until_all(room, {"3", "4", "5"})


async def test_who_is_refused_for_want_of_room_holds_up_nobody_else() -> None:
    """The queue may have room for others; what was refused waits in the history, and so does what follows it."""
    room = Room(full_for={"2"})
    async with room.listening() as listener:
        await listener.hear(live("1"))
        room.history = ["1", "2", "3"]
        with pytest.raises(NotTaken):
            await listener.hear(live("2"))
        following = listener.hear(live("3"))
        await listener.hear(live("4", "elsewhere"))
        assert room.accepted == ["1", "4"]
        room.full_for.clear()
        await following
        assert list(dict.fromkeys(room.accepted)) == ["1", "4", "2", "3"]


async def test_a_control_command_does_not_wait_for_the_history_of_its_room() -> None:
    room = Room(history=["1"], full_for={"1"})
    async with room.listening() as listener:
        await listener.hear(RawMessage("place", "2", "/stop"))
        assert room.accepted == ["/stop"]
        room.full_for.clear()
        await until_all(room, {"/stop", "1"})


async def test_a_room_that_cannot_be_read_holds_up_no_other() -> None:
    room = Room(unread={"place"})
    async with room.listening() as listener:
        await listener.hear(live("1", "elsewhere"))
        assert not listener.is_caught_up


async def test_a_history_that_fails_is_asked_again() -> None:
    room = Room(history=["1"], history_failures=2)
    async with room.listening():
        await room.until_accepted(["1"])


async def test_a_poisonous_message_is_counted_and_skipped() -> None:
    room = Room()
    async with room.listening() as listener:
        listener.hear(RawMessage("place", "1", "poison"))
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
        await until_all(room, set(room.history))


async def until_all(room: Room, texts: set[str]) -> None:
    """Wait until all of this has come through, some of it perhaps twice."""
    async with asyncio.timeout(PATIENCE_S):
        while set(room.accepted) != texts:
            room.changed.clear()
            await room.changed.wait()


async def test_marks_survive_a_restart() -> None:
    """The next process begins where this one stopped."""
    room = Room()
    async with room.listening() as listener:
        await listener.hear(live("7"))
        await listener.hear(live("-8"))
    again = ReadCursors(room.bus, "room", NUMBERS)
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
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(running, return_exceptions=True)


class TestMarks:
    async def test_never_go_back(self) -> None:
        marks = ReadCursors(MemoryBus(), "room", NUMBERS)
        marks.reach("place", "5")
        marks.reach("place", "3")
        assert marks.of("place") == "5"

    async def test_of_an_unknown_place_begin_at_the_newest_of_the_account(self) -> None:
        marks = ReadCursors(MemoryBus(), "room", NUMBERS)
        marks.reach("place", "5")
        assert marks.of("elsewhere") == ""
        marks.settle()
        assert marks.of("elsewhere") == "5"

    async def test_of_a_new_place_begin_before_its_first_message(self) -> None:
        """However late it is heard: others may have been faster."""
        marks = ReadCursors(MemoryBus(), "room", NUMBERS)
        await marks.begin("9")
        assert marks.meet("early", "5")
        assert marks.meet("late", "12")
        assert (marks.of("early"), marks.of("late")) == ("4", "9")

    async def test_fall_back_behind_what_was_not_taken(self) -> None:
        marks = ReadCursors(MemoryBus(), "room", NUMBERS)
        marks.reach("place", "7")
        marks.move_back("place", "6")
        assert marks.of("place") == "5"
        marks.move_back("place", "9")
        assert marks.of("place") == "5"

    async def test_are_bounded(self) -> None:
        marks = ReadCursors(MemoryBus(), "room", NUMBERS)
        for number in range(PLACES_MAX + 5):
            marks.reach(f"place {number}", str(number + 1))
        assert len(marks.places) == PLACES_MAX

    async def test_are_kept_when_the_bus_did_not_take_them(self) -> None:
        bus = MemoryBus()
        marks = ReadCursors(bus, "room", NUMBERS)
        marks.reach("place", "5")
        bus.away = True
        with pytest.raises(BusUnavailable):
            await marks.save()
        bus.away = False
        await marks.save()
        assert "5" in bus.positions["room"]

    async def test_say_when_an_account_listens_for_the_first_time(self) -> None:
        assert not await ReadCursors(MemoryBus(), "room", NUMBERS).load()
