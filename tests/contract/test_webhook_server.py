"""The HTTP server of the channels role, seen from outside."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import httpx
import pytest

from channels.calls import Call, CallAnswer
from channels.webhooks import BODY_BYTES_MAX, Webhooks
from gateway.contracts.errors import BusUnavailable, ConfigError

PATH = "/webhooks/telegram"


@dataclass
class Hook:
    """Answers as told, and remembers what it was given."""

    calls: list[Call] = field(default_factory=list)
    fails_with: Exception | None = None
    is_called = True
    call_timeout_s = 0.2
    takes_s = 0.0

    async def called(self, call: Call) -> CallAnswer:
        self.calls.append(call)
        await asyncio.sleep(self.takes_s)
        if self.fails_with is not None:
            raise self.fails_with
        return CallAnswer(200, "taken")


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
    assert hook.calls[0].body == body
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


async def test_a_body_that_no_platform_sends_is_refused_unread(http: httpx.AsyncClient, hook: Hook) -> None:
    answer = await http.post(PATH, content=b"x" * (BODY_BYTES_MAX + 1))
    assert answer.status_code == 413
    assert hook.calls == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/healthz", 200), ("GET", "/", 404), ("POST", "/webhooks/slack", 404), ("GET", PATH, 405)],
)
async def test_nothing_else_is_there(http: httpx.AsyncClient, method: str, path: str, status: int) -> None:
    answer = await http.request(method, path)
    assert answer.status_code == status
    assert answer.headers.get("Server") != "aiohttp"


async def test_a_port_that_belongs_to_another_program_is_named() -> None:
    async with await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConfigError, match=f"http.webhook_port {port}"):
            async with Webhooks({PATH: Hook()}).served("127.0.0.1", port):
                pass


async def test_two_processes_of_ours_may_serve_one_port_of_a_machine() -> None:
    async with (
        Webhooks({PATH: Hook()}).served("127.0.0.1", 0) as port,
        Webhooks({PATH: Hook()}).served("127.0.0.1", port) as same,
    ):
        assert same == port
