"""The emulated Slack on a real port, and the real slack-sdk and slack-bolt in front of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from channels.emulators.serving import LOOPBACK, listening
from channels.emulators.slack import SlackEmulator
from tests.parts.waiting import PATIENCE_S, until

__all__ = ["Bolt", "SlackWorld", "slack_world"]

BOT_TOKEN = "xoxb-emulated"
APP_TOKEN = "xapp-emulated"
SIGNING_SECRET = "emulated-signing-secret"
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "SLACK_CLIENT_ID")


@dataclass(slots=True)
class Bolt:
    """A real Bolt app that writes down every body it is given."""

    app: AsyncApp
    bodies: list[dict[str, Any]] = field(default_factory=list)
    retries: list[str] = field(default_factory=list)
    refusals: int = 0  # how many bodies to fail on, before acknowledging
    handler: AsyncSocketModeHandler | None = None

    def events(self, kind: str, subtype: str | None = None) -> list[dict[str, Any]]:
        found = (body["event"] for body in self.bodies if "event" in body)
        return [event for event in found if (event["type"], event.get("subtype")) == (kind, subtype)]

    def texts(self) -> list[str]:
        return [event["text"] for event in self.events("message")]


def bolt_app(client: AsyncWebClient) -> Bolt:
    app = AsyncApp(client=client, signing_secret=SIGNING_SECRET, ignoring_self_events_enabled=False)
    bolt = Bolt(app)

    @app.middleware
    async def write_down(body: dict[str, Any], req: Any, next_: Any) -> None:
        if bolt.refusals > 0:
            bolt.refusals -= 1
            raise RuntimeError("not yet")
        bolt.bodies.append(body)
        bolt.retries += req.headers.get("x-slack-retry-num", [])
        await next_()

    async def nothing() -> None:
        """Everything was done in the middleware."""

    async def acknowledge(ack: Any) -> None:
        await ack()

    for kind in ("message", "app_mention", "member_left_channel", "app_home_opened"):
        app.event(kind)(nothing)
    app.event("assistant_thread_started")(nothing)
    app.action("go")(acknowledge)
    app.command("/ask")(acknowledge)
    return bolt


@dataclass(frozen=True, slots=True)
class SlackWorld:
    """An emulator in service."""

    emulator: SlackEmulator
    port: int

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def client(self, token: str = BOT_TOKEN) -> AsyncWebClient:
        return AsyncWebClient(token, base_url=f"http://{self.address}/api/", retry_handlers=[])

    @contextlib.asynccontextmanager
    async def bolt(self) -> AsyncIterator[Bolt]:
        """A Bolt app connected by Socket Mode."""
        bolt = bolt_app(self.client())
        bolt.handler = AsyncSocketModeHandler(bolt.app, APP_TOKEN, ping_interval=0.2)
        try:
            await asyncio.wait_for(bolt.handler.connect_async(), PATIENCE_S)  # type: ignore[no-untyped-call]
            await until(lambda: self.emulator.sockets.connections)
            yield bolt
        finally:
            await bolt.handler.close_async()  # type: ignore[no-untyped-call]


@pytest.fixture
async def slack_world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SlackWorld]:
    for name in _PROXIES:
        monkeypatch.delenv(name, raising=False)
    emulator = SlackEmulator(bot_token=BOT_TOKEN, app_token=APP_TOKEN, signing_secret=SIGNING_SECRET)
    async with listening(emulator.app) as port:
        yield SlackWorld(emulator, port)
