"""The HTTP face: `/bot{token}/{method}` and `/file/bot{token}/{path}`, answers in the API's envelope.

The HTTP status of a refusal equals its `error_code`, as clients rely on it, unless a switch says otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from channels.emulators.severing import NoAnswer
from channels.emulators.telegram.backstage import Backstage
from channels.emulators.telegram.call import read_call
from channels.emulators.telegram.errors import ApiError, method_not_found, too_many_requests, unauthorized
from channels.emulators.telegram.methods import METHODS
from channels.emulators.telegram.methods.method import Method
from channels.emulators.telegram.updates import PollCut

_TOKEN: Final = re.compile(r"\d+:[\w-]+")
_BASICS: Final = frozenset({"getme", "getupdates", "deletewebhook", "sendmessage"})
FRONT_PAGE: Final = "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>nginx</body>\r\n</html>\r\n"
BAD_GATEWAY: Final = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>nginx</body>\r\n</html>\r\n"


class Wire:
    """One bot's Bot API as an ASGI application."""

    def __init__(self, token: str, backstage: Backstage) -> None:
        self._token = token
        self._backstage = backstage
        self.app = Starlette(
            routes=[
                Route("/bot{token}/{method}", self._enveloped(self._call), methods=["GET", "POST"]),
                Route("/file/bot{token}/{path:path}", self._enveloped(self._download), methods=["GET"]),
            ],
            lifespan=self._lifespan,
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        await self._backstage.webhook.close()

    def _enveloped(self, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                self._admit(request.path_params["token"])
                return await handler(request)
            except ApiError as refusal:
                return _refusal(refusal, 200 if self._backstage.switch("status_200") else refusal.status)
            except PollCut:
                return NoAnswer()

        return endpoint

    def _admit(self, token: str) -> None:
        """What does not even look like a token is not found; what does, but is not ours, is unauthorized."""
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            raise unauthorized() if _TOKEN.fullmatch(token) else ApiError(404, "Not Found")

    async def _call(self, request: Request) -> Response:
        if self._backstage.take("front_pages"):
            return Response(FRONT_PAGE, 404, media_type="text/html")
        name = request.path_params["method"].lower()
        method = METHODS.get(name)
        if method is None or (self._backstage.switch("only_basics") and name not in _BASICS):
            raise method_not_found()
        call = await read_call(request, method.name)
        if method.name != "getUpdates" and self._backstage.faults.delay_s > 0:
            await asyncio.sleep(self._backstage.faults.delay_s)
        if method.name == "getUpdates" and self._backstage.take("hang_polls"):
            while (await request.receive())["type"] != "http.disconnect":
                pass
        if (spoiled := self._spoiled(method)) is not None:
            return spoiled
        result = await method.run(self._backstage, call)
        if method.is_write and _take(self._backstage, "drop_after"):
            return NoAnswer()
        return JSONResponse({"ok": True, "result": result})

    def _spoiled(self, method: Method) -> Response | None:
        """What a fault switch answers instead of doing anything; None when none is on."""
        backstage = self._backstage
        if method.name == "getUpdates" and backstage.take("poll_errors"):
            return Response(BAD_GATEWAY, 502, media_type="text/html")
        if not method.is_write and not backstage.switch("faults_everywhere"):
            return None
        if _take(backstage, "drop_before"):
            return NoAnswer()
        if _take(backstage, "server_error"):
            return Response(BAD_GATEWAY, 502, media_type="text/html")
        if _take(backstage, "rate_limit"):
            raise too_many_requests(max(1, math.ceil(backstage.faults.retry_after_s)))
        return None

    async def _download(self, request: Request) -> Response:
        wanted = request.path_params["path"]
        for stored in self._backstage.world.files.values():
            if stored.path == wanted:
                return Response(stored.content, media_type="application/octet-stream")
        raise ApiError(404, "Not Found")


def _take(backstage: Backstage, counter: str) -> bool:
    left: int = getattr(backstage.faults, counter)
    if left > 0:
        setattr(backstage.faults, counter, left - 1)
    return left > 0


def _refusal(refusal: ApiError, status: int) -> JSONResponse:
    body: dict[str, object] = {"ok": False, "error_code": refusal.status, "description": refusal.description}
    if refusal.parameters:
        body["parameters"] = dict(refusal.parameters)
    return JSONResponse(body, status)
