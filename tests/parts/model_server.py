"""A model provider on loopback that speaks the OpenAI chat API, for tests and benches of the real litellm.

It answers `echo: <last user text>` (or what `answer` makes of the request; a `finish_reason` may stand beside the
message, None for none) as a stream, keeps every request, and fails on request: a status with headers, a stream cut in
the middle, a stall.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from channels.emulators.serving import LOOPBACK, listening

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """One request that goes wrong: an HTTP error, or (status 200) a stream cut after its first chunk."""

    status: int
    message: str = "told to fail"
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recording:
    """What was sent to be written down."""

    model: str
    name: str
    content: bytes
    language: object


def last_user_text(body: Body) -> str:
    """The text of the newest user message of a request."""
    texts = [text_of(message) for message in body["messages"] if message["role"] == "user"]
    return texts[-1] if texts else ""


def text_of(message: Body) -> str:
    """The words of a message, which may have images beside them."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part["type"] == "text")


def images_of(body: Body) -> list[str]:
    """The addresses of all images of a request, in order."""
    contents = [message.get("content") for message in body["messages"]]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def echo(body: Body) -> Body:
    """The default answer, as an assistant message."""
    return {"content": f"echo: {last_user_text(body)}"}


async def opened(_body: Body) -> None:
    """The default gate: every request may pass."""


def call(name: str, arguments: str, call_id: str = "call_1") -> Body:
    """An assistant message that calls one tool."""
    return {"tool_calls": [{"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}]}


def vector_of(text: str) -> list[float]:
    """The default embedding: texts with the same letters point the same way."""
    return [1.0 + text.lower().count(letter) for letter in "aeinorst"]


class ModelServer:
    """The provider. `url` is what `agent.api_base` takes."""

    def __init__(self) -> None:
        self.requests: list[Body] = []
        self.headers: list[Headers] = []
        self.failures: deque[Failure] = deque()
        self.answer: Callable[[Body], Body] = echo
        self.latency_s = 0.0
        self.gate: Callable[[Body], Awaitable[None]] = opened
        self.cached_tokens = 0
        self.heard: list[Recording] = []
        self.speech = "what was said"
        self.url = ""
        self.app = Starlette(
            routes=[
                Route("/v1/chat/completions", self._complete, methods=["POST"]),
                Route("/v1/embeddings", self._embed, methods=["POST"]),
                Route("/v1/audio/transcriptions", self._transcribe, methods=["POST"]),
                Route("/v1/audio/speech", self._speak, methods=["POST"]),
            ]
        )

    async def _complete(self, request: Request) -> Response:
        body: Body = await request.json()
        self.requests.append(body)
        self.headers.append(request.headers)
        await self.gate(body)
        await asyncio.sleep(self.latency_s)
        failure = self.failures.popleft() if self.failures else None
        if failure is not None and failure.status != 200:
            error = {"message": failure.message, "type": "error", "code": failure.code}
            return JSONResponse({"error": error}, status_code=failure.status, headers=dict(failure.headers))
        chunks = self._chunks(body, is_cut=failure is not None)
        # A cut stream promises more bytes than it sends: the client sees the connection end too early.
        length = {"content-length": "1000000"} if failure is not None else None
        return StreamingResponse(chunks, media_type="text/event-stream", headers=length)

    async def _embed(self, request: Request) -> Response:
        body: Body = await request.json()
        self.requests.append(body)
        self.headers.append(request.headers)
        failure = self.failures.popleft() if self.failures else None
        if failure is not None:
            error = {"message": failure.message, "type": "error", "code": failure.code}
            return JSONResponse({"error": error}, status_code=failure.status, headers=dict(failure.headers))
        rows = [
            {"object": "embedding", "index": index, "embedding": vector_of(text)}
            for index, text in enumerate(body["input"])
        ]
        tokens = sum(len(text) for text in body["input"]) // 4 + 1
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return JSONResponse({"object": "list", "model": body["model"], "data": rows[::-1], "usage": usage})

    async def _transcribe(self, request: Request) -> Response:
        self.headers.append(request.headers)
        form = await request.form()
        file = form["file"]
        assert isinstance(file, UploadFile)
        self.heard.append(Recording(str(form["model"]), file.filename or "", await file.read(), form.get("language")))
        failure = self.failures.popleft() if self.failures else None
        if failure is not None:
            error = {"message": failure.message, "type": "error", "code": failure.code}
            return JSONResponse({"error": error}, status_code=failure.status, headers=dict(failure.headers))
        return JSONResponse({"text": self.speech, "usage": {"type": "duration", "seconds": 3}})

    async def _speak(self, request: Request) -> Response:
        """A recording that is the text asked for."""
        body: Body = await request.json()
        self.requests.append(body)
        failure = self.failures.popleft() if self.failures else None
        if failure is not None:
            return JSONResponse({"error": {"message": failure.message}}, status_code=failure.status)
        return Response(f"OggS {body['input']}".encode(), media_type="audio/ogg")

    async def _chunks(self, body: Body, *, is_cut: bool) -> AsyncIterator[bytes]:
        message = self.answer(body)
        text = message.get("content") or ""
        deltas: list[Body] = [{"content": text[at : at + 7]} for at in range(0, len(text), 7)]
        deltas += [
            {"tool_calls": [{"index": index, **tool_call}]}
            for index, tool_call in enumerate(message.get("tool_calls", ()))
        ]
        for delta in deltas:
            yield _event(body, {"choices": [{"index": 0, "delta": {"role": "assistant", **delta}}]})
            if is_cut:
                return
        if "refusal" in message:
            yield _event(body, {"choices": [{"index": 0, "delta": {"refusal": message["refusal"]}}]})
        finish = message.get("finish_reason", "tool_calls" if message.get("tool_calls") else "stop")
        yield _event(body, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        prompt = sum(len(text_of(item)) for item in body["messages"]) // 4
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": len(text) // 4 + 1,
            "total_tokens": prompt + len(text) // 4 + 1,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }
        yield _event(body, {"choices": [], "usage": usage})
        yield b"data: [DONE]\n\n"


def _event(body: Body, fields: Body) -> bytes:
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": body["model"], **fields}
    return f"data: {json.dumps(chunk)}\n\n".encode()


@asynccontextmanager
async def serve_model() -> AsyncIterator[ModelServer]:
    """A running `ModelServer` on a free port of loopback."""
    model = ModelServer()
    async with listening(model.app) as port:
        model.url = f"http://{LOOPBACK}:{port}/v1"
        yield model
