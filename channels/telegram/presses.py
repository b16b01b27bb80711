"""A callback query becomes the press of a button, or the reason why it does not. Never raises on any JSON.

Who pressed stands in `from`, which Telegram fills in; the data behind a button is only what it says. A press
belongs to the person, not to the chat: its place is empty. The button under a draft has no data: it says /stop, to the
conversation in which the draft grows.
"""

from __future__ import annotations

import re
from typing import Final

from channels.normalized import Addressing, Ignored, IgnoreReason, Incoming
from channels.raw import integer, mapping, text
from channels.telegram.address import TelegramTarget, make_target
from channels.telegram.normalize import TelegramIdentity, place_of
from channels.telegram.quotes import user_name
from gateway.contracts.commands import find_command
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import ControlKind

STOPPED: Final = "stopped_message_generation"
_STOP: Final = f"/{ControlKind.STOP.value}"
_QUERY: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def query_id_of(update: object) -> str:
    """The id under which a press has to be answered; empty for an update that is no press."""
    found = text(mapping(mapping(update).get("callback_query")).get("id"))
    return found if _QUERY.fullmatch(found) else ""


def normalize_press(update: object, me: TelegramIdentity) -> Incoming | Ignored:
    """Read one callback query. Its message may be one that the bot cannot see any more; that changes nothing."""
    query = mapping(mapping(update).get("callback_query"))
    query_id, person = query_id_of(update), mapping(query.get("from"))
    user_id = integer(person.get("id"))
    if not query_id or user_id is None:
        return Ignored(IgnoreReason.MALFORMED)
    if person.get("is_bot") is True:
        return Ignored(IgnoreReason.BOT)
    message = mapping(query.get("message"))
    chat_id = integer(mapping(message.get("chat")).get("id"))
    target = TelegramTarget(user_id if chat_id is None else chat_id)
    data = text(query.get("data"))
    return Incoming(
        id=f"{me.channel}:{me.bot_id}:press:{query_id}",
        channel=me.channel,
        account=str(me.bot_id),
        user_id=str(user_id),
        author_name=user_name(person) or str(user_id),
        place=(),
        is_private=True,
        addressing=Addressing.COMMAND,
        text=data,
        address=ReplyAddress(me.channel, target.lane, make_target(target)),
        sent_at_ms=0,
        command=find_command(data),
        language=text(person.get("language_code")),
    )


def normalize_stop(update: object, me: TelegramIdentity) -> Incoming | None:
    """Somebody stopped the draft that he sees; None for any other update. Drafts are shown in private chats only, which
    have the id of the person."""
    stopped = mapping(mapping(update).get(STOPPED))
    chat = mapping(stopped.get("chat"))
    user_id, update_id = integer(chat.get("id")), integer(mapping(update).get("update_id"))
    if user_id is None or update_id is None or user_id <= 0:
        return None
    target = TelegramTarget(user_id, message_thread_id=integer(stopped.get("message_thread_id")))
    return Incoming(
        id=f"{me.channel}:{me.bot_id}:stop:{user_id}:{update_id}",
        channel=me.channel,
        account=str(me.bot_id),
        user_id=str(user_id),
        author_name=user_name(chat) or str(user_id),
        place=place_of(target, is_private=True),
        is_private=True,
        addressing=Addressing.COMMAND,
        text=_STOP,
        address=ReplyAddress(me.channel, target.lane, make_target(target)),
        sent_at_ms=0,
        command=find_command(_STOP),
    )
