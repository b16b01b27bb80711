"""The way of events out of Slack: Socket Mode or signed HTTP, one attempt after another until one is acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import itertools
import json
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import urlencode
from uuid import uuid4

import httpx
from starlette.websockets import WebSocket, WebSocketDisconnect

from channels.emulators.serving import cut_of
from channels.emulators.slack.world import SlackRefusal, SlackSwitches
from channels.emulators.stage import RECORDED_MAX, Json


@dataclass(slots=True, eq=False)
class EventDelivery:
    """An envelope for the app. `kind` is the envelope type: `events_api`, `slash_commands` or `interactive`.

    Only events are sent again; a command or a button whose three seconds pass shows its person an error."""

    kind: str
    payload: Json
    accepts_response: bool = False
    on_response: Callable[[Json], None] | None = None
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_retried(self) -> bool:
        return self.kind == "events_api"

    def answer(self, response: Json | None) -> None:
        """Take the acknowledgement and the `response` that the app put into it. Only the first answer counts."""
        if not self.answered.is_set():
            self.answered.set()
            if response and self.on_response is not None:
                self.on_response(response)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt was not acknowledged, in the words of `x-slack-retry-reason`."""

    reason: str
    is_final: bool = False


class Transport(Protocol):
    async def attempt(self, delivery: EventDelivery, *, number: int, reason: str) -> Failure | None:
        """Send it once and wait for the acknowledgement. `number` is 0 for the first time."""


class Delivery:
    """Sends deliveries concurrently, as Slack does: nobody promises an order."""

    def __init__(self, transport: Transport, switches: SlackSwitches) -> None:
        self.transport = transport
        self._switches = switches
        self._under_way: set[asyncio.Task[None]] = set()
        self.failures: deque[Failure] = deque(maxlen=RECORDED_MAX)
        self.lost: deque[EventDelivery] = deque(maxlen=RECORDED_MAX)

    @property
    def is_busy(self) -> bool:
        """Tell whether something is still waiting for its acknowledgement."""
        return bool(self._under_way)

    def send(self, delivery: EventDelivery, *, as_retry: bool = False) -> None:
        """Begin now. `as_retry`: the first attempt already looks like a repetition."""
        task = asyncio.create_task(self._deliver(delivery, first=int(as_retry)))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _deliver(self, delivery: EventDelivery, *, first: int) -> None:
        delays_s = self._switches.retry_after_s if delivery.is_retried else ()
        reason = "http_timeout" if first else ""
        for number, delay_s in enumerate((*delays_s, None), start=first):
            failure = await self.transport.attempt(delivery, number=number, reason=reason)
            if failure is None:
                return
            self.failures.append(failure)
            if delay_s is None or failure.is_final:
                break
            reason = failure.reason
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(delivery.answered.wait(), delay_s)
                return  # a late acknowledgement still counts
        self.lost.append(delivery)

    async def aclose(self) -> None:
        """Give up on what is still under way."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)


# --- Socket Mode: single-use tickets, up to ten websockets, envelopes to one of them in turn


DEBUG_LIFE_S: Final = 360.0  # what `debug_reconnects=true` asks for
USUAL_LIFE_S: Final = 18_060
_HOST: Final = "applink-emulator"


@dataclass(slots=True, eq=False)
class _Socket:
    number: int
    abort: Callable[[], None]
    outlet: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)

    def send(self, frame: Json) -> None:
        self.outlet.put_nowait(json.dumps(frame))

    def close(self) -> None:
        self.outlet.put_nowait(None)


class SocketMode:
    def __init__(self, *, app_id: str, switches: SlackSwitches) -> None:
        self._app_id = app_id
        self._switches = switches
        self._tickets: set[str] = set()
        self._sockets: list[_Socket] = []
        self._numbers = itertools.count(1)
        self._turn = 0
        self._waiting: dict[str, EventDelivery] = {}
        self.acknowledged: deque[str] = deque(maxlen=RECORDED_MAX)  # envelope ids in the order of their answers
        self.sent: deque[Json] = deque(maxlen=RECORDED_MAX)  # every envelope, retries too
        self.refused_tickets = 0
        self.is_enabled = True

    @property
    def connections(self) -> int:
        return len(self._sockets)

    def new_url(self, host: str) -> str:
        """Return a websocket address that works once. Raises `SlackRefusal` while Socket Mode is switched off."""
        if not self.is_enabled:
            raise SlackRefusal("not_allowed_token_type")
        ticket = secrets.token_urlsafe(16)
        self._tickets.add(ticket)
        return f"ws://{host}/link/?ticket={ticket}&app_id={self._app_id}"

    # --- one websocket

    async def connection(self, websocket: WebSocket) -> None:
        """Serve one websocket until either side ends it; a used or unknown ticket gets no handshake."""
        ticket = websocket.query_params.get("ticket", "")
        if ticket not in self._tickets:
            self.refused_tickets += 1
            await websocket.close(1008)
            return
        self._tickets.discard(ticket)
        if self._switches.take("refuses_sockets"):
            await websocket.close(1013)
            return
        await websocket.accept()
        socket = _Socket(next(self._numbers), cut_of(websocket.scope))
        writer = asyncio.create_task(_write(websocket, socket.outlet))
        if self.connections >= self._switches.sockets_max:
            socket.send(_disconnect_frame("too_many_websockets"))
            socket.close()
            await writer
            return
        life_s = DEBUG_LIFE_S if websocket.query_params.get("debug_reconnects") else self._switches.connection_life_s
        if self._switches.take("drops_after_hello"):
            socket.send(self._hello(life_s))
            socket.close()
            await writer
            return
        retirement = asyncio.create_task(self._retire_after(socket, life_s))
        self._sockets.append(socket)
        socket.send(self._hello(life_s))
        try:
            while True:
                self._heard(await websocket.receive_text())
        except (WebSocketDisconnect, KeyError):
            pass
        finally:
            self._sockets.remove(socket)
            retirement.cancel()
            writer.cancel()

    def _hello(self, life_s: float) -> Json:
        return {
            "type": "hello",
            "num_connections": self.connections,
            "connection_info": {"app_id": self._app_id},
            "debug_info": {
                "host": _HOST,
                "build_number": 1,
                "approximate_connection_time": int(life_s) or USUAL_LIFE_S,
            },
        }

    def _heard(self, text: str) -> None:
        try:
            frame = json.loads(text)
            envelope_id = frame["envelope_id"]
        except (ValueError, KeyError, TypeError):  # Slack ignores what it does not understand
            return
        self.acknowledged.append(envelope_id)
        delivery = self._waiting.pop(envelope_id, None)
        if delivery is not None:
            delivery.answer(frame.get("payload"))

    async def _retire_after(self, socket: _Socket, life_s: float) -> None:
        if life_s <= 0:
            return
        warning_s = min(self._switches.warning_s, life_s)
        await asyncio.sleep(life_s - warning_s)
        socket.send(_disconnect_frame("warning"))
        await asyncio.sleep(warning_s)
        socket.send(_disconnect_frame("refresh_requested"))
        socket.close()

    # --- envelopes

    async def attempt(self, delivery: EventDelivery, *, number: int, reason: str) -> Failure | None:
        """Send one envelope on the next socket in turn; without a socket it fails at once."""
        if not self._sockets:
            return Failure("connection_failed")
        envelope_id = str(uuid4())
        envelope: Json = {
            "envelope_id": envelope_id,
            "type": delivery.kind,
            "payload": delivery.payload,
            "accepts_response_payload": delivery.accepts_response,
        }
        if delivery.is_retried:
            envelope |= {"retry_attempt": number, "retry_reason": "timeout" if number else ""}
        while len(self._waiting) >= RECORDED_MAX:  # the oldest were given up long ago
            del self._waiting[next(iter(self._waiting))]
        self._waiting[envelope_id] = delivery
        self._turn += 1
        self.sent.append(envelope)
        self._sockets[self._turn % len(self._sockets)].send(envelope)
        try:
            await asyncio.wait_for(delivery.answered.wait(), self._switches.ack_within_s)
        except TimeoutError:
            return Failure("http_timeout")
        return None

    # --- what Slack or the network may do to the sockets

    def cut(self) -> None:
        """Cut every socket without a close frame, as a network fault."""
        for socket in list(self._sockets):
            socket.abort()

    def disconnect(self, reason: str, *, sockets_max: int | None = None) -> None:
        """Send `warning`, `refresh_requested` or `link_disabled` to every socket, or the oldest of them.

        All but the warning end the socket."""
        self.is_enabled = self.is_enabled and reason != "link_disabled"
        for socket in self._sockets[:sockets_max]:
            socket.send(_disconnect_frame(reason))
            if reason != "warning":
                socket.close()


def _disconnect_frame(reason: str) -> Json:
    return {"type": "disconnect", "reason": reason, "debug_info": {"host": _HOST}}


async def _write(websocket: WebSocket, outlet: asyncio.Queue[str | None]) -> None:
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # the other side was faster
        while (frame := await outlet.get()) is not None:
            await websocket.send_text(frame)
        await websocket.close(1000)


# --- the Events API over HTTP: signed requests to the app's own address


_USER_AGENT: Final = "Slackbot 1.0 (+https://api.slack.com/robots)"
_FORM: Final = "application/x-www-form-urlencoded"


def signature(secret: str, timestamp: str, body: str) -> str:
    """Return `v0=` and the HMAC-SHA256 over version, timestamp and raw body."""
    digest = hmac.new(secret.encode(), f"v0:{timestamp}:{body}".encode(), hashlib.sha256).hexdigest()
    return f"v0={digest}"


class HttpEvents:
    """Posts to `url`. `clock_s` gives Unix seconds for the signature's timestamp."""

    def __init__(self, *, url: str, signing_secret: str, switches: SlackSwitches, clock_s: Callable[[], float]) -> None:
        self.url = url
        self._secret = signing_secret
        self._switches = switches
        self._clock_s = clock_s
        self._client = httpx.AsyncClient(trust_env=False, follow_redirects=False)
        self.sent: deque[dict[str, str]] = deque(maxlen=RECORDED_MAX)  # the headers of every request

    async def verify(self, token: str) -> bool:
        """Send the `url_verification` challenge of the set-up page; whether the app gave it back."""
        challenge = secrets.token_urlsafe(24)
        body = json.dumps({"token": token, "challenge": challenge, "type": "url_verification"})
        try:
            response = await self._post(body, "application/json")
        except httpx.HTTPError:
            return False
        return response.is_success and challenge in response.text

    async def attempt(self, delivery: EventDelivery, *, number: int, reason: str) -> Failure | None:
        """Send one signed request; anything but 2xx within three seconds is a failure."""
        body, content_type = _body(delivery)
        retry = {"x-slack-retry-num": str(number), "x-slack-retry-reason": reason} if number else {}
        try:
            response = await self._post(body, content_type, retry)
        except httpx.TimeoutException:
            return Failure("http_timeout")
        except httpx.TransportError:
            return Failure("connection_failed")
        if not response.is_success:
            return Failure("http_error", is_final=response.headers.get("x-slack-no-retry") == "1")
        delivery.answer(_response(response))
        return None

    async def _post(self, body: str, content_type: str, more: dict[str, str] | None = None) -> httpx.Response:
        timestamp = str(int(self._clock_s()))
        headers = {
            "Content-Type": content_type,
            "User-Agent": _USER_AGENT,
            "X-Slack-Request-Timestamp": timestamp,
            "X-Slack-Signature": signature(self._secret, timestamp, body),
        } | (more or {})
        self.sent.append(headers)
        return await self._client.post(
            self.url, content=body.encode(), headers=headers, timeout=self._switches.ack_within_s
        )

    async def aclose(self) -> None:
        await self._client.aclose()


def _body(delivery: EventDelivery) -> tuple[str, str]:
    if delivery.kind == "slash_commands":
        return urlencode(delivery.payload), _FORM
    if delivery.kind == "interactive":
        return urlencode({"payload": json.dumps(delivery.payload)}), _FORM
    return json.dumps(delivery.payload), "application/json"


def _response(response: httpx.Response) -> Json | None:
    if not response.content:
        return None
    if not response.headers.get("content-type", "").startswith("application/json"):
        return {"text": response.text}
    body = response.json()
    return body if isinstance(body, dict) else None
