"""Conversations: their list, one of them, what was said in it; and the order to compact one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query
from pydantic import AfterValidator
from starlette import status

from gateway.admin.answers import refusals
from gateway.admin.asked import PAGE_DEFAULT, Limit, key_of
from gateway.admin.operator_channel import compact_order
from gateway.admin.views import (
    Accepted,
    CompactOrder,
    MessageView,
    SessionView,
    checked_channel,
    message_view,
    session_view,
)
from gateway.bus.inbound import Inbound
from gateway.contracts.entries import Session
from gateway.contracts.ports import Clock, Scrubber, Verdict
from gateway.store import Store
from gateway.store.subagents import TaskStore

NUMBER_MAX: Final = 2**53  # what JSON carries unharmed; every database counts farther

Parent = Annotated[str, Query(min_length=1, max_length=200, description="The session that they work for.")]
Channel = Annotated[
    str, AfterValidator(checked_channel), Query(description="A platform, or a type of sub-agents: `subagent:explore`.")
]


def conversations(store: Store) -> APIRouter:
    """What is read below /api/sessions."""
    router = APIRouter(prefix="/api/sessions", tags=["sessions"])

    @router.get("")
    async def sessions(
        limit: Limit = PAGE_DEFAULT,
        offset: Annotated[int, Query(ge=0, le=NUMBER_MAX)] = 0,
        key: Annotated[str | None, Query(description="A session key, such as `telegram:123456789`.")] = None,
        parent_session_id: Parent | None = None,
        channel: Channel | None = None,
        sub_agents: Annotated[bool, Query(description="False: only people's own conversations.")] = True,
    ) -> list[SessionView]:
        """Newest first, those of sub-agents among them; all that is asked for has to be true of each."""
        found = await store.sessions.page(
            key=key_of(key) if key else None,
            parent_session_id=parent_session_id,
            channel=channel,
            limit=limit,
            offset=offset,
            with_sub_agents=sub_agents,
        )
        return await session_views(store.tasks, found)

    @router.get("/{session_id}", responses=refusals(404))
    async def session(session_id: str) -> SessionView:
        """One conversation, a person's or a sub-agent's."""
        (view,) = await session_views(store.tasks, [await _wanted(store, session_id)])
        return view

    @router.get("/{session_id}/messages", responses=refusals(404))
    async def messages(
        session_id: str,
        after_seq: Annotated[int, Query(ge=0, le=NUMBER_MAX)] = 0,
        before_seq: Annotated[int | None, Query(ge=1, le=NUMBER_MAX)] = None,
        limit: Limit = PAGE_DEFAULT,
    ) -> list[MessageView]:
        """Everything ever said in it, oldest first; ask again with the last `seq` for what follows. With `before_seq`
        the newest of those before it, oldest first likewise: to read from the end, begin with 9007199254740992."""
        session = await _wanted(store, session_id)
        entries = await store.transcript.page(session.id, after_seq=after_seq, before_seq=before_seq, limit=limit)
        return [message_view(entry) for entry in entries]

    return router


def compacting(store: Store, intake: Inbound, scrubber: Scrubber, clock: Clock) -> APIRouter:
    """`POST /api/sessions/{id}/compact`."""
    router = APIRouter(prefix="/api/sessions", tags=["sessions"])

    @router.post("/{session_id}/compact", status_code=status.HTTP_202_ACCEPTED, responses=refusals(404, 409, 429))
    async def compact(session_id: str, order: CompactOrder | None = None) -> Accepted:
        """Summarize the conversation so far, as `/compact` in its chat would; the chat hears nothing of it."""
        session = await _wanted(store, session_id)
        if not session.is_current:
            raise HTTPException(status.HTTP_409_CONFLICT, "only the current session of a key can be compacted")
        message = compact_order(session.key, order.focus if order else "", scrubber=scrubber, clock=clock)
        admission = await intake.enqueue(message)
        if admission.verdict in {Verdict.LANE_FULL, Verdict.QUEUE_FULL}:
            raise HTTPException(status.HTTP_429_TOO_MANY_REQUESTS, "too many messages wait: try again later")
        return Accepted(message_id=message.id)

    return router


async def session_views(book: TaskStore, found: Sequence[Session]) -> list[SessionView]:
    """Sessions as the API shows them, each with how many sub-agents work for it."""
    counts = await book.count_children([session.id for session in found])
    return [session_view(session, children_count=counts.get(session.id, 0)) for session in found]


async def _wanted(store: Store, session_id: str) -> Session:
    session = await store.sessions.by_id(session_id)
    if session is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"there is no session {session_id[:80]!r}")
    return session
