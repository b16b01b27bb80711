"""Everything there is on this Telegram: users, chats, messages, files; and how new ones come about."""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from html import escape
from typing import Final

from channels.emulators.stage import Button, Person, PlaceKind, Said
from channels.emulators.telegram.people import Chat, ChatType, Json, Message, Topic, User
from channels.emulators.telegram.text.entities import FormattedText
from channels.emulators.telegram.text.show import to_html

FIRST_USER_ID: Final = 6_100_000_001  # above 32 bits, as new accounts are
FIRST_GROUP_ID: Final = -4_100_000_001
FIRST_SUPERGROUP_ID: Final = -1_002_100_000_001
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
        """The smallest size of a photo: a file of its own, with fewer bytes."""
        return replace(
            self,
            id=f"{self.id}s",
            unique_id=f"{self.unique_id}s",
            path=f"thumbnails/{self.path}",
            content=self.content[:THUMBNAIL_BYTES],
        )


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a place of the stage is: a chat, or a topic in one."""

    kind: PlaceKind
    chat_id: int
    thread_id: int | None = None


@dataclass(slots=True)
class World:
    """`now` gives Unix seconds."""

    bot: User
    now: Callable[[], float]
    users: dict[int, User] = field(default_factory=dict)
    chats: dict[int, Chat] = field(default_factory=dict)
    spots: dict[str, Spot] = field(default_factory=dict)
    files: dict[str, StoredFile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.users[self.bot.id] = self.bot

    def fresh_id(self) -> int:
        """A start for ids that grow by one, above all that an earlier run can have given."""
        return max(1, int(self.now()) - EPOCH_S)

    def add_user(self, name: str, *, is_bot: bool = False) -> User:
        handle = re.sub(r"\W+", "_", name.lower()).strip("_") or "someone"
        taken = {user.username for user in self.users.values()}
        handle = f"{handle}_bot" if is_bot else handle
        number = 2
        username = handle if len(handle) >= 5 else f"{handle}_here"
        while username in taken:
            username, number = f"{handle}_{number}", number + 1
        user = User(FIRST_USER_ID + len(self.users) - 1, name, username, is_bot)
        self.users[user.id] = user
        return user

    def set_language(self, user: User, language: str) -> None:
        """The user's client is in `language`, of which the API tells the first part."""
        spoken = replace(user, language=language.partition("-")[0].lower())
        self.users[user.id] = spoken
        for chat in self.chats.values():
            if chat.user is not None and chat.user.id == user.id:
                chat.user = spoken

    def add_private_chat(self, user: User) -> Chat:
        chat = Chat(user.id, ChatType.PRIVATE, "", self.fresh_id(), user=user)
        self.chats[chat.id] = chat
        self.add_spot(PlaceKind.DM, chat)
        return chat

    def add_group(self, title: str, kind: ChatType) -> Chat:
        first = FIRST_GROUP_ID if kind is ChatType.GROUP else FIRST_SUPERGROUP_ID
        chat_id = first - sum(chat.type is kind for chat in self.chats.values())
        chat = Chat(chat_id, kind, title, self.fresh_id())
        self.chats[chat.id] = chat
        return chat

    def add_spot(self, kind: PlaceKind, chat: Chat, thread_id: int | None = None) -> str:
        """A place on the stage; its id outlives a change of the chat's id."""
        place_id = f"{kind.value}-{abs(chat.id)}" if thread_id is None else f"{kind.value}-{abs(chat.id)}-{thread_id}"
        self.spots[place_id] = Spot(kind, chat.id, thread_id)
        return place_id

    def place_id(self, chat_id: int, thread_id: int | None = None) -> str:
        """The place that shows this chat or topic, "" if none does."""
        wanted = (chat_id, thread_id)
        return next((name for name, spot in self.spots.items() if (spot.chat_id, spot.thread_id) == wanted), "")

    def groups(self) -> list[Chat]:
        return [chat for chat in self.chats.values() if chat.user is None and chat.migrated_to is None]

    def add_message(
        self,
        chat: Chat,
        sender: User,
        content: FormattedText = WORDLESS,
        *,
        thread_id: int | None = None,
        reply_to: int | None = None,
        media: Json | None = None,
        files: tuple[str, ...] = (),
        service: Json | None = None,
        origin: Json | None = None,
    ) -> Message:
        """A new message at the end of `chat`. Outside forums a supergroup's replies carry their chain's id."""
        is_topic_message = thread_id is not None
        if thread_id is None and reply_to is not None and chat.type is ChatType.SUPERGROUP and not chat.is_forum:
            target = chat.messages.get(reply_to)
            thread_id = (target.thread_id or target.id) if target else None
        message = Message(
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
        )
        chat.next_message_id += 1
        chat.messages[message.id] = message
        if sender.is_bot:
            chat.last_bot_id = sender.id
        return message

    def add_topic(self, chat: Chat, name: str, by: User, *, is_name_implicit: bool = False) -> tuple[Topic, Message]:
        """A topic, and the service message that opens it; the chat is a forum from now on."""
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

    def file_of(self, message: Message) -> StoredFile | None:
        """What the message shows; of a photo's sizes the largest."""
        shapes = [shape[-1] if isinstance(shape, list) else shape for shape in message.media.values()]
        ids = (shape.get("file_id") for shape in shapes if isinstance(shape, dict))
        return next((self.files[file_id] for file_id in ids if file_id in self.files), None)

    def migrate(self, chat: Chat) -> Chat:
        """Turn a basic group into a supergroup: a new id, message ids that start again, places that follow."""
        new = self.add_group(chat.title, ChatType.SUPERGROUP)
        new.next_message_id = 1
        chat.migrated_to = new.id
        for place_id, spot in self.spots.items():
            if spot.chat_id == chat.id:
                self.spots[place_id] = Spot(spot.kind, new.id, spot.thread_id)
        return new

    def said(self, chat: Chat, message: Message, place_id: str) -> Said:
        author = message.sender
        return Said(
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


def buttons_of(message: Message) -> Iterator[Button]:
    """Those that a press sends to the bot; links and the like are none."""
    rows = (message.reply_markup or {}).get("inline_keyboard")
    for row in rows if isinstance(rows, list) else []:
        for button in row:
            if "callback_data" in button:
                yield Button(str(button["callback_data"]), str(button.get("text", "")))


def _passed_on(origin: Json) -> str:
    """The line with which a client begins what somebody passed on."""
    author = origin.get("sender_user")
    return f"<small>Forwarded from {escape(str(author['first_name']))}</small>\n" if isinstance(author, dict) else ""


def person(user: User) -> Person:
    return Person(str(user.id), user.first_name, user.username, user.is_bot)
