"""Fixtures for the platform emulators and their playground, served on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from telegram import Bot

from channels.emulators.playground.site import AdminSessions
from channels.emulators.serving import PLAYGROUND, listening, serve
from channels.emulators.stage import PlaceKind
from channels.emulators.telegram import TelegramEmulator

TELEGRAM_TOKEN = "4242001:emulated-bot-token-for-the-tests"
ADMIN_TOKEN = "admin-token-for-the-tests"


@dataclass(frozen=True, slots=True)
class ServedTelegram:
    """An emulated Telegram and where its Bot API is: `{api_base}/bot{token}/{method}`."""

    emulator: TelegramEmulator
    api_base: str
    token: str


@pytest.fixture
async def telegram_emulator() -> AsyncIterator[ServedTelegram]:
    """Telegram without people, groups or faults."""
    emulator = TelegramEmulator(token=TELEGRAM_TOKEN)
    async with serve({"telegram": emulator}) as served:
        yield ServedTelegram(emulator, served.url_of("telegram"), TELEGRAM_TOKEN)


@dataclass(slots=True)
class Admin:
    """The admin API, as much of it as the page asks for."""

    rows: list[dict[str, Any]]

    @property
    def app(self) -> Starlette:
        return Starlette(routes=[Route("/api/v1/sessions", self._sessions)])

    async def _sessions(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {ADMIN_TOKEN}":
            return JSONResponse({"error": "no"}, 401)
        return JSONResponse(self.rows)


@dataclass(frozen=True, slots=True)
class Ground:
    """A served playground with one platform, the bot's own client, and Ada and Noor in a group."""

    url: str
    telegram: TelegramEmulator
    bot: Bot
    admin: Admin
    http: httpx.AsyncClient

    @property
    def ada(self) -> str:
        return self.telegram.people()[0].id

    async def draft(self, text: str, *, can_stop: bool = False) -> None:
        """The bot shows what it is about to say to Ada."""
        more = {"can_stop": True} if can_stop else None
        await self.bot.send_message_draft(chat_id=int(self.ada), draft_id=7, text=text, api_kwargs=more)

    @property
    def dm(self) -> str:
        return next(place.id for place in self.telegram.places() if place.person_id == self.ada)


TRIES = ("help", "split one | two")
"""What this playground offers to say."""


@pytest_asyncio.fixture(loop_scope="module")
async def ground() -> AsyncIterator[Ground]:
    """A new playground for each test, in the loop of its module, where the one browser of all tests is."""
    telegram = TelegramEmulator(token=TELEGRAM_TOKEN)
    telegram.add_person("Ada")
    telegram.add_person("Noor")
    telegram.add_place(PlaceKind.GROUP, "Kitchen")
    admin = Admin([])
    async with listening(admin.app) as port:
        sessions = AdminSessions(f"http://127.0.0.1:{port}", ADMIN_TOKEN)
        async with serve({"telegram": telegram}, playground=True, sessions=sessions, tries=TRIES) as served:
            url = served.url_of(PLAYGROUND)
            bot = Bot(TELEGRAM_TOKEN, base_url=f"{served.url_of('telegram')}/bot")
            async with bot, httpx.AsyncClient(base_url=url) as http:
                await bot.delete_webhook(drop_pending_updates=True)
                yield Ground(url, telegram, bot, admin, http)
