"""An MCP server of the standard library alone: `python -m tests.parts.plain_mcp_server`. It is there at once, for tests
of what a server may do and not of what it says."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final


def environment() -> str:
    """Everything this process was given."""
    return "\n".join(f"{name}={value}" for name, value in sorted(os.environ.items()))


def touch(path: str) -> str:
    """Read a file that is there, or write one."""
    try:
        if Path(path).exists():
            return f"read: {Path(path).read_text()}"
        Path(path).write_text("note")
    except OSError:
        return "refused"
    return "written"


def connect(port: int) -> str:
    """Connect to this machine."""
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return "connected"


TOOLS: Final[dict[str, Callable[..., str]]] = {tool.__name__: tool for tool in (environment, touch, connect)}


def answer(method: str, given: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None for a method of a newer protocol."""
    match method:
        case "initialize":
            told = {"name": "plain", "version": "1"}
            return {"protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": told}
        case "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
        case "tools/call":
            try:
                text, is_error = TOOLS[given["name"]](**given.get("arguments", {})), False
            except OSError as error:
                text, is_error = str(error), True
            return {"content": [{"type": "text", "text": text}], "isError": is_error}
    return None


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            result = answer(asked["method"], asked.get("params", {}))
            said = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)
