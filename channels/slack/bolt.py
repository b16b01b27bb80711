"""Bolt, set up so that an event is acknowledged only after it was heard, however it came.

Bolt acknowledges events before their listeners run, but global middleware runs before that, and when it raises nothing
is acknowledged and Slack sends the event again. So all is done in middleware, which acknowledges by itself: Bolt has no
listeners, which would leave requests of a kind that they do not know unanswered.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import time
from typing import Any

from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.adapter.socket_mode.async_internals import send_async_response
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.middleware.async_middleware import AsyncMiddleware
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from channels.raw import Raw
from channels.slack.blocks import Block
from channels.slack.logs import sdk_log
from channels.slack.normalize import SlackIdentity

log = logging.getLogger(__name__)

Hear = Callable[[Mapping[str, Any]], Awaitable[Sequence[Block] | None]]
"""Takes the body of a request; returns when it may be acknowledged, raises when it may not. What it returns is what
Slack has asked for with it: the lines of a list."""


def bolt_app(client: AsyncWebClient, me: SlackIdentity, hear: Hear) -> AsyncApp:
    """An app that gives every request to `hear`. That a request is genuine has been made sure of before."""
    with _without_slack_variables():
        app = AsyncApp(
            name="trivet",
            logger=sdk_log,
            client=client,
            signing_secret="",
            authorize=_authorize_as(me, client.token or ""),
            request_verification_enabled=False,
            ssl_check_enabled=False,
            url_verification_enabled=False,
            attaching_function_token_enabled=False,
            attaching_conversation_kwargs_enabled=False,
        )
    app.use(_Hearing(hear))
    return app


def legible(body: Raw) -> AsyncBoltRequest | None:
    """The request of a body that was read; None for one of a form that Bolt, and so nobody here, can read."""
    if not isinstance(body.get("event", {}), Mapping):
        return None
    try:
        return AsyncBoltRequest(body=dict(body), mode="socket_mode")
    except Exception:  # noqa: BLE001 - named boundary, adapter callback: Bolt raises whatever it stumbles over
        return None


class Handler(AsyncSocketModeHandler):
    """Bolt's own, but that it acknowledges what nobody can read: Slack would bring it three times more."""

    async def handle(self, client: SocketModeClient, req: SocketModeRequest) -> None:  # type: ignore[override]
        if legible(req.payload) is None:
            await send_async_response(client, req, BoltResponse(status=200), time())
        else:
            await super().handle(client, req)


async def acknowledge_unreadable(client: AsyncBaseSocketModeClient, envelope: Raw) -> None:
    """The same for an envelope of which the SDK makes no request (its payload is null, or a list), so that no handler
    hears of it. Anything else is left alone."""
    envelope_id = envelope.get("envelope_id")
    is_request = isinstance(envelope.get("type"), str) and isinstance(envelope.get("payload"), dict | str)
    if isinstance(envelope_id, str) and not is_request:
        await client.send_socket_mode_response(SocketModeResponse(envelope_id))


def _authorize_as(me: SlackIdentity, token: str) -> Callable[..., Awaitable[AuthorizeResult]]:
    """Bolt would ask auth.test at the first event, and lose that event should the call fail."""
    result = AuthorizeResult(
        enterprise_id=None, team_id=me.team_id, bot_user_id=me.user_id, bot_id=me.bot_id, bot_token=token
    )

    async def authorize() -> AuthorizeResult:
        return result

    return authorize


class _Hearing(AsyncMiddleware):
    """A function instead would be given whatever Bolt finds in a request, and Bolt stumbles over some of it."""

    def __init__(self, hear: Hear) -> None:
        self._hear = hear

    async def async_process(self, *, req: AsyncBoltRequest, resp: BoltResponse, next: object) -> BoltResponse:
        try:
            options = await self._hear(req.body)
        except Exception as error:  # noqa: BLE001 - named boundary, adapter callback: Slack brings it again
            log.info("slack: a request is not acknowledged: %s", repr(error))
            return BoltResponse(status=503)
        return BoltResponse(status=200, body="" if options is None else {"options": options})


@contextmanager
def _without_slack_variables() -> Iterator[None]:
    """SLACK_CLIENT_ID and its like would switch Bolt into modes that nobody configured."""
    hidden = {name: os.environ.pop(name) for name in tuple(os.environ) if name.startswith("SLACK_")}
    try:
        yield
    finally:
        os.environ.update(hidden)
