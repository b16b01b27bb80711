"""Accounts of one person: joined and parted, each in one transaction with its line of the audit.

`gateway.contracts.access` says what is a person's. Changes wait for each other (`has_changed`), so persons are always
disjoint. A person's facts have numbers of their own each, so that /forget means one; the spending of the day stays
where it was made, and is summed over the purse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import sha256
from typing import Any, Final

import sqlalchemy as sa

from gateway.contracts.access import Accounts, LinkOffer, LinkVerdict, RedeemedLink
from gateway.contracts.budgets import day_of
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import Reply
from gateway.contracts.sessions import GrantRole
from gateway.limits import LINK_CODE_TTL_S, LINK_LOCKED_S, LINK_TRIES_MAX, LINKED_ACCOUNTS_MAX
from gateway.store import outbox
from gateway.store.audit import USER, has_changed, write_down
from gateway.store.engine import Aggregate, Connection, read, reading, row_of, upsert, value_of, write
from gateway.store.tables import facts, grants, lanes, link_codes, link_tries, links, purses

_WHOSE: Final[sa.BindParameter[str]] = sa.bindparam("account_", type_=sa.String)
_OWN: Final[sa.Select[Any]] = sa.select(sa.cast(_WHOSE, links.c.owner.type).label("owner"))
_MINE: Final = links.alias("mine")
_LINKED: Final = sa.select(links.c.owner).join(_MINE, links.c.person == _MINE.c.person).where(_MINE.c.owner == _WHOSE)
_ACCOUNTS: Final = sa.union(_OWN, _LINKED)
_PURSE: Final = purses.alias("purse_of")
_TODAY: Final = (
    sa.select(purses.c.owner)
    .join(_PURSE, (purses.c.purse == _PURSE.c.purse) & (purses.c.day == _PURSE.c.day))
    .where(_PURSE.c.owner == _WHOSE, _PURSE.c.day == sa.bindparam("day_"))
)
_PAYING: Final = sa.union(_OWN, _LINKED, _TODAY)
_PERSONS: Final = sa.select(links.c.person, links.c.owner)
_LOCK: Final = (
    sa.select(lanes.c.key).where(lanes.c.owner.in_(sa.bindparam("owners"))).order_by(lanes.c.key).with_for_update()
)


def accounts_of(connection: Connection, owner: SessionKey | str) -> list[str]:
    """Return all accounts of a person, in order of their names; at least the one that is asked about."""
    return sorted(connection.execute(_ACCOUNTS, {"account_": str(owner)}).scalars())


def paying_with(connection: Connection, owner: str, day: int) -> list[str]:
    """Return all whose spending of that day counts against the caps of `owner`, the owner included."""
    return sorted(connection.execute(_PAYING, {"account_": owner, "day_": day}).scalars())


def is_of_person(column: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Match what belongs to any account of the person who has the account in the parameter `account_`."""
    return column.in_(_ACCOUNTS)


def linked_persons(connection: Connection) -> list[Accounts]:
    """Return all who have more than one account."""
    found: defaultdict[str, set[SessionKey]] = defaultdict(set)
    for row in connection.execute(_PERSONS):
        found[row.person].add(SessionKey.parse(row.owner))
    return [frozenset(accounts) for _, accounts in sorted(found.items())]


def locked_accounts(connection: Connection, owner: SessionKey) -> list[str]:
    """Return the same as `accounts_of`; nobody else counts this person's facts, or links them, until this transaction
    ends."""
    accounts = accounts_of(connection, owner)
    while True:
        connection.execute(_LOCK, {"owners": accounts}).all()  # SQLite writes one at a time anyway
        now = accounts_of(connection, owner)
        if now == accounts:
            return accounts
        accounts = now


_put_offer: Final = upsert(link_codes, "digest", "address", "language", "expires_at_ms", "name", "entered_by")
_put_link: Final = upsert(links, "person")
_put_purse: Final = upsert(purses, "day", "purse")
_put_tries: Final = upsert(link_tries, "tries", "until_ms")


def _digest(code: str) -> str:
    return sha256(code.strip().upper().encode()).hexdigest()


# --- codes
_CODE: Final = sa.select(link_codes).where(link_codes.c.digest == sa.bindparam("code_digest"))
_KEEP: Final = sa.update(link_codes).where(link_codes.c.digest == sa.bindparam("code_digest"))
_IS_ENTERED: Final = (link_codes.c.owner == sa.bindparam("whose")) & (link_codes.c.entered_by == sa.bindparam("by"))
_ENTERED: Final = sa.select(link_codes).where(_IS_ENTERED)
_USE_UP: Final = sa.delete(link_codes).where(_IS_ENTERED)
_WITHDRAW: Final = sa.delete(link_codes).where(link_codes.c.digest == sa.bindparam("code_digest"))
_EXPIRE: Final = sa.delete(link_codes).where(link_codes.c.expires_at_ms <= sa.bindparam("now_ms"))
_TRIES: Final = sa.select(link_tries).where(link_tries.c.owner == sa.bindparam("whose"))
_FORGET_TRIES: Final = sa.delete(link_tries).where(link_tries.c.owner == sa.bindparam("whose"))
_BLOCKED: Final = sa.select(grants.c.owner).where(
    grants.c.owner.in_(sa.bindparam("owners")), grants.c.role == GrantRole.BLOCKED.value
)


def _erred(connection: Connection, owner: str, before: sa.Row[Any] | None, now_ms: int) -> RedeemedLink:
    tries = 1 + (before.tries if before is not None and before.until_ms > now_ms else 0)
    connection.execute(
        _put_tries(connection), {"owner": owner, "tries": tries, "until_ms": now_ms + LINK_LOCKED_S * 1000}
    )
    return RedeemedLink(LinkVerdict.UNKNOWN, tries_left=LINK_TRIES_MAX - tries)


_NUMBERS: Final = (
    sa.select(facts.c.id, facts.c.number)
    .where(facts.c.owner.in_(sa.bindparam("owners")))
    .order_by(facts.c.number, facts.c.id)
)
_SET_ASIDE: Final = sa.update(facts).where(facts.c.owner.in_(sa.bindparam("owners"))).values(number=-facts.c.number)
_RENUMBER: Final = sa.update(facts).where(facts.c.id == sa.bindparam("fact_id"))


def _tell_apart(connection: Connection, own: list[str], others: list[str]) -> None:
    """Number the facts of `own` anew where both have the same number: after those of `others`, in their order."""
    mine = connection.execute(_NUMBERS, {"owners": own}).all()
    taken = {row.number for row in connection.execute(_NUMBERS, {"owners": others})}
    if not taken.intersection(row.number for row in mine):
        return
    connection.execute(_SET_ASIDE, {"owners": own})  # no number is used twice meanwhile
    new = [{"fact_id": row.id, "number": number} for number, row in enumerate(mine, max(taken) + 1)]
    connection.execute(_RENUMBER, new)


def _pool(connection: Connection, owners: Iterable[str], now_ms: int, purse: str) -> None:
    """Let all who paid with one of these today pay with all of them until the day ends."""
    day = day_of(now_ms)
    paying = sorted({account for owner in owners for account in paying_with(connection, owner, day)})
    connection.execute(_put_purse(connection), [{"owner": account, "day": day, "purse": purse} for account in paying])


# --- parting
_LEAVE: Final = sa.delete(links).where(links.c.owner.in_(sa.bindparam("owners")))


class LinkStore(Aggregate):
    """Accounts, joined and parted. Every change is a line of the audit. Raises `StoreUnavailable`."""

    @read
    def accounts_of(self, connection: Connection, owner: SessionKey) -> Sequence[SessionKey]:
        """Return all accounts of the person to whom `owner` belongs, in order of their names; `owner` alone where
        nothing is linked."""
        return [SessionKey.parse(account) for account in accounts_of(connection, owner)]

    persons = reading(linked_persons)

    @write
    def offer(self, connection: Connection, offer: LinkOffer, code: str) -> None:
        """Give out a code. It replaces the one that this account had."""
        connection.execute(_put_offer(connection), row_of(link_codes, offer, digest=_digest(code), entered_by=""))

    @write
    def withdraw(self, connection: Connection, code: str) -> None:
        """Withdraw a code that was said aloud: it is worth nothing any more."""
        connection.execute(_WITHDRAW, {"code_digest": _digest(code)})

    @write
    def enter(self, connection: Connection, owner: SessionKey, code: str, *, now_ms: int) -> RedeemedLink:
        """Say whose code it is, and keep it for `owner`: to nobody else is it worth anything from then on. Nothing is
        joined. An account that errs too often is refused."""
        entering, digest = str(owner), _digest(code)
        has_changed(connection)
        connection.execute(_EXPIRE, {"now_ms": now_ms})
        erred = connection.execute(_TRIES, {"whose": entering}).one_or_none()
        if erred is not None and erred.until_ms > now_ms and erred.tries >= LINK_TRIES_MAX:
            return RedeemedLink(LinkVerdict.LOCKED, wait_s=(erred.until_ms - now_ms) / 1000)
        row = connection.execute(_CODE, {"code_digest": digest}).one_or_none()
        if row is None or row.entered_by not in ("", entering):
            return _erred(connection, entering, erred, now_ms)
        own, others = accounts_of(connection, owner), accounts_of(connection, row.owner)
        if connection.execute(_BLOCKED, {"owners": others}).first() is not None:
            return _erred(connection, entering, erred, now_ms)
        if row.owner in own:
            return RedeemedLink(LinkVerdict.OWN)
        if len(own) + len(others) > LINKED_ACCOUNTS_MAX:
            return RedeemedLink(LinkVerdict.FULL)
        if not row.entered_by:  # once: entering it again gives no more time to think
            until_ms = now_ms + LINK_CODE_TTL_S * 1000
            connection.execute(_KEEP, {"code_digest": digest, "entered_by": entering, "expires_at_ms": until_ms})
        along = tuple(SessionKey.parse(account) for account in others if account != row.owner)
        return RedeemedLink(LinkVerdict.PROPOSED, SessionKey.parse(row.owner), row.name, along)

    @write
    def join(
        self,
        connection: Connection,
        owner: SessionKey,
        other: SessionKey,
        *,
        now_ms: int,
        notice: Callable[[LinkOffer], Reply],
    ) -> RedeemedLink:
        """Make `owner` and `other`, whose code `owner` has entered, one person, once; a repeated call is told
        the same. What `notice` makes is committed with it."""
        new_id, actor = self.clock.new_id(), str(owner)
        has_changed(connection)
        connection.execute(_EXPIRE, {"now_ms": now_ms})
        entered = {"whose": str(other), "by": actor}
        row = connection.execute(_ENTERED, entered).one_or_none()
        own, others = accounts_of(connection, owner), accounts_of(connection, other)
        if str(other) in own and other != owner:
            return RedeemedLink(LinkVerdict.LINKED, other)
        if row is None or connection.execute(_BLOCKED, {"owners": others}).first() is not None:
            return RedeemedLink(LinkVerdict.GONE)
        if len(own) + len(others) > LINKED_ACCOUNTS_MAX:
            return RedeemedLink(LinkVerdict.FULL)
        connection.execute(_USE_UP, entered)
        connection.execute(_FORGET_TRIES, {"whose": actor})
        connection.execute(_LOCK, {"owners": [*own, *others]}).all()
        _tell_apart(connection, own, others)
        _pool(connection, [own[0], others[0]], now_ms, new_id)
        rows = [{"owner": account, "person": new_id, "linked_at_ms": now_ms} for account in (*own, *others)]
        connection.execute(_put_link(connection), rows)
        write_down(connection, actor, "link.made", f"{USER}{owner}", None, {"person": new_id}, now_ms)
        write_down(connection, actor, "link.made", f"{USER}{other}", None, {"person": new_id}, now_ms)
        outbox.put_replies(connection, [notice(value_of(LinkOffer, row))])
        return RedeemedLink(LinkVerdict.LINKED, other)

    @write
    def decline(self, connection: Connection, owner: SessionKey, other: SessionKey) -> bool:
        """Make the code of `other`, which `owner` has entered, worth nothing. False: it was."""
        return connection.execute(_USE_UP, {"whose": str(other), "by": str(owner)}).rowcount > 0

    @write
    def part(
        self, connection: Connection, owner: SessionKey, accounts: Collection[SessionKey], *, actor: str, now_ms: int
    ) -> Sequence[SessionKey]:
        """Separate those of `accounts` that are the same person as `owner`; all who stand alone now."""
        has_changed(connection)
        before, leaving = accounts_of(connection, owner), frozenset(map(str, accounts))
        parted = [account for account in before if account in leaving]
        if len(before) == 1 or not parted:
            return []
        _pool(connection, [str(owner)], now_ms, self.clock.new_id())
        left = [account for account in before if account not in leaving]
        if len(left) == 1:
            parted = before
        connection.execute(_LEAVE, {"owners": parted})
        for account in parted:
            write_down(connection, actor, "link.parted", f"{USER}{account}", None, None, now_ms)
        return [SessionKey.parse(account) for account in parted]
