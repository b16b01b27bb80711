"""A Matrix event becomes an `Incoming`, or the reason why it does not. Pure; nothing in the event is trusted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from channels.core.message import Addressing, Ignored, IgnoreReason, Incoming, Raw, integer, mapping, text, without
from gateway.contracts.commands import find_command
from gateway.contracts.ids import ReplyAddress
from trivet_matrix.address import MatrixTarget, key_part, make_target

_ID_CHARS_MAX: Final = 128
_ID: Final = re.compile(r"[@!$][\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class MatrixIdentity:
    """Who we are, from `whoami`."""

    user_id: str
    channel: str = "matrix"


def normalize(event: object, room_id: str, me: MatrixIdentity, *, is_private: bool) -> Incoming | Ignored:
    """Read one event of a room's timeline; `is_private`: nobody else is in the room."""
    raw = mapping(event)
    content = mapping(raw.get("content"))
    sender, event_id = text(raw.get("sender")), text(raw.get("event_id"))
    if reason := _reason_to_ignore(raw, content, me):
        return Ignored(reason)
    relation = mapping(content.get("m.relates_to"))
    thread_id = text(relation.get("event_id")) if relation.get("rel_type") == "m.thread" else ""
    if not all(map(_is_id, (sender, event_id, room_id, *filter(None, (thread_id,))))):
        return Ignored(IgnoreReason.MALFORMED)
    body = text(content.get("body"))
    words = without(body, [match.span() for match in re.finditer(re.escape(me.user_id), body)]) or body
    if not words.strip():
        return Ignored(IgnoreReason.EMPTY)
    command = find_command(words)
    mentioned = mapping(content.get("m.mentions")).get("user_ids")
    is_mentioned = isinstance(mentioned, list) and me.user_id in mentioned
    target = MatrixTarget(room_id, thread_id or None)
    return Incoming(
        id=f"{me.channel}:{key_part(me.user_id)}:{key_part(room_id)}:{key_part(event_id)}",
        channel=me.channel,
        account=key_part(me.user_id),
        user_id=key_part(sender),
        author_name=sender.removeprefix("@").partition(":")[0],
        place=() if is_private and not thread_id else tuple(map(key_part, filter(None, (room_id, thread_id)))),
        is_private=is_private,
        addressing=_addressing(is_private=is_private, is_mentioned=is_mentioned),
        text=words,
        address=ReplyAddress(me.channel, target.lane, make_target(target)),
        sent_at_ms=max(0, integer(raw.get("origin_server_ts")) or 0),
        command=command,
    )


def _reason_to_ignore(raw: Raw, content: Raw, me: MatrixIdentity) -> IgnoreReason | None:
    if raw.get("type") != "m.room.message":
        return IgnoreReason.SERVICE
    if raw.get("sender") == me.user_id:
        return IgnoreReason.OWN
    if content.get("msgtype") == "m.notice":  # what bots write, so that no other bot answers it
        return IgnoreReason.BOT
    if content.get("msgtype") != "m.text":
        return IgnoreReason.UNSUPPORTED
    if mapping(content.get("m.relates_to")).get("rel_type") == "m.replace":
        return IgnoreReason.NOT_AN_EDIT
    return None


def _addressing(*, is_private: bool, is_mentioned: bool) -> Addressing:
    if is_private:
        return Addressing.PRIVATE
    return Addressing.MENTION if is_mentioned else Addressing.NOT_ADDRESSED


def _is_id(matrix_id: str) -> bool:
    return bool(_ID.fullmatch(matrix_id)) and len(key_part(matrix_id)) <= _ID_CHARS_MAX
