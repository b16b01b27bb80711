"""What Discord tells, as the SDK can read it. Pure.

discord.py takes for granted what Discord's documents call optional, and what it cannot read ends the session with the
gateway. So it is shown the fields that we read, each of them there, and nothing else: new kinds of components, embeds
or polls are no business of its. What a poll asks and a card shows, where a message says nothing else, are its words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from channels.raw import Raw, mapping, mappings, text

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
    """An event of the gateway as the SDK can read it; None for one that says nothing to us."""
    completed = _COMPLETED.get(event)
    return completed(mapping(told)) if completed else mapping(told)


def whole_message(told: Raw) -> Json:
    """A message, live or of the history; without an author or an id it is none, which the SDK finds out."""
    message = _filled(told, _MESSAGE, "id", "channel_id", "guild_id", "webhook_id", "nonce")
    message["content"] = "\n".join(_words(told))
    message["mentions"] = [_user(user) for user in mappings(told.get("mentions"))]
    message |= _files(told)
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
    """An update that nobody wrote (a link that is shown with its title, a pin) is no edit, whatever it holds."""
    return whole_message(told) if told.get("edited_timestamp") else None


def _snapshot(told: Raw) -> Json:
    snapshot = _filled(told, {"type": 0, "flags": 0, "timestamp": _EPOCH, "edited_timestamp": None})
    return snapshot | {"content": "\n".join(_words(told)), "embeds": [], **_files(told)}


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


def _files(told: Raw) -> Json:
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
    """In a guild a member asks, elsewhere a user."""
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
    """What is needed, in its absence what stands for it, and what else is there. Null is absent, too."""
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
