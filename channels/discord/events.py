"""Discord's events: raw payloads completed for the SDK, and the SDK's objects as plain values.

discord.py takes for granted what Discord's documents call optional, and an event that it cannot read ends the
session with the gateway. So it gets the fields that we read, all of them filled in, and nothing else; new kinds of
components, embeds or polls do not reach it. Where a message has no text of its own, the question of its poll and the
text of its card count as its words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

import discord

from channels.core.backfill import RawMessage
from channels.core.message import Raw, mapping, mappings, text
from channels.discord.normalize import DiscordAttachment, DiscordDeletion, DiscordMessage, DiscordQuoted

Json: TypeAlias = dict[str, Any]

THREADS: Final = frozenset({10, 11, 12})  # the types of channels that are threads
_DIRECT: Final = 1  # the type of a channel with one person
_EPOCH: Final = "1970-01-01T00:00:00+00:00"

_USER: Final[Json] = {"username": "", "discriminator": "0", "avatar": None, "global_name": None, "bot": False}
_MEMBER: Final[Json] = {"nick": None, "roles": [], "flags": 0, "joined_at": None, "permissions": "0"}
_FILE: Final[Json] = {"filename": "", "size": 0, "url": "", "proxy_url": ""}
_MESSAGE: Final[Json] = {"type": 0, "flags": 0, "edited_timestamp": None, "mention_roles": []}
_INTERACTION: Final[Json] = {"token": "", "version": 1, "attachment_size_limit": 0, "locale": "en-US"}
_CHANNEL: Final[Json] = {"type": 0, "name": "", "position": 0}
_THREAD: Final[Json] = {"type": 0, "name": "", "owner_id": 0, "message_count": 0, "member_count": 0}
_METADATA: Final[Json] = {"archived": False, "auto_archive_duration": 1440, "archive_timestamp": None}


def whole(event: str, told: object) -> Raw | None:
    """Complete an event of the gateway so that the SDK can read it; None for one that says nothing to us."""
    completed = _COMPLETED.get(event)
    return completed(mapping(told)) if completed else mapping(told)


def whole_answer(told: Any) -> Any:
    """Complete the messages in an answer of the REST API so that the SDK can read them."""
    if isinstance(told, list):
        return [whole_answer(each) for each in told]
    return whole_message(told) if isinstance(told, dict) and {"id", "channel_id"} <= told.keys() else told


def whole_message(told: Raw) -> Json:
    """Complete a message, live or of the history; without an author or an id it is none, which the SDK finds out."""
    message = _filled(told, _MESSAGE, "id", "channel_id", "guild_id", "webhook_id", "nonce")
    message["content"] = "\n".join(_words(told))
    message["mentions"] = [_user(user) for user in mappings(told.get("mentions"))]
    message |= _file_fields(told)
    if author := mapping(told.get("author")):
        message["author"] = _user(author)
    if told.get("guild_id") and (member := mapping(told.get("member"))):
        message["member"] = _member(member)
    place = _filled(told, {}, "channel_id", "guild_id")
    if reference := mapping(told.get("message_reference")):
        message["message_reference"] = place | _there(reference)
        if "referenced_message" in told:  # null says that it is gone, nothing that Discord did not look
            answered = mapping(told["referenced_message"])
            message["referenced_message"] = whole_message(place | _there(answered)) if answered else None
    if snapshots := mappings(told.get("message_snapshots")):
        message["message_snapshots"] = [{"message": _snapshot(mapping(each.get("message")))} for each in snapshots]
    return message


def _edit(told: Raw) -> Json | None:
    """Complete an edit; None for an update that nobody wrote (a link that is shown with its title, a pin), whatever it
    holds."""
    return whole_message(told) if told.get("edited_timestamp") else None


def _snapshot(told: Raw) -> Json:
    snapshot = _filled(told, {"type": 0, "flags": 0, "timestamp": _EPOCH, "edited_timestamp": None})
    return snapshot | {"content": "\n".join(_words(told)), "embeds": [], **_file_fields(told)}


def _words(told: Raw) -> Iterator[str]:
    if content := text(told.get("content")):
        yield content
    elif poll := mapping(told.get("poll")):
        yield text(mapping(poll.get("question")).get("text"))
        for answer in mappings(poll.get("answers")):
            yield f"- {text(mapping(answer.get('poll_media')).get('text'))}"
    else:
        for card in mappings(told.get("embeds")):
            yield from filter(None, (text(card.get("title")), text(card.get("description"))))
            for row in mappings(card.get("fields")):
                yield f"{text(row.get('name'))}: {text(row.get('value'))}"


def _file_fields(told: Raw) -> Json:
    files = [
        _filled(file, _FILE, "id", "content_type", "duration_secs", "waveform")
        for file in mappings(told.get("attachments"))
    ]
    stickers = [
        _filled(sticker, {"name": "", "format_type": 1}, "id") for sticker in mappings(told.get("sticker_items"))
    ]
    return {"attachments": files, "sticker_items": stickers}


def _user(told: Raw) -> Json:
    user = _filled(told, _USER, "id")
    return user | ({"member": _member(member)} if (member := mapping(told.get("member"))) else {})


def _member(told: Raw) -> Json:
    member = _filled(told, _MEMBER)
    return member | ({"user": _user(user)} if (user := mapping(told.get("user"))) else {})


def _interaction(told: Raw) -> Json:
    """Complete an interaction: in a guild a member asks, elsewhere a user."""
    interaction = _filled(told, _INTERACTION, "id", "type", "application_id", "guild_id", "data", "context")
    place = {"id": told.get("channel_id"), "type": 0 if told.get("guild_id") else _DIRECT}
    interaction["channel"] = _channel({**place, **_there(mapping(told.get("channel")))})
    if member := mapping(told.get("member")):
        interaction["member"] = _member(member)
    if user := mapping(told.get("user")):
        interaction["user"] = _user(user)
    if message := mapping(told.get("message")):
        interaction["message"] = whole_message({"channel_id": told.get("channel_id"), **message})
    return interaction


def _guild(told: Raw) -> Json:
    guild = _filled(told, {}, "id", "name", "unavailable", "owner_id", "preferred_locale", "member_count", "large")
    return guild | {
        "channels": [_channel(channel) for channel in mappings(told.get("channels"))],
        "threads": [_channel(thread) for thread in mappings(told.get("threads"))],
        "members": [_member(member) for member in mappings(told.get("members")) if member.get("user")],
        "roles": [{"name": "", **role} for role in mappings(told.get("roles"))],
    }


def _channel(told: Raw) -> Json:
    if told.get("type") not in THREADS:
        return _CHANNEL | _there(told)
    metadata = _METADATA | dict(mapping(told.get("thread_metadata")))
    return _THREAD | _there(told) | {"thread_metadata": metadata}


def _filled(told: Raw, needed: Raw, *also: str) -> Json:
    """Return the fields needed, with a default for each that is absent, and those of `also` that are there. Null is
    absent, too."""
    return {**needed, **{name: told[name] for name in (*needed, *also) if told.get(name) is not None}}


def _there(told: Raw) -> Json:
    return {name: value for name, value in told.items() if value is not None}


_COMPLETED: Final[Mapping[str, Callable[[Raw], Raw | None]]] = {
    "MESSAGE_CREATE": whole_message,
    "MESSAGE_UPDATE": _edit,
    "INTERACTION_CREATE": _interaction,
    "GUILD_CREATE": _guild,
    "CHANNEL_CREATE": _channel,
    "CHANNEL_UPDATE": _channel,
    "THREAD_CREATE": _channel,
    "THREAD_UPDATE": _channel,
}


# A message of discord.py as plain values: the one place that reads the SDK's object.

FORWARDED: Final = discord.MessageReferenceType.forward
_MEDIA_TYPES: Final = {
    discord.StickerFormatType.png: "image/png",
    discord.StickerFormatType.apng: "image/png",
    discord.StickerFormatType.gif: "image/gif",
}
"""Of stickers that are images; the others are drawn by Discord's clients."""


def lift(message: discord.Message, own_role_id: str | None) -> DiscordMessage:
    """Convert a message to the form that `normalize` reads. Live messages and those of the history come out
    the same."""
    thread = message.channel if isinstance(message.channel, discord.Thread) else None
    return DiscordMessage(
        id=str(message.id),
        channel_id=str(message.channel.id),
        author_id=str(message.author.id),
        author_name=message.author.display_name,
        content=message.content or _sticker_names(message),
        created_at_ms=int(message.created_at.timestamp() * 1000),
        type=message.type.value,
        guild_id=_guild_id(message),
        parent_id=str(thread.parent_id) if thread else None,
        thread_owner_id=str(thread.owner_id) if thread else None,
        is_bot=message.author.bot,
        webhook_id=str(message.webhook_id) if message.webhook_id else None,
        mentions=tuple(str(user.id) for user in message.mentions),
        mentioned_roles=tuple(str(role_id) for role_id in message.raw_role_mentions),
        own_role_id=own_role_id,
        answered=_answered(message),
        files=tuple(_files(message)),
        forwarded=tuple(_passed_on(message)),
        guild_locale=message.guild.preferred_locale.value if message.guild else "",
        is_place_known=not isinstance(message.channel, discord.PartialMessageable),
        author_roles=roles_of(message.author),
        takes_threads=isinstance(message.channel, discord.TextChannel),
        user_names={str(user.id): user.display_name for user in message.mentions},
        role_names={str(role.id): role.name for role in message.role_mentions},
        channel_names={str(channel.id): str(channel) for channel in message.channel_mentions},
    )


def roles_of(author: discord.abc.User) -> tuple[str, ...]:
    """Return the roles of a member of a server, but for the one that everybody has; `Member.roles` leaves out those of
    which the gateway has not told, and fails where it has not told of the server."""
    return tuple(map(str, author._roles)) if isinstance(author, discord.Member) else ()


def _guild_id(message: discord.Message) -> str | None:
    """Return the guild's id, None in a direct chat only. A channel that the SDK does not know yet still names its
    guild."""
    if message.guild is not None:
        return str(message.guild.id)
    known = message.channel.guild_id if isinstance(message.channel, discord.PartialMessageable) else None
    return str(known) if known else None


def _answered(message: discord.Message) -> DiscordQuoted | None:
    """Return the message replied to, unless it is gone; a forwarded message answers nobody."""
    reference = message.reference
    if reference is None or reference.type is FORWARDED or not isinstance(reference.resolved, discord.Message):
        return None
    answered = reference.resolved
    return DiscordQuoted(
        channel_id=str(answered.channel.id),
        message_id=str(answered.id),
        content=answered.content or _sticker_names(answered),
        author_id=str(answered.author.id),
        author_name=answered.author.display_name,
        files=tuple(_files(answered)),
        user_names={str(user.id): user.display_name for user in answered.mentions},
    )


def _passed_on(message: discord.Message) -> Iterator[DiscordQuoted]:
    for snapshot in message.message_snapshots:
        said = snapshot.content or _sticker_names(snapshot)
        yield DiscordQuoted(str(message.channel.id), str(message.id), said, files=tuple(_files(snapshot)))


def _sticker_names(holder: discord.Message | discord.MessageSnapshot) -> str:
    """Name the stickers, in place of the words of a message that is only a sticker."""
    return " ".join(f":{sticker.name}:" for sticker in holder.stickers)


def _files(holder: discord.Message | discord.MessageSnapshot) -> Iterator[DiscordAttachment]:
    for attachment in holder.attachments:
        yield _file(attachment, is_voice=holder.flags.voice)
    for sticker in holder.stickers:
        if sticker.format in _MEDIA_TYPES:
            yield DiscordAttachment(str(sticker.id), sticker.name, _MEDIA_TYPES[sticker.format])


def _file(attachment: discord.Attachment, *, is_voice: bool) -> DiscordAttachment:
    return DiscordAttachment(
        id=str(attachment.id),
        filename=attachment.filename,
        content_type=attachment.content_type or "",
        size_bytes=attachment.size,
        is_voice=is_voice or attachment.is_voice_message(),
    )


# What the gateway and the history tell, as plain values with the place they belong to.

DiscordEvent: TypeAlias = DiscordMessage | DiscordDeletion

DIRECT: Final = "@"


def direct_place(channel_id: int) -> str:
    """Return the place of a direct chat, as cursors name it: a channel id alone does not tell that it is one."""
    return f"{DIRECT}{channel_id}"


def raw_message_of(message: discord.Message) -> RawMessage[DiscordEvent]:
    """Convert a live message, or one of the history."""
    lifted = _lifted(message)
    return RawMessage(_place(lifted), lifted.id, lifted)


def raw_edit_of(message: discord.Message) -> RawMessage[DiscordEvent] | None:
    """Convert an edit; None for an update that is none: a link that is shown with its title, a pin, a flag. No history
    records edits and deletions; it shows only their results."""
    if message.edited_at is None:
        return None
    edited = replace(_lifted(message), edited_at_ms=int(message.edited_at.timestamp() * 1000))
    return RawMessage(_place(edited), "", edited)


def raw_deletion_of(channel_id: int, message_id: int, *, is_direct: bool) -> RawMessage[DiscordEvent]:
    """Convert the event that a message is gone."""
    place = direct_place(channel_id) if is_direct else str(channel_id)
    return RawMessage(place, "", DiscordDeletion(str(channel_id), str(message_id)))


def _lifted(message: discord.Message) -> DiscordMessage:
    role = message.guild.self_role if message.guild else None
    return lift(message, str(role.id) if role else None)


def _place(message: DiscordMessage) -> str:
    return message.channel_id if message.guild_id else direct_place(int(message.channel_id))
