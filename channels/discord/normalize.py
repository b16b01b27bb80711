"""A Discord message becomes an `Incoming`, or the reason why it does not.

The adapter fills a `DiscordMessage` from discord.py's own object: ids as text, absent things as empty
values. That keeps the SDK out of here and the rules testable without a gateway.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from channels.discord.address import DiscordTarget, make_target
from channels.normalized import (
    OWN_QUOTE_CHARS_MAX,
    Addressing,
    FileReference,
    Ignored,
    IgnoreReason,
    Incoming,
    RawQuote,
    Retraction,
    apart,
    without,
)
from channels.raw import canonical
from gateway.contracts.commands import find_command
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import AttachmentKind, QuoteKind

DEFAULT: Final = 0
REPLY: Final = 19
PERSONS_TYPES: Final = frozenset({DEFAULT, REPLY})  # every other message type is the system's or a bot's

UNCHOSEN_LOCALE: Final = "en-US"  # a guild's `preferred_locale` until somebody changes it

_TOKEN: Final = re.compile(r"<(@!?|@&|#)(\d{1,20})>|<a?:(\w{1,32}):\d{1,20}>")
_SPOILER: Final = "SPOILER_"  # Discord's mark of a file that is shown on demand; its author gave it no such name
_SNOWFLAKE: Final = re.compile(r"\d{1,20}")


@dataclass(frozen=True, slots=True)
class DiscordIdentity:
    """Who we are, from READY. `channel` is the first part of session keys, `bots` are other bots and webhooks that we
    hear."""

    user_id: str
    channel: str = "discord"
    bots: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class DiscordFile:
    """One attachment. Its address has a signature and its name in it: the ids lead to a new one."""

    id: str
    filename: str
    content_type: str = ""
    size_bytes: int | None = None
    is_voice: bool = False


@dataclass(frozen=True, slots=True)
class DiscordQuoted:
    """A message that another one answers or passes on. Its files are found where `channel_id` and `message_id` say,
    which for what is passed on is the message that does it. Of that nobody tells the author."""

    channel_id: str
    message_id: str
    content: str
    author_id: str = ""
    author_name: str = ""
    files: tuple[DiscordFile, ...] = ()
    user_names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DiscordMessage:
    """What MESSAGE_CREATE says, as far as we read it.

    `guild_id` is None in a direct message. In a thread, `channel_id` is the thread's, `parent_id` its
    parent's and `thread_owner_id` its creator's; where nobody told of the channel yet, `is_place_known` is false.
    `answered` is the message replied to, unless it is gone.
    `own_role_id` is the role that Discord manages for us in this guild (`guild.self_role`).
    The names are those of the users, roles and channels that `content` mentions, by id; `mentions` are the
    users the message pings. `forwarded` holds what the message passes on, which has no words of its own then.
    A channel that `takes_threads` is one where a message may begin a thread, and one that `begins_thread` shall.
    `guild_locale` is what the guild's owner chose; nobody did where it is the one that every guild begins with.
    """

    id: str
    channel_id: str
    author_id: str
    author_name: str
    content: str
    created_at_ms: int
    type: int = DEFAULT
    guild_id: str | None = None
    parent_id: str | None = None
    thread_owner_id: str | None = None
    is_bot: bool = False
    webhook_id: str | None = None
    mentions: tuple[str, ...] = ()
    mentioned_roles: tuple[str, ...] = ()
    own_role_id: str | None = None
    answered: DiscordQuoted | None = None
    edited_at_ms: int | None = None
    files: tuple[DiscordFile, ...] = ()
    forwarded: tuple[DiscordQuoted, ...] = ()
    guild_locale: str = ""
    author_roles: tuple[str, ...] = ()
    takes_threads: bool = False
    begins_thread: bool = False
    is_place_known: bool = True
    user_names: Mapping[str, str] = field(default_factory=dict)
    role_names: Mapping[str, str] = field(default_factory=dict)
    channel_names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DiscordDeletion:
    """What MESSAGE_DELETE says: not who wrote the message, nor who deleted it."""

    channel_id: str
    message_id: str


def retraction_of(deletion: DiscordDeletion, me: DiscordIdentity) -> Retraction:
    """Whose message it was is for intake to remember."""
    return Retraction(f"{me.channel}:{me.user_id}:{deletion.channel_id}:{deletion.message_id}", me.channel, ())


def normalize(message: DiscordMessage, me: DiscordIdentity) -> Incoming | Ignored:
    """Read one message. `edited_at_ms` marks it as an edit: leave it None for MESSAGE_CREATE."""
    reason = _reason_to_ignore(message, me)
    if reason:
        return Ignored(reason)
    content = message.content
    words = readable(without(content, _own_mentions(content, message, me)) or content, message)
    attachments = tuple(attachment_of(file, message.channel_id, message.id) for file in message.files)
    quotes = tuple(_quotes(message, me))
    if not (words.strip() or attachments or (message.forwarded and quotes)):
        return Ignored(IgnoreReason.EMPTY)
    is_private = message.guild_id is None
    target = _target(message, is_private=is_private)
    return Incoming(
        id=f"{me.channel}:{me.user_id}:{message.channel_id}:{message.id}",
        channel=me.channel,
        account=me.user_id,
        user_id=message.author_id,
        author_name=message.author_name or message.author_id,
        place=_place(message),
        is_private=is_private,
        addressing=_addressing(message, me),
        text=words,
        address=ReplyAddress(me.channel, target.lane, make_target(target)),
        sent_at_ms=message.created_at_ms,
        edited_at_ms=message.edited_at_ms,
        attachments=attachments,
        command=find_command(words),
        realm=message.guild_id or "",
        roles=message.author_roles,
        quotes=quotes,
        is_bot=_is_bot(message),
        language="" if message.guild_locale == UNCHOSEN_LOCALE else message.guild_locale,
        is_nameable=message.begins_thread or message.parent_id is not None,
    )


def _reason_to_ignore(message: DiscordMessage, me: DiscordIdentity) -> IgnoreReason | None:
    ids = (message.id, message.channel_id, message.author_id, *filter(None, (message.parent_id,)))
    if not all(map(_SNOWFLAKE.fullmatch, ids)):
        return IgnoreReason.MALFORMED
    if message.author_id == me.user_id:
        return IgnoreReason.OWN
    if _is_bot(message) and message.author_id not in me.bots:
        return IgnoreReason.BOT
    return None if message.type in PERSONS_TYPES else IgnoreReason.SERVICE


def _target(message: DiscordMessage, *, is_private: bool) -> DiscordTarget:
    if message.begins_thread:
        return DiscordTarget(message.id, begun_in=message.channel_id)
    return DiscordTarget(message.channel_id, None if is_private else message.id)


def _is_bot(message: DiscordMessage) -> bool:
    return message.is_bot or message.webhook_id is not None


def _place(message: DiscordMessage) -> tuple[str, ...]:
    if message.guild_id is None:
        return ()
    if message.begins_thread:
        return message.channel_id, message.id
    return (message.parent_id, message.channel_id) if message.parent_id else (message.channel_id,)


def _addressing(message: DiscordMessage, me: DiscordIdentity) -> Addressing:
    """A reply that pings puts us among the mentions too, one that does not leaves us out. Users often pick
    our managed role, which bears our name. `@everyone` means everyone else."""
    if message.guild_id is None:
        return Addressing.PRIVATE
    if any(_own_mentions(message.content, message, me)):
        return Addressing.MENTION
    if message.answered is not None and message.answered.author_id == me.user_id:
        return Addressing.REPLY
    if me.user_id in message.mentions or (message.own_role_id and message.own_role_id in message.mentioned_roles):
        return Addressing.MENTION
    is_own_thread = message.parent_id is not None and message.thread_owner_id == me.user_id
    return Addressing.THREAD if is_own_thread else Addressing.NOT_ADDRESSED


def _own_mentions(content: str, message: DiscordMessage, me: DiscordIdentity) -> Iterator[tuple[int, int]]:
    for match in _TOKEN.finditer(content):
        is_user = match[1] in ("@", "@!") and match[2] == me.user_id
        if is_user or (match[1] == "@&" and match[2] == message.own_role_id):
            yield match.span()


def _quotes(message: DiscordMessage, me: DiscordIdentity) -> Iterator[RawQuote]:
    """Of what is passed on, or else of what is answered, all that says something."""
    for quoted in message.forwarded:
        yield from quoted_as(QuoteKind.FORWARD, quoted, message)
    if message.answered is not None and not message.forwarded:
        is_ours = message.answered.author_id == me.user_id
        own_words = message.answered.content[:OWN_QUOTE_CHARS_MAX]
        answered = replace(message.answered, content=own_words) if is_ours else message.answered
        yield from quoted_as(QuoteKind.REPLY, answered, message)


def quoted_as(
    kind: QuoteKind, quoted: DiscordQuoted, message: DiscordMessage, *, author: str = ""
) -> Iterator[RawQuote]:
    """What it says, if anything, in the light of `message`, which brings it along; by `author` where it names none."""
    words = readable(quoted.content, message, {**message.user_names, **quoted.user_names})
    files = tuple(attachment_of(file, quoted.channel_id, quoted.message_id) for file in quoted.files)
    if words.strip() or files:
        yield RawQuote(kind, quoted.author_name or author, words, files)


def readable(content: str, message: DiscordMessage, users: Mapping[str, str] | None = None) -> str:
    def name(match: re.Match[str]) -> str:
        sign, identifier, emoji = match.groups()
        if emoji:
            return f":{emoji}:"
        names = {"@&": message.role_names, "#": message.channel_names}.get(sign, users or message.user_names)
        return apart(f"{sign[0]}{names.get(identifier, identifier)}", match)

    return _TOKEN.sub(name, content)


def attachment_of(file: DiscordFile, channel_id: str, message_id: str) -> FileReference:
    ids = {"channel_id": channel_id, "message_id": message_id, "id": file.id}
    media_type = file.content_type.partition(";")[0].strip() or "application/octet-stream"
    name = file.filename.removeprefix(_SPOILER) or file.id
    return FileReference(_kind(file, media_type), canonical(ids), name, media_type, file.size_bytes)


def _kind(file: DiscordFile, media_type: str) -> AttachmentKind:
    if file.is_voice:
        return AttachmentKind.VOICE
    kinds = {"image": AttachmentKind.IMAGE, "audio": AttachmentKind.AUDIO, "video": AttachmentKind.VIDEO}
    return kinds.get(media_type.partition("/")[0], AttachmentKind.DOCUMENT)
