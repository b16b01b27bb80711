"""The HTTP server of the channels role: it exists where a platform calls us, and knows nothing of what is said.

TLS is for whoever stands in front. Several processes may serve the same address, also on one machine: what
comes twice is known to the bus. Bodies are bounded and never logged; what is refused is only counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Final

from aiohttp import web

from channels.calls import Call, CallAnswer, SupportsCalls, come_again
from gateway.contracts.errors import BusUnavailable, ConfigError

log = logging.getLogger(__name__)

BODY_BYTES_MAX: Final = 2 * 1024 * 1024  # Telegram drops updates of more than 512 KiB; the others stay far below
HEADER_BYTES_MAX: Final = 16 * 1024
BODY_TIMEOUT_S: Final = 10.0  # for a body to come in whole: who is slower holds a connection for nothing
LAST_CALLS_S: Final = 2.0  # for calls under way when the process stops: their platform brings them again

_SERVER: Final = {"Server": "Trivet"}


class Webhooks:
    """The calls of all channels of this process; `hooks` are those who take them, by path."""

    def __init__(self, hooks: Mapping[str, SupportsCalls]) -> None:
        self._hooks = hooks
        self.answered: Counter[tuple[str, int]] = Counter()
        """Calls by path and status."""

    @contextlib.asynccontextmanager
    async def served(self, host: str, port: int) -> AsyncIterator[int]:
        """Serve inside the context; the port. Raises `ConfigError` when it is somebody else's."""
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.router.add_get("/healthz", self._health)
        for path in self._hooks:
            app.router.add_post(path, self._take)
        runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=LAST_CALLS_S,
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
        )
        await runner.setup()
        try:
            yield await _listen(runner, host, port)
        finally:
            await runner.cleanup()

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"}, headers=_SERVER)

    async def _take(self, request: web.Request) -> web.Response:
        answer = await self._answer(request)
        self.answered[request.path, answer.status] += 1
        response = web.Response(
            status=answer.status,
            text=answer.body,
            content_type=answer.media_type,
            headers={**_SERVER, **answer.headers},
        )
        try:
            await response.prepare(request)
            await response.write_eof()
        finally:
            answer.sent()
        return response

    async def _answer(self, request: web.Request) -> CallAnswer:
        hook = self._hooks[request.path]
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                body = await request.read()
            headers = {name.lower(): value for name, value in request.headers.items()}
            async with asyncio.timeout(hook.call_timeout_s):
                return await hook.called(Call(headers, body))
        except web.HTTPRequestEntityTooLarge:
            return CallAnswer(413)
        except web.RequestPayloadError:  # packed in a way that it is not, or cut off
            return CallAnswer(400)
        except BusUnavailable as error:
            log.warning("%s: what came stays with its platform: %s", request.path, error)
        except TimeoutError:
            log.warning("%s: no time to take what came; it stays with its platform", request.path)
        except ConnectionError:
            log.debug("%s: the caller went away", request.path)
        except Exception:  # named boundary, adapter callback: one bad call must not end the server
            log.exception("%s: a call failed", request.path)
            return CallAnswer(500)
        return come_again()


async def _listen(runner: web.AppRunner, host: str, port: int) -> int:
    """Together with other processes of ours on this machine, where the system lets several share a port."""
    site = web.TCPSite(runner, host, port, reuse_port=hasattr(socket, "SO_REUSEPORT") or None)
    try:
        await site.start()
    except OSError as error:
        raise ConfigError(
            f"http.webhook_port {port} on {host} cannot be used ({error.strerror}): "
            "end the program that has it, or choose another one"
        ) from error
    chosen = int(runner.addresses[0][1])
    log.info("webhooks: listening on http://%s:%d", host, chosen)
    return chosen
