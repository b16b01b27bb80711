"""Fixtures for the platform emulators and their playground, served on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import pytest_asyncio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from telegram import Bot

from channels.emulators.playground.site import AdminApi, Installation
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
    """The admin API, as much of it as the page asks for: sessions, what was said in each of them, the hops of a
    message, and roles."""

    rows: list[dict[str, Any]]
    said: list[dict[str, Any]] = field(default_factory=list)
    hops: list[dict[str, Any]] = field(default_factory=list)
    roles: dict[str, str] = field(default_factory=dict)

    @property
    def app(self) -> Starlette:
        return Starlette(routes=[Route("/api/v1/{path:path}", self._answer, methods=["GET", "PUT", "DELETE"])])

    async def _answer(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {ADMIN_TOKEN}":
            return JSONResponse({"error": "no"}, 401)
        what, _, key = request.path_params["path"].partition("/")
        match request.method, what, key:
            case "GET", "sessions", "":
                return JSONResponse(self.rows)
            case "GET", "sessions", _:
                return JSONResponse(self.said)
            case "GET", "trace", _:
                return JSONResponse(self.hops)
            case "GET", "grants", _:
                return JSONResponse([{"key": key, "role": role} for key, role in self.roles.items()])
            case "PUT", "grants", _:
                self.roles[key] = (await request.json())["role"]
                return JSONResponse({})
            case "DELETE", "grants", _:
                del self.roles[key]
                return Response(status_code=204)
            case _:
                return JSONResponse({"messages": 3, "lanes_running": 1, "replies_unsent": {}, "dead_letters": 0})


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


TRIES = (
    {"topic": "Help", "text": "help"},
    {"topic": "Sub-agents", "text": "split one | two"},
    {"topic": "Groups", "text": "say Hello.", "place": "group"},
)
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
        installation = Installation(AdminApi(f"http://127.0.0.1:{port}", ADMIN_TOKEN), TRIES)
        async with serve({"telegram": telegram}, playground=True, installation=installation) as served:
            url = served.url_of(PLAYGROUND)
            bot = Bot(TELEGRAM_TOKEN, base_url=f"{served.url_of('telegram')}/bot")
            async with bot, httpx.AsyncClient(base_url=url) as http:
                await bot.delete_webhook(drop_pending_updates=True)
                yield Ground(url, telegram, bot, admin, http)
