"""Anthropic's Messages API on loopback, as far as the Claude command line program needs it: a list of answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from channels.emulators.serving import LOOPBACK, listening
from tests.parts.claude_cli import Step

Body = dict[str, Any]


class AnthropicServer:
    """The API. Requests with tools get the next step; whatever else the program asks is answered with a word."""

    def __init__(self, steps: Sequence[Step], *, prefix: str) -> None:
        """`prefix` stands in front of the names of tools that are called."""
        self.requests: list[Body] = []
        self.headers: list[Headers] = []
        self.url = ""
        self.hung_up = 0
        self._steps = iter(steps)
        self._prefix = prefix
        self._open = asyncio.Event()
        self._open.set()
        self.app = Starlette(
            routes=[
                Route("/v1/messages", self._answer, methods=["POST"]),
                Route("/{rest:path}", self._nothing, methods=["GET", "POST", "HEAD"]),
            ]
        )

    def hold(self) -> None:
        """From now on nobody gets an answer."""
        self._open.clear()

    async def _wait(self, request: Request) -> None:
        """Until it may answer; notes those who do not wait that long."""
        opening = asyncio.create_task(self._open.wait())
        leaving = asyncio.ensure_future(request.receive())
        done, others = await asyncio.wait({opening, leaving}, return_when=asyncio.FIRST_COMPLETED)
        for other in others:
            other.cancel()
        self.hung_up += leaving in done

    async def _nothing(self, _request: Request) -> Response:
        return JSONResponse({"type": "error", "error": {"type": "not_found_error", "message": "no"}}, status_code=404)

    async def _answer(self, request: Request) -> Response:
        body: Body = await request.json()
        self.requests.append(body)
        self.headers.append(request.headers)
        await self._wait(request)
        step = next(self._steps) if body.get("tools") else Step("ok")
        return StreamingResponse(_events(body["model"], step, self._prefix), media_type="text/event-stream")


async def _events(model: str, step: Step, prefix: str) -> AsyncIterator[bytes]:
    usage = {"input_tokens": 30, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [], "usage": usage}
    yield _event({"type": "message_start", "message": message})
    for index, (block, delta) in enumerate(_blocks(step, prefix)):
        yield _event({"type": "content_block_start", "index": index, "content_block": block})
        yield _event({"type": "content_block_delta", "index": index, "delta": delta})
        yield _event({"type": "content_block_stop", "index": index})
    reason = step.stop or ("tool_use" if step.calls else "end_turn")
    yield _event({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}})
    yield _event({"type": "message_stop"})


def _blocks(step: Step, prefix: str) -> Iterator[tuple[Body, Body]]:
    if step.text:
        yield {"type": "text", "text": ""}, {"type": "text_delta", "text": step.text}
    for at, (name, arguments) in enumerate(step.calls):
        yield (
            {"type": "tool_use", "id": f"toolu_{at}", "name": prefix + name, "input": {}},
            {
                "type": "input_json_delta",
                "partial_json": arguments if isinstance(arguments, str) else json.dumps(arguments),
            },
        )


def _event(body: Body) -> bytes:
    return f"event: {body['type']}\ndata: {json.dumps(body)}\n\n".encode()


@asynccontextmanager
async def serve_anthropic(steps: Sequence[Step], *, prefix: str = "mcp__trivet__") -> AsyncIterator[AnthropicServer]:
    """A running server on a free port of loopback."""
    server = AnthropicServer(steps, prefix=prefix)
    async with listening(server.app) as port:
        server.url = f"http://{LOOPBACK}:{port}"
        yield server
