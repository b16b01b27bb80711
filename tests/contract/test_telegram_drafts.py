"""The button under a draft: whoever presses it says /stop where the draft grows."""

from __future__ import annotations

import pytest

from gateway.bus.bus import RedisBus
from gateway.contracts.commands import Command
from gateway.contracts.ids import SessionScope
from gateway.contracts.messages import literal_text
from tests.contract.telegram_parts import dm_of, listening
from tests.parts.doors import OpenDoor
from tests.parts.platforms import ServedTelegram
from tests.parts.waiting import until


async def test_a_draft_that_is_stopped_stops_the_turn(telegram_emulator: ServedTelegram, bus: RedisBus) -> None:
    stage, door = telegram_emulator.emulator, OpenDoor()
    ann = stage.add_person("Ann")
    dm = dm_of(telegram_emulator, ann)
    async with listening(telegram_emulator, bus, door) as adapter:
        await stage.say(ann.id, dm.id, "tell me")
        await until(lambda: len(door.heard) == 1)
        address = door.heard[0].address
        (chunk,) = adapter.chunks(literal_text("This is the beginning"))
        await adapter.begin_stream(address, chunk, send_id="r:0")
        assert stage.server.draft(dm.id) is not None
        stage.server.stop_draft(dm.id)
        await until(lambda: len(door.heard) == 2)
        await adapter.go_on(address, chunk, message_id="", send_id="r:0")
        assert stage.server.draft(dm.id) is None
    asked, stop = door.heard
    assert stop.command == Command("stop")
    assert stop.is_control
    assert stop.key(SessionScope.PLACE) == asked.key(SessionScope.PLACE)
    assert stop.address.lane == asked.address.lane


async def test_only_a_draft_that_is_shown_can_be_stopped(telegram_emulator: ServedTelegram) -> None:
    ann = telegram_emulator.emulator.add_person("Ann")
    with pytest.raises(ValueError, match="no draft"):
        telegram_emulator.emulator.server.stop_draft(dm_of(telegram_emulator, ann).id)
