"""Slack's Events API over HTTP: genuine requests go the same way as those of a socket.

Slack waits for three seconds and tries three times more, the last time after some six minutes. A request that we
hear of only when it is repeated shows that we were out of reach, and a long silence may have been none: whatever
was tried once too often meanwhile is in the history only.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import parse_qs

from slack_bolt.app.async_app import AsyncApp
from slack_bolt.response import BoltResponse
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from channels.adapter import CONNECTED
from channels.calls import Call, CallAnswer, come_again
from channels.raw import Raw, text
from channels.slack import limits
from channels.slack.bolt import legible
from channels.slack.errors import or_rejected
from channels.slack.signature import is_genuine, is_worth_reading
from gateway.contracts.ports import Clock

log = logging.getLogger(__name__)

_FORM: Final = "application/x-www-form-urlencoded"
_DROPPED: Final = "app_rate_limited"
"""Said in the place of events, of which an app gets 30,000 an hour and no more."""


class Events:
    """The requests of one app."""

    def __init__(self, signing_secret: str, clock: Clock) -> None:
        self._secret = signing_secret
        self._clock = clock
        self._app: AsyncApp | None = None
        self._lost_touch: Callable[[], None] = lambda: None
        self._heard: OrderedDict[str, None] = OrderedDict()
        self._looked_back_at_s = float("-inf")
        self._called_at_s = clock.monotonic_s()

    @contextlib.contextmanager
    def open(self, app: AsyncApp, lost_touch: Callable[[], None]) -> Iterator[None]:
        """Requests are taken inside the context; outside of it Slack is asked to come again."""
        self._app, self._lost_touch = app, lost_touch
        try:
            yield
        finally:
            self._app = None

    async def keep(self, client: AsyncWebClient, tell: Callable[[str], None]) -> None:
        """Nothing shows that Slack could reach us; that its API takes our token does. Raises `CredentialsRejected`."""
        while True:
            tell(CONNECTED)
            await asyncio.sleep(limits.API_LOOK_EVERY_S)
            try:
                await client.auth_test()
            except SlackApiError as error:
                raise or_rejected(error) from error

    async def called(self, call: Call) -> CallAnswer:
        """As `SupportsCalls` has it."""
        timestamp = call.headers.get("x-slack-request-timestamp", "")
        signature = call.headers.get("x-slack-signature", "")
        now_s = self._clock.now_ms() // 1000
        if not is_worth_reading(timestamp=timestamp, signature=signature, now_s=now_s):
            return CallAnswer(401)
        body = await call.body()
        if not is_genuine(self._secret, timestamp=timestamp, signature=signature, body=body, now_s=now_s):
            return CallAnswer(401)
        try:
            fields = _fields(body.decode(), call.headers.get("content-type", ""))
        except (ValueError, RecursionError):
            return CallAnswer(400)
        if fields.get("type") == "url_verification":
            return CallAnswer(200, text(fields.get("challenge")))
        if "ssl_check" in fields:
            return CallAnswer()
        request = legible(fields)
        if request is None:
            return CallAnswer(400)
        if self._app is None:
            return come_again()
        was_silent_s = self._clock.monotonic_s() - self._called_at_s
        self._called_at_s += was_silent_s
        is_belated = self._is_belated(text(fields.get("event_id")), call.headers.get("x-slack-retry-num", "0"))
        if is_belated or fields.get("type") == _DROPPED:
            self._look_back()
        # Slack's patience, and so ours, ends before what has begun does; then the repetition finds it done.
        response = await asyncio.shield(self._app.async_dispatch(request))
        if was_silent_s > limits.SILENCE_S:
            self._look_back()
        return _answer(response)

    def _is_belated(self, event_id: str, retry: str) -> bool:
        """A repetition of what we have not heard."""
        is_new = event_id not in self._heard
        self._heard[event_id] = None
        while len(self._heard) > limits.EVENTS_KNOWN_MAX:
            self._heard.popitem(last=False)
        return bool(event_id) and is_new and retry not in ("", "0")

    def _look_back(self) -> None:
        """Though not at each one of many."""
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_back_at_s > limits.LOOK_BACK_EVERY_S:
            self._looked_back_at_s = now_s
            log.info("slack: some requests may not have reached us; what was missed is read back")
            self._lost_touch()


def _fields(words: str, content_type: str) -> Raw:
    """What a request says, whichever way it is packed. Raises `ValueError` for what says nothing."""
    if content_type.partition(";")[0].strip().lower() != _FORM:
        return _read(words)
    form = {name: values[0] for name, values in parse_qs(words, keep_blank_values=True).items()}
    if not form:
        raise ValueError("an empty form")
    return _read(form["payload"]) if "payload" in form else form


def _read(words: str) -> Raw:
    fields = json.loads(words)
    if not isinstance(fields, dict):
        raise ValueError("no object")  # noqa: TRY004 - what came is wrong, not what was passed
    return fields


def _answer(response: BoltResponse) -> CallAnswer:
    media_type = response.headers.get("content-type", ["text/plain"])[0].partition(";")[0].strip()
    if response.status >= 500:
        return come_again()
    return CallAnswer(response.status, response.body or "", media_type or "text/plain")
