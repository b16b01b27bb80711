"""Where a Telegram answer goes: the part of a `ReplyAddress` that only this channel reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from channels.raw import canonical, integer, target_fields
from gateway.contracts.errors import BadEnvelope
from gateway.contracts.ids import ReplyAddress


@dataclass(frozen=True, slots=True)
class TelegramTarget:
    """Arguments of sendMessage. `message_thread_id` is a topic's, never 1 (General refuses it);
    `reply_to_message_id` is the message to quote, `answered_message_id` the one that is answered, quoted or not:
    what we send gets a higher id. Of a topic that `is_unnamed` nobody chose the name: it is the bot's to give."""

    chat_id: int
    message_thread_id: int | None = None
    direct_messages_topic_id: int | None = None
    reply_to_message_id: int | None = None
    answered_message_id: int | None = None
    is_unnamed: bool = False

    @property
    def lane(self) -> str:
        """Order is kept within `<chat>` or `<chat>/<topic>`; Telegram paces by what is before the slash."""
        topic = self.message_thread_id or self.direct_messages_topic_id
        return f"{self.chat_id}/{topic}" if topic else str(self.chat_id)

    @property
    def is_nameable(self) -> bool:
        """Topics have names, chats have theirs from people."""
        return self.message_thread_id is not None


def make_target(target: TelegramTarget) -> str:
    """Canonical JSON."""
    return canonical(asdict(target) | {"is_unnamed": target.is_unnamed or None})


def parse_target(target: str) -> TelegramTarget:
    """The inverse of `make_target`. Raises `BadEnvelope`."""
    fields = target_fields(target)
    chat_id = integer(fields.get("chat_id"))
    if chat_id is None:
        raise BadEnvelope("a Telegram target without chat_id")
    return TelegramTarget(
        chat_id=chat_id,
        message_thread_id=integer(fields.get("message_thread_id")),
        direct_messages_topic_id=integer(fields.get("direct_messages_topic_id")),
        reply_to_message_id=integer(fields.get("reply_to_message_id")),
        answered_message_id=integer(fields.get("answered_message_id")),
        is_unnamed=fields.get("is_unnamed") is True,
    )


def relocated(address: ReplyAddress, chat_id: int) -> ReplyAddress:
    """The same place under the chat's other id, where its messages have other numbers."""
    target = replace(parse_target(address.target), chat_id=chat_id, reply_to_message_id=None, answered_message_id=None)
    return replace(address, lane=target.lane, target=make_target(target))
