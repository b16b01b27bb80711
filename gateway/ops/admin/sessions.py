"""The API of conversations, of the sub-agents below them, and of the fate of messages and replies: queue, traces,
dead letters."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Final

import structlog
from fastapi import APIRouter, HTTPException, Path, Query
from pydantic import AfterValidator
from starlette import status

from gateway.bus.deliveries import Deliveries
from gateway.bus.inbound import Inbound
from gateway.bus.operator import Operator
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText, DeliveryRecord, DeliveryState, InboundMessage, Receipt
from gateway.contracts.ports import Clock, PendingReply, Verdict
from gateway.contracts.sessions import Session
from gateway.ops.admin.http import PAGE_DEFAULT, Limit, key_of, refusals
from gateway.ops.admin.trace import hops_of, nothing_known
from gateway.ops.admin.views import (
    Accepted,
    CompactOrder,
    DeadLetterView,
    DeliveryView,
    HopView,
    MessageView,
    QueueMomentView,
    QueueView,
    SessionTree,
    SessionView,
    checked_channel,
    dead_letter_view,
    nested,
    queue_view,
    session_view,
)
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.store.subagents import TaskStore

# The API as a channel of its own: answers to the operator's orders end here, never in a chat.
#
# An order such as "compact this session" is a message on the session's lane, so that it waits its turn like any other.
# Its reply address names the channel `admin`; this module takes such replies from the outbound stream and writes their
# receipt, as every channel does. The effect of the order shows in the session itself.


NAME: Final = "admin"
_AUTHOR: Final = "operator"
_BATCH: Final = 32
_WAIT_S: Final = 5.0
_BUS_PAUSE_S: Final = 1.0

log = structlog.get_logger("trivet.admin")


def compact_order(key: SessionKey, focus: str, *, scrubber: Scrubber, clock: Clock) -> InboundMessage:
    """Write `/compact [focus]` as a message of the operator on the lane of `key`."""
    now_ms = clock.now_ms()
    return InboundMessage(
        id=f"{NAME}:{_AUTHOR}:{key}:{clock.new_id()}",
        key=key,
        address=ReplyAddress(NAME, str(key), "{}"),
        text=scrubber.for_chat(str(key)).scrub(f"/compact {focus}".strip()),
        author_id=_AUTHOR,
        author_name=scrubber.scrub(_AUTHOR),
        is_private=True,
        sent_at_ms=now_ms,
        received_at_ms=now_ms,
    )


async def take_replies(bus: Deliveries, *, consumer: str, clock: Clock) -> None:
    """Log every reply to the operator and write its receipt, until cancelled."""
    while True:
        try:
            for pending in await bus.replies(NAME, consumer, count=_BATCH, wait_s=_WAIT_S):
                log.info("reply to the operator", key=str(pending.reply.key), text=_first_line(pending.reply.text))
                await bus.finish(NAME, pending.entry_id, _receipt(pending, clock))
        except BusUnavailable as error:
            log.warning("the bus is away", error=str(error))
            await asyncio.sleep(_BUS_PAUSE_S)


def _receipt(pending: PendingReply, clock: Clock) -> Receipt:
    record = DeliveryRecord(
        pending.reply.id,
        DeliveryState.SENT,
        attempt=pending.record.attempt + 1,
        next_chunk=1,
        chunks=1,
        updated_at_ms=clock.now_ms(),
    )
    return Receipt(record, pending.reply.key, NAME)


def _first_line(text: CleanText) -> str:
    return text.partition("\n")[0][:200]


NUMBER_MAX: Final = 2**53  # what JSON carries unharmed; every database counts farther

Parent = Annotated[str, Query(min_length=1, max_length=200, description="The session that they work for.")]
Channel = Annotated[
    str, AfterValidator(checked_channel), Query(description="A platform, or a type of sub-agents: `subagent:explore`.")
]


def conversations(store: Store) -> APIRouter:
    """Build the routes that read below /api/sessions."""
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
        """List sessions, newest first, those of sub-agents among them; a session has to meet all the conditions asked
        for."""
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
        """Show one conversation, a person's or a sub-agent's."""
        (view,) = await session_views(store.tasks, [await _wanted(store, session_id)])
        return view

    @router.get("/{session_id}/messages", responses=refusals(404))
    async def messages(
        session_id: str,
        after_seq: Annotated[int, Query(ge=0, le=NUMBER_MAX)] = 0,
        before_seq: Annotated[int | None, Query(ge=1, le=NUMBER_MAX)] = None,
        limit: Limit = PAGE_DEFAULT,
    ) -> list[MessageView]:
        """List all messages ever said in a session, oldest first; ask again with the last `seq` for those that follow.
        With `before_seq` the newest of those before it, oldest first likewise: to read from the end, begin with
        9007199254740992."""
        session = await _wanted(store, session_id)
        entries = await store.transcript.page(session.id, after_seq=after_seq, before_seq=before_seq, limit=limit)
        return list(map(MessageView.model_validate, entries))

    return router


def compacting(store: Store, intake: Inbound, scrubber: Scrubber, clock: Clock) -> APIRouter:
    """Build `POST /api/sessions/{id}/compact`."""
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
    """Convert sessions to the form that the API shows, each with the number of sub-agents that work for it."""
    counts = await book.count_children([session.id for session in found])
    return [session_view(session, children_count=counts.get(session.id, 0)) for session in found]


async def _wanted(store: Store, session_id: str) -> Session:
    session = await store.sessions.by_id(session_id)
    if session is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"there is no session {session_id[:80]!r}")
    return session


# The sessions of sub-agents below a conversation.


SessionId = Annotated[str, Path(description="The id of a session, a person's or a sub-agent's.")]


def families(store: Store, clock: Clock) -> APIRouter:
    """Build `GET /api/sessions/{id}/children` and `/tree`."""
    book = store.tasks
    router = APIRouter(prefix="/api/sessions", tags=["sessions"])

    @router.get("/{session_id}/children", responses=refusals(404))
    async def children(session_id: SessionId) -> list[SessionView]:
        """List the sessions of the sub-agents that work, or worked, for this one directly, oldest first; of more than
        1,000 the newest. 404 for an unknown session; an empty list for one without sub-agents."""
        if await store.sessions.by_id(session_id) is None:
            raise _unknown(session_id)
        return await session_views(book, await book.children(session_id))

    @router.get("/{session_id}/tree", responses=refusals(404))
    async def tree(session_id: SessionId) -> SessionTree:
        """Show this session with all below it, nested: each has its `children`, oldest first, and its sub-agent's
        `task`. Of more than 1,000 the newest. 404 for an unknown session."""
        found = await book.tree(session_id)
        if not found:
            raise _unknown(session_id)
        return nested(found, await book.tasks_below(session_id), now_ms=clock.now_ms())

    return router


def _unknown(session_id: str) -> HTTPException:
    return HTTPException(status.HTTP_404_NOT_FOUND, f"there is no session {session_id[:80]!r}")


# The fate of messages and replies: the queue, traces, deliveries, dead letters.


def deliveries(store: Store, bus: Operator, clock: Clock) -> APIRouter:
    """Build the routes under `/api` that follow a message on its way. None of them changes anything."""
    router = APIRouter(prefix="/api", tags=["deliveries"])

    @router.get("/queue")
    async def queue() -> QueueView:
        """Show how much waits, and for how long."""
        return queue_view(await bus.figures(), now_ms=clock.now_ms())

    @router.get("/queue/past")
    async def past() -> list[QueueMomentView]:
        """Show how much waited in the last ten minutes, oldest first, every five seconds."""
        return list(map(QueueMomentView.model_validate, await bus.queue_past()))

    @router.get("/trace/{id:path}", responses=refusals(404))
    async def trace(id: str) -> list[HopView]:
        """Trace every hop of a message, oldest first, by the reference that its author was told, or by an id: of the
        message, its turn, its reply, or its dead letter; of a session or a session key, those of the newest turns."""
        hops = await hops_of(id, store, bus)
        if not hops:
            raise HTTPException(status.HTTP_404_NOT_FOUND, nothing_known(id))
        return list(map(HopView.model_validate, hops))

    @router.get("/deliveries")
    async def recent(limit: Limit = PAGE_DEFAULT, key: str | None = None) -> list[DeliveryView]:
        """List how far the newest replies came, newest first; `key` shows those of one session key."""
        found = await store.outbox.recent(key_of(key) if key else None, limit=limit)
        return list(map(DeliveryView.model_validate, found))

    @router.get("/dead-letters")
    async def dead(limit: Limit = PAGE_DEFAULT) -> list[DeadLetterView]:
        """List the messages and replies that were given up, newest first."""
        return [dead_letter_view(letter) for letter in await bus.dead_letters(limit)]

    return router


def dead_letters(bus: Operator) -> APIRouter:
    """Build the routes that deal with dead letters."""
    router = APIRouter(prefix="/api/dead-letters", tags=["deliveries"])

    @router.post("/{entry_id}/retry", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def retry(entry_id: str) -> None:
        """Put the message back on its lane; 404 when it is no dead message."""
        _found(await bus.retry_dead(entry_id), entry_id)

    @router.delete("/{entry_id}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def drop(entry_id: str) -> None:
        """Forget it; 404 when there is none."""
        _found(await bus.drop_dead(entry_id), entry_id)

    return router


def _found(is_found: bool, entry_id: str) -> None:
    if not is_found:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"there is no such dead letter as {entry_id[:80]!r}")
