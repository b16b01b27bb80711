"""Accounts joined to persons and parted again, each in one transaction with its line of the audit.

Changes wait for each other (`has_changed`), so persons are always disjoint. A person's facts have numbers of their own
each, so that /forget means one; his spending of the day stays where it was made, and is summed over his purse.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import Connection, Executable, Row, bindparam, delete, select, update

from gateway.contracts.entries import GrantRole
from gateway.contracts.envelope import address_from_text, address_to_text
from gateway.contracts.ids import SessionKey
from gateway.contracts.links import Ends, LinkOffer, LinkVerdict, Redeemed
from gateway.contracts.messages import CleanText, Reply
from gateway.contracts.ports import Clock
from gateway.contracts.spending import day_of
from gateway.limits import LINK_CODE_TTL_S, LINK_LOCKED_S, LINK_TRIES_MAX, LINKED_ENDS_MAX
from gateway.store import ends, outbox
from gateway.store.auditing import USER, has_changed, write_down
from gateway.store.dialects import InsertInto, per_dialect
from gateway.store.engine import Database
from gateway.store.link_tables import link_codes, link_tries, links, purses
from gateway.store.tables import answers, facts, grants, lanes


@per_dialect
def _put_offer(insert: InsertInto) -> Executable:
    statement = insert(link_codes)
    names = ("digest", "address", "language", "expires_at_ms", "name", "entered_by")
    return statement.on_conflict_do_update(
        index_elements=[link_codes.c.owner], set_={name: statement.excluded[name] for name in names}
    )


@per_dialect
def _put_link(insert: InsertInto) -> Executable:
    statement = insert(links)
    return statement.on_conflict_do_update(index_elements=[links.c.owner], set_={"person": statement.excluded.person})


@per_dialect
def _put_purse(insert: InsertInto) -> Executable:
    statement = insert(purses)
    return statement.on_conflict_do_update(
        index_elements=[purses.c.owner], set_={name: statement.excluded[name] for name in ("day", "purse")}
    )


@per_dialect
def _put_tries(insert: InsertInto) -> Executable:
    statement = insert(link_tries)
    return statement.on_conflict_do_update(
        index_elements=[link_tries.c.owner], set_={name: statement.excluded[name] for name in ("tries", "until_ms")}
    )


class SqlLinks:
    """`gateway.contracts.ports.LinkBook`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def ends_of(self, owner: SessionKey) -> Sequence[SessionKey]:
        """All ends of a person, in order of their names."""
        return [SessionKey.parse(end) for end in await self._database.read(partial(ends.ends_of, owner=owner))]

    async def persons(self) -> Sequence[Ends]:
        """Everybody who has more than one end."""
        return await self._database.read(ends.persons)

    async def offer(self, offer: LinkOffer, code: str) -> None:
        """Give out a code in place of the one before."""
        await self._database.write(partial(_offer, offer=offer, digest=_digest(code)))

    async def withdraw(self, code: str) -> None:
        """A code that was said aloud is worth nothing any more."""
        await self._database.write(partial(_withdraw, digest=_digest(code)))

    async def enter(self, owner: SessionKey, code: str, *, now_ms: int) -> Redeemed:
        """Say whose code it is, and keep it for whoever entered it."""
        return await self._database.write(partial(_enter, owner=str(owner), digest=_digest(code), now_ms=now_ms))

    async def join(
        self, owner: SessionKey, other: SessionKey, *, now_ms: int, notice: Callable[[LinkOffer], Reply]
    ) -> Redeemed:
        """Make two accounts one person, once."""
        work = partial(
            _accept, owner=str(owner), other=other, now_ms=now_ms, notice=notice, new_id=self._clock.new_id()
        )
        return await self._database.write(work)

    async def decline(self, owner: SessionKey, other: SessionKey) -> bool:
        """Make a code that was entered worth nothing."""
        return await self._database.write(partial(_decline, owner=str(owner), other=str(other)))

    async def part(
        self, owner: SessionKey, ends: Collection[SessionKey], *, actor: str, now_ms: int
    ) -> Sequence[SessionKey]:
        """Those of `ends` that were the same person as `owner` and stand alone now."""
        leaving = frozenset(map(str, ends))
        work = partial(
            _part, owner=str(owner), leaving=leaving, actor=actor, now_ms=now_ms, new_id=self._clock.new_id()
        )
        return [SessionKey.parse(end) for end in await self._database.write(work)]


def _digest(code: str) -> str:
    return sha256(code.strip().upper().encode()).hexdigest()


# --- codes

_CODE: Final = select(link_codes).where(link_codes.c.digest == bindparam("code_digest"))
_KEEP: Final = (
    update(link_codes)
    .where(link_codes.c.digest == bindparam("code_digest"))
    .values(entered_by=bindparam("by"), expires_at_ms=bindparam("until_ms"))
)
_IS_ENTERED: Final = (link_codes.c.owner == bindparam("whose")) & (link_codes.c.entered_by == bindparam("by"))
_ENTERED: Final = select(link_codes).where(_IS_ENTERED)
_USE_UP: Final = delete(link_codes).where(_IS_ENTERED)
_WITHDRAW: Final = delete(link_codes).where(link_codes.c.digest == bindparam("code_digest"))
_EXPIRE: Final = delete(link_codes).where(link_codes.c.expires_at_ms <= bindparam("now_ms"))
_TRIES: Final = select(link_tries).where(link_tries.c.owner == bindparam("whose"))
_FORGET_TRIES: Final = delete(link_tries).where(link_tries.c.owner == bindparam("whose"))
_BLOCKED: Final = select(grants.c.owner).where(
    grants.c.owner.in_(bindparam("owners", expanding=True)), grants.c.role == GrantRole.BLOCKED.value
)


def _offer(connection: Connection, offer: LinkOffer, digest: str) -> None:
    row = {
        "owner": str(offer.owner),
        "digest": digest,
        "address": address_to_text(offer.address),
        "language": offer.language,
        "expires_at_ms": offer.expires_at_ms,
        "name": offer.name,
        "entered_by": "",
    }
    connection.execute(_put_offer(connection), row)


def _withdraw(connection: Connection, digest: str) -> None:
    connection.execute(_WITHDRAW, {"code_digest": digest})


def _enter(connection: Connection, owner: str, digest: str, now_ms: int) -> Redeemed:
    has_changed(connection)
    connection.execute(_EXPIRE, {"now_ms": now_ms})
    erred = connection.execute(_TRIES, {"whose": owner}).one_or_none()
    if erred is not None and erred.until_ms > now_ms and erred.tries >= LINK_TRIES_MAX:
        return Redeemed(LinkVerdict.LOCKED, wait_s=(erred.until_ms - now_ms) / 1000)
    row = connection.execute(_CODE, {"code_digest": digest}).one_or_none()
    if row is None or row.entered_by not in ("", owner):
        return _erred(connection, owner, erred, now_ms)
    own, others = ends.ends_of(connection, owner), ends.ends_of(connection, row.owner)
    if connection.execute(_BLOCKED, {"owners": others}).first() is not None:
        return _erred(connection, owner, erred, now_ms)
    if row.owner in own:
        return Redeemed(LinkVerdict.OWN)
    if len(own) + len(others) > LINKED_ENDS_MAX:
        return Redeemed(LinkVerdict.FULL)
    if not row.entered_by:  # once: whoever enters it again has no more time to think
        until_ms = now_ms + LINK_CODE_TTL_S * 1000
        connection.execute(_KEEP, {"code_digest": digest, "by": owner, "until_ms": until_ms})
    along = tuple(SessionKey.parse(end) for end in others if end != row.owner)
    return Redeemed(LinkVerdict.PROPOSED, SessionKey.parse(row.owner), row.name, along)


def _accept(
    connection: Connection,
    owner: str,
    other: SessionKey,
    now_ms: int,
    notice: Callable[[LinkOffer], Reply],
    new_id: str,
) -> Redeemed:
    has_changed(connection)
    connection.execute(_EXPIRE, {"now_ms": now_ms})
    entered = {"whose": str(other), "by": owner}
    row = connection.execute(_ENTERED, entered).one_or_none()
    own, others = ends.ends_of(connection, owner), ends.ends_of(connection, other)
    if str(other) in own and str(other) != owner:
        return Redeemed(LinkVerdict.LINKED, other)
    if row is None or connection.execute(_BLOCKED, {"owners": others}).first() is not None:
        return Redeemed(LinkVerdict.GONE)
    if len(own) + len(others) > LINKED_ENDS_MAX:
        return Redeemed(LinkVerdict.FULL)
    connection.execute(_USE_UP, entered)
    connection.execute(_FORGET_TRIES, {"whose": owner})
    _join(connection, own, others, now_ms, new_id)
    write_down(connection, owner, "link.made", f"{USER}{owner}", None, {"person": new_id}, now_ms)
    write_down(connection, owner, "link.made", f"{USER}{other}", None, {"person": new_id}, now_ms)
    outbox.put(connection, [notice(_to_offer(row))])
    return Redeemed(LinkVerdict.LINKED, other)


def _decline(connection: Connection, owner: str, other: str) -> bool:
    return connection.execute(_USE_UP, {"whose": other, "by": owner}).rowcount > 0


def _erred(connection: Connection, owner: str, before: Row[Any] | None, now_ms: int) -> Redeemed:
    tries = 1 + (before.tries if before is not None and before.until_ms > now_ms else 0)
    connection.execute(
        _put_tries(connection), {"owner": owner, "tries": tries, "until_ms": now_ms + LINK_LOCKED_S * 1000}
    )
    return Redeemed(LinkVerdict.UNKNOWN, tries_left=LINK_TRIES_MAX - tries)


def _to_offer(row: Row[Any]) -> LinkOffer:
    return LinkOffer(
        SessionKey.parse(row.owner),
        CleanText(row.name),
        address_from_text(row.address),
        row.language,
        row.expires_at_ms,
    )


# --- joining

_LOCK: Final = (
    select(lanes.c.key)
    .where(lanes.c.owner.in_(bindparam("owners", expanding=True)))
    .order_by(lanes.c.key)
    .with_for_update()
)
_NUMBERS: Final = (
    select(facts.c.id, facts.c.number)
    .where(facts.c.owner.in_(bindparam("owners", expanding=True)))
    .order_by(facts.c.number, facts.c.id)
)
_SET_ASIDE: Final = (
    update(facts).where(facts.c.owner.in_(bindparam("owners", expanding=True))).values(number=-facts.c.number)
)
_RENUMBER: Final = update(facts).where(facts.c.id == bindparam("fact_id")).values(number=bindparam("new_number"))


def _join(connection: Connection, own: list[str], others: list[str], now_ms: int, person: str) -> None:
    connection.execute(_LOCK, {"owners": [*own, *others]}).all()
    _tell_apart(connection, own, others)
    _pool(connection, [own[0], others[0]], now_ms, person)
    rows = [{"owner": end, "person": person, "linked_at_ms": now_ms} for end in (*own, *others)]
    connection.execute(_put_link(connection), rows)


def _tell_apart(connection: Connection, own: list[str], others: list[str]) -> None:
    """Number the facts of `own` anew where both have the same number: behind those of `others`, in their order."""
    mine = connection.execute(_NUMBERS, {"owners": own}).all()
    taken = {row.number for row in connection.execute(_NUMBERS, {"owners": others})}
    if not taken.intersection(row.number for row in mine):
        return
    connection.execute(_SET_ASIDE, {"owners": own})  # no number is used twice meanwhile
    new = [{"fact_id": row.id, "new_number": number} for number, row in enumerate(mine, max(taken) + 1)]
    connection.execute(_RENUMBER, new)


def _pool(connection: Connection, owners: Iterable[str], now_ms: int, purse: str) -> None:
    """Whoever paid with one of these today pays with all of them until the day ends."""
    day = day_of(now_ms)
    paying = sorted({end for owner in owners for end in ends.paying_with(connection, owner, day)})
    connection.execute(_put_purse(connection), [{"owner": end, "day": day, "purse": purse} for end in paying])


# --- parting

_LEAVE: Final = delete(links).where(links.c.owner.in_(bindparam("owners", expanding=True)))
_FORGET_ANSWERS: Final = delete(answers).where(answers.c.owner.in_(bindparam("owners", expanding=True)))


def _part(
    connection: Connection, owner: str, leaving: frozenset[str], actor: str, now_ms: int, new_id: str
) -> list[str]:
    has_changed(connection)
    before = ends.ends_of(connection, owner)
    parted = [end for end in before if end in leaving]
    if len(before) == 1 or not parted:
        return []
    _pool(connection, [owner], now_ms, new_id)
    left = [end for end in before if end not in leaving]
    if len(left) == 1:
        parted, left = before, []
    connection.execute(_LEAVE, {"owners": parted})
    connection.execute(_FORGET_ANSWERS, {"owners": before})  # they were given while more was remembered
    for end in parted:
        write_down(connection, actor, "link.parted", f"{USER}{end}", None, None, now_ms)
    return parted
