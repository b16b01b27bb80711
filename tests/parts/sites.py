"""Small web sites on loopback, and what was asked of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

Answers = Mapping[str, tuple[int, Mapping[str, str], str]]
"""Status, headers and body by path; "*" answers for all others."""


@dataclass(slots=True)
class Site:
    """One server. `asked` has the request line of everything that reached it, HTTP or not."""

    host: str
    port: int
    asked: list[str] = field(default_factory=list)
    answers: Answers = field(default_factory=dict)

    @property
    def place(self) -> tuple[str, int]:
        """What `PublicConnector(exempt=…)` takes."""
        return self.host, self.port

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                line = head.partition(b"\r\n")[0].decode()
                self.asked.append(line)
                path = line.split(" ")[1].partition("?")[0]
                status, headers, body = self.answers.get(path) or self.answers.get("*") or (404, {}, "")
                fields = {"Content-Type": "text/html; charset=utf-8"} | dict(headers)
                lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in fields.items())]
                content = body.encode()
                writer.write("\r\n".join([*lines, f"Content-Length: {len(content)}", "", ""]).encode() + content)
                await writer.drain()
                if b"connection: close" in head.lower():
                    break
        writer.close()


@contextlib.asynccontextmanager
async def site(answers: Answers | None = None, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Site]:
    """A site that serves as long as the block lasts; it keeps its connections alive, as servers do."""
    served = Site(host, port, answers=answers or {})
    server = await asyncio.start_server(served.serve, host, port)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
