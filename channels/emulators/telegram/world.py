"""Everything there is on this Telegram, with its shapes in the API's JSON, and the errors of the API."""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from html import escape
from itertools import groupby
from typing import Final, TypeAlias

from channels.emulators.stage import Person, PlaceKind, Said, SharedFile, StageButton
from channels.emulators.telegram.text import Entity, FormattedText, to_html

# --- the errors of the API; clients match on their descriptions


class ApiError(Exception):
    """A call was refused. `parameters` is the API's ResponseParameters, if it has any."""

    def __init__(self, status: int, description: str, parameters: Mapping[str, int] | None = None) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.parameters = parameters


def bad_request(what: str) -> ApiError:
    return ApiError(400, f"Bad Request: {what}")


def forbidden(what: str) -> ApiError:
    return ApiError(403, f"Forbidden: {what}")


def conflict(what: str) -> ApiError:
    return ApiError(409, f"Conflict: {what}")


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized")


def method_not_found() -> ApiError:
    return ApiError(404, "Not Found: method not found")


def too_many_requests(retry_after_s: int) -> ApiError:
    return ApiError(429, f"Too Many Requests: retry after {retry_after_s}", {"retry_after": retry_after_s})


def upgraded(new_chat_id: int) -> ApiError:
    return ApiError(
        400, "Bad Request: group chat was upgraded to a supergroup chat", {"migrate_to_chat_id": new_chat_id}
    )


# --- users, chats, topics and messages


Json: TypeAlias = dict[str, object]

GENERAL_TOPIC: Final = 1


@dataclass(frozen=True, slots=True)
class TelegramUser:
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


TELEGRAM: Final = TelegramUser(777000, "Telegram", "")
"""The account that brings the posts of a channel into its discussion."""


class ChatType(StrEnum):
    PRIVATE = "private"
    GROUP = "group"
    SUPERGROUP = "supergroup"
    CHANNEL = "channel"


@dataclass(slots=True)
class TelegramMessage:
    """One message as it is now. `thread_id` is a topic, or the first message of a reply chain."""

    id: int
    sender: TelegramUser
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
    is_silent: bool = False
    sender_chat: Json = field(default_factory=dict)  # the channel that speaks, in it or in its discussion

    @property
    def topic_id(self) -> int | None:
        """Return the topic it is in; a reply chain is none."""
        return self.thread_id if self.is_topic_message else None

    @property
    def media_alone(self) -> Json:
        """Return the media part without the album it came in."""
        return {name: shape for name, shape in self.media.items() if name != "media_group_id"}

    @property
    def as_origin(self) -> Json:
        """Return the API's MessageOrigin for a forward of this message: what was forwarded before keeps its author."""
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
    user: TelegramUser | None = None
    is_forum: bool = False
    migrated_to: int | None = None
    is_lost: bool = False  # the person blocked the bot, or the group removed it
    last_bot_id: int = 0
    discussed_in: int | None = None  # of a channel: the group that gets each of its posts
    messages: dict[int, TelegramMessage] = field(default_factory=dict)
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

    def message_json(
        self, message: TelegramMessage, users: dict[int, TelegramUser], *, with_reply: bool = True
    ) -> Json:
        """Return the API's Message; a replied-to message carries no further reply."""
        shape: Json = {"message_id": message.id, "chat": self.as_json(), "date": message.date}
        if self.type is not ChatType.CHANNEL:  # nobody is told who of its administrators wrote a post
            shape["from"] = message.sender.as_json()
        if message.sender_chat:
            shape["sender_chat"] = message.sender_chat
        if message.sender.id == TELEGRAM.id:
            shape["is_automatic_forward"] = True
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

    def _reply_target(self, message: TelegramMessage) -> TelegramMessage | None:
        """Find the message answered; in a topic, what answers nothing seems to answer the message that created it."""
        if message.reply_to is not None:
            return self.messages.get(message.reply_to)
        if message.is_topic_message and message.thread_id != message.id and message.thread_id is not None:
            return self.messages.get(message.thread_id)
        return None


def entity_json(entity: Entity, users: dict[int, TelegramUser]) -> Json:
    """Return the API's MessageEntity."""
    shape: Json = {"type": entity.type, "offset": entity.offset, "length": entity.length}
    if entity.url:
        shape["url"] = entity.url
    if entity.language:
        shape["language"] = entity.language
    if entity.user_id and entity.user_id in users:
        shape["user"] = users[entity.user_id].as_json()
    return shape


# --- the world they live in


FIRST_USER_ID: Final = 6_100_000_001  # above 32 bits, as new accounts are
FIRST_GROUP_ID: Final = -4_100_000_001
FIRST_SUPERGROUP_ID: Final = -1_002_100_000_001
FIRST_CHANNEL_ID: Final = -1_002_600_000_001
_FIRST_IDS: Final = {
    ChatType.GROUP: FIRST_GROUP_ID,
    ChatType.SUPERGROUP: FIRST_SUPERGROUP_ID,
    ChatType.CHANNEL: FIRST_CHANNEL_ID,
}
THUMBNAIL_BYTES: Final = 2
WORDLESS: Final = FormattedText()
EPOCH_S: Final = 1_735_689_600  # 2025: ids that start at the seconds since then never repeat after a restart


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file somebody sent. `id` is the bot's own name for it, `path` where it is downloaded."""

    id: str
    unique_id: str
    path: str
    name: str
    mime_type: str
    content: bytes

    def as_json(self) -> Json:
        return {"file_id": self.id, "file_unique_id": self.unique_id, "file_size": len(self.content)}

    @property
    def thumbnail(self) -> StoredFile:
        """Return the smallest size of a photo: a file of its own, with fewer bytes."""
        return replace(
            self,
            id=f"{self.id}s",
            unique_id=f"{self.unique_id}s",
            path=f"thumbnails/{self.path}",
            content=self.content[:THUMBNAIL_BYTES],
        )


@dataclass(frozen=True, slots=True)
class Location:
    """The location of a place of the stage: a chat, or a topic in one."""

    kind: PlaceKind
    chat_id: int
    thread_id: int | None = None


@dataclass(slots=True)
class TelegramState:
    """`now` gives Unix seconds."""

    bot: TelegramUser
    now: Callable[[], float]
    users: dict[int, TelegramUser] = field(default_factory=dict)
    chats: dict[int, Chat] = field(default_factory=dict)
    locations: dict[str, Location] = field(default_factory=dict)
    files: dict[str, StoredFile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.users[self.bot.id] = self.bot

    def fresh_id(self) -> int:
        """Return a start for ids that grow by one, above all that an earlier run can have given."""
        return max(1, int(self.now()) - EPOCH_S)

    def add_user(self, name: str, *, is_bot: bool = False) -> TelegramUser:
        handle = re.sub(r"\W+", "_", name.lower()).strip("_") or "someone"
        taken = {user.username for user in self.users.values()}
        handle = f"{handle}_bot" if is_bot else handle
        number = 2
        username = handle if len(handle) >= 5 else f"{handle}_here"
        while username in taken:
            username, number = f"{handle}_{number}", number + 1
        user = TelegramUser(FIRST_USER_ID + len(self.users) - 1, name, username, is_bot)
        self.users[user.id] = user
        return user

    def set_language(self, user: TelegramUser, language: str) -> None:
        """Set the language of the user's client, of which the API tells the first part."""
        spoken = replace(user, language=language.partition("-")[0].lower())
        self.users[user.id] = spoken
        for chat in self.chats.values():
            if chat.user is not None and chat.user.id == user.id:
                chat.user = spoken

    def add_private_chat(self, user: TelegramUser) -> Chat:
        chat = Chat(user.id, ChatType.PRIVATE, "", self.fresh_id(), user=user)
        self.chats[chat.id] = chat
        self.add_location(PlaceKind.DM, chat)
        return chat

    def add_group(self, title: str, kind: ChatType) -> Chat:
        chat_id = _FIRST_IDS[kind] - sum(chat.type is kind for chat in self.chats.values())
        chat = Chat(chat_id, kind, title, self.fresh_id())
        self.chats[chat.id] = chat
        return chat

    def add_location(self, kind: PlaceKind, chat: Chat, thread_id: int | None = None) -> str:
        """Add a place to the stage; its id outlives a change of the chat's id."""
        place_id = f"{kind.value}-{abs(chat.id)}" if thread_id is None else f"{kind.value}-{abs(chat.id)}-{thread_id}"
        self.locations[place_id] = Location(kind, chat.id, thread_id)
        return place_id

    def place_id(self, chat_id: int, thread_id: int | None = None) -> str:
        """Return the place that shows this chat or topic, "" if none does."""
        wanted = (chat_id, thread_id)
        return next(
            (name for name, location in self.locations.items() if (location.chat_id, location.thread_id) == wanted), ""
        )

    def groups(self) -> list[Chat]:
        kinds = (ChatType.GROUP, ChatType.SUPERGROUP)
        return [chat for chat in self.chats.values() if chat.type in kinds and chat.migrated_to is None]

    def add_message(
        self,
        chat: Chat,
        sender: TelegramUser,
        content: FormattedText = WORDLESS,
        *,
        thread_id: int | None = None,
        reply_to: int | None = None,
        media: Json | None = None,
        files: tuple[str, ...] = (),
        service: Json | None = None,
        origin: Json | None = None,
    ) -> TelegramMessage:
        """Add a message at the end of `chat`. Outside forums a supergroup's replies carry their chain's id."""
        is_topic_message = thread_id is not None
        if thread_id is None and reply_to is not None and chat.type is ChatType.SUPERGROUP and not chat.is_forum:
            target = chat.messages.get(reply_to)
            thread_id = (target.thread_id or target.id) if target else None
        message = TelegramMessage(
            chat.next_message_id,
            sender,
            int(self.now()),
            content,
            thread_id,
            is_topic_message,
            reply_to,
            media=media or {},
            files=files,
            service=service or {},
            origin=origin or {},
            sender_chat=chat.as_json() if chat.type is ChatType.CHANNEL else {},
        )
        chat.next_message_id += 1
        chat.messages[message.id] = message
        if sender.is_bot:
            chat.last_bot_id = sender.id
        return message

    def add_topic(
        self, chat: Chat, name: str, by: TelegramUser, *, is_name_implicit: bool = False
    ) -> tuple[Topic, TelegramMessage]:
        """Add a topic, and the service message that opens it; the chat is a forum from now on."""
        chat.is_forum = True
        said: Json = {"name": name, "icon_color": 7322096}
        if is_name_implicit:
            said["is_name_implicit"] = True
        created = self.add_message(chat, by, service={"forum_topic_created": said})
        created.thread_id, created.is_topic_message = created.id, True
        topic = Topic(created.id, name, by.id)
        chat.topics[topic.id] = topic
        return topic, created

    def add_file(self, name: str, mime_type: str, content: bytes) -> StoredFile:
        number = len(self.files) // 2 + 1
        digest = hashlib.sha256(content + name.encode()).hexdigest()
        folder = mime_type.partition("/")[0] if mime_type.startswith(("image/", "audio/")) else "documents"
        suffix = mimetypes.guess_extension(mime_type) or ".bin"
        ending = name[name.rindex(".") :] if "." in name else suffix
        stored = StoredFile(
            id=f"BQACAgIAAx0C{digest[:24]}{number:06d}",
            unique_id=f"AgAD{digest[24:36]}",
            path=f"{folder}/file_{number}{ending}",
            name=name,
            mime_type=mime_type,
            content=content,
        )
        for each in (stored, stored.thumbnail):
            self.files[each.id] = each
        return stored

    def file_of(self, message: TelegramMessage) -> StoredFile | None:
        """Return what the message shows; of a photo's sizes the largest."""
        shapes = [shape[-1] if isinstance(shape, list) else shape for shape in message.media.values()]
        ids = (shape.get("file_id") for shape in shapes if isinstance(shape, dict))
        return next((self.files[file_id] for file_id in ids if file_id in self.files), None)

    def migrate(self, chat: Chat) -> Chat:
        """Turn a basic group into a supergroup: a new id, message ids that start again, places that follow."""
        new = self.add_group(chat.title, ChatType.SUPERGROUP)
        new.next_message_id = 1
        chat.migrated_to = new.id
        for place_id, location in self.locations.items():
            if location.chat_id == chat.id:
                self.locations[place_id] = Location(location.kind, new.id, location.thread_id)
        return new

    def said(self, chat: Chat, message: TelegramMessage, place_id: str) -> Said:
        author = message.sender
        return Said(
            address=f"{self.bot.id}:{chat.id}:{message.id}",
            id=str(message.id),
            place_id=place_id,
            author=person(author),
            text=message.content.text,
            html=_passed_on(message.origin) + to_html(message.content),
            at_ms=message.date * 1000,
            edited=message.edited_at is not None,
            reply_to=str(message.reply_to) if message.reply_to in chat.messages else None,
            files=message.files,
            buttons=tuple(buttons_of(message)),
            silent=message.is_silent,
        )


def buttons_of(message: TelegramMessage) -> Iterator[StageButton]:
    """Find the buttons whose press goes to the bot; links and the like are none."""
    rows = (message.reply_markup or {}).get("inline_keyboard")
    for row in rows if isinstance(rows, list) else []:
        for button in row:
            if "callback_data" in button:
                yield StageButton(str(button["callback_data"]), str(button.get("text", "")))


def _passed_on(origin: Json) -> str:
    """Write the line with which a client begins a forwarded message."""
    author = origin.get("sender_user")
    return f"<small>Forwarded from {escape(str(author['first_name']))}</small>\n" if isinstance(author, dict) else ""


def person(user: TelegramUser) -> Person:
    return Person(str(user.id), user.first_name, user.username, user.is_bot, user.language)


# --- files of a person: one message each, as Telegram's own client sends them, several as albums


ALBUM: Final = range(2, 11)
_KINDS: Final = {
    "image/jpeg": "photo",
    "image/png": "photo",
    "image/webp": "sticker",
    "image/gif": "animation",
    "audio/ogg": "voice",
    "video/mp4": "video",
}
_ALBUMS: Final = {"photo": "seen", "video": "seen", "document": "document", "audio": "audio"}
"""The media that may share an album; the others go alone."""


def shared(world: TelegramState, files: Sequence[SharedFile], album: str) -> Iterator[tuple[Json, str]]:
    """Give the media part of each message, and the file's name. `album` begins the name of every album."""
    for number, (family, together) in enumerate(groupby(files, key=lambda file: _ALBUMS.get(kind_of(file)))):
        members = list(together)
        for at in range(0, len(members), ALBUM.stop - 1):
            part = members[at : at + ALBUM.stop - 1]
            group: Json = {"media_group_id": f"{album}{number}{at}"} if family and len(part) in ALBUM else {}
            for file in part:
                stored = world.add_file(file.name, file.media_type, file.content)
                yield media_shape(kind_of(file), stored) | group, file.name


def kind_of(file: SharedFile) -> str:
    """Return the kind as which the client sends the file."""
    named = _KINDS.get(file.media_type)
    return named or ("audio" if file.media_type.startswith("audio/") else "document")


def media_shape(kind: str, stored: StoredFile) -> Json:
    """Return the media part of a Message. Sizes and durations are made up; nothing here decodes media."""
    shape = stored.as_json()
    if kind == "photo":
        small = stored.thumbnail.as_json() | {"width": 90, "height": 67}
        return {"photo": [small, shape | {"width": 1280, "height": 960}]}
    if kind == "sticker":
        looks: Json = {"type": "regular", "width": 512, "height": 512, "is_animated": False, "is_video": False}
        return {"sticker": shape | looks | {"emoji": "\N{THUMBS UP SIGN}"}}
    shape |= {"mime_type": stored.mime_type}
    if kind in {"voice", "audio"}:
        shape |= {"duration": 3}
    if kind in {"video", "animation"}:
        shape |= {"width": 640, "height": 480, "duration": 3}
    if kind != "voice":
        shape |= {"file_name": stored.name}
    media: Json = {kind: shape}
    return media | {"document": stored.as_json()} if kind == "animation" else media
