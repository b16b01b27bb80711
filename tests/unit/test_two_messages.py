"""The door and a secret in two messages: what it remembers of whom and for how long, and whom it lets wait."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import LiteralString

import pytest

from channels.adapter import Outcome
from channels.inbound.halves import HALF_TTL_S, HALVES_MAX, Halves, part_of
from channels.inbound.intake import Intake
from channels.inbound.terms import DoorRules
from channels.inbound.threshold import HELD_MAX, HOLD_S, Threshold
from channels.normalized import Addressing, Incoming
from gateway.contracts.access import AccessPolicy, StrangerRule
from gateway.contracts.commands import Command, find_command
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ids import SessionScope
from gateway.contracts.messages import InboundMessage, Mend, RemovedSecrets, mark_of, own_words
from gateway.contracts.ports import Verdict
from gateway.scrub import Scrubber
from gateway.scrub.continued import continued
from gateway.scrub.placeholder import PLACEHOLDER
from tests.doubles import ManualClock, MemoryBus, PlainScrubber, door_rooms
from tests.parts.incoming import private_message
from tests.scrubbing import draw

TOKEN = draw("ghp_<base62:36>", seed=41)
HEAD, REST = f"take {TOKEN[:20]}", f"{TOKEN[20:]} please"
SHORT_HEAD, LONG_REST = f"take {TOKEN[:9]}", f"{TOKEN[9:]} please"
"""A head that is too short to wait for."""


@dataclass
class Door:
    """An intake on a bus in memory, and a hand that writes to it."""

    bus: MemoryBus = field(default_factory=MemoryBus)
    clock: ManualClock = field(default_factory=ManualClock)
    scope: SessionScope = SessionScope.PLACE
    deleted: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.intake = self.opened()

    def opened(self) -> Intake:
        """The door of a process that has just started."""
        policy = AccessPolicy(StrangerRule.OPEN)
        rooms = door_rooms(self.bus, Scrubber(placeholder_key=b"k" * 32), self.clock)
        return Intake(rooms, DoorRules(policy, self.scope), delete=self._delete)

    async def _delete(self, message: InboundMessage) -> None:
        self.deleted.append(message.id)

    async def say(self, text: str, number: int, **changes: object) -> Outcome:
        return await self.intake.accept(said(text, number, **changes))

    def wait(self, seconds: float) -> None:
        self.clock.at_ms += int(seconds * 1000)

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.bus.queued]

    @property
    def left(self) -> list[str]:
        """Texts with a piece of the token in them that says something."""
        pieces = [TOKEN[at : at + 12] for at in range(len(TOKEN) - 11)]
        return [text for text in self.texts if any(piece in text for piece in pieces)]


def said(text: str, number: int, **changes: object) -> Incoming:
    """Ann's message of this number, to be changed at will."""
    plain = replace(private_message(), id=f"telegram:1:7:{number}", text=text, command=find_command(text))
    return replace(plain, **changes)  # type: ignore[arg-type]


def message(text: LiteralString) -> InboundMessage:
    """One that is on its lane."""
    raw = said("x", 1)
    return InboundMessage(
        raw.id, raw.key(SessionScope.PLACE), raw.address, own_words(text), "7", own_words("Ann"), True, 1, 1
    )


# --- the memory


async def test_the_second_half_goes_and_the_first_is_taken_out_of_what_waits() -> None:
    door = Door()
    await door.say(SHORT_HEAD, 1)
    assert door.texts == [SHORT_HEAD]
    await door.say(LONG_REST, 2)
    first, second = door.texts
    assert PLACEHOLDER.fullmatch(first.removeprefix("take "))
    assert PLACEHOLDER.fullmatch(second.removesuffix(" please"))
    (mend,) = door.bus.queued[1].mends
    assert mend.mended(own_words(SHORT_HEAD)) == first


async def test_a_command_is_nobodys_second_half() -> None:
    door = Door()
    await door.say("DB_PASSWORD=", 1)
    await door.say("/export", 2, command=Command("export"))
    assert door.texts[-1] == "/export"


async def test_the_author_is_told_that_both_messages_held_it() -> None:
    door = Door()
    await door.say(SHORT_HEAD, 1)
    await door.say(LONG_REST, 2)
    assert [message.removed for message in door.bus.queued] == [(), (RemovedSecrets("github", 1, is_joined=True),)]


@pytest.mark.parametrize(
    "stranger",
    [
        {"user_id": "8"},
        {"place": ("-100",), "is_private": False, "addressing": Addressing.MENTION},
        {"account": "2"},
    ],
)
async def test_nobody_elses_words_and_no_other_place_are_joined(stranger: dict[str, object]) -> None:
    door = Door()
    await door.say(SHORT_HEAD, 1)
    await door.say(LONG_REST, 2, **stranger)
    assert door.texts == [SHORT_HEAD, LONG_REST]


async def test_two_people_of_one_shared_lane_are_two_authors() -> None:
    door = Door(scope=SessionScope.SHARED)
    group = {"place": ("-100",), "is_private": False, "addressing": Addressing.MENTION}
    await door.say(SHORT_HEAD, 1, **group)
    await door.say("nothing of mine", 2, user_id="8", **group)
    await door.say(LONG_REST, 3, **group)
    assert PLACEHOLDER.search(door.texts[0])
    assert door.texts[1] == "nothing of mine"
    assert door.left == []


@pytest.mark.parametrize(("after_s", "is_joined"), [(HALF_TTL_S - 1, True), (HALF_TTL_S, False)])
async def test_what_was_said_is_remembered_for_a_minute(after_s: float, *, is_joined: bool) -> None:
    door = Door()
    await door.say(SHORT_HEAD, 1)
    door.wait(after_s)
    await door.say(LONG_REST, 2)
    assert (door.texts[0] != SHORT_HEAD) is is_joined


async def test_an_edit_of_the_second_message_is_read_behind_the_first() -> None:
    door = Door()
    await door.say(SHORT_HEAD, 1)
    await door.say("wait a moment", 2)
    assert await door.say(LONG_REST, 2, edited_at_ms=5) is Outcome.AMENDED
    assert PLACEHOLDER.search(door.texts[0])
    assert door.left == []


async def test_an_edit_of_the_first_message_may_bring_the_second_half() -> None:
    door = Door()
    await door.say(SHORT_HEAD, 1)
    assert await door.say(f"take {TOKEN} please", 1, edited_at_ms=5) is Outcome.AMENDED
    assert door.left == []


async def test_what_followed_an_edited_head_is_joined_with_the_edit() -> None:
    door = Door()
    await door.say("take this", 1)
    await door.say(SHORT_HEAD, 1, edited_at_ms=5)
    await door.say(LONG_REST, 2)
    assert PLACEHOLDER.search(door.texts[0])
    assert door.left == []


async def test_a_message_that_comes_again_is_no_next_message() -> None:
    door = Door()
    await door.say(SHORT_HEAD, 1)
    await door.say(LONG_REST, 2)
    once = list(door.texts)
    assert [await door.say(SHORT_HEAD, 1), await door.say(LONG_REST, 2)] == [Outcome.DUPLICATE] * 2
    assert door.texts == once


async def test_a_half_that_could_not_be_brought_is_joined_when_it_comes_again() -> None:
    door = Door()
    await door.say(SHORT_HEAD, 1)
    door.bus.away = True
    with pytest.raises(BusUnavailable):
        await door.say(LONG_REST, 2)
    door.bus.away = False
    await door.say(LONG_REST, 2)
    assert door.left == []


async def test_of_a_lane_that_is_full_the_first_half_goes_although_the_second_never_came_in() -> None:
    door = Door()
    await door.say(f"take {TOKEN[:11]}", 1)
    door.bus.verdict = Verdict.LANE_FULL
    assert await door.say(f"{TOKEN[11:]} please", 2) is Outcome.TURNED_AWAY
    assert PLACEHOLDER.search(door.texts[0])


async def test_both_halves_are_to_be_deleted_where_they_were_written() -> None:
    door = Door()
    await door.say(SHORT_HEAD, 1)
    await door.say(LONG_REST, 2)
    await door.say("nothing else", 3)
    assert sorted(door.deleted) == ["telegram:1:7:1", "telegram:1:7:2"]


async def test_a_secret_in_the_name_of_a_file_is_told_of_and_deleted() -> None:
    door = Door()
    await door.intake.accept(private_message("see the file", file_name=f"{TOKEN}.txt"))
    assert door.bus.queued[0].removed == (RemovedSecrets("github", 1),)
    assert len(door.deleted) == 1


def test_the_memory_holds_the_newest_authors_only() -> None:
    halves = Halves()
    for number in range(HALVES_MAX + 1):
        halves.keep((str(number),), [part_of(message("x"), "x")], 0)
    assert halves.before(("0",), 0) == ()
    assert len(halves.before((str(HALVES_MAX),), 0)) == 1


def test_what_is_remembered_shows_in_no_log() -> None:
    assert TOKEN not in repr(part_of(message("x"), TOKEN))


# --- the hold


async def test_a_message_that_ends_in_a_half_waits_and_both_come_in_clean() -> None:
    """Neither Redis nor anybody else has ever seen a half."""
    door = Door()
    assert await door.say(HEAD, 1) is Outcome.HELD
    assert door.texts == []
    assert await door.say(REST, 2) is Outcome.QUEUED
    assert PLACEHOLDER.fullmatch(door.texts[0].removeprefix("take "))
    assert PLACEHOLDER.fullmatch(door.texts[1].removesuffix(" please"))
    assert door.bus.queued[1].mends == ()
    assert await door.say(HEAD, 1) is Outcome.DUPLICATE


async def test_the_wait_is_short_and_happens_once() -> None:
    door = Door()
    assert await door.say(HEAD, 1) is Outcome.HELD
    door.wait(HOLD_S / 2)
    assert await door.say(HEAD, 1) is Outcome.HELD
    door.wait(HOLD_S / 2)
    assert await door.say(HEAD, 1) is Outcome.QUEUED
    assert door.texts == [HEAD]
    await door.say(REST, 2)
    assert door.left == []
    assert len(door.bus.queued[1].mends) == 1


async def test_anything_else_said_in_the_lane_ends_the_wait_and_keeps_its_order() -> None:
    door = Door(scope=SessionScope.SHARED)
    group = {"place": ("-100",), "is_private": False, "addressing": Addressing.MENTION}
    assert await door.say(HEAD, 1, **group) is Outcome.HELD
    await door.say("hello", 2, user_id="8", **group)
    assert door.texts == [HEAD, "hello"]


async def test_other_lanes_go_on() -> None:
    door = Door()
    await door.say(HEAD, 1)
    assert await door.say("hello", 2, user_id="8") is Outcome.QUEUED
    assert door.texts == ["hello"]


async def test_commands_that_never_wait_pass_by() -> None:
    door = Door()
    await door.say(HEAD, 1)
    assert await door.say("/stop", 2) is Outcome.CONTROL


async def test_while_the_bus_is_away_a_head_goes_on_waiting() -> None:
    door = Door()
    await door.say(HEAD, 1)
    door.bus.away = True
    with pytest.raises(BusUnavailable):
        await door.say(REST, 2)
    door.bus.away = False
    await door.say(REST, 2)
    assert len(door.texts) == 2
    assert door.left == []


async def test_after_a_restart_a_head_that_was_on_the_bus_already_is_mended_all_the_same() -> None:
    """The process before took it and died before it could say so."""
    door = Door()
    await door.say(HEAD, 1)
    door.wait(HOLD_S)
    await door.say(HEAD, 1)
    assert door.texts == [HEAD]
    door.intake = door.opened()
    assert await door.say(HEAD, 1) is Outcome.HELD
    await door.say(REST, 2)
    assert door.left == []
    assert len(door.bus.queued[1].mends) == 1


def test_only_so_many_waits_are_remembered() -> None:
    threshold = Threshold()
    for number in range(HELD_MAX + 1):
        assert threshold.is_to_wait(f"telegram:{number}", said(HEAD, number), 0.0)
    assert threshold.before("telegram:0", said("x", 9_999)) is None
    assert threshold.before(f"telegram:{HELD_MAX}", said("x", 9_999)) is not None


# --- a mend


def test_a_mend_is_done_once_and_only_where_the_half_still_stands() -> None:
    half = TOKEN[:20]
    mend = Mend("m1", len(half), mark_of(half, "m1"), own_words("[redacted:github#a1b2c3]"))
    torn = PlainScrubber().scrub(f"key: {half}")
    once = mend.mended(torn)
    assert once == "key: [redacted:github#a1b2c3]"
    assert mend.mended(once) == once
    assert mend.mended(own_words("something else that is long enough")) == "something else that is long enough"
    assert mend.mended(own_words("short")) == "short"


# --- edits of what was answered long since


@pytest.mark.parametrize("edit", [f"take {TOKEN} please", LONG_REST])
async def test_an_edit_that_shows_what_an_answered_message_ended_in_mends_it(edit: str) -> None:
    door = Door()
    await door.say(SHORT_HEAD, 1)
    door.bus.queued.clear()
    assert await door.say(edit, 1, edited_at_ms=5) is Outcome.IGNORED
    (mending,) = door.bus.queued
    assert mending.only_mends
    assert PLACEHOLDER.search(mending.mends[0].mended(PlainScrubber().scrub(SHORT_HEAD)))
    assert door.left == []


async def test_another_edit_of_an_answered_message_brings_nothing() -> None:
    door = Door()
    await door.say(SHORT_HEAD, 1)
    door.bus.queued.clear()
    await door.say("never mind", 1, edited_at_ms=5)
    assert door.texts == []


def test_a_message_that_begins_with_a_secret_of_its_own_shows_no_end_of_it() -> None:
    """Read as one with the key before it, only the beginning of the second would be taken for the first's end."""
    scrubber = Scrubber()
    for seed in range(20):
        first, second = draw("glpat-<base64url:14>", seed=seed), draw("xoxd-<base62:60>+<base62:40>", seed=seed)
        read = continued(scrubber, [f"the first is {first}"], f"{second} is the second")
        assert not any(second[at : at + 12] in read.text for at in range(5, len(second) - 11)), read.text
