"""Bolt, set up so that an event is acknowledged only after it was heard, however it came.

Bolt acknowledges events before their listeners run, but global middleware runs before that, and when it
raises nothing is acknowledged and Slack sends the event again. So everything is done in middleware, and
the listeners only exist because Bolt refuses to acknowledge what nobody listens for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from slack_bolt.app.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.response import BoltResponse
from slack_sdk.web.async_client import AsyncWebClient

from channels.slack.blocks import Block
from channels.slack.logs import sdk_log
from channels.slack.normalize import SlackIdentity

Hear = Callable[[Mapping[str, Any]], Awaitable[Sequence[Block] | None]]
"""Takes the body of a request; returns when it may be acknowledged, raises when it may not. What it returns is what
Slack has asked for with it: the lines of a list."""

_ANSWER: Final = "trivet_answer"
_ANY: Final = re.compile(".*", re.DOTALL)


def bolt_app(client: AsyncWebClient, me: SlackIdentity, hear: Hear) -> AsyncApp:
    """An app that gives every request to `hear` first. That a request is genuine has been made sure of before."""
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
    app.use(_heard_first(hear))
    app.error(_not_acknowledged)
    for listen in (app.event, app.command, app.action, app.shortcut, app.view, app.options):
        listen(_ANY)(_acknowledge)
    return app


def _authorize_as(me: SlackIdentity, token: str) -> Callable[..., Awaitable[AuthorizeResult]]:
    """Bolt would ask auth.test at the first event, and lose that event should the call fail."""
    result = AuthorizeResult(
        enterprise_id=None, team_id=me.team_id, bot_user_id=me.user_id, bot_id=me.bot_id, bot_token=token
    )

    async def authorize() -> AuthorizeResult:
        return result

    return authorize


def _heard_first(hear: Hear) -> Callable[..., Awaitable[Any]]:
    async def middleware(body: dict[str, Any], context: dict[str, Any], next: Callable[[], Awaitable[Any]]) -> Any:
        context[_ANSWER] = await hear(body)
        return await next()

    return middleware


async def _acknowledge(ack: Callable[..., Awaitable[Any]], context: dict[str, Any]) -> None:
    options = context.get(_ANSWER)
    await (ack() if options is None else ack(options=options))


async def _not_acknowledged(error: Exception) -> BoltResponse:
    return BoltResponse(status=503, body="")


@contextmanager
def _without_slack_variables() -> Iterator[None]:
    """SLACK_CLIENT_ID and its like would switch Bolt into modes that nobody configured."""
    hidden = {name: os.environ.pop(name) for name in tuple(os.environ) if name.startswith("SLACK_")}
    try:
        yield
    finally:
        os.environ.update(hidden)
