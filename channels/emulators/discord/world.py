"""The state of the emulated Discord, what its owner may choose, and the errors of its API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from channels.emulators.stage import Json, Switches

# --- errors: an HTTP status, a JSON code and a message


class DiscordRefusal(Exception):
    """The request is answered with this error."""

    def __init__(self, status: int, code: int, message: str, errors: Json | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.errors = errors

    def body(self) -> Json:
        body: Json = {"message": self.message, "code": self.code}
        return body if self.errors is None else body | {"errors": self.errors}


def unauthorized() -> DiscordRefusal:
    return DiscordRefusal(401, 0, "401: Unauthorized")


def no_such_route() -> DiscordRefusal:
    return DiscordRefusal(404, 0, "404: Not Found")


_UNKNOWN: Final = {
    "Application": 10002,
    "Channel": 10003,
    "Guild": 10004,
    "Member": 10007,
    "Message": 10008,
    "User": 10013,
    "Webhook": 10015,
    "interaction": 10062,
    "application command": 10063,
}


def unknown(what: str) -> DiscordRefusal:
    """Return 404 `Unknown Channel` and its like."""
    return DiscordRefusal(404, _UNKNOWN[what], f"Unknown {what}")


def invalid_form(path: str, code: str, message: str) -> DiscordRefusal:
    """Return 400 / 50035 with the error hung under the field it is about; `path` is dotted."""
    errors: Json = {"_errors": [{"code": code, "message": message}]}
    for part in reversed(path.split(".")):
        errors = {part: errors}
    return DiscordRefusal(400, 50035, "Invalid Form Body", errors)


def empty_message() -> DiscordRefusal:
    return DiscordRefusal(400, 50006, "Cannot send an empty message")


_FORBIDDEN: Final = {
    50001: "Missing Access",
    50003: "Cannot execute action on a DM channel",
    50005: "Cannot edit a message authored by another user",
    50007: "Cannot send messages to this user",
    50013: "Missing Permissions",
    50021: "Cannot execute action on a system message",
}


def forbidden(code: int) -> DiscordRefusal:
    return DiscordRefusal(403, code, _FORBIDDEN.get(code, "Missing Permissions"))


# --- where Discord's documents are unsure, or leave a choice to the owner of the bot: one switch each


RateTable = dict[str, tuple[int, float]]


def vendor_rates() -> RateTable:
    """Return requests per seconds in one bucket, as third parties measured them; Discord announces, never promises."""
    return {
        "create_message": (5, 5.0),
        "edit_message": (5, 5.0),
        "delete_message": (5, 1.0),
        "read_messages": (10, 5.0),
        "typing": (5, 5.0),
        "create_thread": (50, 300.0),
        "rename": (2, 600.0),
        "webhook": (5, 2.0),
        "other": (50, 1.0),
    }


@dataclass(slots=True)
class DiscordSwitches(Switches):
    """May be changed at any time; each is read where it matters.

    - `rates` by kind of request; empty it for no limits per route. `global_per_s` 0 means no global limit.
    - `nonce_window_s`: how long `enforce_nonce` remembers; Discord says only "the past few minutes".
    - `has_message_content`: the privileged intent is granted in the portal. Without it a session that asks for
      it ends with 4014, and REST and gateway blank what the bot may not read.
    - `sends_unfurls`: a message with a link is followed by a MESSAGE_UPDATE that is no edit.
    - `refuses_replies`: how a message of the bot that names the one it answers is refused (160002 where the history
      is closed to it); None takes it.
    - `refuses_edits`: how a change of the bot's own message is refused; None takes it.
    - `refuses_links`: how whatever follows the first answer to an interaction is refused; None takes it.
    - `says_little`: the API answers of a message only its id, its place, its words and its nonce, and of the first
      answer to an interaction nothing.
    - `hides_threads`: a session begins without a word of threads, as if all of them were asleep.
    - `moderates`: the bot may delete what others wrote, and change the threads of others.
    - `first_answer_s`, `token_life_s`: how long an interaction waits for its first answer, and for all others.
    - `heartbeat_ms`, `resume_window_s`: how long a gateway session lives without word from the client.
    - `sessions_left`: the IDENTIFY budget of the day.
    - `shards`: how many connections `GET /gateway/bot` recommends; `max_concurrency` of them may identify at a time.
    - `refuses_sockets` n: the next n websockets get no handshake, as from a server that is down.
    - `drops_after_hello` n: the next n websockets are closed (4000) right after HELLO.
    """

    rates: RateTable = field(default_factory=vendor_rates)
    global_per_s: int = 50
    nonce_window_s: float = 180.0
    has_message_content: bool = True
    sends_unfurls: bool = False
    refuses_replies: DiscordRefusal | None = None
    refuses_edits: DiscordRefusal | None = None
    refuses_links: DiscordRefusal | None = None
    says_little: bool = False
    hides_threads: bool = False
    moderates: bool = False
    first_answer_s: float = 3.0
    token_life_s: float = 15 * 60.0
    heartbeat_ms: int = 41_250
    resume_window_s: float = 180.0
    sessions_left: int = 1000
    shards: int = 1
    max_concurrency: int = 1
    refuses_sockets: int = 0
    drops_after_hello: int = 0


# --- users, guilds, channels, messages, and the ids that order them


DISCORD_EPOCH_MS: Final = 1_420_070_400_000  # first second of 2015: snowflakes count from here


class ChannelKind(IntEnum):
    TEXT = 0
    DM = 1
    PUBLIC_THREAD = 11
    FORUM = 15


class MessageKind(IntEnum):
    DEFAULT = 0
    NAME_CHANGED = 4
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


@dataclass(frozen=True, slots=True)
class DiscordUser:
    id: int
    username: str
    shown_as: str
    is_bot: bool = False
    webhook_id: int | None = None
    locale: str = "en-US"


@dataclass(frozen=True, slots=True)
class AttachmentObject:
    """An attachment on the emulated content network."""

    id: int
    name: str
    content: bytes
    content_type: str
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Mentions:
    users: tuple[int, ...] = ()
    roles: tuple[int, ...] = ()
    everyone: bool = False


NOBODY: Final = Mentions()


@dataclass(slots=True)
class DiscordDraft:
    """A message before it has an id. `command` is the name of the one that it answers; `passed_on` is a copy of the
    message that it forwards."""

    content: str = ""
    mentions: Mentions = NOBODY
    files: tuple[AttachmentObject, ...] = ()
    components: Sequence[Json] = ()
    flags: int = 0
    nonce: str | None = None
    kind: MessageKind = MessageKind.DEFAULT
    interaction: Json | None = None
    command: str = ""
    reference: Json | None = None
    passed_on: MessageObject | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.content or self.files or self.components)


@dataclass(slots=True, kw_only=True)
class MessageObject(DiscordDraft):
    id: int
    channel_id: int
    author: DiscordUser
    at_ms: int
    edited_ms: int | None = None
    embeds: list[Json] = field(default_factory=list)


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
    messages: dict[int, MessageObject] = field(default_factory=dict)

    @property
    def is_dm(self) -> bool:
        return self.kind is ChannelKind.DM

    @property
    def is_thread(self) -> bool:
        return self.kind is ChannelKind.PUBLIC_THREAD

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
    role_names: dict[int, str] = field(default_factory=dict)  # besides @everyone and the bot's own
    roles_of: dict[int, list[int]] = field(default_factory=dict)  # by the member


class DiscordState:
    """Everything that exists. Ids are snowflakes: unique everywhere and growing with time.

    `clock_s` gives Unix seconds."""

    def __init__(self, *, bot: DiscordUser, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._last_id = 0
        self.bot = bot
        self.users: dict[int, DiscordUser] = {bot.id: bot}
        self.guilds: dict[int, Guild] = {}
        self.channels: dict[int, Channel] = {}
        self._dms: dict[int, Channel] = {}  # by the person
        self.origin = "http://127.0.0.1"  # as the last client called us: attachment links need an address

    def now_ms(self) -> int:
        return int(self._clock_s() * 1000)

    def new_id(self) -> int:
        """Make a snowflake of this millisecond, above every one before it."""
        self._last_id = max((self.now_ms() - DISCORD_EPOCH_MS) << 22, self._last_id + 1)
        return self._last_id

    # --- who

    def new_user(self, username: str, shown_as: str, *, is_bot: bool = False) -> DiscordUser:
        user = DiscordUser(self.new_id(), username, shown_as, is_bot=is_bot)
        self.users[user.id] = user
        return user

    # --- where

    def new_guild(self, name: str) -> Guild:
        """Make a guild with the bot in it, and the bot's managed role next to @everyone."""
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

    def dm_with(self, user: DiscordUser) -> Channel:
        """Return the one direct channel of the bot with this user: its id never changes."""
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
        started_from: MessageObject | None = None,
        auto_archive_min: int = 1440,
    ) -> Channel:
        """Make a thread; one started from a message takes that message's id."""
        return self._keep(
            Channel(
                id=started_from.id if started_from else self.new_id(),
                kind=ChannelKind.PUBLIC_THREAD,
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

    def message(self, reference: Json | None) -> MessageObject | None:
        """Find the message that a `message_reference` points at, if it is still there."""
        if not reference or "message_id" not in reference:
            return None
        channel = self.channels.get(int(reference["channel_id"]))
        return channel.messages.get(int(reference["message_id"])) if channel else None

    def thread_of(self, message: MessageObject) -> Channel | None:
        thread = self.channels.get(message.id)
        return thread if thread is not None and thread.is_thread else None

    def addresses_bot(self, message: MessageObject) -> bool:
        """Tell whether Discord shows this message's content even to a bot without the content intent."""
        return (
            message.author.id == self.bot.id
            or self.bot.id in message.mentions.users
            or self.channels[message.channel_id].is_dm
        )
