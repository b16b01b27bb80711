"""A session with all that works for it, as the API and the command line show it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from gateway.admin.task_views import TaskView, task_views
from gateway.admin.views import SessionView, session_view
from gateway.contracts.entries import Session
from gateway.contracts.subagents import SubTask


class SessionTree(SessionView):
    """A session with all that works for it."""

    depth: int = Field(description="0 for the session that was asked for.")
    task: TaskView | None = Field(
        description="Null for a person's conversation, and where the board keeps the task no more."
    )
    children: list[SessionTree] = Field(description="Those that work for it directly, oldest first.")


def nested(family: Sequence[Session], tasks: Sequence[SubTask], *, now_ms: int) -> SessionTree:
    """A family as `TaskStore.tree` gives it, root first, as one value."""
    by_session = {view.session_id: view for view in task_views(tasks, beside=tasks, now_ms=now_ms)}
    nodes: dict[str, SessionTree] = {}
    for session in family:
        above = nodes.get(session.parent_session_id or "")
        nodes[session.id] = _node(session, by_session.get(session.id), depth=above.depth + 1 if above else 0)
        if above is not None:
            above.children.append(nodes[session.id])
            above.children_count += 1
    return nodes[family[0].id]


def _node(session: Session, task: TaskView | None, *, depth: int) -> SessionTree:
    return SessionTree(**dict(session_view(session, children_count=0)), depth=depth, task=task, children=[])
