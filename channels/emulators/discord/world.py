"""The state of the emulated Discord: users, guilds, channels, messages, and the ids that order them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from channels.emulators.traffic import Json

DISCORD_EPOCH_MS: Final = 1_420_070_400_000  # first second of 2015: snowflakes count from here


class ChannelKind(IntEnum):
    TEXT = 0
    DM = 1
    ANNOUNCEMENT = 5
    PUBLIC_THREAD = 11
    PRIVATE_THREAD = 12
    FORUM = 15


class MessageKind(IntEnum):
    DEFAULT = 0
    NAME_CHANGED = 4
    PINNED = 6
    JOINED = 7
    THREAD_CREATED = 18
    REPLY = 19
    COMMAND_ANSWER = 20
    THREAD_STARTER = 21


class MessageFlag(IntEnum):
    SUPPRESS_EMBEDS = 1 << 2
    HAS_THREAD = 1 << 5
    EPHEMERAL = 1 << 6
    LOADING = 1 << 7
    SILENT = 1 << 12
    VOICE = 1 << 13
    HAS_SNAPSHOT = 1 << 14
    COMPONENTS_V2 = 1 << 15


@dataclass(frozen=True, slots=True)
class User:
    id: int
    username: str
    shown_as: str
    is_bot: bool = False
    webhook_id: int | None = None
    locale: str = "en-US"


@dataclass(frozen=True, slots=True)
class File:
    """An attachment on the emulated content network."""

    id: int
    name: str
    content: bytes
    content_type: str
    description: str | None = None


@dataclass(slots=True)
class Message:
    id: int
    channel_id: int
    author: User
    content: str
    at_ms: int
    kind: MessageKind = MessageKind.DEFAULT
    edited_ms: int | None = None
    user_mentions: tuple[int, ...] = ()
    role_mentions: tuple[int, ...] = ()
    mentions_everyone: bool = False
    files: tuple[File, ...] = ()
    embeds: list[Json] = field(default_factory=list)
    components: list[Json] = field(default_factory=list)
    flags: int = 0
    tts: bool = False
    pinned: bool = False
    nonce: str | None = None
    reference: Json | None = None
    interaction: Json | None = None
    passed_on: Message | None = None  # a copy of the message that this one forwards
    reactions: dict[str, list[int]] = field(default_factory=dict)


@dataclass(slots=True)
class Channel:
    """A text channel, a direct chat or a thread: for Discord they are all channels."""

    id: int
    kind: ChannelKind
    name: str
    guild_id: int | None = None
    recipient_id: int | None = None
    parent_id: int | None = None
    owner_id: int | None = None
    created_ms: int = 0
    archived: bool = False
    locked: bool = False
    auto_archive_min: int = 1440
    member_ids: list[int] = field(default_factory=list)
    messages: dict[int, Message] = field(default_factory=dict)

    @property
    def is_dm(self) -> bool:
        return self.kind is ChannelKind.DM

    @property
    def is_thread(self) -> bool:
        return self.kind in (ChannelKind.PUBLIC_THREAD, ChannelKind.PRIVATE_THREAD)

    @property
    def takes_messages(self) -> bool:
        return self.kind is not ChannelKind.FORUM


@dataclass(slots=True)
class Guild:
    id: int
    name: str
    owner_id: int
    bot_role_id: int
    joined_ms: int
    member_ids: list[int] = field(default_factory=list)
    role_names: dict[int, str] = field(default_factory=dict)  # beside @everyone and the bot's own
    roles_of: dict[int, list[int]] = field(default_factory=dict)  # by the member


class World:
    """Everything that exists. Ids are snowflakes: unique everywhere and growing with time.

    `clock_s` gives Unix seconds.
    """

    def __init__(self, *, bot: User, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._last_id = 0
        self.bot = bot
        self.users: dict[int, User] = {bot.id: bot}
        self.guilds: dict[int, Guild] = {}
        self.channels: dict[int, Channel] = {}
        self._dms: dict[int, Channel] = {}  # by the person
        self.origin = "http://127.0.0.1"  # as the last client called us: attachment links need an address

    def now_ms(self) -> int:
        return int(self._clock_s() * 1000)

    def new_id(self) -> int:
        """A snowflake of this millisecond, above every one before it."""
        self._last_id = max((self.now_ms() - DISCORD_EPOCH_MS) << 22, self._last_id + 1)
        return self._last_id

    # --- who

    def new_user(self, username: str, shown_as: str, *, is_bot: bool = False) -> User:
        user = User(self.new_id(), username, shown_as, is_bot=is_bot)
        self.users[user.id] = user
        return user

    # --- where

    def new_guild(self, name: str) -> Guild:
        """A guild with the bot in it, and the bot's managed role beside @everyone."""
        guild = Guild(
            id=self.new_id(),
            name=name,
            owner_id=self.new_id(),
            bot_role_id=self.new_id(),
            joined_ms=self.now_ms(),
            member_ids=[self.bot.id],
        )
        self.guilds[guild.id] = guild
        return guild

    def new_channel(self, guild: Guild, name: str, kind: ChannelKind = ChannelKind.TEXT) -> Channel:
        return self._keep(Channel(self.new_id(), kind, name, guild_id=guild.id))

    def dm_with(self, user: User) -> Channel:
        """The one direct channel of the bot with this user: its id never changes."""
        if user.id not in self._dms:
            channel = Channel(self.new_id(), ChannelKind.DM, user.shown_as, recipient_id=user.id)
            self._dms[user.id] = self._keep(channel)
        return self._dms[user.id]

    def new_thread(
        self,
        parent: Channel,
        name: str,
        *,
        owner_id: int,
        kind: ChannelKind = ChannelKind.PUBLIC_THREAD,
        started_from: Message | None = None,
        auto_archive_min: int = 1440,
    ) -> Channel:
        """A thread; one started from a message takes that message's id."""
        return self._keep(
            Channel(
                id=started_from.id if started_from else self.new_id(),
                kind=kind,
                name=name,
                guild_id=parent.guild_id,
                parent_id=parent.id,
                owner_id=owner_id,
                auto_archive_min=auto_archive_min,
                member_ids=[owner_id],
            )
        )

    def _keep(self, channel: Channel) -> Channel:
        channel.created_ms = self.now_ms()
        self.channels[channel.id] = channel
        return channel

    def channels_of(self, guild: Guild) -> list[Channel]:
        return [c for c in self.channels.values() if c.guild_id == guild.id and not c.is_thread]

    def active_threads_of(self, guild: Guild) -> list[Channel]:
        return [c for c in self.channels.values() if c.guild_id == guild.id and c.is_thread and not c.archived]

    # --- what

    def message(self, reference: Json | None) -> Message | None:
        """The message that a `message_reference` points at, if it still stands."""
        if not reference or "message_id" not in reference:
            return None
        channel = self.channels.get(int(reference["channel_id"]))
        return channel.messages.get(int(reference["message_id"])) if channel else None

    def thread_of(self, message: Message) -> Channel | None:
        thread = self.channels.get(message.id)
        return thread if thread is not None and thread.is_thread else None

    def addresses_bot(self, message: Message) -> bool:
        """Whether Discord shows this message's content even to a bot without the content intent."""
        return (
            message.author.id == self.bot.id
            or self.bot.id in message.user_mentions
            or self.channels[message.channel_id].is_dm
        )
