"""The page and the control API next to it.

Other processes may drive the stages by the same calls as the page. Every body and answer is JSON; a refusal is
`{"error": "<one sentence>"}` with status 400 (bad input) or 404 (no such platform). `{p}` is a platform's name.

    GET    /stage                     {"platforms": ["telegram", ...], "can": {"discord": ["menu", "thread"], ...},
                                     "tries": [text, ...]}, what may be said to whoever answers
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
    GET    /sessions                  {"sessions": [...], "problem": "", "board": url}, from the admin API, without its
                                      token; the page at `url` asks for it

Person, Place, Said, Button, MenuEntry, StageEvent and Faults are the dataclasses of `channels.emulators.stage`, field
by field.
"""

from __future__ import annotations

import asyncio
import json
import re
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
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
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


# --- the bot's own sessions, fetched from its admin API behind a bearer token


FETCH_TIMEOUT_S: Final = 3.0
SESSIONS_SHOWN_MAX: Final = 100
SHOWN: Final = ("id", "key", "title", "channel", "status", "parent_session_id", "updated_at", "message_count")


class SessionsUnreachable(Exception):
    """The admin API did not give its sessions; the message is fit to be shown."""


@dataclass(frozen=True, slots=True)
class AdminSessions:
    """`GET {base_url}/api/v1/sessions`; the token stays on this side of the page."""

    base_url: str
    token: str

    @property
    def board_url(self) -> str:
        """Return where the operator watches sub-agents at work."""
        return f"{self.base_url.rstrip('/')}/tasks"

    async def sessions(self) -> list[dict[str, object]]:
        """Fetch the newest sessions, with the fields of `SHOWN`. Raises `SessionsUnreachable`."""
        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            async with httpx.AsyncClient(timeout=FETCH_TIMEOUT_S, trust_env=False) as client:
                url = f"{self.base_url.rstrip('/')}/api/v1/sessions"
                answer = await client.get(url, headers=headers, params={"limit": SESSIONS_SHOWN_MAX})
        except (httpx.HTTPError, httpx.InvalidURL):
            raise SessionsUnreachable("the admin API cannot be reached") from None
        if answer.status_code != httpx.codes.OK:
            raise SessionsUnreachable(f"the admin API answered {answer.status_code}")
        try:
            given = answer.json()
        except ValueError:
            raise SessionsUnreachable("the admin API did not answer in JSON") from None
        rows = given.get("sessions", given.get("items", [])) if isinstance(given, dict) else given
        if not isinstance(rows, list):
            raise SessionsUnreachable("the admin API answered something else than sessions")
        return [{name: row.get(name) for name in SHOWN} for row in rows[:SESSIONS_SHOWN_MAX] if isinstance(row, dict)]


# --- the page and its calls


STATIC: Final = Path(__file__).parent / "static"
SAID_BYTES_MAX: Final = 64 * 1024 * 1024  # with files, in base64: one more than any platform hands to a bot
STILL_THERE_S: Final = 15.0  # a comment this often keeps proxies and browsers from closing a quiet stream
POLICY: Final = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
_ABILITIES: Final[Mapping[str, Any]] = {"menu": MenuStage, "thread": ThreadStage}


class Playground:
    """`stages` by platform name. The page is for this machine only: other hosts in a request are refused."""

    def __init__(
        self, stages: Mapping[str, Stage], sessions: AdminSessions | None = None, tries: Sequence[str] = ()
    ) -> None:
        self._stages = stages
        self._tries = tuple(tries)
        self._sessions = sessions
        self.closing = asyncio.Event()
        """Set to end every stream of events, so that the server can stop."""
        self.app = Starlette(
            routes=[
                Route("/", self._page),
                Mount("/static", StaticFiles(directory=STATIC)),
                Route("/sessions", _answered(self._session_list)),
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
        return FileResponse(STATIC / "index.html", headers={"Content-Security-Policy": POLICY})

    async def _platforms(self, request: Request) -> object:
        can = {
            name: [word for word, protocol in _ABILITIES.items() if isinstance(stage, protocol)]
            for name, stage in self._stages.items()
        }
        return {"platforms": list(self._stages), "can": can, "tries": list(self._tries)}

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

    async def _session_list(self, request: Request) -> object:
        if self._sessions is None:
            return {"sessions": [], "problem": "no admin API is known to this page", "board": ""}
        board = self._sessions.board_url
        try:
            return {"sessions": await self._sessions.sessions(), "problem": "", "board": board}
        except SessionsUnreachable as problem:
            return {"sessions": [], "problem": str(problem), "board": board}

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
