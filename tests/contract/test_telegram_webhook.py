"""Telegram's webhook, with the real SDK and an emulated Telegram that brings updates as its server does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator

import httpx
import pytest

from channels.core.adapter import CONNECTED
from channels.emulators.telegram import TelegramEmulator
from channels.telegram import limits
from channels.telegram.adapter import TelegramAdapter
from channels.telegram.connection import SECRET_HEADER, secret_of
from channels.telegram.limits import ALLOWED_UPDATES
from gateway.bus.bus import RedisBus
from tests.parts.answering import EchoAgent
from tests.parts.called import CalledTown, called_telegram_town
from tests.parts.doors import OpenDoor
from tests.parts.platforms import TELEGRAM_TOKEN
from tests.parts.towns import QUIET_S, connected
from tests.parts.waiting import until

UPDATE = {
    "update_id": 7,
    "message": {
        "message_id": 70,
        "date": 1_790_000_000,
        "chat": {"id": 5, "type": "private"},
        "from": {"id": 5, "is_bot": False, "first_name": "Ann"},
        "text": "hello",
    },
}


@pytest.fixture
async def town() -> AsyncIterator[CalledTown]:
    async with called_telegram_town() as built:
        yield built


@contextlib.asynccontextmanager
async def listening(town: CalledTown, bus: RedisBus, door: OpenDoor) -> AsyncIterator[TelegramAdapter]:
    """The adapter in front of a door of ours, with its webhook set."""
    adapter = town.adapter(bus)
    assert isinstance(adapter, TelegramAdapter)
    async with connected(adapter, door):
        yield adapter


async def post(town: CalledTown, body: bytes, secret: str | bytes = secret_of(TELEGRAM_TOKEN)) -> int:
    """As Telegram calls."""
    async with httpx.AsyncClient(trust_env=False) as http:
        return (
            await http.post(
                town.url,
                content=body,
                headers={SECRET_HEADER.encode(): secret.encode() if isinstance(secret, str) else secret},
            )
        ).status_code


def hook_of(town: CalledTown) -> dict[str, object]:
    assert isinstance(town.stage, TelegramEmulator)
    return town.stage.server.webhook.as_json()


@pytest.mark.parametrize("lean_answers", [0, 1])
async def test_the_webhook_is_set_with_everything_said_by_name(
    town: CalledTown, bus: RedisBus, lean_answers: int
) -> None:
    assert isinstance(town.stage, TelegramEmulator)
    town.stage.faults.other["lean_answers"] = lean_answers
    async with listening(town, bus, OpenDoor()):
        info = hook_of(town)
    assert info["url"] == town.url
    assert set(ALLOWED_UPDATES) == set(info["allowed_updates"])  # type: ignore[call-overload]


async def test_a_server_that_does_not_know_the_newest_kinds_is_content_with_one_webhook(
    town: CalledTown, bus: RedisBus, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It drops them from the list; to set the webhook again and again for that would change nothing."""
    for name in ("WEBHOOK_LOOK_EVERY_S", "WEBHOOK_DOUBT_EVERY_S"):
        monkeypatch.setattr(limits, name, 0.02)
    logger = "channels.telegram.connection"
    caplog.set_level(logging.INFO, logger)
    town.stage.faults.other["before_10_3"] = 1
    async with listening(town, bus, OpenDoor()):
        await asyncio.sleep(QUIET_S)
    said = [text for record in caplog.records if record.name == logger and "webhook" in (text := record.getMessage())]
    assert said == ["telegram: the webhook is set"]


@pytest.mark.parametrize("secret", ["", "wrong", b"\xff\xfe", secret_of("another:token")])
async def test_whoever_does_not_know_the_secret_is_refused(
    town: CalledTown, bus: RedisBus, secret: str | bytes
) -> None:
    door = OpenDoor()
    async with listening(town, bus, door):
        assert await post(town, json.dumps(UPDATE).encode(), secret) == 403
    assert door.heard == []


async def test_an_update_is_acknowledged_only_when_it_is_taken(town: CalledTown, bus: RedisBus) -> None:
    """And brought again, which the bus knows to tell apart."""
    door = OpenDoor(is_shut=True)
    async with listening(town, bus, door):
        assert await post(town, json.dumps(UPDATE).encode()) == 503
        door.is_shut = False
        assert await post(town, json.dumps(UPDATE).encode()) == 200
    assert [each.text for each in door.heard] == ["hello"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 400),
        (b"[]", 200),
        (b"null", 200),
        (b'{"update_id": 8, "message": 5}', 200),
        (b'{"update_id": 8, "poll": {}}', 200),
        (b'{"update_id": 8, "message": {"message_id": 1, "chat": {"id": 5, "type": "private"}, "text": {}}}', 200),
    ],
)
async def test_what_nobody_understands_is_not_brought_for_ever(
    town: CalledTown, bus: RedisBus, body: bytes, status: int
) -> None:
    """JSON of any shape is acknowledged; what is none did not come from Telegram."""
    door = OpenDoor()
    async with listening(town, bus, door):
        assert await post(town, body) == status
    assert door.heard == []


async def test_two_processes_that_are_called_in_turn_lose_and_double_nothing(town: CalledTown, bus: RedisBus) -> None:
    first, second = town.adapter(bus, "here"), town.adapter(bus, "there")
    town.exchange.behind = [first, second]  # type: ignore[list-item]
    dms = [town.dm(town.ann), town.dm(town.ben)]
    here, there = (
        town.starting(bus, adapter=each, consumer=name) for each, name in ((first, "here"), (second, "there"))
    )
    async with EchoAgent(bus).at_work(), here, there:
        await until(lambda: CONNECTED in (first.state, second.state))
        for number in range(6):
            for person, dm in zip((town.ann, town.ben), dms, strict=True):
                await town.stage.say(person.id, dm.id, f"number {number}")
        for dm in dms:
            assert await town.until_answers(6, dm) == [f"echo: number {number}" for number in range(6)]
        await town.stays_silent(12)


@pytest.mark.long
async def test_a_process_that_ends_in_the_middle_of_a_call_loses_nothing(town: CalledTown, bus: RedisBus) -> None:
    """Telegram is told to come again, and finds the next one."""
    dm, door = town.dm(town.ann), OpenDoor(lingers=asyncio.Event())
    async with listening(town, bus, door):
        await town.stage.say(town.ann.id, dm.id, "hello")
        await until(lambda: town.exchange.turn)
    async with EchoAgent(bus).at_work(), town.line(bus):
        assert await town.until_answers(1, dm) == ["echo: hello"]
        await town.stays_silent(1)


@pytest.mark.long
async def test_from_polling_to_a_webhook_and_back_nothing_is_lost(bus: RedisBus) -> None:
    """What waits at Telegram waits for whoever asks, or is called, next."""
    async with called_telegram_town() as town, EchoAgent(bus).at_work():
        dm = town.dm(town.ann)
        said = 0
        for _ in range(2):
            for name in ("polling", "webhook"):
                await town.stage.say(town.ann.id, dm.id, f"before {name} {said}")
                async with town.line(bus, adapter=polling(town, bus) if name == "polling" else None):
                    await town.stage.say(town.ann.id, dm.id, f"in {name} {said}")
                    said += 2
                    await town.until_answers(said, dm)
        assert len(set(town.texts(dm))) == said == len(town.texts(dm))


async def test_whoever_polls_waits_until_the_webhooks_keeper_is_gone(town: CalledTown, bus: RedisBus) -> None:
    """So during a rolling change of the mode neither undoes what the other does."""
    poller = polling(town, bus, lease_ttl_s=1.0)
    async with listening(town, bus, OpenDoor()), town.starting(bus, adapter=poller):
        await until(lambda: "another process" in poller.state)
        assert hook_of(town)["url"] == town.url


def polling(town: CalledTown, bus: RedisBus, lease_ttl_s: float = 20.0) -> TelegramAdapter:
    """The same bot, listened to."""
    assert town.listener is not None
    adapter = town.listener(bus, "poller", lease_ttl_s)
    assert isinstance(adapter, TelegramAdapter)
    return adapter
