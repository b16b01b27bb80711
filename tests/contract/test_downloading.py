"""Downloads from a server that does whatever servers do: bounded, honest about what failed, mute about addresses."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from channels.core import downloads
from channels.core.downloads import belongs_to, download, is_on
from gateway.contracts.errors import DeliveryError, FileRefused, SendFailed

SECRET = "/bot123456:SECRET-TOKEN/photos/file_1.jpg"
BEARER = {"Authorization": "Bearer xoxb-secret"}

Answer = Callable[[asyncio.StreamWriter, str], Awaitable[None]]


@contextlib.asynccontextmanager
async def server(answer: Answer) -> AsyncIterator[tuple[str, list[str]]]:
    """Its address, and the requests it got, whole."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            request = (await reader.readuntil(b"\r\n\r\n")).decode()
            asked.append(request)
            await answer(writer, request.split(" ")[1])
            await writer.drain()
        writer.close()

    running = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}", asked
    finally:
        running.close()


def saying(status: str, body: bytes = b"", **headers: str) -> Answer:
    async def answer(writer: asyncio.StreamWriter, path: str) -> None:
        lines = {"Content-Length": str(len(body)), "Connection": "close"}
        lines |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        writer.write(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body)

    return answer


async def refusal(answer: Answer, *, bytes_max: int = 100) -> DeliveryError:
    async with server(answer) as (where, _):
        with pytest.raises(DeliveryError) as caught:
            await download(where + SECRET, bytes_max=bytes_max, headers=BEARER)
    return caught.value


async def test_what_is_there_comes_as_it_is() -> None:
    async with server(saying("200 OK", b"pixels", Content_Type="Image/JPEG; charset=x")) as (where, asked):
        found = await download(where + SECRET, bytes_max=6, headers=BEARER)
    assert (found.content, found.media_type) == (b"pixels", "image/jpeg")
    assert "Authorization: Bearer xoxb-secret" in asked[0]


@pytest.mark.parametrize(
    ("status", "kind", "reason"),
    [
        ("404 Not Found", FileRefused, downloads.GONE),
        ("410 Gone", FileRefused, downloads.GONE),
        ("401 Unauthorized", FileRefused, downloads.NOT_FOR_US),
        ("403 Forbidden", FileRefused, downloads.NOT_FOR_US),
        ("429 Too Many Requests", SendFailed, "a download was answered with 429"),
        ("500 Oops", SendFailed, "a download was answered with 500"),
        ("204 No Content", SendFailed, "a download was answered with 204"),
    ],
)
async def test_a_status_says_whether_to_come_back(status: str, kind: type[DeliveryError], reason: str) -> None:
    error = await refusal(saying(status))
    assert (type(error), str(error)) == (kind, reason)


async def test_what_says_that_it_is_too_large_is_not_read() -> None:
    error = await refusal(saying("200 OK", b"", Content_Length="3000000"), bytes_max=2 * 1024 * 1024)
    assert (type(error), str(error)) == (FileRefused, "it is larger than 2 MB")


async def test_what_does_not_say_how_large_it_is_is_cut_off() -> None:
    """A body that never ends costs no more than its bound."""

    async def endless(writer: asyncio.StreamWriter, path: str) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
            await writer.drain()

    assert isinstance(await refusal(endless, bytes_max=50_000), FileRefused)


async def test_what_is_packed_is_not_unpacked() -> None:
    """A few bytes may unpack to any number of them."""
    bomb = gzip.compress(b"0" * 1_000_000)
    async with server(saying("200 OK", bomb, Content_Encoding="gzip")) as (where, asked):
        with pytest.raises(FileRefused):
            await download(where, bytes_max=100_000)
    assert "Accept-Encoding: identity" in asked[0]


async def test_a_connection_that_breaks_may_hold_tomorrow() -> None:
    assert isinstance(await refusal(saying("200 OK", b"half", Content_Length="50")), SendFailed)


async def test_nobody_there_may_be_there_tomorrow() -> None:
    async with server(saying("200 OK")) as (where, _):
        pass
    with pytest.raises(SendFailed):
        await download(where + SECRET, bytes_max=1)


async def test_a_body_that_stops_coming_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "_SILENCE_S", 0.05)

    async def stalling(writer: asyncio.StreamWriter, path: str) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf")
        await writer.drain()
        await asyncio.sleep(10)

    assert isinstance(await refusal(stalling), SendFailed)


async def test_a_body_that_trickles_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """However lively it is."""
    monkeypatch.setattr(downloads, "_DOWNLOAD_TIMEOUT_S", 0.2)

    async def trickling(writer: asyncio.StreamWriter, path: str) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    assert isinstance(await refusal(trickling, bytes_max=10_000), SendFailed)


async def test_another_host_is_never_gone_to() -> None:
    """Neither with what proves who we are nor without."""
    async with server(saying("200 OK", b"trap")) as (trap, caught):
        error = await refusal(saying("302 Found", Location=f"{trap}/x"))
        assert (type(error), str(error)) == (FileRefused, downloads.ELSEWHERE)
    assert caught == []


async def test_the_same_host_may_send_us_on_and_not_for_ever() -> None:
    async def moved(writer: asyncio.StreamWriter, path: str) -> None:
        answer = saying("200 OK", b"here") if path == "/new" else saying("307 Moved", Location="/new")
        await answer(writer, path)

    async with server(moved) as (where, asked):
        assert (await download(where + "/old", bytes_max=9, headers=BEARER)).content == b"here"
    assert all("Bearer xoxb-secret" in request for request in asked)
    assert isinstance(await refusal(saying("302 Found", Location="/round")), FileRefused)


@pytest.mark.parametrize("url", ["http://[bad", "ftp://127.0.0.1/x", "not a url", "http://127.0.0.1:99999/x", ""])
async def test_an_address_that_is_none_is_no_accident(url: str) -> None:
    with pytest.raises(SendFailed):
        await download(url, bytes_max=1)


async def test_nothing_says_the_address(caplog: pytest.LogCaptureFixture) -> None:
    """No error and no log line, at whatever level: it may hold a token."""
    caplog.set_level(logging.DEBUG)
    answers = (saying("200 OK", b"x"), saying("500 Oops"), saying("302 Found", Location="http://10.0.0.1/bot"))
    said = []
    for answer in answers:
        async with server(answer) as (where, _):
            with contextlib.suppress(DeliveryError):
                said.append(repr(await download(where + SECRET, bytes_max=1, headers=BEARER)))
    with pytest.raises(SendFailed) as caught:
        await download(f"http://127.0.0.1:1{SECRET}", bytes_max=1)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    told = " ".join([*said, str(caught.value), caplog.text])
    assert "SECRET-TOKEN" not in told
    assert "xoxb" not in told


def test_whose_host_it_is() -> None:
    assert is_on("https://files.slack.com/x", "slack.com")
    assert not is_on("http://files.slack.com/x", "slack.com")
    assert not is_on("https://files.slack.com.evil.org/x", "slack.com")
    assert not is_on("https://evilslack.com/x", "slack.com")
    assert not is_on("https://evil.org/https://slack.com", "slack.com")
    assert belongs_to("http://localhost:9/x", "http://127.0.0.1:8/api/")
    assert belongs_to("https://bot.example.org/x", "https://bot.example.org/api")
    assert not belongs_to("https://example.org/x", "https://bot.example.org/api")
    assert not belongs_to("http:///x", "http:///y")
    assert not belongs_to("http://slack.com/x", "https://slack.com/api/"), "the token would travel in the clear"
