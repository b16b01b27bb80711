"""Which update Telegram is asked for, across restarts and across its own change of ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from telegram import Bot
from telegram.request import RequestData

from channels.core.adapter import AdapterTasks, IntakeOutcome, QueueFull
from channels.core.message import Incoming
from channels.telegram.connection import GOOD_FOR_MS, Offset, Poller, TelegramPresses, UpdateRouter
from channels.telegram.normalize import TelegramIdentity
from gateway.bus.inbound import Inbound
from gateway.bus.places import Places
from gateway.contracts.ports import Position
from tests.doubles import ManualClock, MemoryBus
from tests.parts.doors import OpenDoor

NOW_MS = 1_700_000_000_000
ME = TelegramIdentity(bot_id=42, username="TrivetBot")
ACCOUNT = "telegram:42"


@dataclass
class OneBatch:
    """A Bot API that has these updates."""

    updates: Sequence[dict[str, Any]]
    base_url: str = ""

    @property
    def request(self) -> OneBatch:
        return self

    async def post(self, url: str, parameters: RequestData, **_timeouts: float) -> Any:
        return self.updates


@dataclass
class FullFor(OpenDoor):
    """A door that has no room for one person."""

    user_id: str = ""

    async def accept(self, incoming: Incoming) -> IntakeOutcome:
        if incoming.user_id == self.user_id:
            raise QueueFull("full")
        return await super().accept(incoming)


@dataclass
class Positions(MemoryBus):
    """A bus that writes down which positions it is to keep."""

    noted: list[str] = field(default_factory=list)

    async def set_position(self, name: str, value: str) -> None:
        self.noted.append(value)


def said(update_id: int, user_id: int, text: str | None) -> dict[str, Any]:
    """A direct message; without a text, one that nobody answers."""
    chat, sender = {"id": user_id, "type": "private"}, {"id": user_id, "is_bot": False, "first_name": "Ada"}
    message = {"message_id": update_id, "date": 1, "chat": chat, "from": sender, **({"text": text} if text else {})}
    return {"update_id": update_id, "message": message}


def poller(updates: Sequence[dict[str, Any]], positions: MemoryBus) -> Poller:
    bot = cast(Bot, OneBatch(updates))
    router = UpdateRouter(ME, TelegramPresses(bot, ME, AdapterTasks("telegram")), cast(Places, positions))
    return Poller(bot, router, cast(Inbound, positions), ACCOUNT, ManualClock(NOW_MS), silence_s=1.0)


async def test_each_message_takes_the_offset_after_it_along() -> None:
    """What leads to no message is behind it when the batch is over."""
    door, positions = OpenDoor(), Positions()
    updates = [said(7, 1, "one"), said(8, 1, None), said(9, 2, "two"), said(10, 1, None)]
    await poller(updates, positions).next_batch(door, wait_s=0)
    assert [incoming.position for incoming in door.heard] == [
        Position(ACCOUNT, f"8@{NOW_MS}"),
        Position(ACCOUNT, f"10@{NOW_MS}"),
    ]
    assert positions.noted == [f"11@{NOW_MS}"]


async def test_after_a_message_without_room_none_takes_an_offset_along() -> None:
    """It has to come again, and so its update may not be confirmed."""
    door, positions = FullFor(user_id="1"), Positions()
    with pytest.raises(QueueFull):
        await poller([said(7, 3, "zero"), said(8, 1, "one"), said(9, 2, "two")], positions).next_batch(door, wait_s=0)
    assert [incoming.position for incoming in door.heard] == [Position(ACCOUNT, f"8@{NOW_MS}"), None]
    assert positions.noted == [f"8@{NOW_MS}"]


def test_an_offset_survives_a_restart() -> None:
    offset = Offset(700_000_001, NOW_MS)
    assert Offset.parse(offset.as_text()) == offset
    assert offset.valid_at(NOW_MS + 1_000) == 700_000_001


def test_after_days_without_an_update_everything_is_asked_for() -> None:
    """The next id may be any number by then, a lower one too."""
    assert Offset(700_000_001, NOW_MS).valid_at(NOW_MS + GOOD_FOR_MS) == 0


@pytest.mark.parametrize("record", [None, "", "many", "5", "5@", "-5@7"])
def test_without_a_readable_record_everything_is_asked_for(record: str | None) -> None:
    assert Offset.parse(record).valid_at(NOW_MS) == 0
