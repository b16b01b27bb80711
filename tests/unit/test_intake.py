"""The door: who is let in, what is scrubbed and cut, what the author is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.core import intake as terms
from channels.core import notices
from channels.core.adapter import IntakeOutcome, QueueFull
from channels.core.intake import ALBUM_SETTLE_MS, SPLIT_SETTLE_MS, FreeDisk, IntakeConfig, MessageIntake
from channels.core.message import Addressing, FileReference, Incoming, RawQuote, Retraction
from channels.core.sanitize import QUOTE_CHARS_MAX, TEXT_BYTES_MAX, fit
from gateway.contracts.access import AccessPolicy, Admittance, PlacePolicy, StrangerRule, admit
from gateway.contracts.commands import Suggestion, Suggests
from gateway.contracts.envelope import encode
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ids import SessionKey, SessionScope
from gateway.contracts.messages import (
    AttachmentKind,
    CleanText,
    ControlKind,
    InboundMessage,
    QuoteKind,
    RemovedSecrets,
    Reply,
    ReplyKind,
    literal_text,
)
from gateway.contracts.ports import Admission, Position, Verdict
from gateway.i18n import ENGLISH
from gateway.limits import DISK_LOOK_EVERY_S, ENVELOPE_BYTES_MAX, INBOUND_CHARS_MAX
from tests.doubles import ManualClock, MemoryBus, door_rooms
from tests.parts.incoming import private_message

OPEN = AccessPolicy(StrangerRule.OPEN)
PAIRING = AccessPolicy(StrangerRule.PAIRING)
CLOSED = AccessPolicy(StrangerRule.CLOSED)
ANN = SessionKey("telegram", "7")
IN_GROUP = replace(private_message(), place=("-100",), is_private=False, addressing=Addressing.MENTION)


def door(bus: MemoryBus, policy: AccessPolicy = OPEN, scope: SessionScope = SessionScope.PLACE) -> MessageIntake:
    """An intake on a bus in memory."""
    return MessageIntake(door_rooms(bus), IntakeConfig(policy, scope))


class DefectiveBus(MemoryBus):
    """A bus on which a defect shows in messages of one word."""

    async def enqueue(self, message: InboundMessage, *args: Any, **options: Any) -> Admission:
        """Take what is without that word."""
        if message.text == "fail":
            raise KeyError(message.id)
        return await super().enqueue(message, *args, **options)


class TestAnAlbum:
    async def test_follows_its_part_that_names_the_bot(self) -> None:
        """In a group only the caption does. Other people's albums, and other albums, do not."""
        bus = MemoryBus()
        intake = door(bus)
        part = replace(IN_GROUP, id="telegram:1:-100:2", text="", addressing=Addressing.NOT_ADDRESSED, album_id="a")
        assert await intake.accept(part) is IntakeOutcome.IGNORED
        assert await intake.accept(replace(IN_GROUP, album_id="a")) is IntakeOutcome.QUEUED
        assert await intake.accept(replace(part, id="telegram:1:-100:3")) is IntakeOutcome.QUEUED
        assert await intake.accept(replace(part, user_id="8")) is IntakeOutcome.IGNORED
        assert await intake.accept(replace(part, album_id="b")) is IntakeOutcome.IGNORED
        assert await intake.accept(replace(part, place=("-200",))) is IntakeOutcome.IGNORED

    async def test_is_whole_whichever_part_names_the_bot(self) -> None:
        """Its author chooses the picture under which the words stand; nobody else's pictures come along."""
        bus = MemoryBus()
        intake = door(bus)
        first = replace(IN_GROUP, id="a:1", text="", addressing=Addressing.NOT_ADDRESSED, album_id="a")
        for part in (first, replace(first, id="a:x", user_id="8"), replace(first, id="a:y", album_id="b")):
            assert await intake.accept(part) is IntakeOutcome.IGNORED
        named = replace(IN_GROUP, id="a:2", album_id="a")
        assert await intake.accept(named) is IntakeOutcome.QUEUED
        assert await intake.accept(replace(first, id="a:3")) is IntakeOutcome.QUEUED
        assert await intake.accept(named) is IntakeOutcome.DUPLICATE
        assert [message.id for message in bus.queued] == ["a:1", "a:2", "a:3"]


class TestAMessage:
    async def test_is_on_the_bus_before_accept_returns(self) -> None:
        bus = MemoryBus()
        assert await door(bus).accept(private_message()) is IntakeOutcome.QUEUED
        assert [(str(message.key), message.text) for message in bus.queued] == [("telegram:7", "hello")]

    async def test_said_in_a_group_has_the_place_in_its_key(self) -> None:
        bus = MemoryBus()
        await door(bus).accept(IN_GROUP)
        assert str(bus.queued[0].key) == "telegram:7/-100"

    async def test_in_shared_scope_has_no_user_in_its_key(self) -> None:
        bus = MemoryBus()
        await door(bus, scope=SessionScope.SHARED).accept(IN_GROUP)
        assert str(bus.queued[0].key) == "telegram:/-100"

    async def test_with_a_token_is_the_agents_to_judge_whoever_pressed(self) -> None:
        """A stranger may be the guest of a place, where a button is meant for him; a blocked person never is."""
        token = pressed(f"/press {'A' * 27}")
        for policy in (OPEN, PAIRING, CLOSED):
            bus = MemoryBus()
            assert await door(bus, policy).press(token) is None
            assert [(request.kind, request.message.text) for request in bus.controls] == [
                (ControlKind.PRESS, token.text)
            ]
        bus = MemoryBus(roles={str(ANN): "blocked"})
        assert await door(bus).press(token) == ""
        assert bus.controls == []

    async def test_that_comes_twice_is_one(self) -> None:
        bus = MemoryBus()
        intake = door(bus)
        await intake.accept(private_message())
        assert await intake.accept(private_message()) is IntakeOutcome.DUPLICATE
        assert len(bus.queued) == 1

    async def test_that_nobody_addressed_to_us_goes_nowhere(self) -> None:
        bus = MemoryBus(away=True)
        overheard = replace(IN_GROUP, addressing=Addressing.NOT_ADDRESSED)
        assert await door(bus).accept(overheard) is IntakeOutcome.IGNORED

    async def test_that_was_edited_is_not_a_new_one(self) -> None:
        """Not even when the edit is what calls us: else every edit of an old message were answered."""
        bus = MemoryBus()
        assert await door(bus).accept(replace(private_message(), edited_at_ms=1)) is IntakeOutcome.IGNORED
        assert bus.queued == []

    @pytest.mark.parametrize(
        ("incoming", "settle_ms"),
        [
            (private_message(), 0),
            (replace(private_message(), album_id="a1"), ALBUM_SETTLE_MS),
            (replace(private_message(), may_continue=True), SPLIT_SETTLE_MS),
        ],
    )
    async def test_waits_only_where_the_platform_splits_one_thought(self, incoming: Incoming, settle_ms: int) -> None:
        bus = MemoryBus()
        await door(bus).accept(incoming)
        assert bus.settled_ms == [settle_ms]

    async def test_is_not_acknowledged_while_the_bus_is_away(self) -> None:
        """The adapter sees the error and tells the platform nothing."""
        with pytest.raises(BusUnavailable):
            await door(MemoryBus(away=True)).accept(private_message())

    async def test_is_not_acknowledged_while_the_queue_is_full(self) -> None:
        """Back-pressure: the platform keeps it."""
        with pytest.raises(QueueFull):
            await door(MemoryBus(verdict=Verdict.QUEUE_FULL)).accept(private_message())

    async def test_is_not_acknowledged_while_the_process_stops(self) -> None:
        bus = MemoryBus()
        intake = door(bus)
        intake.close()
        with pytest.raises(QueueFull):
            await intake.accept(private_message())
        assert bus.queued == []

    async def test_that_cannot_be_taken_in_holds_up_its_lane_alone(self) -> None:
        """A defect of ours that shows in one message must not stop its channel for everybody."""
        bus = DefectiveBus()
        intake = door(bus)
        for _ in range(3):
            with pytest.raises(QueueFull):  # it may be in all of them
                await intake.accept(private_message("fail"))
        other = replace(private_message(), id="telegram:1:8:2", user_id="8")
        assert await intake.accept(other) is IntakeOutcome.QUEUED
        assert await intake.accept(private_message("fail")) is IntakeOutcome.IGNORED
        assert [message.id for message in bus.queued] == [other.id]

    async def test_for_a_full_lane_is_turned_away_with_one_sentence(self) -> None:
        bus = MemoryBus(verdict=Verdict.LANE_FULL)
        intake = door(bus)
        assert await intake.accept(private_message()) is IntakeOutcome.TURNED_AWAY
        await intake.accept(private_message())
        (notice,) = bus.notices.values()
        assert "waiting" in notice.text
        assert notice.address == private_message().address


class TestAnEdit:
    async def test_changes_what_waits(self) -> None:
        bus = MemoryBus()
        intake = door(bus)
        await intake.accept(private_message("helo"))
        assert await intake.accept(edited("hello SECRET")) is IntakeOutcome.AMENDED
        assert [message.text for message in bus.queued] == ["hello [redacted:test]"]

    async def test_that_takes_our_name_away_still_changes_it(self) -> None:
        bus = MemoryBus()
        intake = door(bus)
        await intake.accept(IN_GROUP)
        changed = replace(IN_GROUP, text="never mind", addressing=Addressing.NOT_ADDRESSED, edited_at_ms=5)
        assert await intake.accept(changed) is IntakeOutcome.AMENDED

    async def test_that_changes_nothing_we_read_does_nothing(self) -> None:
        """A link that got its preview must not restart a turn."""
        bus = MemoryBus()
        intake = door(bus)
        await intake.accept(private_message("hello"))
        assert await intake.accept(edited("hello")) is IntakeOutcome.IGNORED

    async def test_into_a_control_command_is_none(self) -> None:
        bus = MemoryBus()
        intake = door(bus)
        await intake.accept(private_message("/stop"))
        assert await intake.accept(edited("/stop now")) is IntakeOutcome.IGNORED
        assert len(bus.controls) == 1

    async def test_of_a_stranger_is_left_without_a_word(self) -> None:
        bus = MemoryBus()
        assert await door(bus, PAIRING).accept(edited("let me in")) is IntakeOutcome.REFUSED
        assert bus.notices == {}

    async def test_is_the_same_envelope_however_often_it_comes(self) -> None:
        """So that the bus can tell a repeated edit from a further one."""
        first, second = MemoryBus(), MemoryBus()
        for bus, now_ms in ((first, 1_800_000_000_000), (second, 1_900_000_000_000)):
            intake = MessageIntake(door_rooms(bus, clock=ManualClock(now_ms)), IntakeConfig(OPEN, SessionScope.PLACE))
            await intake.accept(private_message())
            await intake.accept(edited("other words"))
        assert first.queued == second.queued


class TestADeletion:
    async def test_takes_the_message_off_its_lane(self) -> None:
        """Even where the platform does not say whose it was."""
        bus = MemoryBus()
        intake = door(bus)
        await intake.accept(private_message())
        assert await intake.retract(Retraction(private_message().id, "telegram", ())) is IntakeOutcome.AMENDED
        assert bus.queued == []

    async def test_of_a_message_that_we_do_not_know_does_nothing(self) -> None:
        assert await door(MemoryBus()).retract(Retraction("telegram:1:7:1", "telegram", ())) is IntakeOutcome.IGNORED

    async def test_of_a_message_that_another_process_took_works_where_the_author_is_named(self) -> None:
        bus = MemoryBus()
        await door(bus).accept(private_message())
        assert await door(bus).retract(Retraction(private_message().id, "telegram", (), "7")) is IntakeOutcome.AMENDED


async def test_a_full_queue_is_no_secret() -> None:
    """The author is told once that his message waits, however often it is tried again."""
    bus = MemoryBus(verdict=Verdict.QUEUE_FULL)
    intake = door(bus)
    for _ in range(3):
        with pytest.raises(QueueFull):
            await intake.accept(private_message())
    (notice,) = bus.notices.values()
    assert "not lost" in notice.text


async def test_where_little_disk_is_free_messages_stay_with_their_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is half-written: neither on the bus nor in the vault. Commands go on, and so do messages once there is
    room."""
    disk, now = SimpleNamespace(free=99), SimpleNamespace(s=0.0)
    monkeypatch.setattr(terms, "shutil", SimpleNamespace(disk_usage=lambda _: disk))
    monkeypatch.setattr(terms, "time", SimpleNamespace(monotonic=lambda: now.s))
    bus = MemoryBus()
    rules = IntakeConfig(OPEN, SessionScope.PLACE, has_disk=FreeDisk(tmp_path, 100))
    intake = MessageIntake(door_rooms(bus), rules)
    for _ in range(2):
        with pytest.raises(QueueFull, match="disk"):
            await intake.accept(private_message())
    (notice,) = bus.notices.values()
    assert "not lost" in notice.text
    assert bus.queued == []
    assert await intake.accept(replace(private_message("/stop"), id="telegram:1:7:2")) is IntakeOutcome.CONTROL
    disk.free, now.s = 100, DISK_LOOK_EVERY_S
    assert await intake.accept(private_message()) is IntakeOutcome.QUEUED


def test_a_folder_that_is_not_here_keeps_nobody_out(tmp_path: Path) -> None:
    assert FreeDisk(tmp_path / "elsewhere", 2**60)()
    assert not FreeDisk(tmp_path, 2**60)()


async def test_who_has_too_much_waiting_is_told_how_much_the_operator_allows() -> None:
    bus = MemoryBus(verdict=Verdict.LANE_FULL)
    await MessageIntake(door_rooms(bus), IntakeConfig(OPEN, SessionScope.PLACE, lane_messages_max=3)).accept(
        private_message()
    )
    (notice,) = bus.notices.values()
    assert notice.text.startswith("You have 3 messages waiting")


async def test_in_interrupt_mode_a_message_cancels_the_running_turn() -> None:
    bus = MemoryBus()
    intake = MessageIntake(door_rooms(bus), IntakeConfig(OPEN, SessionScope.PLACE, interrupts=True))
    await intake.accept(private_message())
    assert bus.interrupted == [private_message().id]


def edited(text: str) -> Incoming:
    """A later version of Ann's message."""
    return replace(private_message(text), edited_at_ms=1_700_000_005_000)


class TestScrubbing:
    async def test_reaches_text_author_and_file_names(self) -> None:
        """A secret never gets further than this process, wherever in the message it stands."""
        bus = MemoryBus()
        await door(bus).accept(private_message(text="my SECRET", author_name="SECRET Ann", file_name="SECRET.txt"))
        assert b"SECRET" not in encode(bus.queued[0])

    async def test_comes_before_cutting(self) -> None:
        """Half a secret is none that anybody would recognise."""
        bus = MemoryBus()
        name, file_name = "n" * 125 + "SECRET", "f" * 252 + "SECRET"
        await door(bus).accept(private_message(author_name=name, file_name=file_name))
        (message,) = bus.queued
        assert "SEC" not in message.author_name
        assert "SEC" not in message.attachments[0].name
        assert (len(message.author_name), len(message.attachments[0].name)) == (128, 255)

    async def test_counts_what_it_removed(self) -> None:
        bus = MemoryBus()
        await door(bus).accept(private_message(text="SECRET and SECRET"))
        assert bus.queued[0].removed == (RemovedSecrets("test", 2),)

    async def test_takes_no_position_along(self) -> None:
        """After a crash the message comes again, and is deleted then."""
        bus, position = MemoryBus(), Position("telegram:42", "8@1")
        await door(bus).accept(replace(private_message(text="my SECRET"), position=position))
        assert bus.positions == {}
        await door(bus).accept(replace(private_message(text="hello"), id="2", position=position))
        assert bus.positions == {"telegram:42": "8@1"}


class TestAccess:
    @pytest.mark.parametrize("policy", [OPEN, PAIRING, CLOSED])
    async def test_blocked_users_get_no_answer_at_all(self, policy: AccessPolicy) -> None:
        bus = MemoryBus(roles={str(ANN): "blocked"})
        assert await door(bus, policy).accept(private_message()) is IntakeOutcome.REFUSED
        assert (bus.queued, bus.notices) == ([], {})

    async def test_a_stranger_gets_a_code_in_a_direct_message(self) -> None:
        bus = MemoryBus()
        assert await door(bus, PAIRING).accept(private_message()) is IntakeOutcome.REFUSED
        (notice,) = bus.notices.values()
        assert bus.codes[str(ANN)] in notice.text
        assert bus.queued == []

    async def test_a_stranger_who_repeats_himself_is_told_once(self) -> None:
        """A redelivered message, or a flood within the minute, makes one notice."""
        bus = MemoryBus()
        intake = door(bus, PAIRING)
        await intake.accept(private_message())
        await intake.accept(replace(private_message(), id="telegram:1:7:100"))
        assert len(bus.notices) == 1

    async def test_a_code_is_never_shown_in_a_group(self) -> None:
        bus = MemoryBus()
        await door(bus, PAIRING).accept(IN_GROUP)
        (notice,) = bus.notices.values()
        assert "direct message" in notice.text
        assert bus.codes == {}

    async def test_a_stranger_who_only_talks_in_our_thread_is_left_in_peace(self) -> None:
        bus = MemoryBus()
        assert await door(bus, PAIRING).accept(replace(IN_GROUP, addressing=Addressing.THREAD)) is IntakeOutcome.REFUSED
        assert bus.notices == {}

    async def test_too_many_strangers_get_no_more_codes(self) -> None:
        bus = MemoryBus(pending_max_reached=True)
        await door(bus, PAIRING).accept(private_message())
        (notice,) = bus.notices.values()
        assert "later" in notice.text

    async def test_a_granted_user_is_let_in(self) -> None:
        bus = MemoryBus(roles={str(ANN): "member"})
        assert await door(bus, CLOSED).accept(private_message()) is IntakeOutcome.QUEUED

    async def test_a_grant_holds_in_groups_too(self) -> None:
        """Access belongs to the user, not to the place."""
        bus = MemoryBus(roles={str(ANN): "member"})
        assert await door(bus, PAIRING).accept(IN_GROUP) is IntakeOutcome.QUEUED

    def test_an_admin_by_configuration_cannot_be_locked_out(self) -> None:
        policy = AccessPolicy(StrangerRule.CLOSED, frozenset({ANN}))
        assert admit(ANN, "blocked", policy, PlacePolicy()) is Admittance.ADMITTED

    def test_a_role_nobody_knows_lets_nobody_in(self) -> None:
        assert admit(ANN, "emperor", OPEN, PlacePolicy()) is Admittance.BLOCKED


class TestControlCommands:
    @pytest.mark.parametrize("text", ["/stop", " /STOP ", "/stop now"])
    async def test_go_past_the_queue(self, text: str) -> None:
        bus = MemoryBus()
        assert await door(bus).accept(private_message(text=text)) is IntakeOutcome.CONTROL
        assert [request.kind for request in bus.controls] == [ControlKind.STOP]
        assert bus.queued == []

    @pytest.mark.parametrize("text", ["/stopwatch", "stop", "/help", "/", "/new", "say /stop"])
    async def test_are_nothing_else(self, text: str) -> None:
        bus = MemoryBus()
        assert await door(bus).accept(private_message(text=text)) is IntakeOutcome.QUEUED

    async def test_that_come_twice_are_one(self) -> None:
        bus = MemoryBus()
        intake = door(bus)
        await intake.accept(private_message(text="/status"))
        assert await intake.accept(private_message(text="/status")) is IntakeOutcome.DUPLICATE


class TestBounds:
    @given(st.text(max_size=200))
    def test_leave_ordinary_text_alone(self, text: str) -> None:
        assert fit(text) == text

    @given(st.text(min_size=1, max_size=40), st.integers(min_value=1, max_value=4_000))
    def test_hold_for_any_text(self, part: str, repeated: int) -> None:
        """Neither people's nor the bus's limit is passed, and what is kept is the beginning."""
        text = part * repeated
        kept = fit(text)
        assert len(kept) <= INBOUND_CHARS_MAX
        assert len(kept.encode()) <= TEXT_BYTES_MAX
        assert kept == text or kept.partition("\n\n[The message was cut here")[0] == text[: kept.rindex("\n\n[")]

    async def test_say_what_is_missing(self) -> None:
        bus = MemoryBus()
        await door(bus).accept(private_message(text="word " * 10_000))
        assert "50,000 characters" in bus.queued[0].text

    @pytest.mark.parametrize("letter", ["a", "é", "語", "😀", "\x00", '"'])
    async def test_keep_every_envelope_under_the_limit_of_the_bus(self, letter: str) -> None:
        bus = MemoryBus()
        files = tuple(FileReference(AttachmentKind.IMAGE, "r" * 512, letter * 300, letter * 300) for _ in range(30))
        quotes = tuple(RawQuote(QuoteKind.THREAD, letter * 300, letter * 9_000, files) for _ in range(60))
        said = private_message(text=letter * 100_000, author_name=letter * 300)
        await door(bus).accept(replace(said, attachments=files, quotes=quotes))
        assert len(encode(bus.queued[0])) <= ENVELOPE_BYTES_MAX

    async def test_of_too_many_quotes_the_last_are_kept(self) -> None:
        bus = MemoryBus()
        quotes = tuple(RawQuote(QuoteKind.THREAD, "Ann", f"{number} {'x ' * 2_500}") for number in range(60))
        await door(bus).accept(replace(private_message(), quotes=quotes))
        numbers = [int(quote.text.split()[0]) for quote in bus.queued[0].quotes]
        assert numbers == list(range(60 - len(numbers), 60))
        assert all(len(quote.text) <= QUOTE_CHARS_MAX for quote in bus.queued[0].quotes)


class TestAPress:
    """Of a button under a message of ours; what comes back with it may have been made up by anybody."""

    async def test_becomes_a_command_of_the_one_who_pressed(self) -> None:
        bus = MemoryBus()
        assert await door(bus).press(pressed("/approve K7QM2PXA")) is None
        (request,) = bus.controls
        assert (request.kind, request.is_press, request.message.text) == (
            ControlKind.APPROVE,
            True,
            "/approve K7QM2PXA",
        )
        assert request.message.key == ANN

    async def test_that_comes_twice_is_one(self) -> None:
        bus = MemoryBus()
        assert [await door(bus).press(pressed("/deny K7QM2PXA")) for _ in range(2)] == [None, ""]
        assert len(bus.controls) == 1

    async def test_of_stop_is_as_if_it_had_been_typed(self) -> None:
        """On the lane of the direct messages of the one who pressed; the answer is a message."""
        bus = MemoryBus()
        assert await door(bus).press(pressed("/stop")) == ""
        (request,) = bus.controls
        assert (request.kind, request.is_press, request.message.key) == (ControlKind.STOP, False, ANN)

    async def test_of_stop_in_a_shared_place_is_for_the_author_and_for_admins(self) -> None:
        """The button says whose answer it stops, and anybody may have made that up."""
        lane = SessionKey("telegram", ANN.user, ("-100", "7"))
        for presser, roles, is_done in ((ANN.user, {}, True), ("2", {}, False), ("2", {"telegram:2": "admin"}, True)):
            bus = MemoryBus(roles=roles)
            word = await door(bus, OPEN).press(replace(pressed(f"/stop {lane}"), user_id=presser))
            assert word == (None if is_done else ENGLISH.say(notices.NOT_YOURS_TO_STOP))
            assert [(request.is_press, request.message.key) for request in bus.controls] == [(True, lane)] * is_done

    async def test_of_stop_that_names_a_lane_elsewhere_is_about_the_own_one(self) -> None:
        bus = MemoryBus()
        assert await door(bus).press(pressed("/stop discord:1/2")) == ""
        assert [request.message.key for request in bus.controls] == [ANN]

    @pytest.mark.parametrize("data", ["", "/status", "/new", "approve K7QM2PXA", "\x00", "x" * 64])
    async def test_that_says_anything_else_does_nothing(self, data: str) -> None:
        bus = MemoryBus()
        assert await door(bus).press(pressed(data)) == ENGLISH.say(notices.NOT_IN_USE)
        assert (bus.controls, bus.queued) == ([], [])

    async def test_of_a_stranger_is_not_for_him_and_of_a_blocked_user_is_silence(self) -> None:
        for policy, roles, word in (
            (PAIRING, {}, ENGLISH.say(notices.NOT_FOR_STRANGERS)),
            (CLOSED, {}, ENGLISH.say(notices.NOT_FOR_STRANGERS)),
            (OPEN, {str(ANN): "blocked"}, ""),
        ):
            bus = MemoryBus(roles=roles)
            assert await door(bus, policy).press(pressed("/approve K7QM2PXA")) == word
            assert bus.controls == []

    async def test_stays_with_its_platform_while_the_bus_is_away(self) -> None:
        with pytest.raises(BusUnavailable):
            await door(MemoryBus(away=True)).press(pressed("/approve K7QM2PXA"))

    async def test_is_answered_with_what_the_agent_says_or_not_at_all(self) -> None:
        bus, press = MemoryBus(), pressed("/approve K7QM2PXA")
        assert await door(bus).told(press) == ""
        bus.words[press.id] = Reply("w", "", ANN, press.address, CleanText("no"), ReplyKind.NOTICE, 1)
        assert await door(bus).told(press) == "no"
        bus.away = True
        assert await door(bus).told(press) == ""


def pressed(data: str) -> Incoming:
    """Ann presses a button that says `data`."""
    return replace(private_message(data), id="telegram:42:press:1")


def typed(text: str) -> Incoming:
    return replace(private_message(text), language="ru")


SUGGESTED = [Suggestion(literal_text("2. Roses"), literal_text("2"))]


async def test_one_who_types_is_suggested_what_an_agent_says() -> None:
    """What he has typed so far travels clean."""
    bus = MemoryBus(suggestions=SUGGESTED)
    assert await door(bus).suggest(typed("/resume ro SECRET")) == SUGGESTED
    (asked,) = bus.asked
    assert (asked.kind, asked.typed, asked.language) == (Suggests.SESSIONS, "ro [redacted:test]", "ru")
    assert str(asked.key) == str(asked.owner) == "telegram:7"


@pytest.mark.parametrize("text", ["/help ro", "/unheard ro", "ro"])
async def test_nothing_is_suggested_where_nothing_can_follow(text: str) -> None:
    bus = MemoryBus(suggestions=SUGGESTED)
    assert await door(bus).suggest(typed(text)) == ()
    assert not bus.asked


@pytest.mark.parametrize("policy", [PAIRING, CLOSED])
async def test_a_stranger_is_suggested_nothing_and_given_no_code(policy: AccessPolicy) -> None:
    bus = MemoryBus(suggestions=SUGGESTED)
    assert await door(bus, policy).suggest(typed("/resume ro")) == ()
    assert (bus.asked, bus.codes, bus.notices) == ([], {}, {})


async def test_while_the_bus_is_away_nothing_is_suggested() -> None:
    assert await door(MemoryBus(away=True, suggestions=SUGGESTED)).suggest(typed("/resume ro")) == ()
