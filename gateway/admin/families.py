"""Who works for a conversation: the sessions of sub-agents below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, HTTPException, Path
from pydantic import BaseModel, Field
from starlette import status

from gateway.admin.views import SessionView, session_view
from gateway.contracts.entries import Session
from gateway.contracts.ports import Store
from gateway.contracts.subagents import SubTask

SessionId = Annotated[str, Path(description="The id of a session, a person's or a sub-agent's.")]


class TaskSummary(BaseModel):
    """How a sub-agent stands."""

    id: str
    type: str
    label: str
    state: str = Field(description="`queued`, `running`, `completed`, `failed`, `cancelled` or `timed_out`.")
    reason: str = Field(description="Why it did not complete, such as `worker_lost`; else empty.")
    mode: str = Field(description="`inline` or `background`.")
    duration_ms: int = Field(description="From its start to its end; 0 until it has both.")
    tokens: int = Field(description="Of its own model calls and of those of the sub-agents below it.")
    cost: float = Field(description="US dollars, likewise.")


class SessionTree(SessionView):
    """A session with all that works for it."""

    depth: int = Field(description="0 for the session that was asked for.")
    task: TaskSummary | None = Field(
        description="Null for a person's conversation, and where the board keeps the task no more."
    )
    children: list[SessionTree] = Field(description="Those that work for it directly, oldest first.")


def families(store: Store) -> APIRouter:
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
        return nested(found, await book.tasks_below(session_id))

    return router


def nested(family: Sequence[Session], tasks: Sequence[SubTask]) -> SessionTree:
    """A family as `SubTaskBook.tree` gives it, root first, as one value."""
    by_session: Mapping[str, SubTask] = {task.session_id: task for task in tasks}
    nodes: dict[str, SessionTree] = {}
    for session in family:
        above = nodes.get(session.parent_session_id or "")
        nodes[session.id] = _node(session, by_session.get(session.id), depth=above.depth + 1 if above else 0)
        if above is not None:
            above.children.append(nodes[session.id])
    return nodes[family[0].id]


def _node(session: Session, task: SubTask | None, *, depth: int) -> SessionTree:
    told = _summary(task) if task is not None else None
    return SessionTree(**session_view(session).model_dump(), depth=depth, task=told, children=[])


def _summary(task: SubTask) -> TaskSummary:
    return TaskSummary(
        id=task.id,
        type=task.sub_type,
        label=task.label,
        state=task.state.value,
        reason=task.reason,
        mode=task.mode.value,
        duration_ms=task.duration_ms,
        tokens=task.tokens,
        cost=task.cost_usd,
    )


def _unknown(session_id: str) -> HTTPException:
    return HTTPException(status.HTTP_404_NOT_FOUND, f"there is no session {session_id[:80]!r}")
