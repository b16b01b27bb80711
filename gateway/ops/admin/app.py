"""The operator's HTTP API: health, metrics, sessions. Every answer is JSON; every refusal says why."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Depends, FastAPI, HTTPException
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from fastapi.security import HTTPBearer
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette import status

from gateway.access import AccessService
from gateway.bus.files import Vault
from gateway.bus.inbound import Inbound
from gateway.bus.lanes import Lanes
from gateway.bus.operator import Operator
from gateway.contracts.budgets import Period, day_begins_ms, day_of
from gateway.contracts.errors import BusError, StoreError
from gateway.contracts.ports import Clock, ModelFault, ModelTrouble, QueueFigures
from gateway.contracts.profiles import SUB_TYPE_ROWS, SubTypeRows
from gateway.http_guard import Guard
from gateway.limits import ADMIN_BODY_BYTES_MAX
from gateway.ops.admin.access import access_routes, audit_routes, limit_routes
from gateway.ops.admin.agents import agents
from gateway.ops.admin.http import AdminToken, Malformed, clean_json, no_nul, refusals, refuse_in
from gateway.ops.admin.people import PersonEraser, link_routes, people, usage_routes
from gateway.ops.admin.sessions import compacting, conversations, dead_letters, deliveries, families
from gateway.ops.admin.tasks import BoardFeed, tasks
from gateway.ops.admin.views import Readiness
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.telemetry.metrics import CONTENT_TYPE, Sums, exposition, tally_families, usage_families

# The reasons why Trivet is not ready, in words. Pure.


CONNECTED: Final = "connected"
_FAULTS: Final = {
    ModelFault.KEY: "does not accept its key",
    ModelFault.QUOTA: "says that its quota or credit is used up",
}


def reasons(figures: QueueFigures | None, *, channels: Iterable[str], database_problem: str) -> Iterator[str]:
    """Yield the reasons why we are not ready; none when every configured channel is connected, an agent is alive and
    the database answers."""
    if database_problem:
        yield database_problem
    if figures is None:
        yield "the bus does not answer"
        return
    for name in channels:
        state = figures.channels_connected.get(name, "no report from the channels role")
        if state != CONNECTED:
            yield f"{name}: {state}"
    if figures.workers_alive == 0:
        yield "no agent process is alive"


def in_words(trouble: ModelTrouble) -> str:
    """Describe why a model does not answer, and when it was last asked in vain."""
    asked = datetime.fromtimestamp(trouble.at_ms / 1000, UTC)
    return f"{trouble.model}: {trouble.provider} {_FAULTS[trouble.fault]} ({asked:%Y-%m-%d %H:%M} UTC)"


# The operator's pages: templates and static files, nothing built, nothing from elsewhere.
#
# The browser asks for a name and a password; the password is the admin token.


_PAGES: Final = Path(__file__).parent / "pages"
_MEDIA_TYPES: Final = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_FILE_HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}


def site(app: FastAPI) -> APIRouter:
    """Build the pages and the files that they use."""
    router = APIRouter(include_in_schema=False)
    pages = Environment(loader=FileSystemLoader(_PAGES), autoescape=True, undefined=StrictUndefined)
    files = _static_files()

    def shown(page: str, *, under: str = "", **said: object) -> HTMLResponse:
        """Render a page; `under` is the page in the navigation that it belongs to, if it is not there itself."""
        text = pages.get_template(f"{page}.html").render(version=app.version, page=under or page, **said)
        return HTMLResponse(text, headers=_PAGE_HEADERS)

    @router.get("/")
    async def first() -> RedirectResponse:
        return RedirectResponse("/sessions")

    @router.get("/sessions")
    async def sessions() -> HTMLResponse:
        return shown("sessions")

    @router.get("/session")
    async def session() -> HTMLResponse:
        """Show one session, which the query names: a browser gives its password to addresses next to a page that asked
        for it, not to addresses above, and the API would be above /sessions/{id}."""
        return shown("session", under="sessions")

    @router.get("/tasks")
    async def tasks() -> HTMLResponse:
        return shown("tasks")

    @router.get("/queue")
    async def queue() -> HTMLResponse:
        return shown("queue")

    @router.get("/usage")
    async def usage() -> HTMLResponse:
        return shown("usage")

    @router.get("/static/{name}")
    async def static(name: str) -> Response:
        if name not in files:
            raise HTTPException(status.HTTP_404_NOT_FOUND, "there is no such file")
        return Response(files[name], media_type=_MEDIA_TYPES[Path(name).suffix], headers=_FILE_HEADERS)

    @router.get("/api/openapi.json")
    async def openapi() -> JSONResponse:
        return JSONResponse(app.openapi())

    @router.get("/api/docs")
    async def docs() -> HTMLResponse:
        return shown("docs", api=app.openapi())

    return router


def _static_files() -> Mapping[str, bytes]:
    """Read the static files, by name. They are few and small, and nobody can ask for any other."""
    return {path.name: path.read_bytes() for path in (_PAGES / "static").iterdir() if path.suffix in _MEDIA_TYPES}


_TOKEN: Final = Depends(HTTPBearer(auto_error=False, scheme_name="admin token"))
"""For the documentation: `AdminToken` judges."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the API. `channels` are those that shall be connected, `sub_types` the types of sub-agents as
    they are configured. `workspaces` is where conversations have their files, None where none are. Streams end when
    `stopping` is set. `hosts` are our names, in addition to localhost and IP addresses."""

    store: Store
    figures: Operator
    lanes: Lanes
    intake: Inbound
    keeper: AccessService
    vault: Vault
    scrubber: Scrubber
    clock: Clock
    channels: Sequence[str]
    version: str
    sub_types: SubTypeRows = field(default_factory=lambda: SUB_TYPE_ROWS)
    workspaces: Path | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    hosts: Collection[str] = ()


def create_app(parts: Parts, token: str) -> FastAPI:
    """Build the whole application. Raises `ConfigError` for an empty token."""
    admin = AdminToken(token)
    answer = clean_json(parts.scrubber)
    app = FastAPI(
        title="Trivet",
        version=parts.version,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        separate_input_output_schemas=False,
        default_response_class=answer,
        dependencies=[Depends(no_nul)],
        responses={422: {"model": Malformed}, **refusals(408, 413, 421)},
    )
    app.add_middleware(Guard, hosts=parts.hosts, body_bytes_max=ADMIN_BODY_BYTES_MAX, check=admin.require_before_body)
    refuse_in(app, answer)
    app.include_router(_health(parts))
    for router in _for_operators(parts):
        app.include_router(router, dependencies=[Depends(admin.require), _TOKEN], responses=refusals(401, 503))
    for router in _for_pages(parts):
        app.include_router(router, dependencies=[Depends(admin.require_to_read), _TOKEN], responses=refusals(401, 503))
    acting = dead_letters(parts.figures)
    app.include_router(acting, dependencies=[Depends(admin.require_to_act), _TOKEN], responses=refusals(401, 503))
    app.include_router(site(app), dependencies=[Depends(admin.require_from_browser)])
    return app


def _for_operators(parts: Parts) -> Sequence[APIRouter]:
    """List the routes that need the admin token."""
    return (
        _metrics(parts),
        compacting(parts.store, parts.intake, parts.scrubber, parts.clock),
        people(
            parts.store,
            PersonEraser(
                parts.store,
                parts.keeper,
                parts.figures,
                parts.lanes,
                parts.vault,
                parts.clock,
                parts.workspaces,
            ),
            parts.scrubber,
        ),
        access_routes(parts.keeper, parts.clock),
        limit_routes(parts.keeper),
        link_routes(parts.store.links, parts.keeper, parts.clock),
        agents(parts.sub_types, parts.store.sub_types, parts.scrubber, parts.clock),
        audit_routes(parts.store.sub_types, parts.scrubber),
    )


def _for_pages(parts: Parts) -> Sequence[APIRouter]:
    """List the routes that our own pages read, too."""
    return (
        conversations(parts.store),
        families(parts.store, parts.clock),
        deliveries(parts.store, parts.figures, parts.clock),
        usage_routes(parts.store.usage, parts.clock),
        tasks(parts.store.tasks, BoardFeed(parts.store.tasks, parts.stopping), parts.clock),
    )


def _health(parts: Parts) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Confirm that this process answers."""
        return {"status": "ok"}

    @router.get("/readyz", responses={503: {"model": Readiness}})
    async def readyz(response: Response) -> Readiness:
        """Confirm that every configured channel is connected, an agent is alive, and the database is ours; otherwise
        503 and why. Models that do not answer are named, and change nothing: another may answer, and no restart mends
        it."""
        figures, problem = await _figures(parts), await _database_problem(parts)
        found = list(reasons(figures, channels=parts.channels, database_problem=problem))
        if found:
            response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
        return Readiness(ready=not found, reasons=found, models=[in_words(each) for each in await _troubles(parts)])

    return router


def _metrics(parts: Parts) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Show the figures of bus and database as Prometheus text."""
        figures, problem = await _figures(parts), await _database_problem(parts)
        text = exposition(
            figures,
            channels=parts.channels,
            database_up=not problem,
            version=parts.version,
            more=(
                *usage_families(await _spent_today(parts), clean=parts.scrubber.scrub),
                *tally_families(await _counts(parts), await _troubles(parts), clean=parts.scrubber.scrub),
            ),
        )
        return Response(text, media_type=CONTENT_TYPE)

    return router


async def _figures(parts: Parts) -> QueueFigures | None:
    try:
        return await parts.figures.figures()
    except BusError:
        return None


async def _troubles(parts: Parts) -> Sequence[ModelTrouble]:
    try:
        return await parts.figures.model_troubles()
    except BusError:
        return ()


async def _counts(parts: Parts) -> Mapping[str, int]:
    try:
        return await parts.figures.counts()
    except BusError:
        return {}


async def _spent_today(parts: Parts) -> Sums:
    today = day_of(parts.clock.now_ms())
    try:
        return await parts.store.usage.by_model(Period(day_begins_ms(today), day_begins_ms(today + 1)))
    except StoreError:
        return {}


async def _database_problem(parts: Parts) -> str:
    try:
        await parts.store.check_schema()
    except StoreError as error:
        return str(error)
    return ""
