"""Who works for a conversation: the sessions of sub-agents below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, HTTPException, Path
from pydantic import Field
from starlette import status

from gateway.admin.task_views import TaskView, task_view
from gateway.admin.views import SessionView, session_view
from gateway.contracts.entries import Session
from gateway.contracts.ports import Clock, Store
from gateway.contracts.subagents import SubTask

SessionId = Annotated[str, Path(description="The id of a session, a person's or a sub-agent's.")]


class SessionTree(SessionView):
    """A session with all that works for it."""

    depth: int = Field(description="0 for the session that was asked for.")
    task: TaskView | None = Field(
        description="Null for a person's conversation, and where the board keeps the task no more."
    )
    children: list[SessionTree] = Field(description="Those that work for it directly, oldest first.")


def families(store: Store, clock: Clock) -> APIRouter:
    """`GET /api/sessions/{id}/children` and `/tree`."""
    book = store.tasks
    router = APIRouter(prefix="/api/sessions", tags=["sessions"])

    @router.get("/{session_id}/children")
    async def children(session_id: SessionId) -> list[SessionView]:
        """The sessions of the sub-agents that work, or worked, for this one directly, oldest first; of more than 1,000
        the newest. 404 for an unknown session; an empty list for one without sub-agents."""
        if await store.session(session_id) is None:
            raise _unknown(session_id)
        return [session_view(session) for session in await book.children(session_id)]

    @router.get("/{session_id}/tree")
    async def tree(session_id: SessionId) -> SessionTree:
        """This session with all below it, nested: each has its `children`, oldest first, and its sub-agent's `task`.
        Of more than 1,000 the newest. 404 for an unknown session."""
        found = await book.tree(session_id)
        if not found:
            raise _unknown(session_id)
        return nested(found, await book.tasks_below(session_id), now_ms=clock.now_ms())

    return router


def nested(family: Sequence[Session], tasks: Sequence[SubTask], *, now_ms: int) -> SessionTree:
    """A family as `SubTaskBook.tree` gives it, root first, as one value."""
    by_session = {task.session_id: task_view(task, now_ms=now_ms) for task in tasks}
    nodes: dict[str, SessionTree] = {}
    for session in family:
        above = nodes.get(session.parent_session_id or "")
        nodes[session.id] = _node(session, by_session.get(session.id), depth=above.depth + 1 if above else 0)
        if above is not None:
            above.children.append(nodes[session.id])
    return nodes[family[0].id]


def _node(session: Session, task: TaskView | None, *, depth: int) -> SessionTree:
    return SessionTree(**dict(session_view(session)), depth=depth, task=task, children=[])


def _unknown(session_id: str) -> HTTPException:
    return HTTPException(status.HTTP_404_NOT_FOUND, f"there is no session {session_id[:80]!r}")
