"""The HTTP port of the channels role, which exists where a platform calls us.

TLS is left to a proxy in front. Several processes may serve the same address, also on one machine: the bus
recognizes a call that comes twice. A body is read only by the hook that finds the headers genuine, and never logged."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from channels.core.adapter import SupportsWebhooks, WebhookAnswer, WebhookCall, unavailable_answer
from gateway.contracts.errors import BusUnavailable
from gateway.http_guard import HTTP_LIMITS, Guard, HttpLimits, http_served
from gateway.limits import WEBHOOK_BODY_BYTES_MAX
from gateway.preflight import at, listen

log = logging.getLogger(__name__)

LAST_CALLS_S: Final = 2  # for calls under way when the process stops: their platform brings them again
_HEALTH: Final = "/healthz"


class Webhooks:
    """The calls of all channels of this process; `hooks` take them, by path, and `hosts` are our names."""

    def __init__(
        self, hooks: Mapping[str, SupportsWebhooks], *, hosts: Collection[str] = (), limits: HttpLimits = HTTP_LIMITS
    ) -> None:
        self._hooks = hooks
        self._limits = limits
        self._app = Guard(self._answer, hosts=hosts, body_bytes_max=WEBHOOK_BODY_BYTES_MAX, limits=limits)

    @contextlib.asynccontextmanager
    async def served(self, host: str, port: int) -> AsyncIterator[int]:
        """Serve inside the context; the port. Raises `ConfigError` when it is somebody else's."""
        with listen(host, port, "http.webhook_port", is_shared=True) as listener:
            chosen: int = listener.getsockname()[1]
            async with http_served(self._app, listener, grace_s=LAST_CALLS_S, limits=self._limits):
                log.info("webhooks: listening on http://%s", at(host, chosen))
                yield chosen

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an ASGI request. Raises `HTTPException` for an unknown path, and for a body that is refused."""
        request = Request(scope, receive)
        path = request.url.path
        if path != _HEALTH and path not in self._hooks:
            raise HTTPException(404)
        methods = ("GET", "HEAD") if path == _HEALTH else ("POST",)
        if request.method not in methods:
            raise HTTPException(405, headers={"Allow": ", ".join(methods)})
        if path == _HEALTH:
            await JSONResponse({"status": "ok"})(scope, receive, send)
            return
        answer = await self._taken(request, self._hooks[path])
        response = Response(answer.body, answer.status, answer.headers, answer.media_type)
        try:
            await response(scope, receive, send)
        finally:
            answer.sent()

    async def _taken(self, request: Request, hook: SupportsWebhooks) -> WebhookAnswer:
        path = request.url.path
        try:
            async with asyncio.timeout(None) as deadline:

                async def body() -> bytes:
                    came = await request.body()
                    deadline.reschedule(asyncio.get_running_loop().time() + hook.call_timeout_s)
                    return came

                return await hook.called(WebhookCall(dict(request.headers.items()), body))
        except BusUnavailable as error:
            log.warning("%s: what came stays with its platform: %s", path, error)
        except TimeoutError:
            log.warning("%s: no time to take what came; it stays with its platform", path)
        except (HTTPException, ClientDisconnect):  # the body is refused, or its sender went away
            raise
        except Exception:  # named boundary, adapter callback: one bad call must not end the server
            log.exception("%s: a call failed", path)
            return WebhookAnswer(500)
        return unavailable_answer()
