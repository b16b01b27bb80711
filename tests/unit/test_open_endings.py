"""An announcement that a message leaves open is read with its author's next message, and with nobody else's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from channels.core.adapter import IntakeOutcome
from channels.core.intake import IntakeConfig, MessageIntake
from channels.core.message import Addressing, Incoming
from channels.core.sanitize import ENDING_TTL_S, ENDINGS_MAX, OpenEndings
from gateway.contracts.access import AccessPolicy, StrangerRule
from gateway.contracts.commands import Command, find_command
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ids import SessionScope
from gateway.contracts.messages import InboundMessage, RemovedSecrets
from gateway.scrub import Scrubber
from gateway.scrub.known import PLACEHOLDER
from tests.doubles import ManualClock, MemoryBus, door_rooms
from tests.parts.incoming import private_message
from tests.scrubbing import draw

ANNOUNCEMENT, VALUE = "my password is", "hunter2!"
TOKEN = draw("ghp_<base62:36>", seed=41)


@dataclass
class InboundHandler:
    """An intake on a bus in memory, and a hand that writes to it."""

    bus: MemoryBus = field(default_factory=MemoryBus)
    clock: ManualClock = field(default_factory=ManualClock)
    scope: SessionScope = SessionScope.PLACE
    deleted: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        policy = AccessPolicy(StrangerRule.OPEN)
        rooms = door_rooms(self.bus, Scrubber(placeholder_key=b"k" * 32), self.clock)
        self.intake = MessageIntake(rooms, IntakeConfig(policy, self.scope), delete=self._delete)

    async def _delete(self, message: InboundMessage) -> None:
        self.deleted.append(message.id)

    async def say(self, text: str, number: int, **changes: object) -> IntakeOutcome:
        return await self.intake.accept(said(text, number, **changes))

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.bus.queued]


def said(text: str, number: int, **changes: object) -> Incoming:
    """Write Ann's message of this number, to be changed at will."""
    plain = replace(private_message(), id=f"telegram:1:7:{number}", text=text, command=find_command(text))
    return replace(plain, **changes)  # type: ignore[arg-type]


async def test_a_value_that_was_announced_one_message_before_goes() -> None:
    door = InboundHandler()
    await door.say(ANNOUNCEMENT, 1)
    await door.say(f"{VALUE} as you asked", 2)
    first, second = door.texts
    assert first == ANNOUNCEMENT
    assert PLACEHOLDER.fullmatch(second.removesuffix(" as you asked"))
    assert [message.removed for message in door.bus.queued] == [(), (RemovedSecrets("named", 1),)]
    assert door.deleted == ["telegram:1:7:2"]


async def test_what_follows_the_value_is_announced_no_more() -> None:
    door = InboundHandler()
    await door.say(ANNOUNCEMENT, 1)
    await door.say("hunter2!", 2)
    await door.say("thanks", 3)
    assert door.texts[2] == "thanks"


async def test_a_command_is_no_announced_value() -> None:
    door = InboundHandler()
    await door.say("DB_PASSWORD=", 1)
    await door.say("/export", 2, command=Command("export"))
    assert door.texts[-1] == "/export"


@pytest.mark.parametrize(
    "stranger",
    [{"user_id": "8"}, {"place": ("-100",), "is_private": False, "addressing": Addressing.MENTION}, {"account": "2"}],
)
async def test_nobody_elses_words_and_no_other_place_are_read_together(stranger: dict[str, object]) -> None:
    door = InboundHandler()
    await door.say(ANNOUNCEMENT, 1)
    await door.say(VALUE, 2, **stranger)
    assert door.texts == [ANNOUNCEMENT, VALUE]


async def test_two_people_of_one_shared_lane_are_two_authors() -> None:
    door = InboundHandler(scope=SessionScope.SHARED)
    group = {"place": ("-100",), "is_private": False, "addressing": Addressing.MENTION}
    await door.say(ANNOUNCEMENT, 1, **group)
    await door.say("hello", 2, user_id="8", **group)
    await door.say(VALUE, 3, **group)
    assert door.texts[1] == "hello"
    assert PLACEHOLDER.fullmatch(door.texts[2])


@pytest.mark.parametrize(("after_s", "is_read"), [(ENDING_TTL_S - 1, True), (ENDING_TTL_S, False)])
async def test_an_announcement_is_remembered_for_a_minute(after_s: float, *, is_read: bool) -> None:
    door = InboundHandler()
    await door.say(ANNOUNCEMENT, 1)
    door.clock.at_ms += int(after_s * 1000)
    await door.say(VALUE, 2)
    assert (door.texts[1] != VALUE) is is_read


async def test_an_edit_of_the_second_message_is_read_after_the_first() -> None:
    door = InboundHandler()
    await door.say(ANNOUNCEMENT, 1)
    await door.say("wait a moment", 2)
    assert await door.say(VALUE, 2, edited_at_ms=5) is IntakeOutcome.AMENDED
    assert PLACEHOLDER.fullmatch(door.texts[-1])


async def test_an_edit_may_bring_the_announcement() -> None:
    door = InboundHandler()
    await door.say("take this", 1)
    await door.say(ANNOUNCEMENT, 1, edited_at_ms=5)
    await door.say(VALUE, 2)
    assert PLACEHOLDER.fullmatch(door.texts[-1])


async def test_a_message_that_comes_again_is_no_next_message() -> None:
    door = InboundHandler()
    await door.say("the time is 9:30", 1)
    await door.say(ANNOUNCEMENT, 2)
    assert await door.say("the time is 9:30", 1) is IntakeOutcome.DUPLICATE
    await door.say(VALUE, 3)
    assert PLACEHOLDER.fullmatch(door.texts[-1])


async def test_a_value_that_could_not_be_brought_goes_when_it_comes_again() -> None:
    door = InboundHandler()
    await door.say(ANNOUNCEMENT, 1)
    door.bus.away = True
    with pytest.raises(BusUnavailable):
        await door.say(VALUE, 2)
    door.bus.away = False
    await door.say(VALUE, 2)
    assert PLACEHOLDER.fullmatch(door.texts[-1])


async def test_a_secret_in_the_name_of_a_file_is_told_of_and_deleted() -> None:
    door = InboundHandler()
    await door.intake.accept(private_message("see the file", file_name=f"{TOKEN}.txt"))
    assert door.bus.queued[0].removed == (RemovedSecrets("github", 1),)
    assert len(door.deleted) == 1


def test_the_memory_holds_the_newest_authors_only() -> None:
    endings = OpenEndings()
    for number in range(ENDINGS_MAX + 1):
        endings.keep(said(ANNOUNCEMENT, 1, user_id=str(number)), 0)
    assert endings.before(said(VALUE, 2, user_id="0"), 0) == ""
    assert endings.before(said(VALUE, 2, user_id=str(ENDINGS_MAX)), 0) == ANNOUNCEMENT
