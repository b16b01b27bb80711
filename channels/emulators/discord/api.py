"""The checks that every REST request passes before a route answers it, in the vendor's order."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route as StarletteRoute

from channels.emulators.discord.world import (
    AttachmentObject,
    DiscordRefusal,
    DiscordState,
    DiscordSwitches,
    forbidden,
    invalid_form,
    no_such_route,
    unauthorized,
)
from channels.emulators.serving import NoAnswer
from channels.emulators.stage import RECORDED_MAX, Faults, Json

# --- rate limits: fixed windows per kind of request and major parameter, and one for the whole bot


@dataclass(frozen=True, slots=True)
class BucketState:
    """The bucket's view of one request. `reset_after_s` counts from now, `resets_at_s` is Unix time."""

    is_granted: bool
    bucket: str
    limit: int
    remaining: int
    reset_after_s: float
    resets_at_s: float
    is_global: bool = False

    def headers(self) -> dict[str, str]:
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(self.remaining),
            "X-RateLimit-Reset": f"{self.resets_at_s:.3f}",
            "X-RateLimit-Reset-After": f"{_up(self.reset_after_s):.3f}",
            "X-RateLimit-Bucket": self.bucket,
        }


@dataclass(slots=True)
class _Window:
    ends_s: float
    used: int = 0


class Buckets:
    """Counts requests. `clock_s` gives Unix seconds."""

    def __init__(self, switches: DiscordSwitches, clock_s: Callable[[], float]) -> None:
        self._switches = switches
        self._clock_s = clock_s
        self._windows: dict[tuple[str, str], _Window] = {}

    def take(self, kind: str, major: str) -> BucketState | None:
        """Use one request of the bucket; None when this kind is not limited."""
        rate = self._switches.rates.get(kind)
        return None if rate is None else self._take(kind, major, *rate)

    def take_global(self) -> BucketState | None:
        """Use one request of the whole bot's; None while it is within its requests per second over all routes."""
        if not self._switches.global_per_s:
            return None
        allowance = self._take("global", "", self._switches.global_per_s, 1.0, is_global=True)
        return None if allowance.is_granted else allowance

    def _take(self, kind: str, major: str, limit: int, per_s: float, *, is_global: bool = False) -> BucketState:
        now_s = self._clock_s()
        window = self._windows.get((kind, major))
        if window is None or window.ends_s <= now_s:
            window = self._windows[kind, major] = _Window(now_s + per_s)
        is_granted = window.used < limit
        window.used += is_granted
        bucket = hashlib.md5(kind.encode(), usedforsecurity=False).hexdigest()
        left_s = window.ends_s - now_s
        return BucketState(is_granted, bucket, limit, limit - window.used, left_s, window.ends_s, is_global)


def _up(seconds: float) -> float:
    """Round to whole milliseconds, never downward: a client that waits that long must not come too early."""
    return math.ceil(seconds * 1000) / 1000


# --- requests


REQUEST_BYTES_MAX: Final = 25 * 1024 * 1024
FILE_BYTES_MAX: Final = 10 * 1024 * 1024
FILES_MAX: Final = 10
_MAJOR: Final = ("channel_id", "guild_id", "webhook_id", "token")
_CLOUDFLARE_502: Final = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"


@dataclass(frozen=True, slots=True)
class DiscordCall:
    """One request, read: path and query parameters, the JSON body, the uploaded files."""

    path: dict[str, str]
    query: dict[str, str]
    body: Json = field(default_factory=dict)
    body_list: list[Json] | None = None
    files: tuple[AttachmentObject, ...] = ()
    host: str = ""

    def id(self, name: str) -> int:
        """Read a snowflake out of the path. Raises `DiscordRefusal` 50035 when it is none."""
        return snowflake(self.path[name], name)


Handler = Callable[[DiscordCall], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Route:
    """`limited_as` names the rate bucket, if there is one of that name.

    Counted faults hit the routes that deliver something to people, so that a test can aim at an answer and not at
    the typing before it."""

    method: str
    path: str
    handler: Handler
    limited_as: str = "other"
    delivers: bool = False
    needs_token: bool = True


class Api:
    """Turns our routes into Starlette's, each with the same guard."""

    def __init__(self, *, token: str, world: DiscordState, buckets: Buckets, faults: Faults) -> None:
        self._token = token
        self._world = world
        self._buckets = buckets
        self._faults = faults
        self.requests: deque[tuple[str, str]] = deque(maxlen=RECORDED_MAX)  # method and path of what came

    def mount(self, prefix: str, routes: Sequence[Route]) -> list[StarletteRoute]:
        paths = dict.fromkeys(route.path for route in routes)
        return [self._endpoint(prefix, path, {r.method: r for r in routes if r.path == path}) for path in paths]

    def _endpoint(self, prefix: str, path: str, by_method: dict[str, Route]) -> StarletteRoute:
        async def endpoint(request: Request) -> Response:
            self.requests.append((request.method, request.url.path))
            self._world.origin = f"http://{request.headers.get('host', '127.0.0.1')}"
            if self._faults.delay_s:
                await asyncio.sleep(self._faults.delay_s)
            try:
                route = by_method.get(request.method)
                if route is None:
                    raise DiscordRefusal(405, 0, "405: Method Not Allowed")
                response = await self._guarded(request, route)
            except DiscordRefusal as refused:
                response = JSONResponse(refused.body(), refused.status)
            if self._faults.other.get("charset") and response.media_type == "application/json":
                response.headers["Content-Type"] = "application/json; charset=utf-8"
            return response

        return StarletteRoute(prefix + path, endpoint, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])

    async def _guarded(self, request: Request, route: Route) -> Response:
        call = await read(request, self._world)
        if route.delivers or self._faults.other.get("any_request"):
            fault = self._fault_before(request)
            if fault is not None:
                return fault
        if route.needs_token and request.headers.get("authorization") != f"Bot {self._token}":
            raise unauthorized()
        over = self._buckets.take_global() if route.needs_token else None
        allowance = over or self._buckets.take(
            route.limited_as, "/".join(str(request.path_params[name]) for name in _MAJOR if name in request.path_params)
        )
        if allowance is not None and not allowance.is_granted:
            return too_many(allowance, via=not self._faults.other.get("no_via"))
        headers = {} if allowance is None else allowance.headers()
        try:
            self._refuse_if_blocked(call, route)
            response = await route.handler(call)
        except DiscordRefusal as refused:
            response = JSONResponse(refused.body(), refused.status)
        response.headers.update(headers | {"Via": "1.1 google"})
        if route.delivers and self._faults.take("drop_after"):
            return NoAnswer()
        return response

    def _fault_before(self, request: Request) -> Response | None:
        faults = self._faults
        if faults.take("drop_before"):
            return NoAnswer()
        if faults.take("server_error"):
            return HTMLResponse(_CLOUDFLARE_502, int(faults.other.get("server_error_status", 502)))
        if faults.take("rate_limit"):
            asked = BucketState(
                False, "0" * 32, 5, 0, faults.retry_after_s, 0.0, bool(faults.other.get("global_limit"))
            )
            return too_many(asked, via=not faults.other.get("no_via"))
        if faults.take("refuse_format"):
            raise invalid_form("content", "BASE_TYPE_BAD_FORMAT", "This content cannot be shown.")
        return None

    def _refuse_if_blocked(self, call: DiscordCall, route: Route) -> None:
        """Refuse a bot that is blocked in a chat (50007) or put out of a channel (50001 to read, 50013 to write)."""
        channel_id = call.path.get("channel_id", "")
        if not self._faults.blocked or not channel_id.isdigit():
            return
        channel = self._world.channels.get(int(channel_id))
        if channel is None:
            return
        if channel.is_dm:
            if route.delivers:
                raise forbidden(50007)
        else:
            code = self._faults.other.get("forbidden_code", 50001 if route.method == "GET" else 50013)
            raise forbidden(int(code))


def too_many(allowance: BucketState, *, via: bool) -> Response:
    """Answer 429. Without `Via` it looks like Cloudflare's own ban, and client libraries give up at once."""
    retry_after_s = allowance.reset_after_s
    body: Json = {
        "message": "You are being rate limited.",
        "retry_after": round(retry_after_s, 3),
        "global": allowance.is_global,
    }
    headers = allowance.headers() | {"Retry-After": str(max(1, round(retry_after_s)))}
    headers["X-RateLimit-Scope"] = "global" if allowance.is_global else "user"
    if allowance.is_global:
        headers = {"Retry-After": headers["Retry-After"], "X-RateLimit-Global": "true", "X-RateLimit-Scope": "global"}
    return JSONResponse(body, 429, headers | ({"Via": "1.1 google"} if via else {}))


async def read(request: Request, world: DiscordState) -> DiscordCall:
    """Parse JSON, or multipart with `payload_json` and `files[n]`. Raises `DiscordRefusal` 50109 or 40005."""
    path = {name: str(value) for name, value in request.path_params.items()}
    query = dict(request.query_params)
    host = request.headers.get("host", "")
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if int(request.headers.get("content-length", 0)) > REQUEST_BYTES_MAX:
        raise DiscordRefusal(413, 40005, "Request entity too large")
    if kind == "multipart/form-data":
        async with request.form() as form:
            body = _parsed(str(form.get("payload_json", "{}")))
            files = await _files(form, body if isinstance(body, dict) else {}, world)
        return DiscordCall(path, query, body if isinstance(body, dict) else {}, files=files, host=host)
    raw = await request.body()
    if not raw:
        return DiscordCall(path, query, host=host)
    if kind != "application/json":
        raise DiscordRefusal(400, 50035, 'Expected "Content-Type" header to be one of {"application/json"}.')
    body = _parsed(raw.decode())
    if isinstance(body, list):
        return DiscordCall(path, query, body_list=body, host=host)
    return DiscordCall(path, query, body, host=host)


def _parsed(text: str) -> Json | list[Json]:
    try:
        body = json.loads(text)
    except ValueError:
        raise DiscordRefusal(400, 50109, "The request body contains invalid JSON.") from None
    if not isinstance(body, (dict, list)):
        raise DiscordRefusal(400, 50109, "The request body contains invalid JSON.")
    return body


async def _files(form: FormData, body: Json, world: DiscordState) -> tuple[AttachmentObject, ...]:
    described = {str(a.get("id")): a.get("description") for a in body.get("attachments") or []}
    uploads = [(key, value) for key, value in form.multi_items() if isinstance(value, UploadFile)]
    if len(uploads) > FILES_MAX:
        raise DiscordRefusal(400, 30015, f"Maximum number of attachments in a message reached ({FILES_MAX})")
    files = []
    for key, upload in uploads:
        content = await upload.read()
        if len(content) > FILE_BYTES_MAX:
            raise DiscordRefusal(413, 40005, "Request entity too large")
        number = key.removeprefix("files[").removesuffix("]")
        kind = upload.content_type or "application/octet-stream"
        files.append(
            AttachmentObject(world.new_id(), upload.filename or "unknown", content, kind, described.get(number))
        )
    return tuple(files)


def snowflake(value: object, name: str) -> int:
    """Read an id. Raises `DiscordRefusal` 50035 as Discord does for `abc` where an id belongs."""
    if isinstance(value, (str, int)) and str(value).isdigit():
        return int(value)
    raise invalid_form(name, "NUMBER_TYPE_COERCE", f'Value "{value}" is not snowflake.')


async def not_found(_: Request, __: Exception) -> Response:
    refused = no_such_route()
    return JSONResponse(refused.body(), refused.status)
