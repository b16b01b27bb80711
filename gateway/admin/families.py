"""Who works for a conversation: the sessions of sub-agents below it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Path
from starlette import status

from gateway.admin.answers import refusals
from gateway.admin.family_views import SessionTree, nested
from gateway.admin.sessions import session_views
from gateway.admin.views import SessionView
from gateway.contracts.ports import Clock
from gateway.store import Store

SessionId = Annotated[str, Path(description="The id of a session, a person's or a sub-agent's.")]


def families(store: Store, clock: Clock) -> APIRouter:
    """`GET /api/sessions/{id}/children` and `/tree`."""
    book = store.tasks
    router = APIRouter(prefix="/api/sessions", tags=["sessions"])

    @router.get("/{session_id}/children", responses=refusals(404))
    async def children(session_id: SessionId) -> list[SessionView]:
        """The sessions of the sub-agents that work, or worked, for this one directly, oldest first; of more than 1,000
        the newest. 404 for an unknown session; an empty list for one without sub-agents."""
        if await store.sessions.by_id(session_id) is None:
            raise _unknown(session_id)
        return await session_views(book, await book.children(session_id))

    @router.get("/{session_id}/tree", responses=refusals(404))
    async def tree(session_id: SessionId) -> SessionTree:
        """This session with all below it, nested: each has its `children`, oldest first, and its sub-agent's `task`.
        Of more than 1,000 the newest. 404 for an unknown session."""
        found = await book.tree(session_id)
        if not found:
            raise _unknown(session_id)
        return nested(found, await book.tasks_below(session_id), now_ms=clock.now_ms())

    return router


def _unknown(session_id: str) -> HTTPException:
    return HTTPException(status.HTTP_404_NOT_FOUND, f"there is no session {session_id[:80]!r}")
