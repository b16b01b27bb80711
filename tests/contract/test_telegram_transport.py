"""Calls to a Bot API server that misbehaves, over real sockets: what surely never left, and what nobody knows.

Both HTTP clients say the same: aiohttp, and the SDK's own, which goes through SOCKS.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path
from typing import TypeAlias

import pytest
from telegram import Bot
from telegram.error import TelegramError
from telegram.request import BaseRequest

from channels.emulators.serving import LOOPBACK
from channels.telegram.client import AiohttpRequest, HttpxRequest
from channels.telegram.errors import delivery_error
from gateway.contracts.errors import DeliveryError, OutcomeUnknown, SendFailed
from gateway.contracts.ids import ReplyAddress
from tests.parts.certificates import self_signed
from tests.parts.forward_proxy import forward_proxy
from tests.parts.ports import free_port

TOKEN = "4242:the-token-of-these-tests"
SENT = b'{"ok":true,"result":{"message_id":7,"date":1,"chat":{"id":1,"type":"private"}}}'
UPLOAD = b"x" * 20_000_000
"""More than the buffers of two sockets hold."""

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Handler: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Client: TypeAlias = Callable[[str, int], BaseRequest]

pytestmark = pytest.mark.parametrize("client", [AiohttpRequest, HttpxRequest])


@contextlib.asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve inside the context: each connection is handed to `handler`."""
    server = await asyncio.start_server(handler, LOOPBACK, 0, ssl=tls)
    scheme = "https" if tls else "http"
    try:
        yield f"{scheme}://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@contextlib.asynccontextmanager
async def calling(client: Client, base: str, proxy: str = "") -> AsyncIterator[Bot]:
    http = client(proxy, 1)
    bot = Bot(TOKEN, base_url=f"{base}/bot", request=http, get_updates_request=http)
    await http.initialize()
    try:
        yield bot
    finally:
        await http.shutdown()


async def failure(client: Client, base: str, proxy: str = "", *, content: bytes = b"") -> DeliveryError:
    """What becomes of one message, or of a file; the token is in no trace of it."""
    async with calling(client, base, proxy) as bot:
        return await failure_of(bot, content=content)


async def failure_of(bot: Bot, *, content: bytes = b"") -> DeliveryError:
    call = (
        bot.send_document(1, content, read_timeout=30, write_timeout=0.3)
        if content
        else bot.send_message(1, "hello", read_timeout=0.3, connect_timeout=0.3, pool_timeout=0.1)
    )
    with pytest.raises(TelegramError) as caught:
        await call
    assert TOKEN not in "".join(traceback.format_exception(caught.value))
    refusal = delivery_error(caught.value, lambda chat_id: ReplyAddress("telegram", str(chat_id), "{}"))
    assert TOKEN not in str(refusal)
    return refusal


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return head and body of a request."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(BytesParser(policy=HTTP).parsebytes(head.partition(b"\r\n")[2])["Content-Length"])
    return head, await reader.readexactly(length)


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST, as a server does that dies."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def response(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


# --- surely not sent


async def test_a_server_that_is_not_there(client: Client) -> None:
    assert isinstance(await failure(client, f"http://{LOOPBACK}:{free_port()}"), SendFailed)


async def test_a_name_that_nobody_knows(client: Client) -> None:
    assert isinstance(await failure(client, "http://no-such-host.invalid"), SendFailed)


async def test_a_certificate_that_nobody_trusts(client: Client, tmp_path: Path) -> None:
    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with serving(never, self_signed(tmp_path)) as base:
        assert isinstance(await failure(client, base), SendFailed)


async def test_a_server_that_speaks_no_tls(client: Client) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"what?\r\n")
        writer.close()

    async with serving(plain) as base:
        assert isinstance(await failure(client, base.replace("http:", "https:")), SendFailed)


async def test_a_server_that_never_ends_the_handshake(client: Client) -> None:
    async with serving(silent) as base:
        assert isinstance(await failure(client, base.replace("http:", "https:")), SendFailed)


async def test_a_connection_that_another_call_holds(client: Client) -> None:
    async with serving(silent) as base, calling(client, base) as bot:
        first = asyncio.create_task(bot.send_message(1, "hello", read_timeout=30))
        await asyncio.sleep(0)
        assert isinstance(await failure_of(bot), SendFailed)
        first.cancel()
        await asyncio.wait([first])


async def test_a_proxy_that_is_not_there(client: Client) -> None:
    assert isinstance(await failure(client, "https://api.invalid", f"http://{LOOPBACK}:{free_port()}"), SendFailed)


async def test_a_proxy_that_does_not_connect_us(client: Client) -> None:
    async with forward_proxy() as proxy:
        stranger = f"http://nobody:nothing@{LOOPBACK}:{proxy.port}"
        assert isinstance(await failure(client, "https://api.invalid", stranger), SendFailed)
        assert proxy.refused == 1


# --- nobody knows


async def test_a_page_of_a_proxy(client: Client) -> None:
    """Without a tunnel it has read the request, and who knows where it brought it."""
    async with forward_proxy() as proxy:
        stranger = f"http://nobody:nothing@{LOOPBACK}:{proxy.port}"
        assert isinstance(await failure(client, "http://api.invalid", stranger), OutcomeUnknown)


@pytest.mark.parametrize("ends", [reset, asyncio.StreamWriter.close])
@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + SENT[:20],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n" + SENT[:5],
        b"what?\r\n\r\n",
        response(SENT[:20]),
        response(SENT, "502 Bad Gateway")[:60],
        response(b"<html></html>", "502 Bad Gateway"),
        response(b'{"ok":false,"error_code":500,"description":"Internal Server Error"}', "500 Oh"),
    ],
)
async def test_a_server_that_ends_before_its_answer(
    client: Client, said: bytes, ends: Callable[[asyncio.StreamWriter], None]
) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(said)
        ends(writer)

    async with serving(handler) as base:
        assert isinstance(await failure(client, base), OutcomeUnknown)


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + SENT[:20]])
async def test_a_server_that_falls_silent(client: Client, said: bytes) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(said)
        await silent(reader, writer)

    async with serving(handler) as base:
        assert isinstance(await failure(client, base), OutcomeUnknown)


async def test_a_server_that_dies_during_an_upload(client: Client) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        reset(writer)

    async with serving(handler) as base:
        assert isinstance(await failure(client, base, content=UPLOAD), OutcomeUnknown)


async def test_a_server_that_reads_no_upload(client: Client) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(30)

    async with serving(handler) as base:
        assert isinstance(await failure(client, base, content=UPLOAD), OutcomeUnknown)


# --- sent


async def test_a_connection_that_was_closed_while_nobody_spoke_is_not_used_again(client: Client) -> None:
    closed = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(response(SENT))
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        closed.set()

    async with serving(handler) as base, calling(client, base) as bot:
        for _ in range(3):
            assert (await bot.send_message(1, "hello")).message_id == 7
            await closed.wait()
            closed.clear()


async def test_a_file_arrives_as_it_is(client: Client) -> None:
    """Whatever its name and its size are."""
    heard: list[tuple[bytes, bytes]] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            heard.append(await read_request(reader))
            writer.write(response(SENT))

    content = bytes(range(256)) * 1000
    async with serving(handler) as base, calling(client, base) as bot:
        await bot.send_document(1, content, filename='Übersicht "2026".txt', caption="grüß dich & so")
    head, body = heard[0]
    message = BytesParser(policy=HTTP).parsebytes(head.partition(b"\r\n")[2] + body)
    parts = {part.get_param("name", header="content-disposition"): part for part in message.iter_parts()}
    assert parts["caption"].get_payload(decode=True) == "grüß dich & so".encode()
    assert parts["chat_id"].get_payload(decode=True) == b"1"
    assert parts["document"].get_payload(decode=True) == content
    assert 'filename="Übersicht %222026%22.txt"'.encode() in body
    assert parts["document"].get_content_type() == "text/plain"


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read, and say nothing, until the client has enough of it."""
    while await reader.read(65_536):
        pass
    writer.close()
