"""Users, chats, topics and messages, and their shapes in the Bot API's JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from channels.emulators.telegram.text.entities import Entity, FormattedText

Json: TypeAlias = dict[str, object]

GENERAL_TOPIC: Final = 1


@dataclass(frozen=True, slots=True)
class User:
    """`language` is the code of the person's client."""

    id: int
    first_name: str
    username: str
    is_bot: bool = False
    language: str = "en"

    def as_json(self) -> Json:
        shape: Json = {"id": self.id, "is_bot": self.is_bot, "first_name": self.first_name}
        if self.username:
            shape["username"] = self.username
        if not self.is_bot:
            shape["language_code"] = self.language
        return shape


class ChatType(StrEnum):
    PRIVATE = "private"
    GROUP = "group"
    SUPERGROUP = "supergroup"


@dataclass(slots=True)
class Message:
    """One message as it stands now. `thread_id` is a topic, or the first message of a reply chain."""

    id: int
    sender: User
    date: int
    content: FormattedText = field(default_factory=FormattedText)
    thread_id: int | None = None
    is_topic_message: bool = False
    reply_to: int | None = None
    edited_at: int | None = None
    media: Json = field(default_factory=dict)  # the media part of the shape, such as {"document": {...}}
    files: tuple[str, ...] = ()
    service: Json = field(default_factory=dict)  # the service part, such as {"forum_topic_created": {...}}
    origin: Json = field(default_factory=dict)  # of a message that was passed on: its first author and date
    reply_markup: Json | None = None
    reactions: dict[int, list[Json]] = field(default_factory=dict)
    is_silent: bool = False

    @property
    def topic_id(self) -> int | None:
        """The topic it is in; a reply chain is none."""
        return self.thread_id if self.is_topic_message else None

    @property
    def media_alone(self) -> Json:
        """The media part without the album it came in."""
        return {name: shape for name, shape in self.media.items() if name != "media_group_id"}

    @property
    def as_origin(self) -> Json:
        """The API's MessageOrigin for whoever passes this message on: what was passed on before keeps its author."""
        return self.origin or {"type": "user", "sender_user": self.sender.as_json(), "date": self.date}


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a forum, or of a person's chat with the bot; its id is that of the service message that created it."""

    id: int
    name: str
    creator_id: int


@dataclass(slots=True)
class Chat:
    """A chat with all its messages. `migrated_to` is set on a basic group that became a supergroup."""

    id: int
    type: ChatType
    title: str
    next_message_id: int
    user: User | None = None
    is_forum: bool = False
    migrated_to: int | None = None
    is_lost: bool = False  # the person blocked the bot, or the group removed it
    last_bot_id: int = 0
    messages: dict[int, Message] = field(default_factory=dict)
    topics: dict[int, Topic] = field(default_factory=dict)

    def as_json(self) -> Json:
        if self.user is not None:
            shape: Json = {"id": self.id, "type": self.type.value, "first_name": self.user.first_name}
            if self.user.username:
                shape["username"] = self.user.username
            return shape
        shape = {"id": self.id, "type": self.type.value, "title": self.title}
        if self.is_forum:
            shape["is_forum"] = True
        if self.type is ChatType.GROUP:
            shape["all_members_are_administrators"] = True
        return shape

    def message_json(self, message: Message, users: dict[int, User], *, with_reply: bool = True) -> Json:
        """The API's Message; a replied-to message carries no further reply."""
        shape: Json = {
            "message_id": message.id,
            "from": message.sender.as_json(),
            "chat": self.as_json(),
            "date": message.date,
        }
        if message.thread_id is not None:
            shape["message_thread_id"] = message.thread_id
        if message.is_topic_message:
            shape["is_topic_message"] = True
        if message.edited_at is not None:
            shape["edit_date"] = message.edited_at
        if with_reply and (target := self._reply_target(message)) is not None:
            shape["reply_to_message"] = self.message_json(target, users, with_reply=False)
        if message.origin:
            shape["forward_origin"] = message.origin
        shape |= message.media | message.service
        if message.content.text:
            prefix = "caption_" if message.media else ""
            shape["caption" if message.media else "text"] = message.content.text
            if message.content.entities:
                shape[f"{prefix}entities"] = [entity_json(each, users) for each in message.content.entities]
        if message.reply_markup is not None:
            shape["reply_markup"] = message.reply_markup
        return shape

    def _reply_target(self, message: Message) -> Message | None:
        """In a topic, what answers nothing looks like an answer to the message that created the topic."""
        if message.reply_to is not None:
            return self.messages.get(message.reply_to)
        if message.is_topic_message and message.thread_id != message.id and message.thread_id is not None:
            return self.messages.get(message.thread_id)
        return None


def entity_json(entity: Entity, users: dict[int, User]) -> Json:
    """The API's MessageEntity."""
    shape: Json = {"type": entity.type, "offset": entity.offset, "length": entity.length}
    if entity.url:
        shape["url"] = entity.url
    if entity.language:
        shape["language"] = entity.language
    if entity.custom_emoji_id:
        shape["custom_emoji_id"] = entity.custom_emoji_id
    if entity.user_id and entity.user_id in users:
        shape["user"] = users[entity.user_id].as_json()
    return shape
