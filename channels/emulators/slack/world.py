"""The state of the emulated Slack: people, conversations, messages, and the timestamps that name them."""

from __future__ import annotations

import hashlib
import secrets
import string
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from channels.emulators.traffic import Json

_ALPHABET: Final = string.ascii_uppercase + string.digits


@dataclass(frozen=True, slots=True)
class User:
    """`bot_id` is set for bots; a webhook has a bot id but is no user (`is_user` false)."""

    id: str
    handle: str
    real_name: str
    bot_id: str | None = None
    is_user: bool = True
    team_id: str = ""
    locale: str = "en-US"


@dataclass(slots=True)
class File:
    id: str
    name: str
    content: bytes
    mimetype: str
    title: str = ""
    user_id: str = ""
    shares: list[tuple[str, str]] = field(default_factory=list)  # channel and ts of each message that shows it


@dataclass(slots=True)
class Message:
    """`text` is as Slack stores it: `&`, `<` and `>` escaped, mentions and links in angle brackets."""

    ts: str
    channel_id: str
    author: User
    text: str
    blocks: list[Json] = field(default_factory=list)
    thread_ts: str | None = None
    subtype: str | None = None
    is_broadcast: bool = False
    edited_ts: str | None = None
    client_msg_id: str | None = None
    metadata: Json | None = None
    files: tuple[File, ...] = ()
    attachments: tuple[Json, ...] = ()
    reactions: dict[str, list[str]] = field(default_factory=dict)
    username: str | None = None
    only_for: str | None = None  # an ephemeral message: one person sees it, no API returns it
    streams_until_s: float | None = None
    is_stopped_by_user: bool = False
    title: str = ""  # of the thread that hangs on it, as the app named it

    @property
    def is_reply(self) -> bool:
        return self.thread_ts is not None and self.thread_ts != self.ts

    def copy(self) -> Message:
        """As it stands now, for `previous_message`."""
        return replace(self, blocks=list(self.blocks), reactions=dict(self.reactions))


@dataclass(slots=True)
class Conversation:
    """A channel (`C…`) or a direct chat (`D…`). `messages` by ts, oldest first, replies among them."""

    id: str
    name: str
    created_s: int
    person_id: str | None = None
    is_private: bool = False
    is_archived: bool = False
    is_shared: bool = False
    member_ids: list[str] = field(default_factory=list)
    messages: dict[str, Message] = field(default_factory=dict)
    last_ts_us: int = 0
    _replies: dict[str, list[Message]] = field(default_factory=dict)  # by the root's ts: threads are asked for often

    @property
    def is_im(self) -> bool:
        return self.person_id is not None

    @property
    def event_type(self) -> str:
        """`channel_type` of message events."""
        return "im" if self.is_im else "group" if self.is_private else "channel"

    def public(self) -> list[Message]:
        return [m for m in self.messages.values() if m.only_for is None]

    def keep(self, message: Message) -> None:
        self.messages[message.ts] = message
        if message.is_reply:
            self._replies.setdefault(message.thread_ts or "", []).append(message)

    def forget(self, message: Message) -> None:
        del self.messages[message.ts]
        if message.is_reply:
            self._replies[message.thread_ts or ""].remove(message)

    def replies_to(self, root_ts: str) -> list[Message]:
        return [m for m in self._replies.get(root_ts, ()) if m.only_for is None]

    def root_of(self, ts: str) -> Message | None:
        """The message a thread hangs on, named by the root's ts or by that of any reply."""
        message = self.messages.get(ts)
        if message is None or not message.is_reply:
            return message
        return self.messages.get(message.thread_ts or "")


class World:
    """Everything in one workspace. `clock_s` gives Unix seconds."""

    def __init__(self, *, bot: User, team_id: str, app_id: str, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self.bot = bot
        self.team_id = team_id
        self.app_id = app_id
        self.users: dict[str, User] = {bot.id: bot}
        self.conversations: dict[str, Conversation] = {}
        self._dms: dict[str, Conversation] = {}  # by the person
        self.files: dict[str, File] = {}
        self.origin = "http://127.0.0.1"  # as the last client called us: file links need an address

    def now_s(self) -> float:
        return self._clock_s()

    def new_id(self, kind: str) -> str:
        """An opaque id with the vendor's first letter: `U`, `C`, `D`, `B`, `F`, `Ev`."""
        return kind + "0" + "".join(secrets.choice(_ALPHABET) for _ in range(9))

    def new_ts(self, place: Conversation) -> str:
        """Seconds and six digits, above every earlier one of this conversation; elsewhere it may repeat."""
        place.last_ts_us = max(int(self._clock_s() * 1_000_000), place.last_ts_us + 1)
        return as_ts(place.last_ts_us)

    # --- who

    def new_user(self, handle: str, real_name: str, *, is_bot: bool = False) -> User:
        bot_id = self.new_id("B") if is_bot else None
        user = User(self.new_id("U"), handle, real_name, bot_id=bot_id, team_id=self.team_id)
        self.users[user.id] = user
        return user

    def set_locale(self, user: User, locale: str) -> None:
        """The user's client is in another language."""
        self.users[user.id] = replace(user, locale=locale)

    # --- where

    def new_channel(self, name: str, *, is_private: bool = False) -> Conversation:
        """A channel with everybody in it, the bot too."""
        channel = Conversation(self.new_id("C"), name, int(self.now_s()), is_private=is_private)
        channel.member_ids = list(self.users)
        self.conversations[channel.id] = channel
        return channel

    def share(self, channel: Conversation) -> str:
        """Another workspace is let in, and the channel gets another id: its old one, which nobody knows any more."""
        old = channel.id
        channel.id, channel.is_shared = self.new_id("C"), True
        for message in channel.messages.values():
            message.channel_id = channel.id
        del self.conversations[old]
        self.conversations[channel.id] = channel
        return old

    def dm_with(self, user: User) -> Conversation:
        if user.id in self._dms:
            return self._dms[user.id]
        place = Conversation(self.new_id("D"), user.real_name, int(self.now_s()), person_id=user.id)
        place.member_ids = [user.id, self.bot.id]
        self.conversations[place.id] = self._dms[user.id] = place
        return place

    def new_file(self, name: str, content: bytes, mimetype: str, user_id: str) -> File:
        file = File(self.new_id("F"), name, content, mimetype, title=name, user_id=user_id)
        self.files[file.id] = file
        return file


def as_ts(microseconds: int) -> str:
    return f"{microseconds // 1_000_000}.{microseconds % 1_000_000:06d}"


def ts_key(ts: str) -> tuple[int, int]:
    """Timestamps in order, without going through a float. A missing fraction counts as zero."""
    seconds, _, fraction = ts.partition(".")
    return int(seconds or 0), int(fraction.ljust(6, "0")[:6] or 0)


def is_ts(value: str) -> bool:
    seconds, _, fraction = value.partition(".")
    return seconds.isdigit() and (fraction.isdigit() or not fraction)


def token_digest(value: str) -> str:
    """A short public name for a secret, for links and contexts."""
    return hashlib.sha256(value.encode()).hexdigest()[:24]
