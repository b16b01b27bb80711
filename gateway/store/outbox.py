"""Committed replies and how their delivery ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import BigInteger, ColumnElement, Connection, Executable, bindparam, or_, select, update

from gateway.contracts.envelope import address_from_text
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import DeliveryState, Receipt, Reply, ReplyKind, Whereabouts
from gateway.store import files
from gateway.store.dialects import InsertInto, per_dialect
from gateway.store.rows import from_receipt, from_reply, receipt_whereabouts, to_reply, to_whereabouts
from gateway.store.tables import AnyText, deliveries, outbox

NEW: Final = "new"
"""Committed; no receipt says yet how its delivery ended."""

SWEEP_PAUSE_MAX_MS: Final = 600_000
"""How long a reply without a receipt is left alone at most: a channel that is down costs little, and a
reply that the bus lost is not lost for long."""

_SENT: Final = DeliveryState.SENT.value


@per_dialect
def _put(insert: InsertInto) -> Executable:
    return insert(outbox).on_conflict_do_nothing(index_elements=[outbox.c.id])


@per_dialect
def _put_new(insert: InsertInto) -> Executable:
    return insert(outbox).on_conflict_do_nothing(index_elements=[outbox.c.id]).returning(outbox.c.id)


@per_dialect
def _put_receipt(insert: InsertInto) -> Executable:
    """A receipt may come twice and late; what was sent stays sent."""
    statement = insert(deliveries)
    return statement.on_conflict_do_update(
        index_elements=[deliveries.c.reply_id],
        set_={
            name: statement.excluded[name]
            for name in ("state", "attempts", "chunks", "platform_ids", "reason", "updated_at_ms")
        },
        where=deliveries.c.state != _SENT,
    )


_UNSENT: Final = (
    select(outbox)
    .where(
        outbox.c.turn_id.in_(bindparam("turn_ids", expanding=True)),
        outbox.c.key == bindparam("k"),
        outbox.c.state == NEW,
    )
    .order_by(outbox.c.created_at_ms, outbox.c.turn_id, outbox.c.position)
)
_COMMITTED: Final = select(outbox).where(outbox.c.id == bindparam("reply"))
_LAST_ADDRESS: Final = (
    select(outbox.c.address).where(outbox.c.key == bindparam("k")).order_by(outbox.c.created_at_ms.desc()).limit(1)
)
_SILENT_MS: Final[ColumnElement[int]] = bindparam("now_ms", type_=BigInteger) - outbox.c.updated_at_ms
_TAKE_STALE: Final = (
    update(outbox)
    .where(
        outbox.c.id.in_(
            select(outbox.c.id)
            .where(outbox.c.state == NEW, bindparam("after_ms") <= _SILENT_MS)
            .where(or_(outbox.c.updated_at_ms - outbox.c.created_at_ms <= _SILENT_MS, _SILENT_MS >= SWEEP_PAUSE_MAX_MS))
            .order_by(outbox.c.updated_at_ms)
            .limit(bindparam("page_limit"))
            .with_for_update(skip_locked=True)
        )
    )
    .values(updated_at_ms=bindparam("now_ms"))
    .returning(outbox)
)
_FAR: Final = select(
    outbox, deliveries.c.platform_ids, deliveries.c.chunks, deliveries.c.attempts, deliveries.c.reason
).outerjoin(deliveries, deliveries.c.reply_id == outbox.c.id)
_RECENT: Final = (
    _FAR.where(outbox.c.kind != ReplyKind.TITLE.value)
    .order_by(outbox.c.created_at_ms.desc(), outbox.c.turn_id.desc(), outbox.c.position.desc())
    .limit(bindparam("page_limit"))
)
_OF_TURN: Final = _FAR.where(outbox.c.turn_id == bindparam("turn")).order_by(outbox.c.position)
_OF_NO_TURN: Final = _FAR.where(outbox.c.id == bindparam("reply", type_=AnyText), outbox.c.turn_id == "")
_RECEIPT: Final = select(deliveries).where(deliveries.c.reply_id == bindparam("reply", type_=AnyText))
_RECENT_OF_KEY: Final = _RECENT.where(outbox.c.key == bindparam("k"))
_END: Final = (
    update(outbox)
    .where(outbox.c.id.in_(bindparam("replies", expanding=True)), outbox.c.state != _SENT)
    .values(state=bindparam("end"), updated_at_ms=bindparam("now_ms"))
    .returning(outbox.c.id, outbox.c.files)
)


def put(connection: Connection, replies: Sequence[Reply]) -> None:
    """Commit replies in their order; an id that is known keeps its row."""
    rows = [from_reply(reply, position=index, state=NEW) for index, reply in enumerate(replies)]
    if rows:
        connection.execute(_put(connection), rows)


def put_one(connection: Connection, reply: Reply) -> bool:
    """Commit one reply; False if its id is known."""
    return connection.execute(_put_new(connection), from_reply(reply, position=0, state=NEW)).one_or_none() is not None


def unsent(connection: Connection, key: SessionKey, turn_ids: Sequence[str]) -> tuple[Reply, ...]:
    """What these turns answered and no receipt has ended."""
    rows = connection.execute(_UNSENT, {"turn_ids": turn_ids, "k": str(key)})
    return tuple(to_reply(row) for row in rows)


def committed(connection: Connection, reply_id: str) -> Reply | None:
    """One reply, however its delivery stands."""
    row = connection.execute(_COMMITTED, {"reply": reply_id}).one_or_none()
    return None if row is None else to_reply(row)


def last_address(connection: Connection, key: SessionKey) -> ReplyAddress | None:
    """`Store.last_address`."""
    found = connection.execute(_LAST_ADDRESS, {"k": str(key)}).scalar_one_or_none()
    return None if found is None else address_from_text(found)


def take_stale(connection: Connection, *, now_ms: int, after_ms: int, limit: int) -> list[Reply]:
    """`Store.take_stale_outbox` in one transaction: oldest first, each reply for one caller."""
    page = {"now_ms": now_ms, "after_ms": after_ms, "page_limit": max(limit, 0)}
    rows = connection.execute(_TAKE_STALE, page).all()
    return [to_reply(row) for row in sorted(rows, key=lambda row: (row.created_at_ms, row.turn_id, row.position))]


def recent(connection: Connection, *, key: SessionKey | None, limit: int) -> list[Whereabouts]:
    """How far the newest replies that anybody reads came, newest first; of one key or of all."""
    page = {"page_limit": max(limit, 0)}
    rows = (
        connection.execute(_RECENT, page) if key is None else connection.execute(_RECENT_OF_KEY, page | {"k": str(key)})
    )
    return [to_whereabouts(row) for row in rows]


def of_turn(connection: Connection, turn_id: str) -> list[Whereabouts]:
    """How far the replies of one turn came, in their order."""
    return [to_whereabouts(row) for row in connection.execute(_OF_TURN, {"turn": turn_id})]


def notice(connection: Connection, reply_id: str) -> tuple[SessionKey, Whereabouts] | None:
    """Find a reply that no turn made, and whom it went to; of one that a channel made there is but its receipt."""
    if row := connection.execute(_OF_NO_TURN, {"reply": reply_id}).one_or_none():
        return SessionKey.parse(row.key), to_whereabouts(row)
    if row := connection.execute(_RECEIPT, {"reply": reply_id}).one_or_none():
        return SessionKey.parse(row.key), receipt_whereabouts(row)
    return None


def record_receipts(connection: Connection, receipts: Sequence[Receipt], *, now_ms: int) -> None:
    """Write how deliveries ended, in one order everywhere, so that two relays cannot wait for each other: who has the
    rows of `deliveries` has those of `outbox`."""
    ordered = sorted(receipts, key=lambda receipt: receipt.record.reply_id)
    rows = [from_receipt(receipt, now_ms=now_ms) for receipt in ordered]
    if rows:
        connection.execute(_put_receipt(connection), rows)
    for state in sorted({row["state"] for row in rows}):
        ended = {"replies": [row["reply_id"] for row in rows if row["state"] == state], "end": state, "now_ms": now_ms}
        with_files = [row.id for row in connection.execute(_END, ended) if row.files]
        if with_files:
            files.forget(connection, with_files)
