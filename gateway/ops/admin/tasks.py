"""The task board: the work of sub-agents now, the results of the last hundred, and a stream that tells of every change.

The stream sends only a revision, which grows with each change; listeners then ask for the rows. So a listener that
was away has missed nothing, filters need no support in the stream, and the stream carries no data that would have to
be scrubbed."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import Annotated, Final

import structlog
from fastapi import APIRouter, Depends, Header, HTTPException, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette import status

from gateway.contracts.errors import StoreError
from gateway.contracts.ports import Clock
from gateway.contracts.subagents import TaskState
from gateway.ops.admin import views
from gateway.ops.admin.http import Limit, found, refusals
from gateway.store.subagents import TaskStore
from gateway.tasks import wait_at_most

# Tells listeners when the task board has changed. One question to SQL answers them all, while there are any.
#
# first listener ──▶ look every half second ──▶ another revision: all wake ──▶ … ──▶ last one gone: nobody looks


LISTENERS_MAX: Final = 128  # operators' windows, and scripts; each holds a connection and a few kB
LOOK_EVERY_S: Final = 0.5

_log = structlog.get_logger("trivet.admin")


class TooManyListeners(Exception):
    """There are as many listeners as may be."""


class BoardFeed:
    """The revisions of the board, for as many listeners as may be, until `stopping` is set or SQL is away."""

    def __init__(self, book: TaskStore, stopping: asyncio.Event, *, look_every_s: float = LOOK_EVERY_S) -> None:
        self._book = book
        self._stopping = stopping
        self._look_every_s = look_every_s
        self._listeners = 0
        self._looking: asyncio.Task[None] | None = None
        self._revision = 0
        self._news = asyncio.Event()

    @contextlib.asynccontextmanager
    async def seat(self) -> AsyncIterator[None]:
        """Keep a listener's place, as long as the block lasts. Raises `TooManyListeners`, and `StoreError` if the board
        cannot be read to begin with."""
        if self._listeners >= LISTENERS_MAX:
            raise TooManyListeners
        self._listeners += 1
        try:
            self._see(await self._book.revision())
            yield
        finally:
            self._listeners -= 1
            if not self._listeners and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def revisions(self, known: int | None) -> AsyncIterator[int]:
        """Yield, for a listener that has a seat, the present revision, unless it is `known`, and each one from then on.
        Where several follow each other quickly, the last is enough."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        looking = self._looking
        while True:
            news = self._news
            if self._revision != known:
                known = self._revision
                yield known
            elif looking.done():
                return
            else:
                await news.wait()

    async def _look(self) -> None:
        """Look for changes until told to stop, or nobody is left, or SQL is away: then the listeners come again."""
        try:
            while not await wait_at_most(self._stopping, self._look_every_s):
                self._see(await self._book.revision())
        except StoreError as error:
            _log.warning("the board cannot be read", reason=str(error))
        finally:
            self._wake()

    def _see(self, revision: int) -> None:
        if revision != self._revision:
            self._revision = revision
            self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


LIMIT_DEFAULT: Final = 100
BOARD_ROWS_MAX: Final = 2_000  # all that are over, and more live ones than a dozen workers carry
_IS_REVISION: Final = re.compile("[0-9]{1,18}").fullmatch
_RETRY_MS: Final = 2_000  # how soon a browser whose stream ended comes again


def tasks(book: TaskStore, feed: BoardFeed, clock: Clock) -> APIRouter:
    """Build the routes below /api/v1/tasks. None of them changes anything."""
    router = APIRouter(prefix="/api/v1/tasks", tags=["tasks"])

    @router.get("")
    async def board(
        state: TaskState | None = None,
        type: Annotated[str | None, Query(description="A row of the catalog, such as `explore`.")] = None,
        session: Annotated[str | None, Query(description="A session: its own, or the one it works for.")] = None,
        limit: Limit = LIMIT_DEFAULT,
    ) -> list[views.TaskView]:
        """Show the task board: live sub-agents first, then those that ended last."""
        newest = await book.newest(limit=BOARD_ROWS_MAX)
        shown = [
            task
            for task in newest
            if state in {None, task.state}
            and type in {None, task.sub_type}
            and session in {None, task.session_id, task.parent_session_id}
        ]
        return views.task_views(shown[:limit], others=newest, now_ms=clock.now_ms())

    @router.get("/types")
    async def types() -> list[views.TypeRecordView]:
        """Show the record of each type, as far as the board goes back."""
        return list(map(views.TypeRecordView.of, await book.records()))

    _add_events(router, feed)  # before the ids: none is called so

    @router.get("/{task_id}", responses=refusals(404))
    async def task(task_id: str) -> views.WholeTaskView:
        """Show one sub-agent, with its task and its answer."""
        shown = found(await book.task(task_id), f"there is no task {task_id[:80]!r} on the board")
        below = await book.tasks_of_session(shown.session_id)
        return views.whole_task_view(shown, below=below, now_ms=clock.now_ms())

    return router


def _add_events(router: APIRouter, feed: BoardFeed) -> None:
    """Add `GET /api/v1/tasks/events`."""

    async def seated() -> AsyncIterator[None]:
        try:
            async with feed.seat():
                yield
        except TooManyListeners:
            raise HTTPException(
                status.HTTP_503_SERVICE_UNAVAILABLE,
                "too many listen already: ask GET /api/v1/tasks",
                {"Retry-After": "15"},
            ) from None

    @router.get("/events", response_class=EventSourceResponse, dependencies=[Depends(seated)])
    async def events(last_event_id: Annotated[str | None, Header()] = None) -> AsyncIterator[ServerSentEvent]:
        """Send server-sent events: `board` with the revision, at once and whenever the board has changed. A client that
        sends the last id it has heard in `Last-Event-ID` hears only of later ones. A comment every 15 seconds keeps the
        way open."""
        known = int(last_event_id) if last_event_id and _IS_REVISION(last_event_id) else None
        yield ServerSentEvent(retry=_RETRY_MS)
        async for revision in feed.revisions(known):
            yield ServerSentEvent(event="board", id=str(revision), data=views.BoardRevision(revision=revision))
