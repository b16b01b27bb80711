"""What the tests of the Telegram emulator share: a real client, and raw calls for the odd corners."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
from telegram import Bot

from channels.emulators.stage import Person, Place, PlaceKind
from channels.telegram.adapter import TelegramAdapter
from channels.telegram.client import TelegramEndpoint
from gateway.bus.bus import RedisBus
from tests.parts.doors import OpenDoor
from tests.parts.platforms import TELEGRAM_TOKEN, ServedTelegram
from tests.parts.towns import connected, parts_on


async def client_of(served: ServedTelegram) -> AsyncIterator[Bot]:
    """python-telegram-bot's own client, initialised."""
    bot = Bot(served.token, base_url=f"{served.api_base}/bot", base_file_url=f"{served.api_base}/file/bot")
    async with bot:
        yield bot


@dataclass(frozen=True, slots=True)
class Raw:
    """Calls without a client library: the status and the body as they come."""

    served: ServedTelegram
    http: httpx.AsyncClient

    async def call(self, method: str, **params: Any) -> tuple[int, dict[str, Any]]:
        answer = await self.http.post(f"{self.served.api_base}/bot{self.served.token}/{method}", json=params)
        return answer.status_code, answer.json()

    async def refusal(self, method: str, **params: Any) -> str:
        """The description of an error whose status and `error_code` agree."""
        status, body = await self.call(method, **params)
        assert body["ok"] is False
        assert body["error_code"] == status
        return str(body["description"])

    async def result(self, method: str, **params: Any) -> Any:
        status, body = await self.call(method, **params)
        assert (status, body["ok"]) == (200, True), body
        return body["result"]


def dm_of(served: ServedTelegram, person: Person) -> Place:
    return next(place for place in served.emulator.places() if place.person_id == person.id)


def group_of(served: ServedTelegram, title: str = "Kitchen") -> Place:
    return served.emulator.add_place(PlaceKind.GROUP, title)


@contextlib.asynccontextmanager
async def listening(served: ServedTelegram, bus: RedisBus, door: OpenDoor) -> AsyncIterator[TelegramAdapter]:
    """Our adapter, connected, in front of `door`."""
    adapter = TelegramAdapter(TelegramEndpoint(TELEGRAM_TOKEN, served.api_base), parts_on(bus))
    async with connected(adapter, door):
        yield adapter
