"""Slack's events, by sockets or by HTTP, each acknowledged only after it was heard."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import logging
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from time import time
from typing import Any, Final
from urllib.parse import parse_qs

from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.adapter.socket_mode.async_internals import send_async_response
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.middleware.async_middleware import AsyncMiddleware
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from channels.core.adapter import CONNECTED, CallSignature, WebhookAnswer, WebhookCall, unavailable_answer
from channels.core.message import Raw, text
from channels.slack import limits
from channels.slack.errors import asked_to_wait_s, or_rejected
from channels.slack.normalize import SlackIdentity
from channels.slack.render import Block
from gateway.bounded_dict import BoundedDict
from gateway.contracts.errors import CredentialsRejected
from gateway.contracts.ports import Clock
from gateway.limits import POLLER_LEASE_TTL_S
from gateway.tasks import Backoff, first_to_end

log = logging.getLogger(__name__)

sdk_log = logging.getLogger("channels.slack.sdk")
sdk_log.setLevel(logging.CRITICAL)


# Bolt, set up so that an event is acknowledged only after it was heard, however it came.
#
# Bolt acknowledges events before their listeners run, but global middleware runs before that, and when it raises
# nothing is acknowledged and Slack sends the event again. So all is done in middleware, which acknowledges by itself:
# Bolt has no listeners, which would leave requests of a kind that they do not know unanswered.

Hear = Callable[[Mapping[str, Any]], Awaitable[Sequence[Block] | None]]
"""Takes the body of a request; returns when it may be acknowledged, raises when it may not. What it returns is what
Slack has asked for with it: the lines of a list."""


def bolt_app(client: AsyncWebClient, me: SlackIdentity, hear: Hear) -> AsyncApp:
    """Build an app that gives every request to `hear`. The requests have been proved genuine before."""
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


def readable_request(body: Raw) -> AsyncBoltRequest | None:
    """Return the request of a body that was read; None for a form that Bolt, and so nobody here, can read."""
    if not isinstance(body.get("event", {}), Mapping):
        return None
    try:
        return AsyncBoltRequest(body=dict(body), mode="socket_mode")
    except Exception:  # noqa: BLE001 - named boundary, adapter callback: Bolt raises whatever it stumbles over
        return None


class Handler(AsyncSocketModeHandler):
    """Bolt's own handler, except that it acknowledges what nobody can read: Slack would bring it three times more."""

    async def handle(self, client: SocketModeClient, req: SocketModeRequest) -> None:  # type: ignore[override]
        began_s, request = time(), readable_request(req.payload)
        response = BoltResponse(status=200) if request is None else await self.app.async_dispatch(request)
        await send_async_response(client, req, response, began_s)


async def acknowledge_unreadable(client: AsyncBaseSocketModeClient, envelope: Raw) -> None:
    """Acknowledge an envelope of which the SDK makes no request (its payload is null, or a list), so that no handler
    hears of it. Anything else is left alone."""
    envelope_id = envelope.get("envelope_id")
    is_request = isinstance(envelope.get("type"), str) and isinstance(envelope.get("payload"), dict | str)
    if isinstance(envelope_id, str) and not is_request:
        await client.send_socket_mode_response(SocketModeResponse(envelope_id))


def _authorize_as(me: SlackIdentity, token: str) -> Callable[..., Awaitable[AuthorizeResult]]:
    """Authorize without a call: Bolt would ask auth.test at the first event, and lose that event should the
    call fail."""
    result = AuthorizeResult(
        enterprise_id=None, team_id=me.team_id, bot_user_id=me.user_id, bot_id=me.bot_id, bot_token=token
    )

    async def authorize() -> AuthorizeResult:
        return result

    return authorize


class _Hearing(AsyncMiddleware):
    """A listener as an object: to a function Bolt would pass whatever it finds in a request, and Bolt fails on some
    of it."""

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
    """Hide SLACK_CLIENT_ID and similar variables, which would switch Bolt into modes that nobody configured."""
    hidden = {name: os.environ.pop(name) for name in tuple(os.environ) if name.startswith("SLACK_")}
    try:
        yield
    finally:
        os.environ.update(hidden)


# Slack's Events API over HTTP: genuine requests go the same way as those of a socket.
#
# Slack waits for three seconds and tries three times more, the last time after some six minutes. If we hear of a
# request only when it is repeated, we were out of reach; and a long silence may have been an outage, too. Events whose
# last try failed in that time are in the history only.


def signature_by(secret: str) -> CallSignature:
    """Return how Slack signs the requests of the app with this secret (docs.slack.dev, "Verifying requests from
    Slack")."""

    def is_genuine(timestamp: str, signature: str, body: bytes) -> bool:
        said = b"v0:" + timestamp.encode() + b":" + body
        expected = "v0=" + hmac.new(secret.encode(), said, hashlib.sha256).hexdigest()
        return hmac.compare_digest(expected, signature)

    form = re.compile(r"v0=[0-9a-f]{64}")
    return CallSignature("x-slack-request-timestamp", "x-slack-signature", form, is_genuine)


_FORM: Final = "application/x-www-form-urlencoded"
_DROPPED: Final = "app_rate_limited"
"""Said in the place of events, of which an app gets 30,000 an hour and no more."""


class EventsWebhook:
    """The requests of one app by HTTP."""

    def __init__(self, signing_secret: str, clock: Clock) -> None:
        self._signature = signature_by(signing_secret)
        self._clock = clock
        self._app: AsyncApp | None = None
        self._note_gap: Callable[[], None] = lambda: None
        self._heard: BoundedDict[str, None] = BoundedDict(limits.EVENTS_KNOWN_MAX)
        self._looked_back_at_s = float("-inf")
        self._called_at_s = clock.monotonic_s()

    @contextlib.contextmanager
    def open(self, app: AsyncApp, note_gap: Callable[[], None]) -> Iterator[None]:
        """Take requests inside the context; outside of it Slack is asked to come again."""
        self._app, self._note_gap = app, note_gap
        try:
            yield
        finally:
            self._app = None

    async def keep(self, client: AsyncWebClient, tell: Callable[[str], None]) -> None:
        """Ask Slack's API regularly whether it takes our token: nothing shows that Slack could reach us. Raises
        `CredentialsRejected`."""
        while True:
            tell(CONNECTED)
            await asyncio.sleep(limits.API_LOOK_EVERY_S)
            try:
                await client.auth_test()
            except SlackApiError as error:
                raise or_rejected(error) from error

    async def called(self, call: WebhookCall) -> WebhookAnswer:
        """Handle a call as `SupportsWebhooks` says."""
        body = await self._signature.body_of(call, self._clock.now_ms() // 1000)
        if body is None:
            return WebhookAnswer(401)
        try:
            fields = _fields(body.decode(), call.headers.get("content-type", ""))
        except (ValueError, RecursionError):
            return WebhookAnswer(400)
        if fields.get("type") == "url_verification":
            return WebhookAnswer(200, text(fields.get("challenge")))
        if "ssl_check" in fields:
            return WebhookAnswer()
        request = readable_request(fields)
        if request is None:
            return WebhookAnswer(400)
        if self._app is None:
            return unavailable_answer()
        was_silent_s = self._clock.monotonic_s() - self._called_at_s
        self._called_at_s += was_silent_s
        is_belated = self._is_belated(text(fields.get("event_id")), call.headers.get("x-slack-retry-num", "0"))
        if is_belated or fields.get("type") == _DROPPED:
            self._look_back()
        # Our timeout, like Slack's, may end before the work that has begun; then the repetition finds it done.
        response = await asyncio.shield(self._app.async_dispatch(request))
        if was_silent_s > limits.SILENCE_S:
            self._look_back()
        media_type = response.headers.get("content-type", ["text/plain"])[0].partition(";")[0].strip()
        if response.status >= 500:
            return unavailable_answer()
        return WebhookAnswer(response.status, response.body or "", media_type or "text/plain")

    def _is_belated(self, event_id: str, retry: str) -> bool:
        """Tell whether this is a repetition of an event that we have not heard."""
        is_new = event_id not in self._heard
        self._heard[event_id] = None
        return bool(event_id) and is_new and retry not in ("", "0")

    def _look_back(self) -> None:
        """Read history back, but at most once in LOOK_BACK_EVERY_S."""
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_back_at_s > limits.LOOK_BACK_EVERY_S:
            self._looked_back_at_s = now_s
            log.info("slack: some requests may not have reached us; what was missed is read back")
            self._note_gap()


def _fields(words: str, content_type: str) -> Raw:
    """Read the fields of a request, in either of its encodings. Raises `ValueError` when it has none."""
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


# Socket Mode over several connections, each of which is watched from outside and built anew by itself.
#
# Slack sends each event over any one of them, so while one is renewed the others hear. The SDK may try an address that
# is used up for ever, and would try a wrong token for ever: so we ask for addresses ourselves.


class SocketLost(Exception):
    """The socket is dead and the SDK does not mend it."""


@dataclass(frozen=True, slots=True)
class SocketTimeouts:
    """The times after which a connection counts as dead: four pings of `ping_every_s` without an answer, `dead_s`
    without a socket that has greeted us. `lease_ttl_s` after our death somebody else connects."""

    ping_every_s: float = limits.PING_EVERY_S
    dead_s: float = limits.DEAD_AFTER_S
    lease_ttl_s: float = POLLER_LEASE_TTL_S


SOCKET_TIMEOUTS: Final = SocketTimeouts()


@dataclass(slots=True)
class _Link:
    """One of the connections, over all the sockets that it has had. `greeted` is the newest socket that said hello."""

    hello: Callable[[_Link, Raw], None]
    goodbye: Callable[[_Link], None]
    greetings: asyncio.Event = field(default_factory=asyncio.Event)
    greeted: object = None
    has_greeted: bool = False
    is_announced: bool = False
    """Slack said that it would end the socket, and ended it."""
    pace: Backoff = field(default_factory=lambda: Backoff(limits.RETRY_FIRST_S, limits.RETRY_CAP_S))
    mended: int = 0
    """How often the SDK asked for a new socket, one after another within `limits.LOSSES_WITHIN_S`."""
    asked_s: float = 0.0
    """When a socket was asked for last."""

    async def pause(self) -> None:
        """Wait before one more socket if too many are dropped: the SDK comes back without any pause to a Slack that
        lets it in and drops it again."""
        loop = asyncio.get_running_loop()
        if loop.time() - self.asked_s > limits.LOSSES_WITHIN_S:
            self.mended = 0
            self.pace.reset()
        self.mended += 1
        if self.mended > limits.LOSSES_MAX:
            await asyncio.sleep(self.pace.next_s())
        self.asked_s = loop.time()

    async def heard(self, client: AsyncBaseSocketModeClient, message: dict[str, Any], raw: str | None) -> None:
        """Handle a frame that the SDK hands on."""
        match message.get("type"):
            case "hello":
                self.greeted = getattr(client, "current_session", None)
                self.hello(self, message)
                self.has_greeted, self.is_announced = True, False
                self.greetings.set()
            case "disconnect":
                self.is_announced = True
                self.goodbye(self)
            case _:
                await acknowledge_unreadable(client, message)


@dataclass(eq=False, repr=False)
class SlackSockets:
    """The connections of one app. `note_gap` is called when something may have been said that none of them heard;
    `tell` is told the state, `share` whether Slack counts more connections than ours."""

    client: AsyncWebClient
    app: AsyncApp
    _: KW_ONLY
    app_token: str
    connections: int
    timeouts: SocketTimeouts
    note_gap: Callable[[], None]
    share: Callable[[bool], None]
    tell: Callable[[str], None]
    _listening: set[int] = field(init=False, default_factory=set)  # the links whose sockets are known to be well
    first_is_up: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    """Slack has had somebody to tell since then; what was said before is read back after it."""

    def __post_init__(self) -> None:
        self._links: Sequence[_Link] = [_Link(self._up, self._down) for _ in range(self.connections)]

    async def run(self) -> None:
        """Stay connected until cancelled. Raises `CredentialsRejected`."""
        await first_to_end(*(self._keep(link) for link in self._links))

    async def _keep(self, link: _Link) -> None:
        """Keep one connection up. The first one connects alone, so that a reason that keeps all of them down is met
        only once."""
        if link is not self._links[0]:
            await self.first_is_up.wait()
        backoff = Backoff(limits.RETRY_FIRST_S, limits.RETRY_CAP_S)
        while True:
            wait_s = 0.0
            try:
                link.asked_s = asyncio.get_running_loop().time()
                handler = self._handler(link, await self._url())
                link.greetings.clear()
                try:
                    async with asyncio.timeout(limits.CONNECT_TIMEOUT_S):
                        await handler.connect_async()  # type: ignore[no-untyped-call]
                        await link.greetings.wait()
                    if link.mended <= limits.LOSSES_MAX:
                        backoff.reset()
                    await self._watch(handler, link)
                finally:
                    await handler.close_async()  # type: ignore[no-untyped-call]
            except CredentialsRejected:
                raise
            except Exception as error:  # named boundary, supervisor child: connect again, whatever it was
                self._down(link, f"not connected ({type(error).__name__})")
                log.warning("slack: a connection ended", exc_info=log.isEnabledFor(logging.DEBUG))
                wait_s = asked_to_wait_s(error)
            await asyncio.sleep(max(wait_s, backoff.next_s()))

    async def _watch(self, handler: Handler, link: _Link) -> None:
        """Raise `SocketLost` when there is no socket that answers pings and has greeted us for too long."""
        loop = asyncio.get_running_loop()
        alive_at_s = loop.time()
        while loop.time() - alive_at_s < self.timeouts.dead_s:
            await asyncio.sleep(limits.WATCH_EVERY_S)
            if await handler.client.is_connected() and link.greeted is handler.client.current_session:
                alive_at_s = loop.time()
            else:
                self._down(link)
        raise SocketLost

    def _up(self, link: _Link, hello: Raw) -> None:
        """Note that the link listens. Nothing was missed if Slack announced the end of the last socket and another one
        listened."""
        others = self._listening - {id(link)}
        if link.has_greeted and not (link.is_announced and others):
            self.note_gap()
        self._listening.add(id(link))
        count = hello.get("num_connections")
        self.share(isinstance(count, int) and count > len(self._listening))
        self.first_is_up.set()
        self.tell(CONNECTED)

    def _down(self, link: _Link, state: str = "the socket is being mended") -> None:
        self._listening.discard(id(link))
        if not self._listening:
            self.tell(state)

    async def _url(self) -> str:
        try:
            answer = await self.client.apps_connections_open(app_token=self.app_token)
        except SlackApiError as error:
            raise or_rejected(error) from error
        return str(answer["url"])

    def _handler(self, link: _Link, url: str) -> Handler:
        """Build a handler that will connect to `url` (good for one connection), and to others later. Must be called
        inside the running loop."""
        handler = Handler(
            self.app, self.app_token, logger=sdk_log, web_client=self.client, ping_interval=self.timeouts.ping_every_s
        )
        client = handler.client
        ask = client.issue_new_wss_url

        async def ask_in_time() -> str:
            await link.pause()
            return await ask()

        client.issue_new_wss_url = ask_in_time  # type: ignore[method-assign]
        client.message_listeners.append(link.heard)
        client.proxy = self.client.proxy
        client.wss_uri = url
        return handler
