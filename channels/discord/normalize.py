"""Make an `Incoming` of a Discord message, press or command, or say why it is none. Pure.

The adapter fills a `DiscordMessage` from discord.py's own object: ids as text, absent things as empty values. That
keeps the SDK out of here and the rules testable without a gateway."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from channels.core.message import (
    OWN_QUOTE_CHARS_MAX,
    TARGETS_KEPT,
    Addressing,
    FileReference,
    Ignored,
    IgnoreReason,
    Incoming,
    RawQuote,
    Retraction,
    apart,
    canonical,
    fields_of,
    target_fields,
    text,
    without,
)
from gateway.contracts.commands import COMMANDS, find_command
from gateway.contracts.errors import BadEnvelope
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import AttachmentKind, ControlKind, QuoteKind

# Where a Discord answer goes: the part of a `ReplyAddress` that only this channel reads.


@dataclass(frozen=True, slots=True)
class DiscordTarget:
    """The target of a message. `channel_id` is where to post (a thread is a channel); `reply_to_message_id` is the
    message to reference, None in direct messages. A thread that is yet to be begun has the id of the message that it
    begins with, in the channel `begun_in`. `link` is the interaction of a command that was chosen from the menu, the
    name under which the bus keeps its token; a message that `is_aside` is only for the person who chose the command."""

    channel_id: str
    reply_to_message_id: str | None = None
    link: str | None = None
    is_aside: bool = False
    begun_in: str | None = None

    @property
    def lane(self) -> str:
        """Order and pacing are by channel; a thread is one of its own."""
        return self.channel_id


def make_target(target: DiscordTarget) -> str:
    """Write canonical JSON."""
    return canonical(fields_of(target))


@lru_cache(maxsize=TARGETS_KEPT)
def parse_target(target: str) -> DiscordTarget:
    """Read what `make_target` wrote. Raises `BadEnvelope`."""
    fields = target_fields(target)
    channel_id = text(fields.get("channel_id"))
    if not channel_id.isdecimal():
        raise BadEnvelope("a Discord target without channel_id")
    return DiscordTarget(
        channel_id,
        text(fields.get("reply_to_message_id")) or None,
        text(fields.get("link")) or None,
        fields.get("is_aside") is True,
        text(fields.get("begun_in")) or None,
    )


DEFAULT: Final = 0
REPLY: Final = 19
PERSONS_TYPES: Final = frozenset({DEFAULT, REPLY})  # every other message type is the system's or a bot's

UNCHOSEN_LOCALE: Final = "en-US"  # a guild's `preferred_locale` until somebody changes it

_TOKEN: Final = re.compile(r"<(@!?|@&|#)(\d{1,20})>|<a?:(\w{1,32}):\d{1,20}>")
_SPOILER: Final = "SPOILER_"  # Discord's mark of a file that is shown on demand; its author gave it no such name
_SNOWFLAKE: Final = re.compile(r"\d{1,20}")


@dataclass(frozen=True, slots=True)
class DiscordIdentity:
    """Our identity, from READY. `channel` is the first part of session keys, `bots` are other bots and webhooks that we
    hear."""

    user_id: str
    channel: str = "discord"
    bots: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class DiscordAttachment:
    """One attachment. Its address has a signature and its name in it: the ids lead to a new one."""

    id: str
    filename: str
    content_type: str = ""
    size_bytes: int | None = None
    is_voice: bool = False


@dataclass(frozen=True, slots=True)
class DiscordQuoted:
    """A message that another one answers or passes on. `channel_id` and `message_id` say where its files are found;
    for a message passed on, that is the message that passes it on, and its author is unknown."""

    channel_id: str
    message_id: str
    content: str
    author_id: str = ""
    author_name: str = ""
    files: tuple[DiscordAttachment, ...] = ()
    user_names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DiscordMessage:
    """The fields of MESSAGE_CREATE that we read.

    `guild_id` is None in a direct message. In a thread, `channel_id` is the thread's, `parent_id` its
    parent's and `thread_owner_id` its creator's; where nobody told of the channel yet, `is_place_known` is false.
    `answered` is the message replied to, unless it is gone.
    `own_role_id` is the role that Discord manages for us in this guild (`guild.self_role`).
    The names are those of the users, roles and channels that `content` mentions, by id; `mentions` are the
    users the message pings. `forwarded` holds what the message passes on, which has no words of its own then.
    A channel that `takes_threads` is one where a message may begin a thread, and one that `begins_thread` shall.
    `guild_locale` is what the guild's owner chose; nobody did where it is the one that every guild begins with."""

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
    files: tuple[DiscordAttachment, ...] = ()
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
    """The fields of MESSAGE_DELETE, which tells neither who wrote the message nor who deleted it."""

    channel_id: str
    message_id: str


def retraction_of(deletion: DiscordDeletion, me: DiscordIdentity) -> Retraction:
    """Return the retraction of a deleted message; intake remembers its author."""
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
    """Tell how a message is addressed to us. A reply that pings puts us among the mentions too, one that does not
    leaves us out. Users often pick our managed role, which bears our name. `@everyone` means everyone else."""
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
    """Quote the messages passed on, or else the one answered, as far as they say something."""
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
    """Quote a message that `message` brings along, if it says anything; `author` is used where it names none."""
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


def attachment_of(file: DiscordAttachment, channel_id: str, message_id: str) -> FileReference:
    ids = {"channel_id": channel_id, "message_id": message_id, "id": file.id}
    media_type = file.content_type.partition(";")[0].strip() or "application/octet-stream"
    name = file.filename.removeprefix(_SPOILER) or file.id
    return FileReference(_kind(file, media_type), canonical(ids), name, media_type, file.size_bytes)


def _kind(file: DiscordAttachment, media_type: str) -> AttachmentKind:
    if file.is_voice:
        return AttachmentKind.VOICE
    kinds = {"image": AttachmentKind.IMAGE, "audio": AttachmentKind.AUDIO, "video": AttachmentKind.VIDEO}
    return kinds.get(media_type.partition("/")[0], AttachmentKind.DOCUMENT)


# The earlier messages of a thread, as context for somebody who is called into it. Pure.

THREAD_STARTER: Final = 21  # the first message of a thread: it is empty, and points at the one that was there before
_SPOKEN: Final = PERSONS_TYPES | {20, 23}  # the answers of bots to commands, too


def said(thread: Iterable[DiscordMessage]) -> Iterator[RawQuote]:
    """Quote these messages of any author. Messages of the system say nothing."""
    for message in thread:
        if message.type == THREAD_STARTER and message.answered is not None:
            yield from quoted_as(QuoteKind.THREAD, message.answered, message)
        elif message.type in _SPOKEN:
            for quoted in (_whole(message), *message.forwarded):
                yield from quoted_as(QuoteKind.THREAD, quoted, message, author=message.author_name)


def _whole(message: DiscordMessage) -> DiscordQuoted:
    return DiscordQuoted(
        channel_id=message.channel_id,
        message_id=message.id,
        content=message.content,
        author_id=message.author_id,
        author_name=message.author_name,
        files=message.files,
        user_names=message.user_names,
    )


# An interaction becomes an `Incoming`, or the reason why it does not: the press of a button, or a command chosen from
# Discord's own menu, which is what a person would have typed, said in that channel. A command that is still being typed
# reads the same.
#
# The person is in the interaction, which Discord fills in; a button's `custom_id` is only its claim. A press belongs to
# the person, not to the channel: its place is empty. If the button was in a message that only this person sees, the
# answer to its command is private, too.


@dataclass(frozen=True, slots=True)
class DiscordInteraction:
    """The fields of INTERACTION_CREATE that we read. `said` is the command that the button or the menu's entry stands
    for. In a thread, `parent_id` is that of its channel. `is_direct`: a chat of one person with us. `is_aside`: the
    button is under a message that nobody else sees."""

    id: str
    channel_id: str
    user_id: str
    user_name: str
    said: str
    created_at_ms: int = 0
    guild_id: str = ""
    parent_id: str = ""
    is_direct: bool = False
    is_bot: bool = False
    locale: str = ""
    roles: tuple[str, ...] = ()
    is_aside: bool = False


def normalize_press(press: DiscordInteraction, me: DiscordIdentity) -> Incoming | Ignored:
    """Read one press."""
    command = find_command(press.said)
    is_aside = press.is_aside and command is not None and command.name == ControlKind.PRESS
    target = DiscordTarget(press.channel_id, link=press.id if is_aside else None, is_aside=is_aside)
    return _unfit(press) or Incoming(
        id=f"{me.channel}:{me.user_id}:press:{press.id}",
        channel=me.channel,
        account=me.user_id,
        user_id=press.user_id,
        author_name=press.user_name or press.user_id,
        place=(),
        is_private=True,
        addressing=Addressing.COMMAND,
        text=press.said,
        address=ReplyAddress(me.channel, target.lane, make_target(target)),
        command=command,
        language=press.locale,
        is_aside=is_aside,
    )


def normalize_invocation(invocation: DiscordInteraction, me: DiscordIdentity) -> Incoming | Ignored:
    """Read one command. Where others read along, its answer is only for the person who asked, unless its row in the
    table says otherwise."""
    command = find_command(invocation.said)
    if command is None:
        return _unfit(invocation) or Ignored(IgnoreReason.UNSUPPORTED)
    is_aside = not invocation.is_direct and all(spec.name != command.name or not spec.is_aloud for spec in COMMANDS)
    target = DiscordTarget(invocation.channel_id, link=invocation.id, is_aside=is_aside)
    place = tuple(filter(None, (invocation.parent_id, invocation.channel_id)))
    return _unfit(invocation) or Incoming(
        id=f"{me.channel}:{me.user_id}:interaction:{invocation.id}",
        channel=me.channel,
        account=me.user_id,
        user_id=invocation.user_id,
        author_name=invocation.user_name or invocation.user_id,
        place=() if invocation.is_direct else place,
        is_private=invocation.is_direct,
        addressing=Addressing.COMMAND,
        text=invocation.said,
        address=ReplyAddress(me.channel, target.lane, make_target(target)),
        sent_at_ms=invocation.created_at_ms,
        command=command,
        language=invocation.locale,
        realm=invocation.guild_id,
        roles=invocation.roles,
        is_nameable=bool(invocation.parent_id),
    )


def _unfit(interaction: DiscordInteraction) -> Ignored | None:
    if not all(map(_SNOWFLAKE.fullmatch, (interaction.id, interaction.channel_id, interaction.user_id))):
        return Ignored(IgnoreReason.MALFORMED)
    return Ignored(IgnoreReason.BOT) if interaction.is_bot else None
