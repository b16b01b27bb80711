"""The operator's HTTP API: health, metrics, sessions. Every answer is JSON; every refusal says why."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query
from fastapi.responses import Response
from starlette import status

from gateway.admin.access import access_routes
from gateway.admin.agents import agents
from gateway.admin.answers import clean_json, refuse_in
from gateway.admin.audit import audit_routes
from gateway.admin.auth import AdminToken
from gateway.admin.board_feed import BoardFeed
from gateway.admin.deliveries import deliveries
from gateway.admin.families import families
from gateway.admin.limits import limit_routes
from gateway.admin.links import link_routes
from gateway.admin.operator_channel import compact_order
from gateway.admin.people import people
from gateway.admin.readiness import reasons
from gateway.admin.site import site
from gateway.admin.tasks import tasks
from gateway.admin.usage import usage_routes
from gateway.admin.views import (
    Accepted,
    CompactOrder,
    MessageView,
    Readiness,
    SessionView,
    message_view,
    session_view,
)
from gateway.contracts.entries import Session
from gateway.contracts.errors import BadSessionKey, BusError, StoreError
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import (
    Clock,
    IntakeBus,
    OperatorBus,
    QueueFigures,
    Scrubber,
    Span,
    Store,
    VaultBus,
    Verdict,
)
from gateway.contracts.spending import day_begins_ms, day_of
from gateway.contracts.sub_types import SUB_TYPE_ROWS, SubTypeRows
from gateway.doorkeeper import Doorkeeper
from gateway.telemetry.metrics import CONTENT_TYPE, exposition
from gateway.telemetry.usage import Sums, usage_families

PAGE_MAX: Final = 500  # rows of one answer: a dashboard shows fewer, an export pages on
PAGE_DEFAULT: Final = 50

Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]


@dataclass(frozen=True, slots=True)
class Parts:
    """What the API is made of. `channels` are those that shall be connected, `sub_types` the types of sub-agents as
    they are configured. `workspaces` is where conversations have their files, None where none are. Streams end when
    `stopping` is set."""

    store: Store
    figures: OperatorBus
    intake: IntakeBus
    keeper: Doorkeeper
    vault: VaultBus
    scrubber: Scrubber
    clock: Clock
    channels: Sequence[str]
    version: str
    sub_types: SubTypeRows = field(default_factory=lambda: SUB_TYPE_ROWS)
    workspaces: Path | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


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
    )
    refuse_in(app, answer)
    app.include_router(_health(parts))
    app.include_router(_metrics(parts), dependencies=[Depends(admin.require)])
    app.include_router(_sessions(parts), dependencies=[Depends(admin.require)])
    app.include_router(families(parts.store, parts.clock), dependencies=[Depends(admin.require)])
    app.include_router(
        people(parts.store, parts.keeper, parts.figures, parts.vault, parts.scrubber, parts.workspaces),
        dependencies=[Depends(admin.require)],
    )
    app.include_router(access_routes(parts.keeper, parts.clock), dependencies=[Depends(admin.require)])
    app.include_router(limit_routes(parts.keeper), dependencies=[Depends(admin.require)])
    app.include_router(link_routes(parts.store.links, parts.keeper, parts.clock), dependencies=[Depends(admin.require)])
    app.include_router(deliveries(parts.store, parts.figures), dependencies=[Depends(admin.require)])
    app.include_router(usage_routes(parts.store.usage, parts.clock), dependencies=[Depends(admin.require)])
    app.include_router(
        agents(parts.sub_types, parts.store.sub_types, parts.scrubber, parts.clock),
        dependencies=[Depends(admin.require)],
    )
    app.include_router(audit_routes(parts.store.sub_types, parts.scrubber), dependencies=[Depends(admin.require)])
    feed = BoardFeed(parts.store.tasks, parts.stopping)
    app.include_router(tasks(parts.store.tasks, feed, parts.clock), dependencies=[Depends(admin.require_to_read)])
    app.include_router(site(app), dependencies=[Depends(admin.require_from_browser)])
    return app


def _health(parts: Parts) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/healthz")
    async def healthz() -> dict[str, str]:
        """This process answers."""
        return {"status": "ok"}

    @router.get("/readyz", responses={503: {"model": Readiness}})
    async def readyz(response: Response) -> Readiness:
        """Every configured channel is connected, an agent is alive, the database is ours; else 503 and why."""
        figures, problem = await _figures(parts), await _database_problem(parts)
        found = list(reasons(figures, channels=parts.channels, database_problem=problem))
        if found:
            response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
        return Readiness(ready=not found, reasons=found)

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
            more=usage_families(await _spent_today(parts), clean=parts.scrubber.scrub),
        )
        return Response(text, media_type=CONTENT_TYPE)

    return router


def _sessions(parts: Parts) -> APIRouter:
    router = APIRouter(prefix="/api/sessions", tags=["sessions"])

    @router.get("")
    async def sessions(
        limit: Limit = PAGE_DEFAULT, offset: Annotated[int, Query(ge=0)] = 0, key: str | None = None
    ) -> list[SessionView]:
        """Newest first, those of sub-agents among them; `key` shows those of one session key."""
        wanted = _key(key) if key else None
        found = await parts.store.sessions(key=wanted, limit=limit, offset=offset, with_sub_agents=True)
        return [session_view(session) for session in found]

    @router.get("/{session_id}")
    async def session(session_id: str) -> SessionView:
        """One conversation, a person's or a sub-agent's."""
        return session_view(await _wanted(parts, session_id))

    @router.get("/{session_id}/messages")
    async def messages(
        session_id: str,
        after_seq: Annotated[int, Query(ge=0)] = 0,
        limit: Limit = PAGE_DEFAULT,
    ) -> list[MessageView]:
        """Everything ever said in it, oldest first; ask again with the last `seq` for what follows."""
        session = await _wanted(parts, session_id)
        entries = await parts.store.transcript(session.id, after_seq=after_seq, limit=limit)
        return [message_view(entry) for entry in entries]

    @router.post("/{session_id}/compact", status_code=status.HTTP_202_ACCEPTED)
    async def compact(session_id: str, order: CompactOrder | None = None) -> Accepted:
        """Summarize the conversation so far, as `/compact` in its chat would; the chat hears nothing of it."""
        session = await _wanted(parts, session_id)
        if not session.is_current:
            raise HTTPException(status.HTTP_409_CONFLICT, "only the current session of a key can be compacted")
        message = compact_order(session.key, order.focus if order else "", scrubber=parts.scrubber, clock=parts.clock)
        admission = await parts.intake.enqueue(message)
        if admission.verdict in {Verdict.LANE_FULL, Verdict.QUEUE_FULL}:
            raise HTTPException(status.HTTP_429_TOO_MANY_REQUESTS, "too many messages wait: try again later")
        return Accepted(message_id=message.id)

    return router


async def _wanted(parts: Parts, session_id: str) -> Session:
    session = await parts.store.session(session_id)
    if session is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"there is no session {session_id[:80]!r}")
    return session


async def _figures(parts: Parts) -> QueueFigures | None:
    try:
        return await parts.figures.figures()
    except BusError:
        return None


async def _spent_today(parts: Parts) -> Sums:
    today = day_of(parts.clock.now_ms())
    try:
        return await parts.store.usage.by_model(Span(day_begins_ms(today), day_begins_ms(today + 1)))
    except StoreError:
        return {}


async def _database_problem(parts: Parts) -> str:
    try:
        await parts.store.check_schema()
    except StoreError as error:
        return str(error)
    return ""


def _key(text: str) -> SessionKey:
    try:
        return SessionKey.parse(text)
    except BadSessionKey as error:
        raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, str(error)) from error
