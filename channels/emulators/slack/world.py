"""The state of the emulated Slack, what its workspace may choose, and the errors of its API."""

from __future__ import annotations

import hashlib
import secrets
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from channels.emulators.stage import Json, Switches

# --- errors: always HTTP 200 with `ok` false and a word, except the rate limit


class SlackRefusal(Exception):
    """The method is answered with this error; `more` goes into the body with it."""

    def __init__(self, error: str, **more: object) -> None:
        super().__init__(error)
        self.error = error
        self.more: Json = more

    def body(self) -> Json:
        return {"ok": False, "error": self.error} | self.more


def missing_argument(name: str) -> SlackRefusal:
    return SlackRefusal(
        "invalid_arguments", response_metadata={"messages": [f"[ERROR] missing required field: {name}"]}
    )


def invalid_blocks(*messages: str) -> SlackRefusal:
    return SlackRefusal(
        "invalid_blocks", errors=list(messages), response_metadata={"messages": [f"[ERROR] {m}" for m in messages]}
    )


class SlackRateLimited(Exception):
    """429: come back after so many whole seconds."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"after {retry_after_s} s")
        self.retry_after_s = retry_after_s


# --- where Slack's documents are unsure, or leave a choice to the workspace: one switch each


EVERY_SCOPE: Final = frozenset({
    "app_mentions:read", "assistant:write", "channels:history", "channels:read", "chat:write", "chat:write.public",
    "commands", "files:read", "files:write", "groups:history", "groups:read", "im:history", "im:read", "im:write",
    "mpim:history", "mpim:read", "users:read",
})  # fmt: skip
EVERY_EVENT: Final = frozenset({
    "app_home_opened", "app_mention", "assistant_thread_started", "channel_id_changed", "file_shared",
    "member_joined_channel", "member_left_channel", "message.channels", "message.groups", "message.im", "message.mpim",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """As the app's owner wrote it into the manifest."""

    name: str
    description: str
    usage_hint: str = ""


@dataclass(slots=True)
class SlackSwitches(Switches):
    """May be changed at any time; each is read where it matters.

    - `scopes`, `subscriptions` and `slash_commands` as granted at installation.
    - `is_rate_limited`; `posts_per_s` and `posts_burst` are what one channel takes of chat.postMessage.
    - `splits_long_text`: a `text` over 4040 characters becomes several messages of about 4000, of which the answer
      names the last.
    - `has_streams`: this workspace knows chat.startStream.
    - `stream_life_s`: measured by third parties, about five minutes whatever the appends do.
    - `forgets_ts` n: the next n answers to a post, or to the beginning of a stream, are `ok` and name no message.
    - `link_uses_max`: how many answers a `response_url` takes.
    - `history_page_max`: 15 for commercial apps outside the marketplace.
    - `unfurls_links`: what a link leads to is fetched and shown below the message, unless its post declines that,
      which a stream cannot; a change fetches nothing.
    - `ack_within_s`, `retry_after_s`: redelivery of events that nobody acknowledged; scale them down in tests.
    - `hides_files`: though files.info answers, a download gives the page to log in at (`page`), or leads to it
      (`redirect`).
    - `refusals`: the word with which a method is refused, by its name, as long as it stands there.
    - `refuses_sockets` n: the next n websockets get no handshake though their ticket was good; it is spent.
    - `drops_after_hello` n: the next n websockets are closed right after their hello.
    - `connection_life_s`: after so long, minus `warning_s`, a socket is warned, then asked to refresh. 0: never.
    """

    scopes: frozenset[str] = EVERY_SCOPE
    subscriptions: frozenset[str] = EVERY_EVENT
    slash_commands: tuple[SlashCommand, ...] = (SlashCommand("trivet", "Talk to Trivet, or give it a command", "help"),)
    is_rate_limited: bool = True
    posts_per_s: float = 1.0
    posts_burst: int = 5
    splits_long_text: bool = True
    has_streams: bool = True
    stream_life_s: float = 306.0
    forgets_ts: int = 0
    link_uses_max: int = 5
    history_page_max: int = 999
    unfurls_links: bool = False
    ack_within_s: float = 3.0
    retry_after_s: tuple[float, ...] = (0.0, 60.0, 300.0)
    connection_life_s: float = 0.0
    warning_s: float = 10.0
    sockets_max: int = 10
    hides_files: Literal["", "page", "redirect"] = ""
    refusals: dict[str, str] = field(default_factory=dict)
    refuses_sockets: int = 0
    drops_after_hello: int = 0
    tier_per_minute: dict[str, int] = field(default_factory=lambda: {"1": 30, "2": 20, "3": 50, "4": 100, "5": 300})


# --- people, conversations, messages, and the timestamps that name them


_ALPHABET: Final = string.ascii_uppercase + string.digits


@dataclass(frozen=True, slots=True)
class SlackUser:
    """`bot_id` is set for bots; a webhook has a bot id but is no user (`is_user` false)."""

    id: str
    handle: str
    real_name: str
    bot_id: str | None = None
    is_user: bool = True
    team_id: str = ""
    locale: str = "en-US"


@dataclass(slots=True)
class FileObject:
    id: str
    name: str
    content: bytes
    mimetype: str
    title: str = ""
    user_id: str = ""
    shares: list[tuple[str, str]] = field(default_factory=list)  # channel and ts of each message that shows it


@dataclass(slots=True)
class SlackDraft:
    """A message before it has a ts.

    `text` is as Slack stores it: `&`, `<` and `>` escaped, mentions and links in angle brackets. An ephemeral message
    is `only_for` one person: no API returns it. `unfurls`: what its links lead to may be shown below it."""

    text: str = ""
    blocks: Sequence[Json] = ()
    thread_ts: str | None = None
    subtype: str | None = None
    client_msg_id: str | None = None
    metadata: Json | None = None
    files: tuple[FileObject, ...] = ()
    attachments: tuple[Json, ...] = ()
    username: str | None = None
    only_for: str | None = None
    streams_until_s: float | None = None
    unfurls: bool = True


@dataclass(slots=True, kw_only=True)
class SlackMessage(SlackDraft):
    """`title` is that of the thread that hangs on it, as the app named it."""

    ts: str
    channel_id: str
    author: SlackUser
    edited_ts: str | None = None
    is_stopped_by_user: bool = False
    title: str = ""

    @property
    def is_reply(self) -> bool:
        return self.thread_ts is not None and self.thread_ts != self.ts


@dataclass(slots=True)
class Conversation:
    """A channel (`C…`) or a direct chat (`D…`). `messages` by ts, oldest first, replies among them."""

    id: str
    name: str
    created_s: int
    person_id: str | None = None
    is_archived: bool = False
    is_shared: bool = False
    member_ids: list[str] = field(default_factory=list)
    messages: dict[str, SlackMessage] = field(default_factory=dict)
    last_ts_us: int = 0
    _replies: dict[str, list[SlackMessage]] = field(
        default_factory=dict
    )  # by the root's ts: threads are asked for often

    @property
    def is_im(self) -> bool:
        return self.person_id is not None

    @property
    def event_type(self) -> str:
        """Return the `channel_type` of message events."""
        return "im" if self.is_im else "channel"

    def public(self) -> list[SlackMessage]:
        return [m for m in self.messages.values() if m.only_for is None]

    def keep(self, message: SlackMessage) -> None:
        self.messages[message.ts] = message
        if message.is_reply:
            self._replies.setdefault(message.thread_ts or "", []).append(message)

    def forget(self, message: SlackMessage) -> None:
        del self.messages[message.ts]
        if message.is_reply:
            self._replies[message.thread_ts or ""].remove(message)

    def replies_to(self, root_ts: str) -> list[SlackMessage]:
        return [m for m in self._replies.get(root_ts, ()) if m.only_for is None]

    def root_of(self, ts: str) -> SlackMessage | None:
        """Find the message a thread hangs on, named by the root's ts or by that of any reply."""
        message = self.messages.get(ts)
        if message is None or not message.is_reply:
            return message
        return self.messages.get(message.thread_ts or "")


class SlackState:
    """Everything in one workspace. `clock_s` gives Unix seconds."""

    def __init__(self, *, bot: SlackUser, team_id: str, app_id: str, clock_s: Callable[[], float]) -> None:
        self.now_s = clock_s
        self.bot = bot
        self.team_id = team_id
        self.app_id = app_id
        self.users: dict[str, SlackUser] = {bot.id: bot}
        self.conversations: dict[str, Conversation] = {}
        self._dms: dict[str, Conversation] = {}  # by the person
        self.files: dict[str, FileObject] = {}
        self.origin = "http://127.0.0.1"  # as the last client called us: file links need an address

    def new_id(self, kind: str) -> str:
        """Make an opaque id with the vendor's first letter: `U`, `C`, `D`, `B`, `F`, `Ev`."""
        return kind + "0" + "".join(secrets.choice(_ALPHABET) for _ in range(9))

    def new_ts(self, place: Conversation) -> str:
        """Make seconds and six digits, above every earlier one of this conversation; elsewhere it may repeat."""
        place.last_ts_us = max(int(self.now_s() * 1_000_000), place.last_ts_us + 1)
        microseconds = place.last_ts_us
        return f"{microseconds // 1_000_000}.{microseconds % 1_000_000:06d}"

    # --- who

    def new_user(self, handle: str, real_name: str, *, is_bot: bool = False) -> SlackUser:
        bot_id = self.new_id("B") if is_bot else None
        user = SlackUser(self.new_id("U"), handle, real_name, bot_id=bot_id, team_id=self.team_id)
        self.users[user.id] = user
        return user

    def set_locale(self, user: SlackUser, locale: str) -> None:
        """Set the language of the user's client."""
        self.users[user.id] = replace(user, locale=locale)

    # --- where

    def new_channel(self, name: str) -> Conversation:
        """Make a channel with everybody in it, the bot too."""
        channel = Conversation(self.new_id("C"), name, int(self.now_s()))
        channel.member_ids = list(self.users)
        self.conversations[channel.id] = channel
        return channel

    def share(self, channel: Conversation) -> str:
        """Let another workspace in, which gives the channel another id; return the old one, now unknown."""
        old = channel.id
        channel.id, channel.is_shared = self.new_id("C"), True
        for message in channel.messages.values():
            message.channel_id = channel.id
        del self.conversations[old]
        self.conversations[channel.id] = channel
        return old

    def dm_with(self, user: SlackUser) -> Conversation:
        if user.id in self._dms:
            return self._dms[user.id]
        place = Conversation(self.new_id("D"), user.real_name, int(self.now_s()), person_id=user.id)
        place.member_ids = [user.id, self.bot.id]
        self.conversations[place.id] = self._dms[user.id] = place
        return place

    def new_file(self, name: str, content: bytes, mimetype: str, user_id: str) -> FileObject:
        file = FileObject(self.new_id("F"), name, content, mimetype, title=name, user_id=user_id)
        self.files[file.id] = file
        return file


def ts_key(ts: str) -> tuple[int, int]:
    """Compare timestamps without going through a float. A missing fraction counts as zero."""
    seconds, _, fraction = ts.partition(".")
    return int(seconds or 0), int(fraction.ljust(6, "0")[:6] or 0)


def is_ts(value: str) -> bool:
    seconds, _, fraction = value.partition(".")
    return seconds.isdigit() and (fraction.isdigit() or not fraction)


def token_digest(value: str) -> str:
    """Make a short public name for a secret, for links and contexts."""
    return hashlib.sha256(value.encode()).hexdigest()[:24]
