"""Committed replies, with their files and buttons, and how their delivery ended.

The bytes of a file are kept from the commit of its reply to its receipt. A button says a command: one press uses up
its whole group."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Executable, Row, bindparam, delete, insert, or_, select, update

from gateway.contracts import messages
from gateway.contracts.envelope import address_from_text, files_from_text, files_to_text
from gateway.contracts.ids import EVENTS, ReplyAddress, SessionKey
from gateway.contracts.sessions import FileContent
from gateway.store import engine
from gateway.store.tables import AnyText, buttons, deliveries, outbox, reply_files

NEW: Final = "new"
"""Committed; no receipt says yet how its delivery ended."""

SWEEP_PAUSE_MAX_MS: Final = 600_000
"""The longest time for which a reply without a receipt is left alone: a channel that is down costs little, and a reply
that the bus lost is not lost for long."""

_SENT: Final = messages.DeliveryState.SENT.value
_put: Final = engine.insert_new(outbox)


@engine.per_dialect
def _put_new(insert: engine.InsertInto) -> Executable:
    return insert(outbox).on_conflict_do_nothing(index_elements=[outbox.c.id]).returning(outbox.c.id)


_put_receipt: Final = engine.upsert(
    deliveries,
    *("state", "attempts", "chunks", "platform_ids", "reason", "updated_at_ms"),
    where=deliveries.c.state != _SENT,
)
"""A receipt may come twice and late; what was sent stays sent."""

_UNSENT: Final = (
    select(outbox)
    .where(outbox.c.turn_id.in_(bindparam("turn_ids")), outbox.c.key == bindparam("k"), outbox.c.state == NEW)
    .order_by(outbox.c.created_at_ms, outbox.c.turn_id, outbox.c.position)
)
_COMMITTED: Final = select(outbox).where(outbox.c.id == bindparam("reply"))
OPERATOR: Final = "admin"
"""The channel of answers to the operator's own orders, which end in the API."""

_LAST_ADDRESS: Final = (
    select(outbox.c.address)
    .where(
        outbox.c.key == bindparam("k"),
        *(outbox.c.address.not_like(f'{{"channel":"{elsewhere}",%') for elsewhere in (OPERATOR, EVENTS)),
    )
    .order_by(outbox.c.created_at_ms.desc())
    .limit(1)
)
_SILENT_MS: Final[ColumnElement[int]] = bindparam("now_ms", type_=BigInteger) - outbox.c.updated_at_ms
# Chosen by a CTE of its own: a subquery with a limit may be executed again for each row that PostgreSQL looks at, and
# then takes more than the limit.
_STALE: Final = (
    select(outbox.c.id)
    .where(outbox.c.state == NEW, bindparam("after_ms") <= _SILENT_MS)
    .where(or_(outbox.c.updated_at_ms - outbox.c.created_at_ms <= _SILENT_MS, _SILENT_MS >= SWEEP_PAUSE_MAX_MS))
    .order_by(outbox.c.updated_at_ms)
    .limit(bindparam("page_limit"))
    .with_for_update(skip_locked=True)
    .cte("stale")
)
_TAKE_STALE: Final = (
    update(outbox)
    .where(outbox.c.id.in_(select(_STALE.c.id)))
    .values(updated_at_ms=bindparam("now_ms"))
    .returning(outbox)
)
_FAR: Final = select(
    outbox, deliveries.c.platform_ids, deliveries.c.chunks, deliveries.c.attempts, deliveries.c.reason
).outerjoin(deliveries, deliveries.c.reply_id == outbox.c.id)
_RECENT: Final = (
    _FAR.where(outbox.c.kind != messages.ReplyKind.TITLE.value)
    .order_by(outbox.c.created_at_ms.desc(), outbox.c.turn_id.desc(), outbox.c.position.desc())
    .limit(bindparam("page_limit"))
)
_OF_TURN: Final = _FAR.where(outbox.c.turn_id == bindparam("turn")).order_by(outbox.c.position)
_OF_NO_TURN: Final = _FAR.where(outbox.c.id == bindparam("reply", type_=AnyText), outbox.c.turn_id == "")
_RECEIPT: Final = select(deliveries).where(deliveries.c.reply_id == bindparam("reply", type_=AnyText))
_RECENT_OF_KEY: Final = _RECENT.where(outbox.c.key == bindparam("k"))
_END: Final = (
    update(outbox)
    .where(outbox.c.id.in_(bindparam("replies")), outbox.c.state != _SENT)
    .returning(outbox.c.id, outbox.c.files)
)


def put_replies(connection: engine.Connection, replies: Sequence[messages.Reply]) -> None:
    """Commit replies that belong to no turn (answers of the control lane), or those of one, in their order; a known id
    keeps its row."""
    rows = [from_reply(reply, position=index, state=NEW) for index, reply in enumerate(replies)]
    if rows:
        connection.execute(_put(connection), rows)


def unsent(connection: engine.Connection, key: SessionKey, turn_ids: Sequence[str]) -> tuple[messages.Reply, ...]:
    """Return what these turns answered and no receipt has ended."""
    rows = connection.execute(_UNSENT, {"turn_ids": turn_ids, "k": str(key)})
    return tuple(to_reply(row) for row in rows)


def of_turn(connection: engine.Connection, turn_id: str) -> list[messages.DeliveryProgress]:
    """Tell how far the replies of one turn came, in their order."""
    return [to_progress(row) for row in connection.execute(_OF_TURN, {"turn": turn_id})]


def notice(connection: engine.Connection, reply_id: str) -> tuple[SessionKey, messages.DeliveryProgress] | None:
    """Find a reply that no turn made, and whom it went to; of one that a channel made there is but its receipt."""
    if row := connection.execute(_OF_NO_TURN, {"reply": reply_id}).one_or_none():
        return SessionKey.parse(row.key), to_progress(row)
    if row := connection.execute(_RECEIPT, {"reply": reply_id}).one_or_none():
        # A row of `deliveries` alone: nobody wrote down when the reply was made.
        sent = len(json.loads(row.platform_ids))
        return SessionKey.parse(row.key), engine.value_of(
            messages.DeliveryProgress, row, turn_id="", created_at_ms=0, chunks_sent=sent
        )
    return None


_FILE_CONTENT: Final = select(reply_files.c.content).where(
    reply_files.c.reply_id == bindparam("reply"),
    reply_files.c.position == bindparam("place"),
    reply_files.c.key == bindparam("k"),
)
_FORGET_FILES: Final = delete(reply_files).where(reply_files.c.reply_id.in_(bindparam("replies")))
_put_file: Final = engine.insert_new(reply_files)


def put_files(connection: engine.Connection, key: SessionKey, contents: Sequence[FileContent]) -> None:
    """Keep the bytes; what is known keeps its row, as its reply does."""
    rows = [engine.row_of(reply_files, each, key=str(key)) for each in contents]
    if rows:
        connection.execute(_put_file(connection), rows)


_NOBODY: Final = ""
_KEPT_MS: Final = 86_400_000
"""The time for which an expired button is still known as such."""

_PUT_BUTTONS: Final = insert(buttons)
_CLEAR_BUTTONS: Final = delete(buttons).where(
    buttons.c.key == bindparam("k"), buttons.c.expires_at_ms < bindparam("before_ms")
)
_BUTTON: Final = select(buttons).where(buttons.c.token == bindparam("t"))
_ITS_GROUP: Final = select(buttons.c.group_id).where(buttons.c.token == bindparam("t")).scalar_subquery()
_GROUP: Final = select(buttons).where(buttons.c.group_id == _ITS_GROUP).order_by(buttons.c.token).with_for_update()
_USE: Final = update(buttons).where(buttons.c.group_id == bindparam("g"))
_GIVE_BACK: Final = (
    update(buttons)
    .where(buttons.c.group_id == _ITS_GROUP, buttons.c.pressed_by == bindparam("p"))
    .values(pressed_by=_NOBODY)
)


def put_buttons(connection: engine.Connection, new: Sequence[messages.Button], *, now_ms: int) -> None:
    """Write the actions of the buttons of a reply; what expired long ago on their lane goes."""
    if new:
        connection.execute(_CLEAR_BUTTONS, {"k": str(new[0].key), "before_ms": now_ms - _KEPT_MS})
        connection.execute(
            _PUT_BUTTONS, [engine.row_of(buttons, each, group_id=each.group, pressed_by=_NOBODY) for each in new]
        )


_ENDS: Final = {state.value: state for state in messages.DeliveryState}
"""The states in a receipt; before one is written, `outbox.state` has a word of its own."""


def from_reply(reply: messages.Reply, *, position: int, state: str) -> engine.Values:
    """Make a row of `outbox`."""
    choices = [[choice.label, choice.command] for choice in reply.choices]
    return engine.row_of(
        outbox,
        reply,
        position=position,
        choices=engine.to_json(choices) if choices else None,
        files=files_to_text(reply.files) if reply.files else None,
        state=state,
        updated_at_ms=reply.created_at_ms,
    )


def to_reply(row: Row[Any]) -> messages.Reply:
    """Read back, as the inverse of `from_reply`."""
    choices = tuple(
        messages.Choice(messages.CleanText(label), messages.CleanText(command))
        for label, command in json.loads(row.choices or "[]")
    )
    return engine.value_of(messages.Reply, row, choices=choices, files=files_from_text(row.files) if row.files else ())


def from_receipt(receipt: messages.Receipt, *, now_ms: int) -> engine.Values:
    """Make a row of `deliveries`."""
    record, key = receipt.record, str(receipt.key)
    at_ms = record.updated_at_ms or now_ms
    return engine.row_of(
        deliveries, record, key=key, channel=receipt.channel, attempts=record.attempt, updated_at_ms=at_ms
    )


def to_progress(row: Row[Any]) -> messages.DeliveryProgress:
    """Read a row of `outbox` joined with its receipt, which may be missing."""
    return messages.DeliveryProgress(
        reply_id=row.id,
        turn_id=row.turn_id,
        channel=address_from_text(row.address).channel,
        created_at_ms=row.created_at_ms,
        state=_ENDS.get(row.state, messages.DeliveryState.PENDING),
        chunks_sent=len(json.loads(row.platform_ids)) if row.platform_ids else 0,
        chunks=row.chunks or 0,
        attempts=row.attempts or 0,
        reason=messages.CleanText(row.reason or ""),
        updated_at_ms=row.updated_at_ms,
    )


class ButtonStore(engine.Aggregate):
    """The actions of buttons. Those of a turn come with its commit. Raises `StoreUnavailable`."""

    @engine.write
    def offer(self, connection: engine.Connection, reply: messages.Reply, buttons: Sequence[messages.Button]) -> bool:
        """Commit a reply that belongs to no turn with the actions of its buttons. False: it was committed before,
        with the buttons that it had then."""
        is_new = (
            connection.execute(_put_new(connection), from_reply(reply, position=0, state=NEW)).one_or_none() is not None
        )
        if is_new:
            put_buttons(connection, buttons, now_ms=reply.created_at_ms)
        return is_new

    @engine.read
    def find(self, connection: engine.Connection, token: str) -> messages.Button | None:
        """Find the button of a token; None for one that nobody was given, or long ago."""
        row = connection.execute(_BUTTON, {"t": token}).one_or_none()
        return None if row is None else engine.value_of(messages.Button, row, group=row.group_id)

    @engine.write
    def redeem(
        self, connection: engine.Connection, token: str, *, press_id: str, now_ms: int
    ) -> messages.RedeemedButton:
        """Use up a button and its group: one press of them all counts, and counts again when it comes again."""
        # The rows of a group are locked in one order, so that two presses of two buttons cannot both count.
        group = connection.execute(_GROUP, {"t": token}).all()
        pressed = next((row for row in group if row.token == token), None)
        if pressed is None:
            return messages.RedeemedButton(messages.PressState.GONE)
        reply_ids = tuple(dict.fromkeys(row.reply_id for row in group))
        if pressed.pressed_by == press_id:
            return messages.RedeemedButton(messages.PressState.TAKEN, reply_ids)
        if pressed.pressed_by != _NOBODY:
            return messages.RedeemedButton(messages.PressState.USED, reply_ids)
        if pressed.expires_at_ms <= now_ms:
            return messages.RedeemedButton(messages.PressState.EXPIRED, reply_ids)
        connection.execute(_USE, {"g": pressed.group_id, "pressed_by": press_id})
        return messages.RedeemedButton(messages.PressState.TAKEN, reply_ids)

    @engine.write
    def give_back(self, connection: engine.Connection, token: str, *, press_id: str) -> None:
        """Give the group back, to be pressed again: nothing came of that press."""
        connection.execute(_GIVE_BACK, {"t": token, "p": press_id})


class OutboxStore(engine.Aggregate):
    """Committed replies, and how their delivery ended. Raises `StoreUnavailable`."""

    @engine.write_unsynced  # else it is taken again, which is cut by id
    def take_stale(self, connection: engine.Connection, *, after_ms: int, limit: int) -> Sequence[messages.Reply]:
        """Take replies without a receipt that were committed `after_ms` ago, for the relay to publish again. Each is
        given to one caller, and again only after it has waited for as long again as it had before."""
        now_ms = self.clock.now_ms()
        page = {"now_ms": now_ms, "after_ms": after_ms, "page_limit": max(limit, 0)}
        rows = connection.execute(_TAKE_STALE, page).all()
        return [to_reply(row) for row in sorted(rows, key=lambda row: (row.created_at_ms, row.turn_id, row.position))]

    @engine.write
    def record_receipts(self, connection: engine.Connection, receipts: Sequence[messages.Receipt]) -> None:
        """Write down how deliveries ended."""
        now_ms = self.clock.now_ms()
        ordered = sorted(receipts, key=lambda receipt: receipt.record.reply_id)
        rows = [from_receipt(receipt, now_ms=now_ms) for receipt in ordered]
        if rows:
            connection.execute(_put_receipt(connection), rows)
        for state in sorted({row["state"] for row in rows}):
            ended = {
                "replies": [row["reply_id"] for row in rows if row["state"] == state],
                "state": state,
                "updated_at_ms": now_ms,
            }
            with_files = [row.id for row in connection.execute(_END, ended) if row.files]
            if with_files:
                connection.execute(_FORGET_FILES, {"replies": list(with_files)})

    @engine.read
    def recent(
        self, connection: engine.Connection, key: SessionKey | None, *, limit: int
    ) -> Sequence[messages.DeliveryProgress]:
        """Tell how far the newest replies of a key came (None: of all keys), newest first."""
        page = {"page_limit": max(limit, 0)}
        rows = (
            connection.execute(_RECENT, page)
            if key is None
            else connection.execute(_RECENT_OF_KEY, page | {"k": str(key)})
        )
        return [to_progress(row) for row in rows]

    @engine.read
    def last_address(self, connection: engine.Connection, key: SessionKey) -> ReplyAddress | None:
        """Tell where the newest reply to this key went in its chat; None before there was any."""
        found = connection.execute(_LAST_ADDRESS, {"k": str(key)}).scalar_one_or_none()
        return None if found is None else address_from_text(found)

    @engine.read
    def committed(self, connection: engine.Connection, reply_id: str) -> messages.Reply | None:
        """Return a reply as it was committed."""
        row = connection.execute(_COMMITTED, {"reply": reply_id}).one_or_none()
        return None if row is None else to_reply(row)

    put = engine.writing(put_replies)

    @engine.read
    def file_content(
        self, connection: engine.Connection, key: SessionKey, reply_id: str, position: int
    ) -> bytes | None:
        """Return the bytes of a file of a reply of this key; None once its delivery has ended."""
        wanted = {"reply": reply_id, "place": position, "k": str(key)}
        content: bytes | None = connection.execute(_FILE_CONTENT, wanted).scalar_one_or_none()
        return content
