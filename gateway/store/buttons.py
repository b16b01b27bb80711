"""What stands behind buttons: written with the reply that they hang under, used up by one press of a group."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from gateway.contracts.buttons import Button, Redeemed, Standing
from gateway.contracts.envelope import address_from_text, address_to_text
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, Reply
from gateway.store import outbox
from gateway.store.engine import Database
from gateway.store.tables import buttons

_NOBODY: Final = ""
_KEPT_MS: Final = 86_400_000
"""How long an expired button is still known as such."""

_PUT: Final = insert(buttons)
_CLEAR: Final = delete(buttons).where(buttons.c.key == bindparam("k"), buttons.c.expires_at_ms < bindparam("before_ms"))
_FOUND: Final = select(buttons).where(buttons.c.token == bindparam("t"))
_ITS_GROUP: Final = select(buttons.c.group_id).where(buttons.c.token == bindparam("t")).scalar_subquery()
_GROUP: Final = select(buttons).where(buttons.c.group_id == _ITS_GROUP).order_by(buttons.c.token).with_for_update()
_USE: Final = update(buttons).where(buttons.c.group_id == bindparam("g")).values(pressed_by=bindparam("p"))
_GIVE_BACK: Final = (
    update(buttons)
    .where(buttons.c.group_id == _ITS_GROUP, buttons.c.pressed_by == bindparam("p"))
    .values(pressed_by=_NOBODY)
)


def put(connection: Connection, new: Sequence[Button], *, now_ms: int) -> None:
    """Write what stands behind the buttons of a reply; what expired long ago on their lane goes."""
    if new:
        connection.execute(_CLEAR, {"k": str(new[0].key), "before_ms": now_ms - _KEPT_MS})
        connection.execute(_PUT, [_from_button(button) for button in new])


class SqlButtons:
    """`gateway.contracts.ports.ButtonBook`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def offer(self, reply: Reply, buttons: Sequence[Button]) -> bool:
        """Commit a reply that belongs to no turn with its buttons; False if it was there before."""
        return await self._database.write(partial(_offer, reply=reply, new=buttons))

    async def find(self, token: str) -> Button | None:
        """None for a token that nobody was given, or long ago."""
        return await self._database.read(partial(_find, token=token))

    async def redeem(self, token: str, *, press_id: str, now_ms: int) -> Redeemed:
        """Use up a button and its group, once."""
        return await self._database.write(partial(_redeem, token=token, press_id=press_id, now_ms=now_ms))

    async def give_back(self, token: str, *, press_id: str) -> None:
        """Nothing came of that press."""
        await self._database.write(partial(_give_back, token=token, press_id=press_id))


def _offer(connection: Connection, reply: Reply, new: Sequence[Button]) -> bool:
    is_new = outbox.put_one(connection, reply)
    if is_new:
        put(connection, new, now_ms=reply.created_at_ms)
    return is_new


def _find(connection: Connection, token: str) -> Button | None:
    row = connection.execute(_FOUND, {"t": token}).one_or_none()
    return None if row is None else _to_button(row)


def _redeem(connection: Connection, token: str, press_id: str, now_ms: int) -> Redeemed:
    """The rows of a group are locked in one order, so that two presses of two buttons cannot both count."""
    group = connection.execute(_GROUP, {"t": token}).all()
    pressed = next((row for row in group if row.token == token), None)
    if pressed is None:
        return Redeemed(Standing.GONE)
    reply_ids = tuple(dict.fromkeys(row.reply_id for row in group))
    if pressed.pressed_by == press_id:
        return Redeemed(Standing.TAKEN, reply_ids)
    if pressed.pressed_by != _NOBODY:
        return Redeemed(Standing.USED, reply_ids)
    if pressed.expires_at_ms <= now_ms:
        return Redeemed(Standing.EXPIRED, reply_ids)
    connection.execute(_USE, {"g": pressed.group_id, "p": press_id})
    return Redeemed(Standing.TAKEN, reply_ids)


def _give_back(connection: Connection, token: str, press_id: str) -> None:
    connection.execute(_GIVE_BACK, {"t": token, "p": press_id})


def _from_button(button: Button) -> dict[str, Any]:
    return {
        "token": button.token,
        "group_id": button.group,
        "reply_id": button.reply_id,
        "label": button.label,
        "command": button.command,
        "meant_for": str(button.meant_for),
        "key": str(button.key),
        "address": address_to_text(button.address),
        "is_private": button.is_private,
        "place": json.dumps(button.place),
        "realm": button.realm,
        "expires_at_ms": button.expires_at_ms,
        "pressed_by": _NOBODY,
    }


def _to_button(row: Row[Any]) -> Button:
    return Button(
        token=row.token,
        group=row.group_id,
        reply_id=row.reply_id,
        label=CleanText(row.label),
        command=CleanText(row.command),
        meant_for=SessionKey.parse(row.meant_for),
        key=SessionKey.parse(row.key),
        address=address_from_text(row.address),
        is_private=row.is_private,
        place=tuple(json.loads(row.place)),
        realm=row.realm,
        expires_at_ms=row.expires_at_ms,
    )
