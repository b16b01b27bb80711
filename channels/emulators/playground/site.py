"""The page and the control API next to it.

Other processes may drive the stages by the same calls as the page. Every body and answer is JSON; a refusal is
`{"error": "<one sentence>"}` with status 400 (bad input), 403 (no token of the page), 404 (no such platform) or
502 (the admin API). `{p}` is a platform's name.

    GET    /stage                     {"platforms": ["telegram", ...], "can": {"discord": ["menu", "thread"], ...},
                                     "bots": {"telegram": Person, ...}, "tries": [...], "orders": [...], "board": url},
                                     what may be said to the bot's process, and ordered of its supervisor
    GET    /stage/{p}/people          {"people": [Person]}
    POST   /stage/{p}/people          {"name"}                                              -> Person
    GET    /stage/{p}/places          {"places": [Place]}
    POST   /stage/{p}/places          {"kind": "group"|"thread", "title", "parent_id"?}     -> Place
    GET    /stage/{p}/messages?place= {"messages": [Said]}, oldest first
    GET    /stage/{p}/file?place=&message=&number=  the bytes of `Said.files[number]`, for a download
    POST   /stage/{p}/say             {"person_id", "place_id", "text", "mention_bot"?, "reply_to"?,
                                     "files"?: [{"name", "media_type", "base64"}]}          -> Said
    POST   /stage/{p}/press           {"person_id", "place_id", "message_id", "button_id"}  -> {}
    GET    /stage/{p}/menu?person=&place=   {"menu": [MenuEntry]}, what the person is offered there
    GET    /stage/{p}/suggest?person=&place=&name=&typed=   {"suggestions": [text]}, while the person types
    POST   /stage/{p}/invoke          {"person_id", "place_id", "name", "argument"?}        -> {}
    POST   /stage/{p}/thread          {"person_id", "place_id", "message_id", "title"}      -> Place
    POST   /stage/{p}/share           {"person_id", "place_id", "message_id", "to_id", "text"?} -> Said
    POST   /stage/{p}/language        {"person_id", "language"}: an IETF tag                -> {}
    PATCH  /stage/{p}/messages        {"place_id", "message_id", "text"}                    -> {}
    DELETE /stage/{p}/messages        {"place_id", "message_id"}                            -> {}
    GET    /stage/{p}/faults          Faults
    PATCH  /stage/{p}/faults          any fields of Faults; `other` is merged               -> Faults
    POST   /stage/{p}/cut             {}: drops every open long poll or websocket           -> {}
    GET    /stage/{p}/events          server-sent events, each a StageEvent, from now on
    GET    /stage/events              the same for all platforms, each with "platform"
    GET    /admin/{path}              what the admin API answers to GET /api/v1/{path}, for the paths of `READABLE`
    PUT    /admin/grants/{key}        {"role"}: a person is that from now on, or a `stranger` again         -> {}
    POST   /order                     {"order"}, one of `orders`                  -> {"happened": [{"at_ms", "what"}]}

The last two want the page's own token, in `X-Page-Token`: no other page can know it. The admin token stays here.
Person, Place, Said, Button, MenuEntry, StageEvent and Faults are the dataclasses of `channels.emulators.stage`, field
by field."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from channels.emulators.stage import (
    Faults,
    LanguageStage,
    MenuStage,
    PlaceKind,
    SharedFile,
    Stage,
    StageEvent,
    ThreadStage,
)

# --- what a request asks for: read and checked once, or refused with a sentence


BODY_BYTES_MAX: Final = 256 * 1024
_HALF: Final = re.compile(r"[\ud800-\udfff]")  # of a character that a client cut in two: no answer could hold it
_FAULTS: Final = {each.name for each in fields(Faults)}


class BadRequest(Exception):
    """A call of the control API was refused; the message is fit to be shown."""

    def __init__(self, why: str, status: int = 400) -> None:
        super().__init__(why)
        self.status = status


async def json_body(request: Request, *, bytes_max: int = BODY_BYTES_MAX) -> dict[str, Any]:
    """Read the JSON object a request carries. A form cannot carry one, so no foreign page can send it."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise BadRequest("the body must be application/json")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > bytes_max:
            raise BadRequest(f"the body is larger than {bytes_max} bytes")
    try:
        given = json.loads(body or b"{}")
    except ValueError:
        raise BadRequest("the body is not JSON") from None
    if not isinstance(given, dict):
        raise BadRequest("the body must be a JSON object")
    return given


def files_of(given: object) -> tuple[SharedFile, ...]:
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise BadRequest("files must be a list of objects")
    try:
        return tuple(
            SharedFile(text_of(each, "name"), text_of(each, "media_type"), b64decode(each["base64"], validate=True))
            for each in given
        )
    except (KeyError, TypeError, ValueError):
        raise BadRequest("base64 must hold the bytes of a file") from None


def text_of(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value:
        raise BadRequest(f"{name} must be text")
    if _HALF.search(value):
        raise BadRequest(f"{name} holds half a character")
    return value


def optional_text(given: Mapping[str, Any], name: str) -> str | None:
    return None if given.get(name) in (None, "") else text_of(given, name)


def switch(faults: Faults, given: Mapping[str, Any]) -> None:
    """Set the named fields, all or none of them."""
    for name, value in given.items():
        if name not in _FAULTS:
            raise BadRequest(f"no fault is called {name!r}")
        if name == "other":
            if not isinstance(value, dict) or not all(isinstance(each, int | float) for each in value.values()):
                raise BadRequest("other must map names to numbers")
        elif not isinstance(value, type(getattr(faults, name))) and not (
            isinstance(getattr(faults, name), float) and isinstance(value, int)
        ):
            raise BadRequest(f"{name} must be a {type(getattr(faults, name)).__name__}")
    for name, value in given.items():
        if name == "other":
            faults.other.update(value)
        else:
            setattr(faults, name, value)


# --- the bot itself: its admin API with a bearer token, and its supervisor


FETCH_TIMEOUT_S: Final = 3.0
READABLE: Final = re.compile(r"sessions|sessions/[^/]+/messages|trace/.+|queue|deliveries|grants")
STRANGER: Final = "stranger"
"""Somebody about whom nothing was decided."""


@dataclass(frozen=True, slots=True)
class AdminApi:
    """The operator's API at `base_url`; the token stays on this side of the page."""

    base_url: str
    token: str

    @property
    def board_url(self) -> str:
        """Return where the operator watches sub-agents at work."""
        return f"{self.base_url.rstrip('/')}/tasks"

    async def get(self, path: str, query: Mapping[str, str]) -> object:
        """Return what the API answers. Raises `BadRequest`, also when it cannot be reached."""
        return await self._asked("GET", path, params=query)

    async def grant(self, key: str, role: str) -> None:
        """Give a person a role, or make a stranger of them. Raises `BadRequest`."""
        if role == STRANGER:
            await self._asked("DELETE", f"grants/{key}")
        else:
            await self._asked("PUT", f"grants/{key}", json={"role": role})

    async def _asked(self, method: str, path: str, **what: Any) -> object:
        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            async with httpx.AsyncClient(timeout=FETCH_TIMEOUT_S, trust_env=False) as client:
                url = f"{self.base_url.rstrip('/')}/api/v1/{quote(path)}"
                answer = await client.request(method, url, headers=headers, **what)
        except (httpx.HTTPError, httpx.InvalidURL):
            raise BadRequest("the admin API cannot be reached", 502) from None
        if answer.is_error:
            raise BadRequest(f"the admin API answered {answer.status_code}", 502)
        try:
            return answer.json() if answer.content else {}
        except ValueError:
            raise BadRequest("the admin API did not answer in JSON", 502) from None


@dataclass(frozen=True, slots=True)
class Installation:
    """The Trivet that answers on the stages, as far as the page may reach it.

    `tries` may be said to it: rows with a `topic`, a `text`, and `place`, which is `group` for what is said there.
    `orders` may be given to the bot's supervisor, by `give`, which returns what happened: rows with `at_ms` and
    `what`."""

    admin: AdminApi | None = None
    tries: Sequence[Mapping[str, str]] = ()
    orders: Sequence[str] = ()
    give: Callable[[str], Awaitable[Sequence[Mapping[str, object]]]] | None = None


NOTHING: Final = Installation()
"""No Trivet that is known."""


# --- the page and its calls


STATIC: Final = Path(__file__).parent / "static"
SAID_BYTES_MAX: Final = 64 * 1024 * 1024  # with files, in base64: one more than any platform hands to a bot
STILL_THERE_S: Final = 15.0  # a comment this often keeps proxies and browsers from closing a quiet stream
POLICY: Final = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
_ABILITIES: Final[Mapping[str, Any]] = {"menu": MenuStage, "thread": ThreadStage}


class Playground:
    """`stages` by platform name. The page is for this machine only: other hosts in a request are refused."""

    def __init__(self, stages: Mapping[str, Stage], installation: Installation = NOTHING) -> None:
        self._stages = stages
        self._installation = installation
        self._token = secrets.token_urlsafe(24)
        self.closing = asyncio.Event()
        """Set to end every stream of events, so that the server can stop."""
        self.app = Starlette(
            routes=[
                Route("/", self._page),
                Mount("/static", StaticFiles(directory=STATIC)),
                Route("/admin/grants/{key:path}", _answered(self._grant), methods=["PUT"]),
                Route("/admin/{path:path}", _answered(self._from_admin)),
                Route("/order", _answered(self._order), methods=["POST"]),
                Route("/stage", _answered(self._platforms)),
                Route("/stage/events", self._all_events),
                Route("/stage/{platform}/people", _answered(self._people), methods=["GET", "POST"]),
                Route("/stage/{platform}/places", _answered(self._places), methods=["GET", "POST"]),
                Route("/stage/{platform}/messages", _answered(self._messages), methods=["GET", "PATCH", "DELETE"]),
                Route("/stage/{platform}/file", self._file),
                Route("/stage/{platform}/say", _answered(self._say), methods=["POST"]),
                Route("/stage/{platform}/press", _answered(self._press), methods=["POST"]),
                Route("/stage/{platform}/menu", _answered(self._menu)),
                Route("/stage/{platform}/suggest", _answered(self._suggest)),
                Route("/stage/{platform}/invoke", _answered(self._invoke), methods=["POST"]),
                Route("/stage/{platform}/thread", _answered(self._thread), methods=["POST"]),
                Route("/stage/{platform}/share", _answered(self._share), methods=["POST"]),
                Route("/stage/{platform}/language", _answered(self._language), methods=["POST"]),
                Route("/stage/{platform}/faults", _answered(self._faults), methods=["GET", "PATCH"]),
                Route("/stage/{platform}/cut", _answered(self._cut), methods=["POST"]),
                Route("/stage/{platform}/events", self._events),
            ],
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost", "[::1]"])],
        )

    async def _page(self, request: Request) -> Response:
        page = (STATIC / "index.html").read_text("utf-8").replace("PAGE-TOKEN", self._token)
        return HTMLResponse(page, headers={"Content-Security-Policy": POLICY, "Cache-Control": "no-store"})

    async def _platforms(self, request: Request) -> object:
        can = {
            name: [word for word, protocol in _ABILITIES.items() if isinstance(stage, protocol)]
            for name, stage in self._stages.items()
        }
        installation = self._installation
        return {
            "platforms": list(self._stages),
            "can": can,
            "bots": {name: asdict(stage.bot) for name, stage in self._stages.items()},
            "tries": list(installation.tries),
            "orders": list(installation.orders),
            "board": installation.admin.board_url if installation.admin else "",
        }

    async def _people(self, request: Request) -> object:
        stage = self._stage(request)
        if request.method == "GET":
            return {"people": [asdict(each) for each in stage.people()]}
        given = await json_body(request)
        return asdict(stage.add_person(text_of(given, "name")))

    async def _places(self, request: Request) -> object:
        stage = self._stage(request)
        if request.method == "GET":
            return {"places": [asdict(each) for each in stage.places()]}
        given = await json_body(request)
        try:
            kind = PlaceKind(text_of(given, "kind"))
        except ValueError:
            raise BadRequest("kind must be 'group' or 'thread'") from None
        return asdict(stage.add_place(kind, text_of(given, "title"), parent_id=optional_text(given, "parent_id")))

    async def _messages(self, request: Request) -> object:
        stage = self._stage(request)
        if request.method == "GET":
            return {"messages": [asdict(each) for each in stage.said(request.query_params.get("place", ""))]}
        given = await json_body(request)
        message_id, place_id = text_of(given, "message_id"), text_of(given, "place_id")
        if request.method == "PATCH":
            await stage.edit(message_id, place_id, text_of(given, "text"))
        else:
            await stage.delete(message_id, place_id)
        return {}

    async def _file(self, request: Request) -> Response:
        """Serve a file, always as a download: what somebody sent is never shown as a page of ours."""
        asked = request.query_params
        try:
            number = int(asked.get("number", "0"))
            file = self._stage(request).file(asked.get("message", ""), asked.get("place", ""), number)
        except (BadRequest, KeyError, ValueError):
            return JSONResponse({"error": "there is no such file"}, 404)
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='', errors='replace')}",
            "X-Content-Type-Options": "nosniff",
        }
        return Response(file.content, media_type=file.media_type, headers=headers)

    async def _say(self, request: Request) -> object:
        stage = self._stage(request)
        given = await json_body(request, bytes_max=SAID_BYTES_MAX)
        files = files_of(given.get("files") or [])
        said = await stage.say(
            text_of(given, "person_id"),
            text_of(given, "place_id"),
            (optional_text(given, "text") or "") if files else text_of(given, "text"),
            mention_bot=given.get("mention_bot") is True,
            reply_to=optional_text(given, "reply_to"),
            files=files,
        )
        return asdict(said)

    async def _press(self, request: Request) -> object:
        given = await json_body(request)
        names = ("person_id", "place_id", "message_id", "button_id")
        await self._stage(request).press_button(*(text_of(given, name) for name in names))
        return {}

    async def _menu(self, request: Request) -> object:
        asked = request.query_params
        entries = self._menu_stage(request).menu(asked.get("person", ""), asked.get("place", ""))
        return {"menu": [asdict(entry) for entry in entries]}

    async def _suggest(self, request: Request) -> object:
        names = ("person", "place", "name", "typed")
        asked = [request.query_params.get(name, "") for name in names]
        return {"suggestions": list(await self._menu_stage(request).suggest(*asked))}

    async def _invoke(self, request: Request) -> object:
        given = await json_body(request)
        person_id, place_id, name = (text_of(given, field) for field in ("person_id", "place_id", "name"))
        argument = optional_text(given, "argument") or ""
        await self._menu_stage(request).invoke(person_id, place_id, name, argument)
        return {}

    async def _thread(self, request: Request) -> object:
        stage, given = self._stage(request), await json_body(request)
        if not isinstance(stage, ThreadStage):
            raise BadRequest("this platform opens no threads from messages")
        names = ("person_id", "place_id", "message_id", "title")
        return asdict(stage.thread_from(*(text_of(given, name) for name in names)))

    async def _share(self, request: Request) -> object:
        stage, given = self._stage(request), await json_body(request)
        names = ("person_id", "message_id", "place_id", "to_id")
        who, message_id, place_id, to_id = (text_of(given, name) for name in names)
        return asdict(await stage.share(who, message_id, place_id, to_id, optional_text(given, "text") or ""))

    async def _language(self, request: Request) -> object:
        stage, given = self._stage(request), await json_body(request)
        if not isinstance(stage, LanguageStage):
            raise BadRequest("clients of this platform do not say their language")
        stage.set_language(text_of(given, "person_id"), text_of(given, "language"))
        return {}

    async def _faults(self, request: Request) -> object:
        faults = self._stage(request).faults
        if request.method == "PATCH":
            switch(faults, await json_body(request))
        return asdict(faults)

    async def _cut(self, request: Request) -> object:
        await self._stage(request).cut_connections()
        return {}

    async def _from_admin(self, request: Request) -> object:
        path = request.path_params["path"]
        if READABLE.fullmatch(path) is None:
            raise BadRequest("the page does not ask for that", 404)
        return await self._admin().get(path, request.query_params)

    async def _grant(self, request: Request) -> object:
        given = await self._own(request)
        await self._admin().grant(request.path_params["key"], text_of(given, "role"))
        return {}

    async def _order(self, request: Request) -> object:
        order, installation = text_of(await self._own(request), "order"), self._installation
        if installation.give is None or order not in installation.orders:
            raise BadRequest(f"nobody here carries out {order!r}")
        return {"happened": await installation.give(order)}

    def _admin(self) -> AdminApi:
        if self._installation.admin is None:
            raise BadRequest("no admin API is known to this page", 502)
        return self._installation.admin

    async def _own(self, request: Request) -> dict[str, Any]:
        """Read the body of a request that only the page itself may make."""
        if not secrets.compare_digest(request.headers.get("x-page-token", "").encode(), self._token.encode()):
            raise BadRequest("only the playground's own page may ask for that: load it again", 403)
        return await json_body(request)

    async def _events(self, request: Request) -> Response:
        platform = request.path_params["platform"]
        if platform not in self._stages:
            return JSONResponse({"error": f"no platform is called {platform!r}"}, 404)
        return self._stream({platform: self._stages[platform]})

    async def _all_events(self, request: Request) -> Response:
        return self._stream(self._stages)

    def _stream(self, stages: Mapping[str, Stage]) -> Response:
        # Watching begins here, not at the first read: what happens in between must not be missed.
        watched = {name: stage.events() for name, stage in stages.items()}
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._told(watched), media_type="text/event-stream", headers=headers)

    async def _told(self, watched: Mapping[str, AsyncIterator[StageEvent]]) -> AsyncIterator[str]:
        lines: asyncio.Queue[str] = asyncio.Queue(maxsize=1)  # what a slow page has not read yet waits in its audience

        async def follow(platform: str, events: AsyncIterator[StageEvent]) -> None:
            async for event in events:
                shape = asdict(event) | {"platform": platform}
                await lines.put(f"data: {json.dumps(shape)}\n\n")

        async def close() -> None:
            await self.closing.wait()
            await lines.put("")

        tasks = [asyncio.create_task(each) for each in (close(), *(follow(*each) for each in watched.items()))]
        try:
            line = ": watching\n\n"
            while line:
                yield line
                try:
                    async with asyncio.timeout(STILL_THERE_S):
                        line = await lines.get()
                except TimeoutError:
                    line = ": still here\n\n"
        finally:
            for task in tasks:
                task.cancel()

    def _stage(self, request: Request) -> Stage:
        platform = request.path_params["platform"]
        stage = self._stages.get(platform)
        if stage is None:
            raise BadRequest(f"no platform is called {platform!r}", 404)
        return stage

    def _menu_stage(self, request: Request) -> MenuStage:
        stage = self._stage(request)
        if not isinstance(stage, MenuStage):
            raise BadRequest("this platform has no menu of commands")
        return stage


def _answered(handler: Callable[[Request], Awaitable[object]]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return JSONResponse(await handler(request))
        except BadRequest as refusal:
            return JSONResponse({"error": str(refusal)}, refusal.status)
        except (ValueError, KeyError) as refusal:  # how a stage says that it does not know an id or takes no such text
            return JSONResponse({"error": str(refusal.args[0] if refusal.args else refusal)}, 400)

    return endpoint
