"""The cost of model calls: sums over the usage ledger, and a day against its caps, reserved before each call and
settled after it.

Each owner has one row per day, and that row is the lock: its holder sees every reservation that was made before, and
nobody makes another meanwhile. So two processes never both take the last of a cap. A person with several accounts, now
or earlier today, has all their rows in the lock and in the sums. What is reserved is a sum over living reservations:
one whose worker died counts no more once it has expired, and nobody has to give it back.

The pot of all is no lock: everybody's calls would wait for each other, over the trips of a transaction. On PostgreSQL
a reservation is committed first and the pot is counted after, with what others have reserved meanwhile: whoever counts
last sees all. Where that is too much, one after another counts again and gives back, until the rest fits. On SQLite
writers take turns anyway. What the pot has spent is the sum of its parts, each of them some owners' share.

    reserve   owners' rows ─▶ sums ─▶ the reservation, a part's turns       rows are always locked in this order
    settle    owner's row ─▶ the reservation goes ─▶ sums of owner and part
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from zlib import crc32

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
from gateway.store.engine import Aggregate, Connection, InsertInto, insert_new, per_dialect, read, row_of, upsert, write
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


_POT: Final = ("", *map(str, range(1, 32)))
"""The accounts of all together, its parts: more of them than transactions are about to commit at a time. The first one
begins a day with what the usage table knows of it."""


def _part_of(owner: SessionKey) -> str:
    """Return the part of the pot that an owner's calls are counted in."""
    return _POT[crc32(str(owner).encode()) % len(_POT)]


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
    spending.c.owner.in_(sa.bindparam("owners")), spending.c.day < sa.bindparam("d")
)
_FORGET_RESERVATIONS: Final = sa.delete(reservations).where(
    reservations.c.owner.in_(sa.bindparam("owners")), reservations.c.day < sa.bindparam("d")
)
_FORGET_TURNS: Final = sa.delete(counted_turns).where(
    counted_turns.c.owner.in_(sa.bindparam("owners")), counted_turns.c.day < sa.bindparam("d")
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
        sa.or_(account == _POT[0], usage.c.owner == account),
        usage.c.created_at_ms >= sa.bindparam("begins_ms"),
        usage.c.created_at_ms < sa.bindparam("ends_ms"),
    )
    statement = insert(spending).from_select([column.name for column in spending.columns], known)
    return statement.on_conflict_do_nothing(index_elements=[spending.c.owner, spending.c.day])


def _locked(connection: Connection, accounts: Sequence[str], day: int) -> Sequence[sa.Row[Any]]:
    """Lock the day of these accounts, which nobody else changes until this transaction ends, and return it."""
    rows = connection.execute(_LOCK, {"owners": accounts, "d": day}).all()
    missing = sorted({*accounts} - {row.owner for row in rows})
    if missing:
        times = {"begins_ms": day_begins_ms(day), "ends_ms": day_begins_ms(day + 1)}
        for account in missing:
            connection.execute(_begin_day(connection), {"a": account, "d": day, **times})
        rows = connection.execute(_LOCK, {"owners": accounts, "d": day}).all()
        # Yesterday is kept: a call may end, and a turn be taken over, on the day after it began.
        for statement in (_FORGET_DAYS, _FORGET_RESERVATIONS, _FORGET_TURNS):
            connection.execute(statement, {"owners": missing, "d": day - 1})
    return rows


_put_part: Final = insert_new(spending)


def _begin_pot(connection: Connection, day: int) -> None:
    """Begin a day of the pot, all parts of it, unless another has begun it."""
    first, *others = _POT
    _locked(connection, [first], day)
    empty = {"day": day, "tokens": 0, "nano_usd": 0, "turns": 0, "warned": ""}
    connection.execute(_put_part(connection), [{"owner": part, **empty} for part in others])
    connection.execute(_FORGET_DAYS, {"owners": others, "d": day - 1})


def _total(rows: Iterable[sa.Row[Any]]) -> Amounts:
    return sum((Amounts(row.tokens, row.nano_usd, row.turns) for row in rows), Amounts())


# --- what is reserved
_IS_THEIRS: Final = reservations.c.owner.in_(sa.bindparam("owners"))


def _sum_of(column: sa.ColumnElement[Any], *only: sa.ColumnElement[bool]) -> sa.ColumnElement[Any]:
    total: sa.ColumnElement[Any] = sa.func.sum(column).filter(*only) if only else sa.func.sum(column)
    return sa.func.coalesce(total, 0)


_HELD: Final = (
    sa.select(
        _sum_of(reservations.c.tokens).label("tokens"),
        _sum_of(reservations.c.nano_usd).label("nano_usd"),
        _sum_of(reservations.c.tokens, _IS_THEIRS).label("own_tokens"),
        _sum_of(reservations.c.nano_usd, _IS_THEIRS).label("own_nano_usd"),
    )
    .where(
        reservations.c.day == sa.bindparam("d"),
        reservations.c.expires_at_ms > sa.bindparam("now_ms"),
        reservations.c.id != sa.bindparam("but"),
    )
    .subquery()
)
_SPENT_BY_ALL: Final = (
    sa.select(
        _sum_of(spending.c.tokens).label("spent_tokens"),
        _sum_of(spending.c.nano_usd).label("spent_nano_usd"),
        _sum_of(spending.c.turns).label("turns"),
        sa.func.count().label("parts"),
    )
    .where(spending.c.owner.in_(_POT), spending.c.day == sa.bindparam("d"))
    .subquery()
)
_IS_COUNTED: Final = sa.exists().where(counted_turns.c.turn_id == sa.bindparam("t")).label("is_counted")
# One statement: a settlement, which moves an amount from one sum to the other, is seen whole or not at all.
_AT_ONCE: Final = sa.select(_HELD, _SPENT_BY_ALL, _IS_COUNTED).select_from(_HELD.join(_SPENT_BY_ALL, sa.true()))
_COUNT: Final = counted_turns.insert()
_UNCOUNT: Final = sa.delete(counted_turns).where(counted_turns.c.turn_id == sa.bindparam("t"))
_put: Final = upsert(reservations, "tokens", "nano_usd", "expires_at_ms")


@dataclass(frozen=True, slots=True)
class _Sums:
    """What counts at one moment: `held` by living calls of some accounts, `taken` from the pot by all (None before its
    day began), and whether a turn is counted."""

    held: Amounts
    taken: Amounts | None
    is_counted: bool


def _sums_of(
    connection: Connection, day: int, *, now_ms: int, owners: Sequence[str] = (), but: str = "", turn_id: str = ""
) -> _Sums:
    """Return the sums without reservation `but`."""
    asked = {"d": day, "now_ms": now_ms, "owners": owners, "but": but, "t": turn_id}
    row = connection.execute(_AT_ONCE, asked).one()
    taken = Amounts(int(row.tokens + row.spent_tokens), int(row.nano_usd + row.spent_nano_usd), int(row.turns))
    held = Amounts(int(row.own_tokens), int(row.own_nano_usd))
    return _Sums(held, taken if row.parts == len(_POT) else None, bool(row.is_counted))


# --- what was spent
_TAKE_BACK: Final = sa.delete(reservations).where(reservations.c.id == sa.bindparam("r")).returning(reservations.c.id)


def _add(connection: Connection, owner: SessionKey, day: int, cost: Amounts) -> None:
    """Add a cost to the owner and, as the last of a transaction, to the pot. A pot without rows has no cap today."""
    more = {"more_tokens": cost.tokens, "more_nano_usd": cost.nano_usd, "more_turns": cost.turns}
    connection.execute(_ADD, {"owners": [str(owner), _part_of(owner)], "d": day, **more})


def _reserve(
    connection: Connection, reservation: Reservation, *, own: Caps, pot: Caps, now_ms: int
) -> tuple[Amounts, Amounts] | BudgetRefusal:
    """Return what else counts against the owner's caps by now, and the turn, if it was not counted before."""
    owner, day = reservation.owner, reservation.day
    paying = paying_with(connection, str(owner), day)
    spent = _total(_locked(connection, paying, day))
    sums = partial(_sums_of, connection, day, now_ms=now_ms, but=reservation.id)
    now = sums(owners=paying, turn_id=reservation.turn_id)
    turn = Amounts(turns=int(bool(reservation.turn_id) and not now.is_counted))
    asked = turn + Amounts(reservation.tokens, reservation.nano_usd)
    if measure := own.exceeded_by(spent + now.held + asked):
        return BudgetRefusal(measure, is_everybodys=False)
    if not pot.are_open:
        taken = now.taken
        if taken is None:
            _begin_pot(connection, day)
            taken = sums().taken or Amounts()
        if measure := pot.exceeded_by(taken + asked):
            return BudgetRefusal(measure, is_everybodys=True)
    connection.execute(_put(connection), row_of(reservations, reservation))
    if turn.turns and reservation.begins_turn:
        connection.execute(_COUNT, {"turn_id": reservation.turn_id, "owner": str(owner), "day": day})
        _add(connection, owner, day, turn)
    return spent + now.held, turn


def _exceeds_pot(
    connection: Connection, reservation: Reservation, *, pot: Caps, turn: Amounts, now_ms: int
) -> Measure | None:
    """Return the measure of which all together have taken too much, this reservation and its turn included."""
    taken = _sums_of(connection, reservation.day, now_ms=now_ms).taken or Amounts()
    return pot.exceeded_by(taken if reservation.begins_turn else taken + turn)


def _give_back(
    connection: Connection, reservation: Reservation, turn: Amounts, exceeded: Callable[[Connection], Measure | None]
) -> BudgetRefusal | None:
    """Take a reservation and its turn back if the pot is `exceeded` still, now that nobody else gives back."""
    _locked(connection, [str(reservation.owner)], reservation.day)  # owners before the pot, as everywhere
    _locked(connection, _POT[:1], reservation.day)
    measure = exceeded(connection)
    if measure is None:
        return None
    connection.execute(_TAKE_BACK, {"r": reservation.id})
    if reservation.begins_turn and turn.turns:
        connection.execute(_UNCOUNT, {"t": reservation.turn_id})
        _add(connection, reservation.owner, reservation.day, Amounts(turns=-turn.turns))
    return BudgetRefusal(measure, is_everybodys=True)


def _settle(connection: Connection, reservation: Reservation, cost: Amounts) -> None:
    _locked(connection, [str(reservation.owner)], reservation.day)
    if connection.execute(_TAKE_BACK, {"r": reservation.id}).first():
        _add(connection, reservation.owner, reservation.day, cost)


# --- warnings
_MARK: Final = sa.update(spending).where(spending.c.owner == sa.bindparam("a"), spending.c.day == sa.bindparam("d"))


class SpendingStore(Aggregate):
    """Counts against caps, atomically across processes and machines. Raises `StoreUnavailable`.

    For each owner and for the pot of all: what was settled and what is still reserved are never more than
    the caps, unless calls cost more than they had reserved. The first call of a day on which caps are in force
    finds what the usage table already knows of that day."""

    async def reserve(self, reservation: Reservation, *, own: Caps, pot: Caps, now_ms: int) -> Amounts | BudgetRefusal:
        """Set the amounts aside, all or nothing; the same id again replaces what it had set aside. Return what else
        counts against the owner's caps by now, with the turn."""
        work = partial(_reserve, reservation=reservation, own=own, pot=pot, now_ms=now_ms)
        found = await self.database.write(work, durable=False)  # a power cut takes the call along
        if isinstance(found, BudgetRefusal):
            return found
        besides, turn = found
        if not (pot.are_open or self.database.has_one_writer):
            exceeded = partial(_exceeds_pot, reservation=reservation, pot=pot, turn=turn, now_ms=now_ms)
            if await self.database.read(exceeded):
                take_back = partial(_give_back, reservation=reservation, turn=turn, exceeded=exceeded)
                if refusal := await self.database.write(take_back, durable=False):
                    return refusal
        return besides + turn

    async def settle(self, reservation: Reservation, cost: Amounts, *, urgent: bool = True) -> None:
        """Settle a call: what it really cost takes the place of its reservation. Again: nothing happens. One that
        nobody needs to see at once is not `urgent`."""
        work = partial(_settle, reservation=reservation, cost=cost)
        # Not synced: the usage table, which is durable, knows the cost, too.
        await self.database.write(work, durable=False, urgent=urgent)

    @read
    def spent(self, connection: Connection, owner: SessionKey | None, day: int, *, now_ms: int) -> Amounts | None:
        """Return settled and reserved, of one owner or (None) of all; None where nothing was counted on that day."""
        if owner is None:
            return _sums_of(connection, day, now_ms=now_ms).taken
        accounts = paying_with(connection, str(owner), day)
        rows = connection.execute(_OF_DAY, {"owners": accounts, "d": day}).all()
        return _total(rows) + _sums_of(connection, day, now_ms=now_ms, owners=accounts).held if rows else None

    @write
    def warn_once(
        self, connection: Connection, owner: SessionKey, day: int, *, caps: Caps, percent: int
    ) -> frozenset[Measure]:
        """Return the measures that have come that far, each once."""
        rows = _locked(connection, paying_with(connection, str(owner), day), day)
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
