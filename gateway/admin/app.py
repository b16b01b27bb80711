"""The operator's HTTP API: health, metrics, sessions. Every answer is JSON; every refusal says why."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Depends, FastAPI
from fastapi.responses import Response
from fastapi.security import HTTPBearer
from starlette import status

from gateway.admin.access import access_routes
from gateway.admin.agents import agents
from gateway.admin.answers import Malformed, clean_json, no_nul, refusals, refuse_in
from gateway.admin.audit import audit_routes
from gateway.admin.auth import AdminToken
from gateway.admin.board_feed import BoardFeed
from gateway.admin.deliveries import dead_letters, deliveries
from gateway.admin.families import families
from gateway.admin.limits import limit_routes
from gateway.admin.links import link_routes
from gateway.admin.people import people
from gateway.admin.readiness import in_words, reasons
from gateway.admin.sessions import compacting, conversations
from gateway.admin.site import site
from gateway.admin.tasks import tasks
from gateway.admin.usage import usage_routes
from gateway.admin.views import (
    Readiness,
)
from gateway.bus.files import Vault
from gateway.bus.inbound import Inbound
from gateway.bus.lanes import Lanes
from gateway.bus.operator import Operator
from gateway.contracts.errors import BusError, StoreError
from gateway.contracts.ports import Clock, ModelTrouble, QueueFigures, Scrubber
from gateway.contracts.spending import Period, day_begins_ms, day_of
from gateway.contracts.sub_types import SUB_TYPE_ROWS, SubTypeRows
from gateway.doorkeeper import Doorkeeper
from gateway.guard import Guard
from gateway.limits import ADMIN_BODY_BYTES_MAX
from gateway.store import Store
from gateway.telemetry.metrics import CONTENT_TYPE, exposition
from gateway.telemetry.tally import tally_families
from gateway.telemetry.usage import Sums, usage_families

_TOKEN: Final = Depends(HTTPBearer(auto_error=False, scheme_name="admin token"))
"""For the documentation: `AdminToken` judges."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the API is made of. `channels` are those that shall be connected, `sub_types` the types of sub-agents as
    they are configured. `workspaces` is where conversations have their files, None where none are. Streams end when
    `stopping` is set. `hosts` are our names, beside localhost and addresses."""

    store: Store
    figures: Operator
    lanes: Lanes
    intake: Inbound
    keeper: Doorkeeper
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
    """The whole application. Raises `ConfigError` for an empty token."""
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
    """What needs the admin token."""
    return (
        _metrics(parts),
        compacting(parts.store, parts.intake, parts.scrubber, parts.clock),
        people(
            parts.store,
            parts.keeper,
            parts.figures,
            parts.lanes,
            parts.vault,
            parts.scrubber,
            parts.clock,
            parts.workspaces,
        ),
        access_routes(parts.keeper, parts.clock),
        limit_routes(parts.keeper),
        link_routes(parts.store.links, parts.keeper, parts.clock),
        agents(parts.sub_types, parts.store.sub_types, parts.scrubber, parts.clock),
        audit_routes(parts.store.sub_types, parts.scrubber),
    )


def _for_pages(parts: Parts) -> Sequence[APIRouter]:
    """What our own pages read, too."""
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
        """This process answers."""
        return {"status": "ok"}

    @router.get("/readyz", responses={503: {"model": Readiness}})
    async def readyz(response: Response) -> Readiness:
        """Every configured channel is connected, an agent is alive, the database is ours; else 503 and why. Models
        that do not answer are named, and change nothing: another may answer, and no restart mends it."""
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
        """The figures of bus and database as Prometheus text."""
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
