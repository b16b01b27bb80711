"""A Claude command line program in memory: it speaks the SDK's line protocol and does what a test tells it.

Its model is a list of steps: a text, or calls of tools that go to the SDK's own MCP server and come back as results.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from claude_agent_sdk import Transport

from tests.parts.providers.anthropic import Step

Line = dict[str, Any]


@dataclass
class ClaudeCli(Transport):
    """One run of the program. `said` is what it was asked in a text, `said_blocks` in blocks, `results` what our tools
    answered it."""

    steps: Sequence[Step]
    ending: Line = field(default_factory=dict)
    think: Callable[[int], Any] | None = None
    said: list[str] = field(default_factory=list)
    said_blocks: list[Line] = field(default_factory=list)
    offered: list[Line] = field(default_factory=list)
    results: list[tuple[str, bool]] = field(default_factory=list)
    is_closed: bool = False
    _lines: asyncio.Queue[Line | None] = field(default_factory=asyncio.Queue)
    _answers: dict[str, asyncio.Future[Line]] = field(default_factory=dict)
    _working: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Nothing to start."""

    def is_ready(self) -> bool:
        return not self.is_closed

    async def end_input(self) -> None:
        """Nothing to end."""

    async def close(self) -> None:
        self.is_closed = True
        if self._working is not None:
            self._working.cancel()
        self._lines.put_nowait(None)

    async def read_messages(self) -> AsyncIterator[Line]:
        while (line := await self._lines.get()) is not None:
            yield line

    async def write(self, data: str) -> None:
        line = json.loads(data)
        match line["type"]:
            case "control_request":
                response = {"subtype": "success", "request_id": line["request_id"], "response": {"commands": []}}
                self._lines.put_nowait({"type": "control_response", "response": response})
            case "control_response":
                answer = line["response"]
                self._answers.pop(answer["request_id"]).set_result(answer)
            case "user":
                self._hear(line["message"]["content"])
                self._working = asyncio.create_task(self._work())

    def _hear(self, content: str | list[Line]) -> None:
        if isinstance(content, str):
            self.said.append(content)
        else:
            self.said_blocks += content

    async def _work(self) -> None:
        await self._greet_tools()
        for number, step in enumerate(self.steps):
            if self.think is not None:
                await self.think(number)
            await self._take(number, step)
        last = self.steps[-1].text if self.steps else ""
        result = {
            "type": "result",
            "subtype": "success",
            "duration_ms": 1,
            "duration_api_ms": 1,
            "is_error": False,
            "num_turns": len(self.steps),
            "session_id": "s",
            "total_cost_usd": 0.25,
            "result": last,
            "usage": _usage(len(self.steps)),
        }
        self._lines.put_nowait(result | self.ending)

    async def _take(self, number: int, step: Step) -> None:
        blocks: list[Line] = [{"type": "text", "text": step.text}] if step.text else []
        ids = [f"toolu_{number}_{at}" for at, _ in enumerate(step.calls)]
        blocks += [
            {"type": "tool_use", "id": id_, "name": f"mcp__trivet__{name}", "input": arguments}
            for id_, (name, arguments) in zip(ids, step.calls, strict=True)
        ]
        self._stream(number, step.text)
        for block in blocks:  # one line for each block, as the real one writes them
            message = {"id": f"msg_{number}", "role": "assistant", "model": "claude", "content": [block]}
            message |= {"stop_reason": step.stop} if step.stop else {}
            self._lines.put_nowait({"type": "assistant", "message": message | {"usage": _usage(1)}})
        asked = [{"name": name, "arguments": arguments} for name, arguments in step.calls]
        answers = await asyncio.gather(*(self._mcp("tools/call", params) for params in asked))
        for id_, answer in zip(ids, answers, strict=True):
            content, is_error = answer["result"]["content"], bool(answer["result"].get("isError"))
            self.results.append(("\n".join(block["text"] for block in content), is_error))
            result = {"type": "tool_result", "tool_use_id": id_, "content": content, "is_error": is_error}
            self._lines.put_nowait({"type": "user", "message": {"role": "user", "content": [result]}})

    def _stream(self, number: int, text: str) -> None:
        """The same text as the program passes it on while it is made."""
        events: list[Line] = [{"type": "message_start", "message": {"id": f"msg_{number}"}}]
        pieces = (text[: len(text) // 2], text[len(text) // 2 :])
        events += [{"type": "content_block_delta", "delta": {"type": "text_delta", "text": one}} for one in pieces]
        for event in events:
            self._lines.put_nowait({"type": "stream_event", "uuid": "u", "session_id": "s", "event": event})

    async def _greet_tools(self) -> None:
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "cli", "version": "1"}}
        await self._mcp("initialize", client)
        await self._mcp("notifications/initialized", {}, is_request=False)
        self.offered = (await self._mcp("tools/list", {}))["result"]["tools"]

    async def _mcp(self, method: str, params: Line, *, is_request: bool = True) -> Line:
        id_ = f"{method}#{len(self._answers)}#{len(self.results)}"
        message = {"jsonrpc": "2.0", "method": method, "params": params} | ({"id": id_} if is_request else {})
        request = {"subtype": "mcp_message", "server_name": "trivet", "message": message}
        answered = self._answers[id_] = asyncio.get_running_loop().create_future()
        self._lines.put_nowait({"type": "control_request", "request_id": id_, "request": request})
        answer = await answered
        found: Line = answer["response"]["mcp_response"]
        return found


def _usage(times: int) -> Line:
    return {
        "input_tokens": 10 * times,
        "cache_read_input_tokens": 80 * times,
        "cache_creation_input_tokens": 5 * times,
        "output_tokens": 7 * times,
    }
