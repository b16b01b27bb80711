"""A real MCP server of the SDK's own, as a program: `python -m tests.parts.mcp_server [port]`."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from typing import Literal

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.types import ImageContent
from starlette.types import ASGIApp, Receive, Scope, Send

TOKEN = "Bearer of-the-test"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""One pixel."""

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


@server.tool(name="a.name with everything/that no provider takes, and longer than sixty-four characters at that")
def odd() -> str:
    """Oddly named."""
    return "odd"


@server.tool()
async def grow(context: Context) -> str:
    """Offer one tool more."""
    server.add_tool(lambda: "has grown", "grown", description="Tell so.")
    await _tell_of_tools(context)
    return "done"


@server.tool()
async def shrink(context: Context) -> str:
    """Take it back."""
    server.remove_tool("grown")
    await _tell_of_tools(context)
    return "done"


async def _tell_of_tools(context: Context) -> None:
    await context.notify_tools_changed()
    await context.session.send_tool_list_changed()


async def serve_as_in_2025() -> None:
    """Speak no newer protocol than that of 2025."""
    async with stdio_server() as (reading, writing):
        await serve_loop(server._lowlevel_server, reading, writing, lifespan_state={})


@server.tool()
def picture(kind: Literal["png", "odd"]) -> ImageContent:
    """Show a picture."""
    return ImageContent(data=base64.b64encode(PNG if kind == "png" else b"odd").decode(), mime_type="image/png")


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
    elif os.environ.get("ONLY_HANDSHAKES"):
        asyncio.run(serve_as_in_2025())
    else:
        print("what a server says on its standard error", file=sys.stderr)
        server.run("stdio")
