"""The cost of model calls: sums over the usage ledger, and a day against its caps, reserved before each call and
settled after it.

Each account (an owner, or the pot of all) has one row per day, and that row is the lock: its holder sees every
reservation that was made before, and nobody makes another meanwhile. So two processes never both take the last of a
cap. A person with several accounts, now or earlier today, has all their rows in the lock and in the sums. What is
reserved is a sum over living reservations: one whose worker died counts no more once it has expired, and nobody has to
give it back.

    reserve   owners' rows ─▶ pot's row ─▶ sums ─▶ the reservation          rows are always locked in this order
    settle    owner's row ─▶ the reservation goes ─▶ owner's sums ─▶ pot's sums
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import sqlalchemy as sa

from gateway.contracts.budgets import (
    DAY_MS,
    NANO_PER_USD,
    Amounts,
    BudgetRefusal,
    Caps,
    DailyUsage,
    Measure,
    Period,
    Reservation,
    UsageSum,
    day_begins_ms,
)
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import UsagePurpose
from gateway.store.accounts import is_of_person, paying_with
from gateway.store.engine import (
    Aggregate,
    Connection,
    InsertInto,
    per_dialect,
    read,
    row_of,
    upsert,
    write,
    write_unsynced,
)
from gateway.store.tables import counted_turns, reservations, spending, usage

_SERVED: Final = sa.and_(usage.c.purpose == UsagePurpose.TURN.value, usage.c.turn_id != "")
_TOKENS: Final = sa.func.sum(usage.c.prompt_tokens + usage.c.completion_tokens)
_MONEY: Final = sa.func.sum(usage.c.cost_usd)
_HOUR_MS: Final = 3_600_000
_HOUR: Final = (usage.c.created_at_ms // _HOUR_MS).label("hour")
_DAY: Final = (usage.c.created_at_ms // DAY_MS).label("day")


def _sums(*by: Any) -> sa.Select[Any]:
    """Return the sums within a span, one row for each value of `by`."""
    within = sa.and_(usage.c.created_at_ms >= sa.bindparam("from_ms"), usage.c.created_at_ms < sa.bindparam("to_ms"))
    return (
        sa.select(
            *by,
            sa.func.count().label("calls"),
            sa.func.count(sa.distinct(usage.c.turn_id)).filter(_SERVED).label("turns"),
            sa.func.sum(usage.c.prompt_tokens).label("prompt_tokens"),
            sa.func.sum(usage.c.completion_tokens).label("completion_tokens"),
            sa.func.sum(usage.c.cached_tokens).label("cached_tokens"),
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
    .limit(sa.bindparam("page_limit"))
    .offset(sa.bindparam("page_offset"))
)
_OF_SOME: Final = _sums(usage.c.owner).where(usage.c.owner.in_(sa.bindparam("owners")))
_BY_HOUR: Final = _sums(_HOUR).order_by(_HOUR)
_TOP: Final = (
    _sums(usage.c.owner).order_by(_MONEY.desc(), _TOKENS.desc(), usage.c.owner).limit(sa.bindparam("page_limit"))
)
_BY_PURPOSE_OF_OWNER: Final = _BY_PURPOSE.where(_OF_OWNER)
_BY_DAY_OF_OWNER: Final = _BY_DAY.where(_OF_OWNER)


def _parameters(span: Period, owner: SessionKey | None = None) -> dict[str, Any]:
    within: dict[str, Any] = {"from_ms": span.from_ms, "to_ms": span.to_ms}
    return within if owner is None else within | {"account_": str(owner)}


def _sum(row: sa.Row[Any]) -> UsageSum:
    return UsageSum(
        calls=int(row.calls),
        turns=int(row.turns),
        prompt_tokens=int(row.prompt_tokens),
        completion_tokens=int(row.completion_tokens),
        cached_tokens=int(row.cached_tokens),
        cost_usd=float(row.cost_usd),
    )


POT: Final = ""
"""The account of all together."""


def _account(owner: SessionKey | None) -> str:
    return POT if owner is None else str(owner)


# --- one account's day
_OF_DAY: Final = (
    sa.select(spending)
    .where(spending.c.owner.in_(sa.bindparam("owners")), spending.c.day == sa.bindparam("d"))
    .order_by(spending.c.owner)
)
_LOCK: Final = _OF_DAY.with_for_update()  # SQLite knows no such thing and needs none: its writers take turns
_ADD: Final = (
    sa.update(spending)
    .where(spending.c.owner.in_(sa.bindparam("owners")), spending.c.day == sa.bindparam("d"))
    .values(
        tokens=spending.c.tokens + sa.bindparam("more_tokens"),
        nano_usd=spending.c.nano_usd + sa.bindparam("more_nano_usd"),
        turns=spending.c.turns + sa.bindparam("more_turns"),
    )
)
_FORGET_DAYS: Final = sa.delete(spending).where(
    spending.c.owner == sa.bindparam("a"), spending.c.day < sa.bindparam("d")
)
_FORGET_RESERVATIONS: Final = sa.delete(reservations).where(
    reservations.c.owner == sa.bindparam("a"), reservations.c.day < sa.bindparam("d")
)
_FORGET_TURNS: Final = sa.delete(counted_turns).where(
    counted_turns.c.owner == sa.bindparam("a"), counted_turns.c.day < sa.bindparam("d")
)


@per_dialect
def _begin_day(insert: InsertInto) -> sa.Executable:
    """Begin a day: a new row knows what the usage table knows of the day: caps may come into force in the middle of
    it."""
    account: sa.BindParameter[str] = sa.bindparam("a", type_=sa.String)
    day: sa.BindParameter[int] = sa.bindparam("d", type_=sa.Integer)
    known = sa.select(
        sa.cast(account, sa.String),
        sa.cast(day, spending.c.day.type),
        sa.func.coalesce(sa.func.sum(usage.c.prompt_tokens + usage.c.completion_tokens), 0),
        sa.cast(
            sa.func.round(sa.func.coalesce(sa.func.sum(usage.c.cost_usd), 0.0) * NANO_PER_USD), spending.c.nano_usd.type
        ),
        sa.func.count(sa.distinct(usage.c.turn_id)).filter(_SERVED),
        sa.literal(""),
    ).where(
        sa.or_(account == POT, usage.c.owner == account),
        usage.c.created_at_ms >= sa.bindparam("begins_ms"),
        usage.c.created_at_ms < sa.bindparam("ends_ms"),
    )
    statement = insert(spending).from_select([column.name for column in spending.columns], known)
    return statement.on_conflict_do_nothing(index_elements=[spending.c.owner, spending.c.day])


def _paying(connection: Connection, account: str, day: int) -> list[str]:
    """Return the accounts whose sums count for this one."""
    return [POT] if account == POT else paying_with(connection, account, day)


def _locked(connection: Connection, accounts: Sequence[str], day: int) -> Sequence[sa.Row[Any]]:
    """Lock the day of these accounts, which nobody else changes until this transaction ends, and return it."""
    rows = connection.execute(_LOCK, {"owners": accounts, "d": day}).all()
    missing = sorted({*accounts} - {row.owner for row in rows})
    if missing:
        times = {"begins_ms": day_begins_ms(day), "ends_ms": day_begins_ms(day + 1)}
        for account in missing:
            connection.execute(_begin_day(connection), {"a": account, "d": day, **times})
        rows = connection.execute(_LOCK, {"owners": accounts, "d": day}).all()
        for account in missing:
            # Yesterday is kept: a call may end, and a turn be taken over, on the day after it began.
            for statement in (_FORGET_DAYS, _FORGET_RESERVATIONS, _FORGET_TURNS):
                connection.execute(statement, {"a": account, "d": day - 1})
    return rows


def _total(rows: Iterable[sa.Row[Any]]) -> Amounts:
    return sum((Amounts(row.tokens, row.nano_usd, row.turns) for row in rows), Amounts())


# --- what is reserved
_IS_THEIRS: Final = reservations.c.owner.in_(sa.bindparam("owners"))
_RESERVED: Final = sa.select(
    sa.func.coalesce(sa.func.sum(reservations.c.tokens), 0).label("tokens"),
    sa.func.coalesce(sa.func.sum(reservations.c.nano_usd), 0).label("nano_usd"),
    sa.func.coalesce(sa.func.sum(reservations.c.tokens).filter(_IS_THEIRS), 0).label("own_tokens"),
    sa.func.coalesce(sa.func.sum(reservations.c.nano_usd).filter(_IS_THEIRS), 0).label("own_nano_usd"),
).where(
    reservations.c.day == sa.bindparam("d"),
    reservations.c.expires_at_ms > sa.bindparam("now_ms"),
    reservations.c.id != sa.bindparam("but"),
)
_RESERVED_BY: Final = _RESERVED.where(_IS_THEIRS)
_COUNTED: Final = sa.select(counted_turns.c.turn_id).where(counted_turns.c.turn_id == sa.bindparam("t"))
_COUNT: Final = counted_turns.insert()
_put: Final = upsert(reservations, "tokens", "nano_usd", "expires_at_ms")


def _reserved(
    connection: Connection, accounts: Sequence[str], day: int, *, now_ms: int, but: str = "", is_for_pot: bool
) -> tuple[Amounts, Amounts]:
    """Return what living calls have set aside, without that of reservation `but`: of these accounts, and of all. The
    latter is only known for the pot."""
    statement = _RESERVED if is_for_pot else _RESERVED_BY
    row = connection.execute(statement, {"d": day, "now_ms": now_ms, "but": but, "owners": accounts}).one()
    return Amounts(int(row.own_tokens), int(row.own_nano_usd)), Amounts(int(row.tokens), int(row.nano_usd))


# --- what was spent
_TAKE_BACK: Final = sa.delete(reservations).where(reservations.c.id == sa.bindparam("r")).returning(reservations.c.id)


def _add(connection: Connection, accounts: Sequence[str], day: int, cost: Amounts) -> None:
    """Add a cost. A pot without a row has no cap today."""
    more = {"more_tokens": cost.tokens, "more_nano_usd": cost.nano_usd, "more_turns": cost.turns}
    connection.execute(_ADD, {"owners": accounts, "d": day, **more})


def _settle(connection: Connection, reservation: Reservation, cost: Amounts) -> None:
    owner, day = str(reservation.owner), reservation.day
    _locked(connection, [owner], day)
    if connection.execute(_TAKE_BACK, {"r": reservation.id}).first():
        _add(connection, [owner, POT], day, cost)


# --- warnings
_MARK: Final = sa.update(spending).where(spending.c.owner == sa.bindparam("a"), spending.c.day == sa.bindparam("d"))


class SpendingStore(Aggregate):
    """Counts against caps, atomically across processes and machines. Raises `StoreUnavailable`.

    For each owner and for the pot of all: what was settled and what is still reserved are never more than
    the caps, unless calls cost more than they had reserved. The first call of a day on which caps are in force
    finds what the usage table already knows of that day."""

    @write_unsynced  # a power cut takes the call along
    def reserve(
        self, connection: Connection, reservation: Reservation, *, own: Caps, pot: Caps, now_ms: int
    ) -> Amounts | BudgetRefusal:
        """Set the amounts aside, all or nothing; the same id again replaces what it had set aside. Return what else
        counts against the owner's caps by now, with the turn."""
        day, everybody = reservation.day, [] if pot.are_open else [POT]
        paying = _paying(connection, str(reservation.owner), day)
        # Not in one statement: where a day begins, one that holds the pot already would wait for an owner's row.
        spent = _total(_locked(connection, paying, day))
        spent_by_all = _total(_locked(connection, everybody, day) if everybody else ())
        is_new_turn = bool(reservation.turn_id) and not connection.execute(_COUNTED, {"t": reservation.turn_id}).first()
        asked = Amounts(reservation.tokens, reservation.nano_usd, int(is_new_turn))
        held, held_by_all = _reserved(
            connection, paying, day, now_ms=now_ms, but=reservation.id, is_for_pot=bool(everybody)
        )
        if measure := own.exceeded_by(spent + held + asked):
            return BudgetRefusal(measure, is_everybodys=False)
        if measure := pot.exceeded_by(spent_by_all + held_by_all + asked):
            return BudgetRefusal(measure, is_everybodys=True)
        connection.execute(_put(connection), row_of(reservations, reservation))
        if is_new_turn and reservation.begins_turn:
            connection.execute(_COUNT, {"turn_id": reservation.turn_id, "owner": str(reservation.owner), "day": day})
            _add(connection, [str(reservation.owner), *everybody], day, Amounts(turns=1))
        return spent + held + Amounts(turns=asked.turns)

    async def settle(self, reservation: Reservation, cost: Amounts, *, urgent: bool = True) -> None:
        """Settle a call: what it really cost takes the place of its reservation. Again: nothing happens. One that
        nobody needs to see at once is not `urgent`."""
        work = partial(_settle, reservation=reservation, cost=cost)
        # Not synced: the usage table, which is durable, knows the cost, too.
        await self.database.write(work, durable=False, urgent=urgent)

    @read
    def spent(self, connection: Connection, owner: SessionKey | None, day: int, *, now_ms: int) -> Amounts | None:
        """Return settled and reserved, of one owner or (None) of all; None where nothing was counted on that day."""
        account = _account(owner)
        accounts = _paying(connection, account, day)
        rows = connection.execute(_OF_DAY, {"owners": accounts, "d": day}).all()
        if not rows:
            return None
        held, held_by_all = _reserved(connection, accounts, day, now_ms=now_ms, is_for_pot=owner is None)
        return _total(rows) + (held_by_all if owner is None else held)

    @write
    def warn_once(
        self, connection: Connection, owner: SessionKey, day: int, *, caps: Caps, percent: int
    ) -> frozenset[Measure]:
        """Return the measures that have come that far, each once."""
        rows = _locked(connection, _paying(connection, str(owner), day), day)
        told = {row.owner: row.warned.split() for row in rows}
        due = caps.reached_by(_total(rows), percent=percent) - {
            Measure(word) for words in told.values() for word in words
        }
        if due:
            words = " ".join(sorted({*due, *told[str(owner)]}))
            connection.execute(_MARK, {"a": str(owner), "d": day, "warned": words})
        return due


class UsageStore(Aggregate):
    """Every sum is of the calls that ended within a span. Raises `StoreUnavailable`."""

    async def by_purpose(self, owner: SessionKey | None, span: Period) -> Mapping[UsagePurpose, UsageSum]:
        """Sum by purpose, of one person, or (None) of all."""
        statement = _BY_PURPOSE if owner is None else _BY_PURPOSE_OF_OWNER
        rows = await self._rows(statement, _parameters(span, owner))
        return {UsagePurpose(row.purpose): _sum(row) for row in rows}

    async def by_model(self, span: Period) -> Mapping[tuple[UsagePurpose, str], UsageSum]:
        """Sum, of all, by purpose and model."""
        rows = await self._rows(_BY_MODEL, _parameters(span))
        return {(UsagePurpose(row.purpose), row.model): _sum(row) for row in rows}

    async def by_day(self, owner: SessionKey | None, span: Period, *, limit: int, offset: int) -> Sequence[DailyUsage]:
        """List days, newest day first, on each day the greatest spender first."""
        statement = _BY_DAY if owner is None else _BY_DAY_OF_OWNER
        page = {"page_limit": limit, "page_offset": offset}
        rows = await self._rows(statement, _parameters(span, owner) | page)
        return [DailyUsage(SessionKey.parse(row.owner), int(row.day), _sum(row)) for row in rows]

    async def by_hour(self, span: Period) -> Mapping[int, UsageSum]:
        """Return the sums of each hour in which a model was called, by the time it began, oldest first."""
        rows = await self._rows(_BY_HOUR, _parameters(span))
        return {int(row.hour) * _HOUR_MS: _sum(row) for row in rows}

    async def of_some(self, owners: Sequence[SessionKey], span: Period) -> Mapping[SessionKey, UsageSum]:
        """Return the sums of each of these owners who called a model."""
        rows = await self._rows(_OF_SOME, _parameters(span) | {"owners": [str(owner) for owner in owners]})
        return {SessionKey.parse(row.owner): _sum(row) for row in rows}

    async def top(self, span: Period, *, limit: int) -> Sequence[tuple[SessionKey, UsageSum]]:
        """List those who spent most."""
        rows = await self._rows(_TOP, _parameters(span) | {"page_limit": limit})
        return [(SessionKey.parse(row.owner), _sum(row)) for row in rows]

    @read
    def _rows(
        self, connection: Connection, statement: sa.Select[Any], parameters: Mapping[str, Any]
    ) -> Sequence[sa.Row[Any]]:
        return connection.execute(statement, dict(parameters)).all()
