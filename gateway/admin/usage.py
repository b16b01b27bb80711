"""What was spent: per user and day, newest first."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from gateway.admin.asked import owner_of
from gateway.contracts.ports import Clock
from gateway.contracts.spending import DailyUsage, Period, day_begins_ms, day_of
from gateway.store.usage import UsageStore

_DAYS_MAX: Final = 366
_DAYS_DEFAULT: Final = 30
_PAGE_MAX: Final = 500
_PAGE_DEFAULT: Final = 100


class UsageView(BaseModel):
    """What the model calls of one user cost on one UTC day, whatever they were for."""

    key: str = Field(description="The user, such as `telegram:123456789`, or a shared place.")
    day: date
    calls: int
    turns: int = Field(description="Turns that called a model.")
    prompt_tokens: int = Field(description="Tokens in, cached ones included.")
    completion_tokens: int
    cached_tokens: int = Field(description="Tokens in that came from the provider's prompt cache.")
    cost: float = Field(description="US dollars.")


def usage_routes(book: UsageStore, clock: Clock) -> APIRouter:
    """`GET /api/usage`."""
    router = APIRouter(prefix="/api/usage", tags=["usage"])

    @router.get("")
    async def usage(
        key: str | None = None,
        days: Annotated[int, Query(ge=1, le=_DAYS_MAX)] = _DAYS_DEFAULT,
        limit: Annotated[int, Query(ge=1, le=_PAGE_MAX)] = _PAGE_DEFAULT,
        offset: Annotated[int, Query(ge=0)] = 0,
    ) -> list[UsageView]:
        """Per user and UTC day, of the last `days` days with today; `key` shows those of one user."""
        today = day_of(clock.now_ms())
        span = Period(day_begins_ms(today + 1 - days), day_begins_ms(today + 1))
        owner = owner_of(key) if key else None
        return [_view(each) for each in await book.by_day(owner, span, limit=limit, offset=offset)]

    return router


def _view(daily: DailyUsage) -> UsageView:
    return UsageView(
        key=str(daily.owner),
        day=datetime.fromtimestamp(day_begins_ms(daily.day) / 1000, UTC).date(),
        calls=daily.sum.calls,
        turns=daily.sum.turns,
        prompt_tokens=daily.sum.prompt_tokens,
        completion_tokens=daily.sum.completion_tokens,
        cached_tokens=daily.sum.cached_tokens,
        cost=daily.sum.cost_usd,
    )
