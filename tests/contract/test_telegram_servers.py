"""Bot API servers that are not Telegram's own: older ones, half ones, and what stands in front of them."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from channels.core.adapter import OutgoingFile
from channels.emulators.stage import PlaceKind, SharedFile
from channels.emulators.telegram import TelegramEmulator, server
from gateway.bus.bus import RedisBus
from gateway.contracts.errors import FormatRefused, RateLimited, SendFailed
from gateway.contracts.messages import Choice, literal_text
from tests.contract.telegram_parts import dm_of, listening
from tests.parts.answering import EchoAgent, agent, until_delivered
from tests.parts.doors import OpenDoor
from tests.parts.only_telegram import stage, town
from tests.parts.platforms import ServedTelegram
from tests.parts.towns import Town
from tests.parts.waiting import until, until_found

__all__ = ["agent", "stage", "town"]


@pytest.mark.parametrize("switch", ["only_basics", "front_pages", "status_200"])
async def test_a_server_with_its_own_ways_is_spoken_to(
    town: Town, stage: TelegramEmulator, bus: RedisBus, agent: EchoAgent, switch: str
) -> None:
    """One that knows nothing but messages; a page of a proxy, which says nothing of the token; refusals that only their
    own words call refusals."""
    stage.faults.other[switch] = 1
    stage.faults.rate_limit = int(switch == "status_200")
    async with town.line(bus):
        await stage.say(town.ann.id, town.dm(town.ann).id, "hello")
        assert await town.until_answers(1) == ["echo: hello"]


async def test_a_server_that_tells_little_is_sent_files_and_asked_for_them(
    telegram_emulator: ServedTelegram, bus: RedisBus
) -> None:
    """The SDK's objects need more than what a message, a file or a bot is known by."""
    stage, door = telegram_emulator.emulator, OpenDoor()
    stage.faults.other["lean_answers"] = 1
    ann = stage.add_person("Ann")
    dm = dm_of(telegram_emulator, ann)
    async with listening(telegram_emulator, bus, door) as adapter:
        await stage.say(ann.id, dm.id, "hello", files=[SharedFile("a.txt", "text/plain", b"abc")])
        await until(lambda: len(door.heard) == 1)
        (heard,) = door.heard
        assert (await adapter.fetch(heard.attachments[0].reference, bytes_max=9)).content == b"abc"
        file = adapter.file_chunk(OutgoingFile("b.txt", "text/plain", b"def", "seen"))
        (sent,) = await adapter.send(heard.address, file, send_id="r:0", plain=False)
        assert stage.file(sent, dm.id, 0).content == b"def"
        (chunk,) = adapter.chunks(literal_text("It grows"))
        (grown,) = await adapter.send(heard.address, chunk, send_id="r:1", plain=False)
        assert await adapter.complete(heard.address, file, message_id=grown, plain=False)
        assert stage.file(grown, dm.id, 0).content == b"def"


@pytest.mark.parametrize("only_basics", [1, 2])
async def test_a_server_without_edits_and_files_refuses_them_and_not_the_token(
    telegram_emulator: ServedTelegram, bus: RedisBus, only_basics: int
) -> None:
    """An answer grows no further and is sent anew, and no other one grows; a sentence takes the place of a file."""
    stage, door = telegram_emulator.emulator, OpenDoor()
    stage.faults.other["only_basics"] = only_basics
    ann = stage.add_person("Ann")
    async with listening(telegram_emulator, bus, door) as adapter:
        await stage.say(ann.id, dm_of(telegram_emulator, ann).id, "hello")
        await until(lambda: len(door.heard) == 1)
        address = door.heard[0].address
        (chunk,) = adapter.chunks(literal_text("It grows"))
        message_id = await adapter.send(address, chunk, send_id="r:0", plain=False)
        assert not await adapter.go_on(address, chunk, message_id=message_id[0], send_id="r:0")
        assert not await adapter.withdraw(address, message_id=message_id[0])
        file = adapter.file_chunk(OutgoingFile("a.txt", "text/plain", b"abc", ""))
        with pytest.raises(FormatRefused):
            await adapter.send(address, file, send_id="r:1", plain=False)
        with pytest.raises(SendFailed):
            await adapter.begin_stream(address, chunk, send_id="r:2")  # the last thing that is tried: drafts
        assert adapter.cadence(address) is None


@pytest.mark.parametrize("status", [400, 404])
async def test_a_server_that_makes_no_file_of_a_text_is_sent_the_file(
    telegram_emulator: ServedTelegram, bus: RedisBus, status: int
) -> None:
    """That says nothing of the token, nor of edits of texts."""
    stage, door = telegram_emulator.emulator, OpenDoor()
    stage.faults.other["no_media_edits"] = status
    ann = stage.add_person("Ann")
    async with listening(telegram_emulator, bus, door) as adapter:
        await stage.say(ann.id, dm_of(telegram_emulator, ann).id, "hello")
        await until(lambda: len(door.heard) == 1)
        address = door.heard[0].address
        file = adapter.file_chunk(OutgoingFile("a.txt", "text/plain", b"abc", ""))
        for text in ("one", "two"):
            (chunk,) = adapter.chunks(literal_text(text))
            message_id = await adapter.put_placeholder(address)
            assert not await adapter.complete(address, file, message_id=message_id, plain=False)
            assert await adapter.complete(address, chunk, message_id=message_id, plain=False)
        assert adapter.cadence(address) is not None


@pytest.mark.parametrize("only_basics", [1, 2])
async def test_a_server_without_a_way_to_look_does_not_hold_up_what_got_lost(
    telegram_emulator: ServedTelegram, bus: RedisBus, only_basics: int
) -> None:
    """Nobody can say what became of the message, in a direct chat or in a group; and there are no drafts."""
    stage, door = telegram_emulator.emulator, OpenDoor()
    stage.faults.other["only_basics"] = only_basics
    ann, kitchen = stage.add_person("Ann"), stage.add_place(PlaceKind.GROUP, "kitchen")
    async with listening(telegram_emulator, bus, door) as adapter:
        for place in (dm_of(telegram_emulator, ann), kitchen):
            await stage.say(ann.id, place.id, "hello", mention_bot=True)
        await until(lambda: len(door.heard) == 2)
        (chunk,) = adapter.chunks(literal_text("Lost"))
        for heard in door.heard:
            assert await adapter.find_lost(heard.address, chunk, after=(), known=frozenset()) is None
        with pytest.raises(SendFailed):
            await adapter.begin_stream(door.heard[0].address, chunk, send_id="r:0")
        assert not adapter.is_draft(door.heard[0].address)


async def test_an_answer_to_a_message_that_is_gone_is_sent_all_the_same(
    town: Town, stage: TelegramEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """Servers that do not know how to leave the quote away refuse the whole."""
    stage.faults.other["no_reply_targets"] = 1
    async with town.line(bus):
        await stage.say(town.ann.id, town.group.id, "hello", mention_bot=True)
        await town.until_answers(1, town.group)
    (answer,) = town.answers(town.group)
    assert (answer.text, answer.reply_to) == ("echo: hello", None)


async def test_an_old_server_can_be_asked_what_became_of_a_message(
    town: Town, stage: TelegramEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """It tells less of a chat than the SDK wants to hear; enough to know that there are no topics in it."""
    stage.faults.other["lean_chats"] = 1
    stage.faults.drop_after = 1
    kitchen = stage.add_place(PlaceKind.GROUP, "kitchen")
    async with town.line(bus):
        await stage.say(town.ann.id, kitchen.id, "hello", mention_bot=True)
        await until(lambda: not stage.faults.drop_after)
        await until_delivered(bus, "telegram")
    assert town.texts(kitchen) == ["echo: hello"]


async def test_a_search_goes_on_where_the_rate_limit_broke_it_off(
    telegram_emulator: ServedTelegram, bus: RedisBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chat that allows one call at a time would never see the end of one that begins anew."""
    stage, door = telegram_emulator.emulator, OpenDoor()
    stage.faults.other["costly_edits"] = 1
    monkeypatch.setattr(server, "PRIVATE", server.TelegramAllowance(burst=1, per_s=50))
    ann = stage.add_person("Ann")
    dm = dm_of(telegram_emulator, ann)
    async with listening(telegram_emulator, bus, door) as adapter:
        await stage.say(ann.id, dm.id, "hello")
        await until(lambda: len(door.heard) == 1)
        address = door.heard[0].address
        (chunk,) = adapter.chunks(literal_text("Lost"))
        for _ in range(3):
            await stage.say(ann.id, dm.id, "and")
        (lost,) = await adapter.send(address, chunk, send_id="r:0", plain=False)

        async def is_found() -> bool:
            with contextlib.suppress(RateLimited):
                return await adapter.find_lost(address, chunk, after=(), known=frozenset()) == lost
            return False

        await until_found(is_found)


@pytest.mark.long
async def test_who_presses_while_telegram_has_too_much_to_do_is_told_later(
    telegram_emulator: ServedTelegram, bus: RedisBus
) -> None:
    stage, door = telegram_emulator.emulator, OpenDoor()
    ann = stage.add_person("Ann")
    dm = dm_of(telegram_emulator, ann)
    async with listening(telegram_emulator, bus, door) as adapter:
        await stage.say(ann.id, dm.id, "hello")
        await until(lambda: len(door.heard) == 1)
        (chunk,) = adapter.chunks(literal_text("Shall I?"))
        offered = adapter.offering(chunk, [Choice(literal_text("Yes"), literal_text("/approve K7QM2PXA"))])
        (message_id,) = await adapter.send(door.heard[0].address, offered, send_id="r:0", plain=False)
        stage.faults.other["faults_everywhere"] = 1
        stage.faults.rate_limit, stage.faults.retry_after_s = 2, 1  # one of them strikes the next poll
        stage.press(ann.id, dm.id, message_id, "/approve K7QM2PXA")
        await until(lambda: not stage.unanswered_presses)
    assert len(door.pressed) == 1


async def test_a_server_that_never_waits_is_not_stormed(telegram_emulator: ServedTelegram, bus: RedisBus) -> None:
    stage = telegram_emulator.emulator
    stage.faults.other["hasty_polls"] = 1
    async with listening(telegram_emulator, bus, OpenDoor()):
        await until(lambda: stage.updates.polls >= 2)
        await asyncio.sleep(0.5)
        assert stage.updates.polls <= 6
