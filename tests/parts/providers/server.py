"""A provider on a free port of loopback, on any of the wires."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive

from channels.emulators.serving import LOOPBACK, listening
from tests.parts.providers.script import Answer, Body, Fault, Wire

Answering = Callable[[Body], Answer | Fault]


class ProviderServer:
    """The provider. It keeps every request, and counts those whose clients left before the end."""

    def __init__(self, wire: Wire, answer: Answering) -> None:
        self.requests: list[Body] = []
        self.headers: list[Headers] = []
        self.paths: list[str] = []
        self.answer = answer
        self.url = ""
        self.hung_up = 0
        self._wire = wire
        self._open = asyncio.Event()
        self._open.set()
        self.app = Starlette(
            routes=[
                Route(wire.path, self._complete, methods=["POST"]),
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

    async def _complete(self, request: Request) -> Response:
        body: Body = await request.json()
        self.requests.append(body)
        self.headers.append(request.headers)
        self.paths.append(request.url.path)
        await self._wait(request)
        answer = self.answer(body)
        if isinstance(answer, Fault):
            refusal = self._wire.refusal(answer)
            return JSONResponse(refusal.body, refusal.status, headers=dict(answer.headers))
        model = body.get("model") or request.path_params.get("model", "")
        # A cut stream promises more bytes than it sends: the client sees the connection end too early.
        length = {"content-length": "1000000"} if answer.is_cut else None
        return _Stream(self._stream(answer, model), self._left, length)

    async def _stream(self, answer: Answer, model: str) -> AsyncIterator[bytes]:
        pieces = self._wire.events(answer, model)
        if size := answer.bytes_at_once:
            whole = b"".join(pieces)
            pieces = iter([whole[at : at + size] for at in range(0, len(whole), size)])
        for number, piece in enumerate(pieces):
            if number == answer.stalls_after:
                await asyncio.Event().wait()  # until the client leaves
            yield piece

    def _left(self) -> None:
        self.hung_up += 1


class _Stream(StreamingResponse):
    """A stream that says when its client leaves before its end."""

    def __init__(self, pieces: AsyncIterator[bytes], left: Callable[[], None], headers: dict[str, str] | None) -> None:
        super().__init__(pieces, media_type="text/event-stream", headers=headers)
        self._left = left

    async def listen_for_disconnect(self, receive: Receive) -> None:
        await super().listen_for_disconnect(receive)
        self._left()


@asynccontextmanager
async def serving(wire: Wire, answer: Answering) -> AsyncIterator[ProviderServer]:
    """A running `ProviderServer`."""
    server = ProviderServer(wire, answer)
    async with listening(server.app) as port:
        server.url = f"http://{LOOPBACK}:{port}"
        yield server
