"""The API of conversations, of the sub-agents below them, and of the fate of messages and replies: queue, traces,
dead letters."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Annotated, Final

import structlog
from fastapi import APIRouter, HTTPException, Path, Query
from pydantic import AfterValidator
from starlette import status

from gateway.bus.deliveries import Deliveries
from gateway.bus.inbound import Inbound
from gateway.bus.operator import Operator
from gateway.contracts import messages
from gateway.contracts.budgets import DAY_MS
from gateway.contracts.errors import BusError, BusUnavailable
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.ports import Clock, Verdict
from gateway.contracts.sessions import Session
from gateway.ops.admin import views
from gateway.ops.admin.http import ADMIN, PAGE_DEFAULT, Limit, Number, Offset, found, owner_of, refusals
from gateway.ops.admin.trace import hops_of, nothing_known
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.store.outbox import OPERATOR
from gateway.store.sessions import SessionSearch
from gateway.store.subagents import TaskStore

# The API as a channel of its own: answers to the operator's orders end here, never in a chat.
#
# An order such as "compact this session" is a message on the session's lane, so that it waits its turn like any other.
# Its reply address names the channel `admin`; this module takes such replies from the outbound stream and writes their
# receipt, as every channel does. The effect of the order shows in the session itself.


NAME: Final = OPERATOR
_AUTHOR: Final = "operator"
OPERATOR_WROTE: Final = messages.literal_text("[The operator of this service wrote to the person here:]")
"""The transcript's note of what the operator wrote."""
_BATCH: Final = 32
_WAIT_S: Final = 5.0
_BUS_PAUSE_S: Final = 1.0

log = structlog.get_logger("trivet.admin")


def order_message(
    key: SessionKey, text: str, *, scrubber: Scrubber, clock: Clock, address: ReplyAddress | None = None
) -> messages.InboundMessage:
    """Write a message of the operator on the lane of `key`. Its answer goes to `address`, without one to nobody."""
    now_ms = clock.now_ms()
    return messages.InboundMessage(
        id=f"{NAME}:{_AUTHOR}:{key}:{clock.new_id()}",
        key=key,
        address=address or ReplyAddress(NAME, str(key), "{}"),
        text=scrubber.for_chat(str(key)).scrub(text),
        author_id=_AUTHOR,
        author_name=messages.literal_text(""),  # nobody's name in the chat
        is_private=not key.place,
        sent_at_ms=now_ms,
        received_at_ms=now_ms,
    )


async def take_replies(bus: Deliveries, *, consumer: str, clock: Clock) -> None:
    """Log every reply to the operator and write its receipt, until cancelled."""
    while True:
        try:
            for pending in await bus.replies(NAME, consumer, count=_BATCH, wait_s=_WAIT_S):
                log.info("reply to the operator", key=str(pending.reply.key), text=_first_line(pending.reply.text))
                record = messages.DeliveryRecord(
                    pending.reply.id,
                    messages.DeliveryState.SENT,
                    attempt=pending.record.attempt + 1,
                    next_chunk=1,
                    chunks=1,
                    updated_at_ms=clock.now_ms(),
                )
                await bus.finish(NAME, pending.entry_id, messages.Receipt(record, pending.reply.key, NAME))
        except BusUnavailable as error:
            log.warning("the bus is away", error=str(error))
            await asyncio.sleep(_BUS_PAUSE_S)


def _first_line(text: messages.CleanText) -> str:
    return text.partition("\n")[0][:200]


Parent = Annotated[str, Query(min_length=1, max_length=200, description="The session that they work for.")]
Channel = Annotated[
    str,
    AfterValidator(views.checked_channel),
    Query(description="A platform, or a type of sub-agents: `subagent:explore`."),
]


def conversations(store: Store, bus: Operator) -> APIRouter:
    """Build the routes that read below /api/v1/sessions."""
    router = APIRouter(prefix="/api/v1/sessions", tags=["sessions"])

    @router.get("")
    async def sessions(
        limit: Limit = PAGE_DEFAULT,
        offset: Offset = 0,
        key: Annotated[str | None, Query(description="A session key, such as `telegram:123456789`.")] = None,
        parent_session_id: Parent | None = None,
        channel: Channel | None = None,
        sub_agents: Annotated[bool, Query(description="False: only people's own conversations.")] = True,
        person: Annotated[str | None, Query(description="Whose they are, in any place: `telegram:123456789`.")] = None,
        q: Annotated[str, Query(max_length=200, description="Words in its title, key, person or messages.")] = "",
        since: Annotated[date | None, Query(description="Something happened in it on this UTC day or later.")] = None,
        until: Annotated[date | None, Query(description="Nothing happened in it after this UTC day.")] = None,
        cost_min: Annotated[float | None, Query(ge=0, description="It cost so many US dollars or more.")] = None,
    ) -> list[views.SessionView]:
        """List sessions, newest first, those of sub-agents among them; a session has to meet all the conditions asked
        for. `q` reads every message, which takes a second for each million of them."""
        names = await _names(bus)
        search = SessionSearch(
            q,
            [owner for owner, name in names.items() if q.strip() and q.strip().lower() in name.lower()],
            None if person is None else owner_of(person),
            None if since is None else _begins_ms(since),
            None if until is None else _begins_ms(until) + DAY_MS,
            cost_min,
        )
        chosen = await store.sessions.page(
            key=SessionKey.parse(key) if key else None,
            parent_session_id=parent_session_id,
            channel=channel,
            limit=limit,
            offset=offset,
            with_sub_agents=sub_agents,
            search=search,
        )
        return await session_views(store.tasks, chosen, names)

    @router.get("/{session_id}", responses=refusals(404))
    async def session(session_id: str) -> views.SessionView:
        """Show one conversation, a person's or a sub-agent's."""
        (view,) = await session_views(store.tasks, [await _wanted(store, session_id)], await _names(bus))
        return view

    @router.get("/{session_id}/messages", responses=refusals(404))
    async def messages(
        session_id: str, after_seq: Offset = 0, before_seq: Number | None = None, limit: Limit = PAGE_DEFAULT
    ) -> list[views.MessageView]:
        """List all messages ever said in a session, oldest first; ask again with the last `seq` for those that follow.
        With `before_seq` the newest of those before it, oldest first likewise: to read from the end, begin with
        9007199254740992."""
        session = await _wanted(store, session_id)
        entries = await store.transcript.page(session.id, after_seq=after_seq, before_seq=before_seq, limit=limit)
        return list(map(views.MessageView.of, entries))

    return router


def session_orders(
    store: Store, intake: Inbound, deliveries: Deliveries, scrubber: Scrubber, clock: Clock
) -> APIRouter:
    """Build the routes below /api/v1/sessions that do something. Each is a line of the audit."""
    router = APIRouter(prefix="/api/v1/sessions", tags=["sessions"])
    accepted = status.HTTP_202_ACCEPTED

    async def enqueued(session_id: str, text: str, *, is_told: bool = False) -> views.Accepted:
        """Put an order on the lane of a current session; `is_told`: its answer goes to the chat."""
        session = await _current(store, session_id)
        address = await _chat_of(store, session) if is_told else None
        message = order_message(session.key, text, scrubber=scrubber, clock=clock, address=address)
        admission = await intake.enqueue(message)
        if admission.verdict in {Verdict.LANE_FULL, Verdict.QUEUE_FULL}:
            raise HTTPException(status.HTTP_429_TOO_MANY_REQUESTS, "too many messages wait: try again later")
        await store.audit.note(ADMIN, f"session.{text[1:].split()[0]}", f"session:{session.id}")
        return views.Accepted(message_id=message.id)

    @router.post("/{session_id}/compact", status_code=accepted, responses=refusals(404, 409, 429))
    async def compact(session_id: str, order: views.CompactOrder | None = None) -> views.Accepted:
        """Summarize the conversation so far, as `/compact` in its chat would; the chat hears nothing of it."""
        return await enqueued(session_id, f"/compact {order.focus if order else ''}".strip())

    @router.post("/{session_id}/retry", status_code=accepted, responses=refusals(404, 409, 429))
    async def retry(session_id: str) -> views.Accepted:
        """Answer the last message once more, as `/retry` in its chat would: the new answer goes to the chat, and takes
        the place of the old one in what the model sees."""
        return await enqueued(session_id, "/retry", is_told=True)

    @router.post("/{session_id}/stop", status_code=accepted, responses=refusals(404, 409, 429))
    async def stop(session_id: str) -> views.Accepted:
        """End the running turn and its sub-agents, and drop what waits in the lane, as `/stop` in its chat would; the
        chat hears nothing of it."""
        session = await _current(store, session_id)
        message = order_message(session.key, "/stop", scrubber=scrubber, clock=clock)
        admission = await intake.request_control(messages.ControlRequest(messages.ControlKind.STOP, message))
        if admission.verdict is not Verdict.ACCEPTED:
            raise HTTPException(status.HTTP_429_TOO_MANY_REQUESTS, "too many orders wait: try again later")
        await store.audit.note(ADMIN, "session.stop", f"session:{session.id}")
        return views.Accepted(message_id=message.id)

    @router.post("/{session_id}/say", status_code=accepted, responses=refusals(404, 409))
    async def say(session_id: str, order: views.SayOrder) -> views.Interjected:
        """Write to the chat as the operator. It arrives as a message of the bot, after what is on its way; the model
        is told of it with the next turn."""
        session = await _current(store, session_id)
        text = scrubber.for_chat(str(session.key)).scrub(order.text.strip())
        reply = messages.Reply(
            id=f"{NAME}:{clock.new_id()}",
            turn_id="",
            key=session.key,
            address=await _chat_of(store, session),
            text=text,
            kind=messages.ReplyKind.NOTICE,
            created_at_ms=clock.now_ms(),
            language=session.language,
        )
        await store.turns.put_operator_message(session.id, reply, note=messages.joined(OPERATOR_WROTE, text, by="\n\n"))
        await store.audit.note(ADMIN, "session.say", f"session:{session.id}", {"reply": reply.id})
        with contextlib.suppress(BusError):  # what is committed is published by the relay
            await deliveries.publish([reply])
        return views.Interjected(reply_id=reply.id)

    return router


async def _current(store: Store, session_id: str) -> Session:
    """Return a session to which the next message of its key belongs. Raises 404, and 409 for any other."""
    session = await _wanted(store, session_id)
    if not session.is_current:
        raise HTTPException(status.HTTP_409_CONFLICT, "only the current session of a key takes orders")
    return session


async def _chat_of(store: Store, session: Session) -> ReplyAddress:
    address = await store.outbox.last_address(session.key)
    if address is None:
        raise HTTPException(status.HTTP_409_CONFLICT, "nothing was ever answered there, so it is not known where to")
    return address


async def _names(bus: Operator) -> Mapping[SessionKey, str]:
    """Return what people call themselves; nothing while the bus is away: conversations are in SQL."""
    try:
        return await bus.names()
    except BusError:
        return {}


def _begins_ms(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)


async def session_views(
    book: TaskStore, chosen: Sequence[Session], names: Mapping[SessionKey, str]
) -> list[views.SessionView]:
    """Convert sessions to the form that the API shows, each with the number of sub-agents that work for it."""
    counts = await book.count_children([session.id for session in chosen])
    return [
        views.session_view(session, children_count=counts.get(session.id, 0), name=names.get(session.key.owner, ""))
        for session in chosen
    ]


async def _wanted(store: Store, session_id: str) -> Session:
    return found(await store.sessions.by_id(session_id), _unknown(session_id))


# The sessions of sub-agents below a conversation.


SessionId = Annotated[str, Path(description="The id of a session, a person's or a sub-agent's.")]


def families(store: Store, clock: Clock) -> APIRouter:
    """Build `GET /api/v1/sessions/{id}/children` and `/tree`."""
    book = store.tasks
    router = APIRouter(prefix="/api/v1/sessions", tags=["sessions"])

    @router.get("/{session_id}/children", responses=refusals(404))
    async def children(session_id: SessionId) -> list[views.SessionView]:
        """List the sessions of the sub-agents that work, or worked, for this one directly, oldest first; of more than
        1,000 the newest. 404 for an unknown session; an empty list for one without sub-agents."""
        session = await _wanted(store, session_id)
        return await session_views(book, await book.children(session.id), {})

    @router.get("/{session_id}/tree", responses=refusals(404))
    async def tree(session_id: SessionId) -> views.SessionTree:
        """Show this session with all below it, nested: each has its `children`, oldest first, and its sub-agent's
        `task`. Of more than 1,000 the newest. 404 for an unknown session."""
        family = found(await book.tree(session_id), _unknown(session_id))
        return views.nested(family, await book.tasks_below(session_id), now_ms=clock.now_ms())

    return router


def _unknown(session_id: str) -> str:
    return f"there is no session {session_id[:80]!r}"


# The fate of messages and replies: the queue, traces, deliveries, dead letters.


def deliveries(store: Store, bus: Operator, clock: Clock) -> APIRouter:
    """Build the routes under `/api` that follow a message on its way. None of them changes anything."""
    router = APIRouter(prefix="/api/v1", tags=["deliveries"])

    @router.get("/queue")
    async def queue() -> views.QueueView:
        """Show how much waits, and for how long."""
        return views.QueueView.of(await bus.figures(), at=views.moment(clock.now_ms()))

    @router.get("/queue/past")
    async def past() -> list[views.QueueMomentView]:
        """Show how much waited in the last ten minutes, oldest first, every five seconds."""
        return list(map(views.QueueMomentView.of, await bus.queue_past()))

    @router.get("/trace/{id:path}", responses=refusals(404))
    async def trace(id: str) -> list[views.HopView]:
        """Trace every hop of a message, oldest first, by the reference that its author was told, or by an id: of the
        message, its turn, its reply, or its dead letter; of a session or a session key, those of the newest turns."""
        return list(map(views.HopView.of, found(await hops_of(id, store, bus), nothing_known(id))))

    @router.get("/deliveries")
    async def recent(limit: Limit = PAGE_DEFAULT, key: str | None = None) -> list[views.DeliveryView]:
        """List how far the newest replies came, newest first; `key` shows those of one session key."""
        newest = await store.outbox.recent(SessionKey.parse(key) if key else None, limit=limit)
        return list(map(views.DeliveryView.of, newest))

    @router.get("/dead-letters")
    async def dead(limit: Limit = PAGE_DEFAULT) -> list[views.DeadLetterView]:
        """List the messages and replies that were given up, newest first."""
        return [views.dead_letter_view(letter) for letter in await bus.dead_letters(limit)]

    return router


def dead_letters(store: Store, bus: Operator) -> APIRouter:
    """Build the routes that deal with dead letters."""
    router = APIRouter(prefix="/api/v1/dead-letters", tags=["deliveries"])

    @router.post("/{entry_id}/retry", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def retry(entry_id: str) -> None:
        """Put the message back on its lane; 404 when it is no dead message."""
        found(await bus.retry_dead(entry_id), _no_letter(entry_id))
        await store.audit.note(ADMIN, "dead-letter.retry", f"dead-letter:{entry_id}")

    @router.delete("/{entry_id}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def drop(entry_id: str) -> None:
        """Forget it; 404 when there is none."""
        found(await bus.drop_dead(entry_id), _no_letter(entry_id))
        await store.audit.note(ADMIN, "dead-letter.drop", f"dead-letter:{entry_id}")

    return router


def _no_letter(entry_id: str) -> str:
    return f"there is no such dead letter as {entry_id[:80]!r}"
