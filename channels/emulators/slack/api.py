"""The Web API: `POST /api/{method}` as JSON or form, token in header or form, one guard for all methods."""

from __future__ import annotations

import asyncio
import json
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from channels.emulators.serving import NoAnswer
from channels.emulators.slack.world import (
    Conversation,
    SlackMessage,
    SlackRateLimited,
    SlackRefusal,
    SlackState,
    SlackSwitches,
    invalid_blocks,
    missing_argument,
)
from channels.emulators.stage import RECORDED_MAX, Faults, Json

# --- rate limits: a tier per method, and a pace per channel for chat.postMessage


TIERS: Final = {
    "apps.connections.open": "1",
    "chat.startStream": "2",
    "chat.stopStream": "2",
    "chat.update": "3",
    "chat.delete": "3",
    "conversations.history": "3",
    "conversations.replies": "3",
    "conversations.open": "3",
    "users.conversations": "3",
    "chat.appendStream": "4",
    "users.info": "4",
    "files.getUploadURLExternal": "4",
    "files.completeUploadExternal": "4",
    "files.info": "4",
    "assistant.threads.setTitle": "4",
    "assistant.threads.setStatus": "5",
    "auth.test": "5",
}


@dataclass(slots=True)
class Limits:
    """`clock_s` gives seconds."""

    switches: SlackSwitches
    clock_s: Callable[[], float]
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)

    def take(self, method: str, channel_id: str) -> None:
        """Count one call. Raises `SlackRateLimited`."""
        if not self.switches.is_rate_limited:
            return
        if method == "chat.postMessage":
            self._take(f"{method} {channel_id}", self.switches.posts_burst, self.switches.posts_per_s)
        elif method in TIERS:
            per_minute = self.switches.tier_per_minute[TIERS[method]]
            self._take(method, per_minute, per_minute / 60)

    def _take(self, name: str, capacity: float, per_s: float) -> None:
        now_s = self.clock_s()
        left, since_s = self._buckets.get(name, (capacity, now_s))
        left = min(capacity, left + (now_s - since_s) * per_s)
        if left < 1:
            self._buckets[name] = (left, now_s)
            raise SlackRateLimited(max(1, math.ceil((1 - left) / per_s)))
        self._buckets[name] = (left - 1, now_s)


# --- calls


_NAMES_A_POST: Final = frozenset({"chat.postMessage", "chat.startStream"})
_BAD_GATEWAY: Final = "<html><head><title>502 Bad Gateway</title></head><body>upstream connect error</body></html>"
_JSON_ARGUMENTS: Final = frozenset({"blocks", "metadata", "chunks", "files", "users"})


@dataclass(frozen=True, slots=True)
class SlackCall:
    """One call, read. Form values are text; what Slack's forms carry as JSON is parsed."""

    method: str
    arguments: Json
    host: str = ""

    def text(self, name: str) -> str:
        value = self.arguments.get(name)
        return "" if value is None else str(value)

    def required(self, name: str) -> str:
        """Return an argument that must be there. Raises `SlackRefusal` (`invalid_arguments`)."""
        value = self.text(name)
        if not value:
            raise missing_argument(name)
        return value

    def flag(self, name: str) -> bool:
        """Tell whether an argument is set: forms say `1` or `true`, JSON says true."""
        return self.text(name).lower() in ("1", "true")

    def number(self, name: str, default: int) -> int:
        value = self.text(name) or str(default)
        if not value.lstrip("-").isdigit():
            raise SlackRefusal(
                "invalid_arguments", response_metadata={"messages": [f"[ERROR] must be an integer: {name}"]}
            )
        return int(value)


Handler = Callable[[SlackCall], Awaitable[Json]]


@dataclass(frozen=True, slots=True)
class SlackMethod:
    """`scopes`: one of them suffices. `delivers`: people see the outcome; counted faults hit these."""

    handler: Handler
    scopes: tuple[str, ...] = ()
    delivers: bool = False
    is_app_level: bool = False


@dataclass(slots=True)
class Tokens:
    bot: str
    app: str


@dataclass(slots=True)
class WebApi:
    world: SlackState
    tokens: Tokens
    limits: Limits
    switches: SlackSwitches
    faults: Faults
    methods: Mapping[str, SlackMethod]
    calls: deque[str] = field(default_factory=lambda: deque(maxlen=RECORDED_MAX))  # the methods called

    async def endpoint(self, request: Request) -> Response:
        name = request.path_params["method"]
        self.calls.append(name)
        self.world.origin = f"http://{request.headers.get('host', '127.0.0.1')}"
        if self.faults.delay_s:
            await asyncio.sleep(self.faults.delay_s)
        method = self.methods.get(name)
        try:
            fault = self._fault_before(request, method)
            if fault is not None:
                return fault
            call = await read(request, name)
            if method is None:
                raise SlackRefusal("unknown_method", req_method=name)
            scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
            token = bearer if scheme == "Bearer" else call.text("token")
            if not token:
                raise SlackRefusal("not_authed")
            if token not in (self.tokens.bot, self.tokens.app):
                raise SlackRefusal("invalid_auth")
            if (token == self.tokens.app) != method.is_app_level and call.method != "auth.test":
                raise SlackRefusal("not_allowed_token_type")
            if method.scopes and not self.switches.scopes.intersection(method.scopes):
                provided = ",".join(sorted(self.switches.scopes))
                raise SlackRefusal("missing_scope", needed=method.scopes[0], provided=provided)
            if name in self.switches.refusals:
                raise SlackRefusal(self.switches.refusals[name])
            self._refuse_format(call, method)
            self.limits.take(name, call.text("channel"))
            channel_id = call.text("channel") or call.text("channel_id")
            if self.faults.blocked and method.delivers and channel_id:
                raise SlackRefusal("channel_not_found" if channel_id.startswith(("D", "U")) else "not_in_channel")
            body = {"ok": True} | await method.handler(call)
            if name in _NAMES_A_POST and self.switches.take("forgets_ts"):
                body = {"ok": True}
        except SlackRefusal as refused:
            body = refused.body()
        except SlackRateLimited as limited:
            return answer({"ok": False, "error": "ratelimited"}, 429, {"Retry-After": str(limited.retry_after_s)})
        if method is not None and method.delivers and self.faults.take_other("fatal_error_after"):
            body = SlackRefusal("fatal_error").body()
        if method is not None and method.delivers and self.faults.take("drop_after"):
            return NoAnswer()
        return answer(body, 200, {"X-OAuth-Scopes": ",".join(sorted(self.switches.scopes))})

    def _fault_before(self, request: Request, method: SlackMethod | None) -> Response | None:
        if method is None or not (method.delivers or self.faults.other.get("any_request")):
            return None
        if self.faults.take("drop_before"):
            return NoAnswer()
        if self.faults.take("server_error"):
            return HTMLResponse(_BAD_GATEWAY, int(self.faults.other.get("server_error_status", 502)))
        if self.faults.take("rate_limit"):
            raise SlackRateLimited(max(1, round(self.faults.retry_after_s)))
        if self.faults.take_other("fatal_error"):
            raise SlackRefusal("fatal_error")
        return None

    def _refuse_format(self, call: SlackCall, method: SlackMethod) -> None:
        """Count down the refusal of a format; plain `text` has none that could be refused."""
        is_formatted = any(call.arguments.get(name) for name in ("blocks", "markdown_text", "chunks"))
        if method.delivers and is_formatted and self.faults.take("refuse_format"):
            raise invalid_blocks("invalid additional property [json-pointer:/blocks/0]")


def answer(body: Json, status: int, headers: dict[str, str]) -> Response:
    return Response(json.dumps(body), status, headers, media_type="application/json; charset=utf-8")


async def read(request: Request, method: str) -> SlackCall:
    """Read a call. Raises `SlackRefusal`: `invalid_json`, `json_not_object`."""
    host = request.headers.get("host", "")
    arguments: Json = dict(request.query_params)
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind == "application/json":
        raw = await request.body()
        try:
            body = json.loads(raw) if raw else {}
        except ValueError:
            raise SlackRefusal("invalid_json") from None
        if not isinstance(body, dict):
            raise SlackRefusal("json_not_object")
        return SlackCall(method, arguments | body, host)
    async with request.form() as form:
        arguments |= {key: str(value) for key, value in form.items()}
    for name in _JSON_ARGUMENTS & arguments.keys():
        arguments[name] = _unpacked(arguments[name])
    return SlackCall(method, arguments, host)


def _unpacked(value: str) -> object:
    """Parse JSON in a form value; a plain list of ids stays text."""
    if not value.lstrip().startswith(("[", "{")):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


@dataclass(slots=True)
class Lookup:
    """Finds what a call names, or refuses with the vendor's word."""

    world: SlackState

    def conversation(self, channel_id: str) -> Conversation:
        """Find a conversation by id, or `#name`. Raises `channel_not_found`."""
        if not channel_id:
            raise missing_argument("channel")
        place = self.world.conversations.get(channel_id)
        if place is None and not channel_id.startswith("D"):
            name = channel_id.removeprefix("#")
            place = next((c for c in self.world.conversations.values() if c.name == name and not c.is_im), None)
        if place is None:
            raise SlackRefusal("channel_not_found")
        return place

    def postable(self, channel_id: str) -> Conversation:
        """Find where the bot may post; a user's id opens the direct chat. Raises `is_archived`, `not_in_channel`."""
        user = self.world.users.get(channel_id)
        place = self.world.dm_with(user) if user is not None else self.conversation(channel_id)
        if place.is_archived:
            raise SlackRefusal("is_archived")
        self._check_member(place)
        return place

    def readable(self, channel_id: str) -> Conversation:
        """Find a conversation that the bot is in. Raises `channel_not_found`, `not_in_channel`."""
        place = self.conversation(channel_id)
        self._check_member(place)
        return place

    def _check_member(self, place: Conversation) -> None:
        if self.world.bot.id not in place.member_ids:
            raise SlackRefusal("not_in_channel")

    def own_message(self, call: SlackCall, refusal: str) -> SlackMessage:
        """Find the message of the bot that a call names by the `C…` or `D…` id. Raises `channel_not_found`,
        `message_not_found`, or `refusal` for somebody else's."""
        message = self.conversation(call.required("channel")).messages.get(call.required("ts"))
        if message is None or message.only_for is not None:
            raise SlackRefusal("message_not_found")
        if message.author.id != self.world.bot.id:
            raise SlackRefusal(refusal)
        return message
