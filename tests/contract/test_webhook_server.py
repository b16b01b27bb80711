"""The HTTP port of the channels role, seen from outside."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import httpx
import pytest

from channels.core.adapter import AdapterDeps, SupportsWebhooks, WebhookAnswer, WebhookCall
from channels.core.webhooks import Webhooks
from channels.discord.adapter import DiscordAdapter
from channels.slack.adapter import SlackAdapter
from channels.slack.connection import SlackEndpoint
from channels.telegram.adapter import TelegramAdapter
from channels.telegram.client import TelegramEndpoint
from channels.telegram.connection import SECRET_HEADER
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.contracts.errors import BusUnavailable, ConfigError
from gateway.http_guard import HTTP_LIMITS
from gateway.limits import WEBHOOK_BODY_BYTES_MAX
from tests.parts.emulated_slack import BOT_TOKEN as SLACK_BOT_TOKEN
from tests.parts.emulated_slack import SIGNING_SECRET as SLACK_SIGNING_SECRET
from tests.parts.platforms import TELEGRAM_TOKEN
from tests.parts.towns import discord_endpoint, parts_on

PATH = "/webhooks/telegram"
SLACK_TIME, SLACK_SIGNATURE = "X-Slack-Request-Timestamp", "X-Slack-Signature"
DISCORD_TIME, DISCORD_SIGNATURE = "X-Signature-Timestamp", "X-Signature-Ed25519"


@dataclass
class Hook:
    """Answers as told, and remembers what it was given."""

    calls: list[WebhookCall] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    fails_with: Exception | None = None
    is_called = True
    call_timeout_s = 0.2
    takes_s = 0.0

    async def called(self, call: WebhookCall) -> WebhookAnswer:
        self.calls.append(call)
        self.bodies.append(await call.body())
        await asyncio.sleep(self.takes_s)
        if self.fails_with is not None:
            raise self.fails_with
        return WebhookAnswer(200, "taken")


@pytest.fixture
def hook() -> Hook:
    return Hook()


@pytest.fixture
async def http(hook: Hook) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        Webhooks({PATH: hook}).served("127.0.0.1", 0) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
    ):
        yield client


async def test_what_comes_is_handed_on_as_it_came(http: httpx.AsyncClient, hook: Hook) -> None:
    """Byte for byte, since signatures cover the bytes."""
    body = '{"a" :  "é"}'.encode()
    answer = await http.post(PATH, content=body, headers={"X-Some-Header": "Value"})
    assert (answer.status_code, answer.text) == (200, "taken")
    assert hook.bodies == [body]
    assert hook.calls[0].headers["x-some-header"] == "Value"


async def test_while_the_bus_is_away_the_platform_is_asked_to_come_again(http: httpx.AsyncClient, hook: Hook) -> None:
    hook.fails_with = BusUnavailable("away")
    answer = await http.post(PATH, content=b"{}")
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) >= 1


async def test_a_call_that_takes_too_long_is_told_to_come_again(http: httpx.AsyncClient, hook: Hook) -> None:
    hook.takes_s = 30.0
    assert (await http.post(PATH, content=b"{}")).status_code == 503


async def test_a_call_that_fails_ends_nothing(
    http: httpx.AsyncClient, hook: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    """And what was in it stays out of the log."""
    hook.fails_with = RuntimeError("unforeseen")
    with caplog.at_level(logging.DEBUG):
        assert (await http.post(PATH, content=b'"very private words"')).status_code == 500
    assert "very private words" not in caplog.text
    hook.fails_with = None
    assert (await http.post(PATH, content=b"{}")).status_code == 200


NOW: Final = str(SystemClock().now_ms() // 1000)
TELEGRAM: Final = TelegramEndpoint(TELEGRAM_TOKEN, "http://127.0.0.1:1", hook_url="https://bot.example")
SLACK: Final = SlackEndpoint(SLACK_BOT_TOKEN, "", "http://127.0.0.1:1/", signing_secret=SLACK_SIGNING_SECRET)
DISCORD: Final = replace(discord_endpoint("http://127.0.0.1:1"), public_key="ab" * 32)


@pytest.mark.parametrize(
    ("make", "headers", "status"),
    [
        (partial(TelegramAdapter, TELEGRAM), {}, 403),
        (partial(TelegramAdapter, TELEGRAM), {SECRET_HEADER: "wrong"}, 403),
        (partial(SlackAdapter, SLACK), {}, 401),
        (partial(SlackAdapter, SLACK), {SLACK_TIME: NOW, SLACK_SIGNATURE: "v0=no"}, 401),
        (partial(SlackAdapter, SLACK), {SLACK_TIME: "1700000000", SLACK_SIGNATURE: "v0=" + "a" * 64}, 401),
        (partial(DiscordAdapter, DISCORD), {}, 401),
        (partial(DiscordAdapter, DISCORD), {DISCORD_TIME: NOW, DISCORD_SIGNATURE: "no"}, 401),
        (partial(DiscordAdapter, DISCORD), {DISCORD_TIME: "1700000000", DISCORD_SIGNATURE: "a" * 128}, 401),
    ],
)
async def test_whose_headers_are_not_a_platform_s_is_refused_before_the_body(
    bus: RedisBus, make: Callable[[AdapterDeps], SupportsWebhooks], headers: dict[str, str], status: int
) -> None:
    """It never comes here, so whoever waited for it would answer nothing."""
    lines = (f"{name}: {value}" for name, value in {"Host": "127.0.0.1", "Content-Length": "9", **headers}.items())
    async with Webhooks({PATH: make(parts_on(bus))}).served("127.0.0.1", 0) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write("\r\n".join([f"POST {PATH} HTTP/1.1", *lines, "", ""]).encode())
        assert (await reader.readline()).split()[1] == str(status).encode()
        writer.close()


async def test_a_body_that_does_not_come_is_no_longer_waited_for(hook: Hook, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is said of it in the log: anybody may do so."""
    async with Webhooks({PATH: hook}, limits=replace(HTTP_LIMITS, body_s=0.1)).served("127.0.0.1", 0) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nhalf".encode())
        assert (await reader.readline()).split()[1] == b"408"
        writer.close()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_name_that_is_not_ours_is_refused(hook: Hook) -> None:
    """Behind a proxy platforms use that of `http.public_url`."""
    async with (
        Webhooks({PATH: hook}, hosts=("bot.example",)).served("127.0.0.1", 0) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
    ):
        assert (await client.post(PATH, content=b"{}", headers={"Host": "evil.example"})).status_code == 421
        assert (await client.post(PATH, content=b"{}", headers={"Host": "bot.example"})).status_code == 200
    assert len(hook.calls) == 1


async def test_a_body_that_no_platform_sends_is_refused_unread(http: httpx.AsyncClient, hook: Hook) -> None:
    answer = await http.post(PATH, content=b"x" * (WEBHOOK_BODY_BYTES_MAX + 1))
    assert answer.status_code == 413
    assert hook.bodies == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/healthz", 200), ("GET", "/", 404), ("POST", "/webhooks/slack", 404), ("GET", PATH, 405)],
)
async def test_nothing_else_is_there(http: httpx.AsyncClient, method: str, path: str, status: int) -> None:
    answer = await http.request(method, path)
    assert answer.status_code == status
    assert "Server" not in answer.headers


async def test_a_port_that_belongs_to_another_program_is_named() -> None:
    async with await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConfigError, match=f":{port} .* set http.webhook_port to another"):
            async with Webhooks({PATH: Hook()}).served("127.0.0.1", port):
                pass


async def test_two_processes_of_ours_may_serve_one_port_of_a_machine() -> None:
    async with (
        Webhooks({PATH: Hook()}).served("127.0.0.1", 0) as port,
        Webhooks({PATH: Hook()}).served("127.0.0.1", port) as same,
    ):
        assert same == port
