"""The task board: what sub-agents do now, what became of the last hundred, and a stream that tells of every change.

The stream says only that the board has changed and how often it has by now; who listens asks for the rows. So a
listener that was away has missed nothing, a filter is no affair of the stream's, and nothing but a number has to be
kept from anybody's eyes on the way.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Header, HTTPException, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette import status

from gateway.admin.answers import refusals
from gateway.admin.board_feed import BoardFeed, TooManyListeners
from gateway.admin.task_views import (
    BoardRevision,
    TaskView,
    TypeRecordView,
    WholeTaskView,
    record_view,
    task_views,
    whole_task_view,
)
from gateway.contracts.ports import Clock
from gateway.contracts.subagents import TaskState
from gateway.store.subagents import TaskStore

LIMIT_MAX: Final = 500
LIMIT_DEFAULT: Final = 100
BOARD_ROWS_MAX: Final = 2_000  # all that are over, and more live ones than a dozen workers carry
_IS_REVISION: Final = re.compile("[0-9]{1,18}").fullmatch
_RETRY_MS: Final = 2_000  # how soon a browser whose stream ended comes again

Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]


def tasks(book: TaskStore, feed: BoardFeed, clock: Clock) -> APIRouter:
    """The routes below /api/tasks. None of them changes anything."""
    router = APIRouter(prefix="/api/tasks", tags=["tasks"])

    @router.get("")
    async def board(
        state: TaskState | None = None,
        type: Annotated[str | None, Query(description="A row of the catalog, such as `explore`.")] = None,
        session: Annotated[str | None, Query(description="A session: its own, or the one it works for.")] = None,
        limit: Limit = LIMIT_DEFAULT,
    ) -> list[TaskView]:
        """The task board: live sub-agents first, then those that were over last."""
        found = await book.newest(limit=BOARD_ROWS_MAX)
        shown = [
            task
            for task in found
            if state in {None, task.state}
            and type in {None, task.sub_type}
            and session in {None, task.session_id, task.parent_session_id}
        ]
        return task_views(shown[:limit], beside=found, now_ms=clock.now_ms())

    @router.get("/types")
    async def types() -> list[TypeRecordView]:
        """How each type does, of what is on the board."""
        return [record_view(record) for record in await book.records()]

    _add_events(router, feed)  # before the ids: none is called so

    @router.get("/{task_id}", responses=refusals(404))
    async def task(task_id: str) -> WholeTaskView:
        """One sub-agent, with its task and its answer."""
        found = await book.task(task_id)
        if found is None:
            raise HTTPException(status.HTTP_404_NOT_FOUND, f"there is no task {task_id[:80]!r} on the board")
        below = await book.tasks_of_session(found.session_id)
        return whole_task_view(found, below=below, now_ms=clock.now_ms())

    return router


def _add_events(router: APIRouter, feed: BoardFeed) -> None:
    """`GET /api/tasks/events`."""

    async def seated() -> AsyncIterator[None]:
        try:
            async with feed.seat():
                yield
        except TooManyListeners:
            raise HTTPException(
                status.HTTP_503_SERVICE_UNAVAILABLE,
                "too many listen already: ask GET /api/tasks",
                {"Retry-After": "15"},
            ) from None

    @router.get("/events", response_class=EventSourceResponse, dependencies=[Depends(seated)])
    async def events(last_event_id: Annotated[str | None, Header()] = None) -> AsyncIterator[ServerSentEvent]:
        """Server-sent events: `board` with the revision, at once and whenever the board has changed. Who sends the last
        id it has heard in `Last-Event-ID` hears only of later ones. A comment every 15 seconds keeps the way open."""
        known = int(last_event_id) if last_event_id and _IS_REVISION(last_event_id) else None
        yield ServerSentEvent(retry=_RETRY_MS)
        async for revision in feed.revisions(known):
            yield ServerSentEvent(event="board", id=str(revision), data=BoardRevision(revision=revision))
