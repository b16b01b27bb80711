"""The only way out of the browser: a forward proxy on loopback that connects to the public web and nowhere else.

Whatever a page asks for (a redirect, a picture, a frame, a fetch, a websocket) Chromium asks of this proxy, by
name; the proxy resolves the name, judges the address and connects to that same address. Chromium itself resolves
nothing. A connection carries one request or one tunnel, and an end.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from agent.limits import (
    BROWSER_BYTES_MAX,
    BROWSER_CONNECTION_S,
    BROWSER_CONNECTIONS_MAX,
    BROWSER_HEAD_BYTES_MAX,
)
from agent.tools.web.reaching import Reach, Unreachable

_LOOPBACK: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 65_536
_END_OF_HEAD: Final = b"\r\n\r\n"
_REFUSED: Final = b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_BAD: Final = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_TUNNEL: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
_HOP_HEADERS: Final = re.compile(rb"\r\n(?:proxy-[^:\r\n]*|connection|keep-alive):[^\r\n]*", re.IGNORECASE)
_INTERIM: Final = re.compile(rb"HTTP/1\.1 1\d\d")
_CLOSE: Final = b"\r\nConnection: close\r\n\r\n"


class _Bad(Exception):
    """Not a request that a browser makes of a proxy."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a connection is for. `head` goes to the server, None for a tunnel."""

    host: str
    port: int
    head: bytes | None


@contextlib.asynccontextmanager
async def forward_proxy(reach: Reach) -> AsyncIterator[int]:
    """The port of a proxy that serves as long as the block lasts."""
    proxy = _Proxy(reach)
    server = await asyncio.start_server(proxy.serve, _LOOPBACK, 0, limit=BROWSER_HEAD_BYTES_MAX)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await proxy.end()


class _Proxy:
    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._slots = asyncio.Semaphore(BROWSER_CONNECTIONS_MAX)
        self._serving: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the browser's, from its request to its end."""
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            async with self._slots, asyncio.timeout(BROWSER_CONNECTION_S):
                await self._answer(reader, writer)
        except (OSError, EOFError, asyncio.LimitOverrunError, TimeoutError):
            pass  # either end hung up, or took too long: the other one is told by the same
        except asyncio.CancelledError:
            pass  # by `end`; nobody awaits this task, and asyncio's streams take a cancelled one for a failure
        finally:
            self._serving.discard(task)
            writer.transport.abort() if writer.is_closing() else writer.close()

    async def end(self) -> None:
        """Hang up on everybody."""
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = _asked(await reader.readuntil(_END_OF_HEAD))
            far_reader, far_writer = await self._reach.connect(asked.host, asked.port)
        except (_Bad, Unreachable) as error:
            writer.write(_BAD if isinstance(error, _Bad) else _REFUSED)
            await writer.drain()
            return
        try:
            if asked.head is None:
                writer.write(_TUNNEL)
            else:
                far_writer.write(asked.head)
            await _both_ways(reader, writer, far_reader, far_writer, is_tunnel=asked.head is None)
        finally:
            far_writer.close()


async def _both_ways(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
    *,
    is_tunnel: bool,
) -> None:
    """Until the server has said everything, or too much; what the browser says ends with that."""
    talking = asyncio.ensure_future(_pump(reader, far_writer))
    try:
        if not is_tunnel:
            head = await far_reader.readuntil(_END_OF_HEAD)
            while _INTERIM.match(head):  # "early hints" and their like: the answer itself follows
                head = await far_reader.readuntil(_END_OF_HEAD)
            writer.write(_without_hops(head))
        await _pump(far_reader, writer)
    finally:
        talking.cancel()
        await asyncio.wait([talking])


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    passed = 0
    while passed < BROWSER_BYTES_MAX and (chunk := await reader.read(_CHUNK_BYTES)):
        passed += len(chunk)
        writer.write(chunk)
        await writer.drain()


def _asked(head: bytes) -> _Asked:
    """The request in a head: `CONNECT host:port`, or a method with a whole http address."""
    line, separator, rest = head.partition(b"\r\n")
    try:
        method, target, version = line.decode("ascii").split(" ")
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        port = parts.port
    except (ValueError, UnicodeDecodeError) as error:
        raise _Bad from error
    if not parts.hostname:
        raise _Bad
    if method == "CONNECT":
        if port is None:
            raise _Bad
        return _Asked(parts.hostname, port, None)
    if parts.scheme != "http":
        raise _Bad
    path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    return _Asked(parts.hostname, port or 80, _without_hops(f"{method} {path} {version}".encode() + separator + rest))


def _without_hops(head: bytes) -> bytes:
    """The head with a connection that ends behind its message: the next request may be for another host."""
    return _HOP_HEADERS.sub(b"", head[: -len(_END_OF_HEAD)]) + _CLOSE
