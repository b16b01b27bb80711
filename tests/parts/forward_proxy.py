"""A small forward proxy, as a company has one: CONNECT and plain requests, for those who know the password."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from channels.emulators.serving import LOOPBACK

LOGIN = "trivet:proxy-password-for-the-tests"
_REFUSED = b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"


@dataclass
class ForwardProxy:
    """`reached` is every address that somebody asked for, `host:port`, and how."""

    port: int = 0
    reached: set[tuple[str, str]] = field(default_factory=set)
    refused: int = 0

    @property
    def url(self) -> str:
        return f"http://{LOGIN}@{LOOPBACK}:{self.port}"

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.split(b" ", 2)
            if base64.b64encode(LOGIN.encode()) not in head:
                self.refused += 1
                writer.write(_REFUSED)
                await writer.drain()
            else:
                await self._forward(method.decode(), target.decode(), head, reader, writer)
        writer.close()

    async def _forward(
        self, method: str, target: str, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        place = target if method == "CONNECT" else urlsplit(target).netloc
        self.reached.add(("tunnel" if method == "CONNECT" else "plain", place))
        host, _, port = place.partition(":")
        there, out = await asyncio.open_connection(host, int(port))
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            out.write(_rewritten(method, target.partition(place)[2] or "/", head))
        both = [asyncio.create_task(_pump(reader, out)), asyncio.create_task(_pump(there, writer))]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            await both[1]
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            out.close()


def _rewritten(method: str, path: str, head: bytes) -> bytes:
    """The request as its server wants it; each has a connection of its own, unless it becomes a websocket."""
    lines = head.split(b"\r\n")[1:]
    kept = [line for line in lines if not line.lower().startswith(b"proxy-")]
    if not any(line.lower().startswith(b"upgrade:") for line in lines):
        kept = [b"Connection: close", *(line for line in kept if not line.lower().startswith(b"connection:"))]
    return f"{method} {path} HTTP/1.1\r\n".encode() + b"\r\n".join(kept)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()


@contextlib.asynccontextmanager
async def forward_proxy() -> AsyncIterator[ForwardProxy]:
    """It serves inside the context."""
    proxy = ForwardProxy()
    server = await asyncio.start_server(proxy.take, LOOPBACK, 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
