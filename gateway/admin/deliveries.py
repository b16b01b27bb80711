"""What becomes of messages and replies: the queue, traces, deliveries, dead letters."""

from __future__ import annotations

import asyncio
import contextlib

from fastapi import APIRouter, HTTPException
from starlette import status

from gateway.admin.answers import refusals
from gateway.admin.asked import PAGE_DEFAULT, Limit, key_of
from gateway.admin.trace import hops_of, nothing_known
from gateway.admin.views import (
    DeadLetterView,
    DeliveryView,
    HopView,
    QueueMomentView,
    QueueView,
    dead_letter_view,
    delivery_view,
    hop_view,
    queue_moment_view,
    queue_view,
)
from gateway.bus.operator import Operator
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ports import Clock
from gateway.limits import QUEUE_NOTED_EVERY_S
from gateway.store import Store


def deliveries(store: Store, bus: Operator, clock: Clock) -> APIRouter:
    """The routes under `/api` that follow a message on its way. None of them changes anything."""
    router = APIRouter(prefix="/api", tags=["deliveries"])

    @router.get("/queue")
    async def queue() -> QueueView:
        """How much waits, and for how long."""
        return queue_view(await bus.figures(), now_ms=clock.now_ms())

    @router.get("/queue/past")
    async def past() -> list[QueueMomentView]:
        """How much waited in the last ten minutes, oldest first, every five seconds."""
        return [queue_moment_view(noted) for noted in await bus.queue_past()]

    @router.get("/trace/{id:path}", responses=refusals(404))
    async def trace(id: str) -> list[HopView]:
        """Every hop of a message, oldest first, by the reference that its author was told, or by an id: of the message,
        its turn, its reply, or its dead letter; of a session or a session key, those of the newest turns."""
        hops = await hops_of(id, store, bus)
        if not hops:
            raise HTTPException(status.HTTP_404_NOT_FOUND, nothing_known(id))
        return [hop_view(hop) for hop in hops]

    @router.get("/deliveries")
    async def recent(limit: Limit = PAGE_DEFAULT, key: str | None = None) -> list[DeliveryView]:
        """How far the newest replies came, newest first; `key` shows those of one session key."""
        found = await store.outbox.recent(key_of(key) if key else None, limit=limit)
        return [delivery_view(reply) for reply in found]

    @router.get("/dead-letters")
    async def dead(limit: Limit = PAGE_DEFAULT) -> list[DeadLetterView]:
        """What was given up, newest first."""
        return [dead_letter_view(letter) for letter in await bus.dead_letters(limit)]

    return router


def dead_letters(bus: Operator) -> APIRouter:
    """What can be done about what was given up."""
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


async def note_queue(bus: Operator) -> None:
    """Look at the queue again and again for those who ask what it was, until cancelled. What a bus that is away cannot
    tell is missing."""
    while True:
        with contextlib.suppress(BusUnavailable):
            await bus.note_queue(await bus.figures())
        await asyncio.sleep(QUEUE_NOTED_EVERY_S)


def _found(is_found: bool, entry_id: str) -> None:
    if not is_found:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"there is no such dead letter as {entry_id[:80]!r}")
