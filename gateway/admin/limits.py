"""What limits a day, and how fast people may write: shown and changed, beside what the configuration says."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, ConfigDict, Field
from starlette import status

from gateway.admin.answers import refusals
from gateway.admin.asked import ADMIN, read
from gateway.config.limits import Count, PerMinute, Usd
from gateway.contracts.errors import Declined
from gateway.contracts.limit_rules import Limited, LimitRule, limited_named
from gateway.contracts.spending import NANO_PER_USD, nano_of
from gateway.doorkeeper import Doorkeeper


class LimitsOrder(BaseModel):
    """What shall hold for one person, or each person of a role. What is left out, or null, is as the configuration
    says; 0 lifts a limit."""

    model_config = ConfigDict(extra="forbid")

    tokens: Count | None = Field(default=None, description="Tokens per UTC day.")
    usd: Usd | None = Field(default=None, description="US dollars per UTC day.")
    turns: Count | None = Field(default=None, description="Turns that ask a model per UTC day.")
    messages_per_minute: PerMinute | None = Field(default=None, description="How fast one may write.")


class LimitsView(BaseModel):
    """What was decided about one person or one role; null where nothing was, 0 where there is no limit."""

    whom: str = Field(description="A person, such as `telegram:123456789`, or `guest`, `member`, `admin`.")
    tokens: int | None
    usd: float | None
    turns: int | None
    messages_per_minute: int | None


def limit_routes(keeper: Doorkeeper) -> APIRouter:
    """The routes below /api/limits."""
    router = APIRouter(prefix="/api/limits", tags=["access"])

    @router.get("")
    async def limits() -> list[LimitsView]:
        """What is different from the configuration."""
        return [_view(whom, rule) for whom, rule in (await keeper.limits()).items()]

    @router.put("/{whom:path}", responses=refusals(409))
    async def put(whom: str, order: LimitsOrder) -> LimitsView:
        """Replace what was decided about a person or a role: it counts for his next message and the next call of a
        model, in every process."""
        limited, nano_usd = read(whom, limited_named), None if order.usd is None else nano_of(order.usd)
        rule = LimitRule(order.tokens, nano_usd, order.turns, order.messages_per_minute)
        try:
            await keeper.change_limits(limited, lambda _: rule, actor=ADMIN)
        except Declined as error:
            raise HTTPException(status.HTTP_409_CONFLICT, str(error)) from error
        return _view(limited, rule)

    @router.delete("/{whom:path}", status_code=status.HTTP_204_NO_CONTENT, responses=refusals(404))
    async def reset(whom: str) -> None:
        """What the configuration says holds; 404 if nothing was decided."""
        if not await keeper.change_limits(read(whom, limited_named), lambda _: LimitRule(), actor=ADMIN):
            raise HTTPException(status.HTTP_404_NOT_FOUND, f"nothing was decided about the limits of {whom[:80]!r}")

    return router


def _view(whom: Limited, rule: LimitRule) -> LimitsView:
    return LimitsView(
        whom=str(whom),
        tokens=rule.tokens,
        usd=None if rule.nano_usd is None else rule.nano_usd / NANO_PER_USD,
        turns=rule.turns,
        messages_per_minute=rule.per_minute,
    )
