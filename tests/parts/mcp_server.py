"""A real MCP server of the SDK's own, as a program: `python -m tests.parts.mcp_server [port]`."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Literal

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.types import ASGIApp, Receive, Scope, Send

TOKEN = "Bearer of-the-test"

server: MCPServer = MCPServer("testing")


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def environment() -> str:
    """Everything this process was given."""
    return "\n".join(f"{name}={value}" for name, value in sorted(os.environ.items()))


@server.tool()
def fail(kind: Literal["error", "death"]) -> str:
    """Fail, or die."""
    if kind == "death":
        os._exit(3)
    raise ValueError("that went wrong")


@server.tool()
async def wait(seconds: float) -> str:
    """Take a while."""
    await asyncio.sleep(seconds)
    return "waited"


@server.tool()
def pid() -> str:
    """Which process this is."""
    return str(os.getpid())


@server.tool()
def touch(path: str) -> str:
    """Read a file that is there, or write one."""
    try:
        if Path(path).exists():
            return f"read: {Path(path).read_text()}"
        Path(path).write_text("note")
    except OSError:
        return "refused"
    return "written"


@server.tool()
def connect(port: int) -> str:
    """Connect to this machine."""
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return "connected"


@server.tool(name="a.name with everything/that no provider takes, and longer than sixty-four characters at that")
def odd() -> str:
    """Oddly named."""
    return "odd"


def guarded(app: ASGIApp) -> ASGIApp:
    """Only whoever has the token is answered."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"authorization") != TOKEN.encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return answer


if __name__ == "__main__":
    if len(sys.argv) == 2:
        uvicorn.run(guarded(server.streamable_http_app()), host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
    else:
        print("what a server says on its standard error", file=sys.stderr)
        server.run("stdio")
