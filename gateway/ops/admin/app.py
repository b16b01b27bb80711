"""The operator's pages, and the API put together with them. Every answer of the API is JSON; every refusal says why.

A page is a template over the API, nothing built, nothing from elsewhere: it asks our own API, as a script would, and
shows what it answers. What a form of it does is a request to the API again, which `act.js` makes once the operator has
said yes. So a page can show and do nothing that a script cannot."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlencode

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from fastapi.security import HTTPBearer
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette import status
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.access import AccessService
from gateway.bus.deliveries import Deliveries
from gateway.bus.files import Vault
from gateway.bus.inbound import Inbound
from gateway.bus.lanes import Lanes
from gateway.bus.operator import Operator
from gateway.contracts.ports import Clock
from gateway.contracts.profiles import SUB_TYPE_ROWS, SubTypeRows
from gateway.http_guard import Guard
from gateway.limits import ADMIN_BODY_BYTES_MAX, SIGN_IN_S
from gateway.ops.admin import http
from gateway.ops.admin.access import access_routes, audit_routes, client_routes, limit_routes
from gateway.ops.admin.agents import agents, no_skills
from gateway.ops.admin.health import Health, SettingView, overview_routes, readiness_routes
from gateway.ops.admin.people import PersonEraser, known_people, link_routes, people, personal_data_routes, usage_routes
from gateway.ops.admin.rendering import FILTERS
from gateway.ops.admin.sessions import OPERATOR_WROTE, conversations, dead_letters, deliveries, families, session_orders
from gateway.ops.admin.tasks import BoardFeed, tasks
from gateway.scrub import Scrubber
from gateway.store import Store

# The pages.


_PAGES: Final = Path(__file__).parent / "pages"
_MEDIA_TYPES: Final = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_PAGE_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_FILE_HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
_TEMPLATES: Final = Environment(loader=FileSystemLoader(_PAGES), autoescape=True, undefined=StrictUndefined)
_TEMPLATES.filters |= FILTERS
_TEMPLATES.tests |= {"match_start": str.startswith, "contains": str.__contains__}
_TEMPLATES.globals["operator_wrote"] = OPERATOR_WROTE


class ApiRefused(Exception):
    """The API refused what a page asked it for."""

    def __init__(self, code: int, detail: object) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = (
            detail if isinstance(detail, str) else "the address of this page asks for something that cannot be"
        )


class _Query(dict[str, str]):
    """The query of a page's address, in which what was not said is empty."""

    def __missing__(self, name: str) -> str:
        return ""


class OwnApi:
    """Our own API as a page asks it: with the admin token, and without a socket."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())]

    async def get(self, path: str, **asked: object) -> Any:
        """Return what the API answers, None for 404. Raises `ApiRefused`."""
        query = urlencode({name: value for name, value in asked.items() if value not in (None, "")})
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": quote(path).encode(),
            "query_string": query.encode(),
            "headers": self._headers,
            "server": ("localhost", 0),
        }
        codes, pieces = [], []

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                codes.append(message["status"])
            else:
                pieces.append(message.get("body", b""))

        await self._app(scope, _nothing_more, send)
        if codes[0] in {status.HTTP_404_NOT_FOUND, status.HTTP_307_TEMPORARY_REDIRECT}:  # or no name was given
            return None
        said = json.loads(b"".join(pieces))
        if codes[0] >= status.HTTP_400_BAD_REQUEST and path != "/readyz":
            raise ApiRefused(codes[0], said["detail"])
        return said


async def _nothing_more() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def site(app: FastAPI, auth: http.AdminToken, token: str, clock: Clock) -> APIRouter:
    """Build the pages, and the files that they use."""
    router = APIRouter(include_in_schema=False)
    api = OwnApi(app, token)
    signed_in = Depends(auth.require_on_page)

    def page(name: str, template: str, asks: Mapping[str, str], *, under: str = "") -> None:
        """Add a page at /`name`, which shows the answers to `asks`: a name in the template, and a path, in whose braces
        the query of the page is put; the rest of the query is handed on to the API as far as a path names it."""

        async def show(request: Request) -> HTMLResponse:
            query = _Query(request.query_params)
            said = {"now_ms": clock.now_ms(), "query": query, "refused": ""}
            try:
                paths = [_asked(path, query) for path in asks.values()]
                answers = await asyncio.gather(*(api.get(path, **more) for path, more in paths))
                found = dict(zip(asks, answers, strict=True))
            except ApiRefused as refused:
                found, said["refused"] = {}, refused.detail
            code = status.HTTP_404_NOT_FOUND if None in found.values() else status.HTTP_200_OK
            return shown(request, template, code, under=under, **dict.fromkeys(asks) | found, **said)

        router.add_api_route(f"/{name}", show, methods=["GET"], dependencies=[signed_in])

    def shown(request: Request, name: str, code: int = 200, *, under: str = "", **said: object) -> HTMLResponse:
        """Render a page; `under` is the page in the navigation that it belongs to, if it is not there itself."""
        form_token = auth.form_token(auth.session_of(request))
        known = {"version": app.version, "page": under or name, "form_token": form_token}
        html = _TEMPLATES.get_template(f"{name}.html").render(**known, **said)
        return HTMLResponse(html, code, headers=_PAGE_HEADERS)

    for name, (template, asks, under) in _SHOWN.items():
        page(name, template, asks, under=under)
    _add_login(router, auth, shown)
    _add_files(
        router, {path.name: path.read_bytes() for path in (_PAGES / "static").iterdir() if path.suffix in _MEDIA_TYPES}
    )

    @router.get("/api/v1/openapi.json", dependencies=[signed_in])
    async def openapi() -> JSONResponse:
        return JSONResponse(app.openapi())

    @router.get("/api/v1/docs", dependencies=[signed_in])
    async def docs(request: Request) -> HTMLResponse:
        return shown(request, "docs", api=app.openapi())

    return router


_SHOWN: Final[Mapping[str, tuple[str, Mapping[str, str], str]]] = {
    "": ("overview", {"now": "/api/v1/overview"}, ""),
    "sessions": (
        "sessions",
        {
            "found": "/api/v1/sessions?sub_agents=false&q={q}&channel={channel}&since={since}&until={until}"
            "&cost_min={cost_min}&offset={offset}&key={key}"
        },
        "",
    ),
    "session": (
        "session",
        {
            "session": "/api/v1/sessions/{id}",
            "tree": "/api/v1/sessions/{id}/tree",
            "said": "/api/v1/sessions/{id}/messages?limit=100&before_seq={before|9007199254740992}",
        },
        "sessions",
    ),
    "people": ("people", {"found": "/api/v1/people?q={q}&offset={offset}", "waiting": "/api/v1/pairings"}, ""),
    "clients": ("clients", {"clients": "/api/v1/clients"}, ""),
    "person": (
        "person",
        {
            "person": "/api/v1/people/{key}",
            "sessions": "/api/v1/sessions?person={key}&sub_agents=false&limit=20",
            "facts": "/api/v1/memory?key={key}&limit=200",
            "schedules": "/api/v1/schedules?key={key}",
        },
        "people",
    ),
    "queue": (
        "queue",
        {
            "now": "/api/v1/queue",
            "past": "/api/v1/queue/past",
            "letters": "/api/v1/dead-letters",
            "deliveries": "/api/v1/deliveries",
        },
        "",
    ),
    "trace": ("trace", {"hops": "/api/v1/trace/{id}"}, "queue"),
    "tasks": ("tasks", {}, ""),
    "schedules": ("schedules", {"schedules": "/api/v1/schedules?limit=500"}, ""),
    "usage": ("usage", {"rows": "/api/v1/usage?days={days|30}&key={key}&limit=500"}, ""),
    "models": ("models", {"models": "/api/v1/models", "settings": "/api/v1/settings"}, ""),
    "skills": ("skills", {"skills": "/api/v1/agents/skills"}, ""),
    "settings": (
        "settings",
        {
            "settings": "/api/v1/settings",
            "limits": "/api/v1/limits",
            "places": "/api/v1/places",
            "types": "/api/v1/agents/sub-types",
        },
        "",
    ),
    "logs": ("logs", {"lines": "/api/v1/logs?q={q}&level={level}"}, ""),
    "audit": ("audit", {"lines": "/api/v1/audit?subject={subject}&below={below}"}, ""),
}
"""Each page by its address: its template, what it asks the API, and the page of the navigation that it is under."""


def _asked(path: str, query: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the path and the query of a request to the API: `/api/v1/x/{key}?limit=50&days={days|30}`, where `days` is
    30 if the page's address does not say."""
    place, _, more = path.partition("?")

    def filled(text: str) -> str:
        name, _, default = text[1:-1].partition("|")
        return (query.get(name) or default) if text.startswith("{") else text

    asked = [part.partition("=") for part in more.split("&") if part]
    return "/".join(map(filled, place.split("/"))), {name: filled(value) for name, _, value in asked}


def _add_login(router: APIRouter, auth: http.AdminToken, shown: Callable[..., HTMLResponse]) -> None:
    @router.get(http.LOGIN_PATH)
    async def login(request: Request) -> Response:
        if auth.session_of(request):
            return RedirectResponse("/", status.HTTP_303_SEE_OTHER)
        return shown(request, "login", wanted=request.query_params.get("next", ""), is_wrong=False)

    @router.post(http.LOGIN_PATH)
    async def sign_in(request: Request) -> Response:
        said = {name: values[0] for name, values in parse_qs((await request.body()).decode(errors="replace")).items()}
        wanted = said.get("next", "")
        if not auth.is_right(said.get("token", "").strip()):
            return shown(request, "login", status.HTTP_403_FORBIDDEN, wanted=wanted, is_wrong=True)
        # An address that begins with two slashes is somebody else's.
        is_ours = wanted.startswith("/") and not wanted.startswith(("//", "/\\"))
        answer = RedirectResponse(wanted if is_ours else "/", status.HTTP_303_SEE_OTHER)
        is_secure = request.url.scheme == "https"
        answer.set_cookie(
            http.cookie_name(request), auth.new_session(), SIGN_IN_S, httponly=True, samesite="strict", secure=is_secure
        )
        return answer

    @router.post("/logout", dependencies=[Depends(auth.require)])
    async def sign_out(request: Request) -> Response:
        answer = Response(status_code=status.HTTP_204_NO_CONTENT)
        answer.delete_cookie(http.cookie_name(request), httponly=True, samesite="strict")
        return answer


def _add_files(router: APIRouter, files: Mapping[str, bytes]) -> None:
    @router.get("/static/{name}")
    async def static(name: str) -> Response:
        if name not in files:
            raise HTTPException(status.HTTP_404_NOT_FOUND, "there is no such file")
        return Response(files[name], media_type=_MEDIA_TYPES[Path(name).suffix], headers=_FILE_HEADERS)


# All together.


_TOKEN: Final = Depends(HTTPBearer(auto_error=False, scheme_name="admin token"))
"""For the documentation: `AdminToken` judges."""


_API: Final = "/api/"
_VERSIONED: Final = "/api/v1/"


class UnversionedPaths:
    """ASGI middleware: answers the paths of before the API had a version, as long as Trivet is 0.x: `/api/x` is
    `/api/v1/x`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if path.startswith(_API) and not path.startswith(_VERSIONED):
            scope = {**scope, "path": _VERSIONED + path.removeprefix(_API)}
        await self._app(scope, receive, send)


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the API. `channels` are those that shall be connected, `sub_types` the types of sub-agents as
    they are configured, `client_key` what programs' tokens are made with. `workspaces` is where conversations have
    their files, None where none are. Streams end when `stopping` is set. `hosts` are our names, in addition to
    localhost and IP addresses."""

    store: Store
    figures: Operator
    lanes: Lanes
    intake: Inbound
    deliveries: Deliveries
    keeper: AccessService
    vault: Vault
    scrubber: Scrubber
    clock: Clock
    client_key: str
    channels: Sequence[str]
    version: str
    sub_types: SubTypeRows = field(default_factory=lambda: SUB_TYPE_ROWS)
    workspaces: Path | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    hosts: Collection[str] = ()
    settings: Sequence[SettingView] = ()
    skills: Callable[[], Awaitable[str]] = no_skills


def create_app(parts: Parts, token: str) -> FastAPI:
    """Build the whole application. Raises `ConfigError` for an empty token."""
    auth = http.AdminToken(token, parts.clock)
    answer = http.clean_json(parts.scrubber)
    app = FastAPI(
        title="Trivet",
        version=parts.version,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        default_response_class=answer,
        dependencies=[Depends(http.no_nul)],
        responses={422: {"model": http.Malformed}, **http.refusals(408, 413, 421)},
    )
    app.add_middleware(UnversionedPaths)
    app.add_middleware(Guard, hosts=parts.hosts, body_bytes_max=ADMIN_BODY_BYTES_MAX, check=auth.require_before_body)
    http.refuse_in(app, answer)
    health = Health(
        parts.store, parts.figures, parts.scrubber, parts.clock, parts.channels, parts.version, parts.settings
    )
    app.include_router(readiness_routes(health))
    for router in (overview_routes(health), *_for_operators(parts)):
        app.include_router(router, dependencies=[Depends(auth.require), _TOKEN], responses=http.refusals(401, 503))
    app.include_router(site(app, auth, token, parts.clock))
    return app


def _for_operators(parts: Parts) -> Sequence[APIRouter]:
    """List the routes that need the admin token, or a browser that signed in with it."""
    return (
        conversations(parts.store, parts.figures),
        families(parts.store, parts.clock),
        session_orders(parts.store, parts.intake, parts.deliveries, parts.scrubber, parts.clock),
        deliveries(parts.store, parts.figures, parts.clock),
        dead_letters(parts.store, parts.figures),
        tasks(parts.store.tasks, BoardFeed(parts.store.tasks, parts.stopping), parts.clock),
        known_people(parts.store, parts.keeper, parts.figures, parts.lanes, parts.clock),
        people(
            parts.store,
            PersonEraser(
                parts.store, parts.keeper, parts.figures, parts.lanes, parts.vault, parts.clock, parts.workspaces
            ),
            parts.scrubber,
        ),
        personal_data_routes(parts.store, parts.figures),
        usage_routes(parts.store.usage, parts.clock),
        access_routes(parts.keeper, parts.clock),
        limit_routes(parts.keeper),
        client_routes(parts.keeper, parts.store.people, parts.client_key),
        link_routes(parts.store.links, parts.keeper, parts.clock),
        agents(parts.sub_types, parts.store.sub_types, parts.scrubber, parts.clock, parts.skills),
        audit_routes(parts.store.sub_types, parts.scrubber),
    )
