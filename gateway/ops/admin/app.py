"""The operator's HTTP API and its pages, put together. Every answer of the API is JSON; every refusal says why."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Depends, FastAPI
from fastapi.security import HTTPBearer

from gateway.access import AccessService
from gateway.bus.deliveries import Deliveries
from gateway.bus.files import Vault
from gateway.bus.inbound import Inbound
from gateway.bus.lanes import Lanes
from gateway.bus.operator import Operator
from gateway.contracts.ports import Clock
from gateway.contracts.profiles import SUB_TYPE_ROWS, SubTypeRows
from gateway.http_guard import Guard
from gateway.limits import ADMIN_BODY_BYTES_MAX
from gateway.ops.admin.access import access_routes, audit_routes, limit_routes
from gateway.ops.admin.agents import agents
from gateway.ops.admin.health import Health, SettingView, overview_routes, readiness_routes
from gateway.ops.admin.http import AdminToken, Malformed, clean_json, no_nul, refusals, refuse_in
from gateway.ops.admin.people import PersonEraser, belongings_routes, known_people, link_routes, people, usage_routes
from gateway.ops.admin.sessions import conversations, dead_letters, deliveries, families, session_orders
from gateway.ops.admin.site import site
from gateway.ops.admin.tasks import BoardFeed, tasks
from gateway.scrub import Scrubber
from gateway.store import Store

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
    deliveries: Deliveries
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
    settings: Sequence[SettingView] = ()


def create_app(parts: Parts, token: str) -> FastAPI:
    """Build the whole application. Raises `ConfigError` for an empty token."""
    door = AdminToken(token, parts.clock)
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
    app.add_middleware(Guard, hosts=parts.hosts, body_bytes_max=ADMIN_BODY_BYTES_MAX, check=door.require_before_body)
    refuse_in(app, answer)
    health = Health(
        parts.store, parts.figures, parts.scrubber, parts.clock, parts.channels, parts.version, parts.settings
    )
    app.include_router(readiness_routes(health))
    for router in (overview_routes(health), *_for_operators(parts)):
        app.include_router(router, dependencies=[Depends(door.require), _TOKEN], responses=refusals(401, 503))
    app.include_router(site(app, door, token, parts.clock))
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
        belongings_routes(parts.store, parts.figures),
        usage_routes(parts.store.usage, parts.clock),
        access_routes(parts.keeper, parts.clock),
        limit_routes(parts.keeper),
        link_routes(parts.store.links, parts.keeper, parts.clock),
        agents(parts.sub_types, parts.store.sub_types, parts.scrubber, parts.clock),
        audit_routes(parts.store.sub_types, parts.scrubber),
    )
