"""Sums over the usage ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, and_, bindparam, distinct, func, select

from gateway.contracts.entries import UsagePurpose
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports.usage import Span
from gateway.contracts.spending import DAY_MS, DailyUsage, UsageSum
from gateway.store.ends import is_of_person
from gateway.store.engine import Database
from gateway.store.tables import usage

_SERVED: Final = and_(usage.c.purpose == UsagePurpose.TURN.value, usage.c.turn_id != "")
_TOKENS: Final = func.sum(usage.c.prompt_tokens + usage.c.completion_tokens)
_MONEY: Final = func.sum(usage.c.cost_usd)
_DAY: Final = (usage.c.created_at_ms // DAY_MS).label("day")


def _sums(*by: Any) -> Select[Any]:
    """The sums within a span, one row for each value of `by`."""
    within = and_(usage.c.created_at_ms >= bindparam("from_ms"), usage.c.created_at_ms < bindparam("to_ms"))
    return (
        select(
            *by,
            func.count().label("calls"),
            func.count(distinct(usage.c.turn_id)).filter(_SERVED).label("turns"),
            func.sum(usage.c.prompt_tokens).label("prompt_tokens"),
            func.sum(usage.c.completion_tokens).label("completion_tokens"),
            func.sum(usage.c.cached_tokens).label("cached_tokens"),
            _MONEY.label("cost_usd"),
        )
        .where(within)
        .group_by(*by)
    )


_OF_OWNER: Final = is_of_person(usage.c.owner)
_BY_PURPOSE: Final = _sums(usage.c.purpose)
_BY_MODEL: Final = _sums(usage.c.purpose, usage.c.model)
_BY_DAY: Final = (
    _sums(usage.c.owner, _DAY)
    .order_by(_DAY.desc(), _MONEY.desc(), _TOKENS.desc(), usage.c.owner)
    .limit(bindparam("page_limit"))
    .offset(bindparam("page_offset"))
)
_TOP: Final = _sums(usage.c.owner).order_by(_MONEY.desc(), _TOKENS.desc(), usage.c.owner).limit(bindparam("page_limit"))
_BY_PURPOSE_OF_OWNER: Final = _BY_PURPOSE.where(_OF_OWNER)
_BY_DAY_OF_OWNER: Final = _BY_DAY.where(_OF_OWNER)


class SqlUsage:
    """`gateway.contracts.ports.usage.UsageBook` on SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def by_purpose(self, owner: SessionKey | None, span: Span) -> Mapping[UsagePurpose, UsageSum]:
        """Of one person, or (None) of all."""
        statement = _BY_PURPOSE if owner is None else _BY_PURPOSE_OF_OWNER
        rows = await self._rows(statement, _parameters(span, owner))
        return {UsagePurpose(row.purpose): _sum(row) for row in rows}

    async def by_model(self, span: Span) -> Mapping[tuple[UsagePurpose, str], UsageSum]:
        """Of all, by purpose and model."""
        rows = await self._rows(_BY_MODEL, _parameters(span))
        return {(UsagePurpose(row.purpose), row.model): _sum(row) for row in rows}

    async def by_day(self, owner: SessionKey | None, span: Span, *, limit: int, offset: int) -> Sequence[DailyUsage]:
        """Newest day first, on each day the greatest spender first."""
        statement = _BY_DAY if owner is None else _BY_DAY_OF_OWNER
        page = {"page_limit": limit, "page_offset": offset}
        rows = await self._rows(statement, _parameters(span, owner) | page)
        return [DailyUsage(SessionKey.parse(row.owner), int(row.day), _sum(row)) for row in rows]

    async def top(self, span: Span, *, limit: int) -> Sequence[tuple[SessionKey, UsageSum]]:
        """Those who spent most."""
        rows = await self._rows(_TOP, _parameters(span) | {"page_limit": limit})
        return [(SessionKey.parse(row.owner), _sum(row)) for row in rows]

    async def _rows(self, statement: Select[Any], parameters: Mapping[str, Any]) -> Sequence[Row[Any]]:
        return await self._database.read(partial(_fetched, statement=statement, parameters=parameters))


def _fetched(connection: Connection, statement: Select[Any], parameters: Mapping[str, Any]) -> Sequence[Row[Any]]:
    return connection.execute(statement, dict(parameters)).all()


def _parameters(span: Span, owner: SessionKey | None = None) -> dict[str, Any]:
    within: dict[str, Any] = {"from_ms": span.from_ms, "to_ms": span.to_ms}
    return within if owner is None else within | {"end_": str(owner)}


def _sum(row: Row[Any]) -> UsageSum:
    return UsageSum(
        calls=int(row.calls),
        turns=int(row.turns),
        prompt_tokens=int(row.prompt_tokens),
        completion_tokens=int(row.completion_tokens),
        cached_tokens=int(row.cached_tokens),
        cost_usd=float(row.cost_usd),
    )
