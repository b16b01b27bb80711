"""The API of what the agent keeps for people: their schedules, and what it remembers of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, Field
from starlette import status

from gateway.bus.operator import Operator
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import Schedule
from gateway.ops.admin.http import ADMIN, PAGE_DEFAULT, Limit, owner_of, refusals
from gateway.ops.admin.views import ApiView, KeyText, Moment, moment
from gateway.store import Store

Number = Annotated[int, Query(ge=1, le=2**53)]


class ScheduleView(BaseModel):
    """A reminder or a task that is still to come."""

    number: int = Field(description="What its owner calls it.")
    owner: str
    name: str = Field(description="What the owner calls himself; empty where it is not known.")
    key: str = Field(description="The lane it goes to.")
    kind: str = Field(description="`reminder`, `task` or `heartbeat`.")
    text: str
    recurrence: str = Field(description="Empty: it happens once.")
    zone: str = Field(description="The time zone whose clock the rule reads.")
    next_due: datetime
    created_at: datetime


class FactView(ApiView):
    """Something that is remembered of a person."""

    number: int = Field(description="What its owner calls it.")
    key: KeyText = Field(description="The account it was learned of.")
    text: str
    place: str = Field(description="Where it was learned; empty for a direct message.")
    origin: str = Field(description="Whether the person said so, or it was concluded.")
    is_shared: bool = Field(description="Its owner lets it be read outside of its place.")
    created_at: Moment = Field(validation_alias="created_at_ms")


def belongings_routes(store: Store, bus: Operator) -> APIRouter:
    """Build the routes below /api/schedules and /api/memory. Each change is a line of the audit."""
    router = APIRouter(prefix="/api", tags=["users"])

    @router.get("/schedules")
    async def schedules(key: str | None = None, limit: Limit = PAGE_DEFAULT) -> list[ScheduleView]:
        """List what is still to come, what is due first in front; `key` selects one person's."""
        found = await store.schedules.coming(owner_of(key) if key else None, limit=limit)
        names = await bus.names()
        return [_schedule_view(each, names) for each in found]

    @router.delete("/schedules/{key:path}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def cancel(key: str, number: Number) -> None:
        """End a schedule for good; 404 when its owner has no active one of that number."""
        owner = owner_of(key)
        if await store.schedules.cancel(owner, number) is None:
            raise HTTPException(status.HTTP_404_NOT_FOUND, f"{str(owner)[:80]!r} has no schedule {number}")
        await store.audit.note(ADMIN, "schedule.cancel", f"user:{owner}", {"number": number})

    @router.get("/memory")
    async def memory(key: str, q: str = "", limit: Limit = PAGE_DEFAULT) -> list[FactView]:
        """List what is remembered of a person, wherever it was learned: what has to do with `q`, or the newest."""
        found = await store.memories.recall(owner_of(key), q, limit=limit)
        return list(map(FactView.model_validate, found))

    @router.delete("/memory/{key:path}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def forget(key: str, number: Number) -> None:
        """Forget a fact; 404 when nothing of that number is remembered of the person."""
        owner = owner_of(key)
        if not await store.memories.forget(owner, [number]):
            raise HTTPException(status.HTTP_404_NOT_FOUND, f"nothing is remembered as {number}")
        await store.audit.note(ADMIN, "memory.forget", f"user:{owner}", {"number": number})

    return router


def _schedule_view(schedule: Schedule, names: Mapping[SessionKey, str]) -> ScheduleView:
    return ScheduleView(
        number=schedule.number,
        owner=str(schedule.owner),
        name=names.get(schedule.owner, ""),
        key=str(schedule.key),
        kind=schedule.kind.value,
        text=schedule.text,
        recurrence=schedule.recurrence,
        zone=schedule.zone,
        next_due=moment(schedule.next_due_ms),
        created_at=moment(schedule.created_at_ms),
    )
