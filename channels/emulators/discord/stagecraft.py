"""The world as a person in front of Discord sees it: its users, channels and messages in the stage's words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from channels.emulators.discord import markup
from channels.emulators.discord.world import Channel, File, Message, MessageFlag, MessageKind, User, World
from channels.emulators.stage import Button, Person, Place, PlaceKind, Said
from channels.emulators.traffic import Json

_BUTTON: Final = 2
_MENTION: Final = re.compile(r"<(@&|@!?|#)(\d+)>")


def as_person(user: User) -> Person:
    return Person(str(user.id), user.shown_as, user.username, user.is_bot)


def as_place(channel: Channel) -> Place:
    if channel.is_dm:
        person_id = str(channel.recipient_id)
        return Place(str(channel.id), PlaceKind.DM, channel.name, f"DM {channel.id}", person_id=person_id)
    kind = PlaceKind.THREAD if channel.is_thread else PlaceKind.GROUP
    parent_id = str(channel.parent_id) if channel.is_thread else None
    own_id = str(channel.id)  # a thread from a message has that message's id
    root_id = own_id if channel.is_thread else None
    address = f"{channel.guild_id}/{channel.id}"
    return Place(own_id, kind, channel.name, address, parent_id=parent_id, root_id=root_id)


def as_said(world: World, message: Message) -> Said:
    return Said(
        id=str(message.id),
        place_id=str(message.channel_id),
        author=as_person(message.author),
        text=_text(world, message),
        html=_html(world, message),
        at_ms=message.at_ms,
        edited=message.edited_ms is not None,
        reply_to=_target(message.reference) if message.kind is MessageKind.REPLY else None,
        files=tuple(file.name for file in files_of(message)),
        buttons=tuple(buttons_of(message.components)),
        only_for=_only_for(message),
        silent=bool(message.flags & MessageFlag.SILENT),
    )


def files_of(message: Message) -> tuple[File, ...]:
    """Its own, and those of the message that it forwards."""
    return message.files + (message.passed_on.files if message.passed_on else ())


def buttons_of(components: Iterable[Json]) -> Iterator[Button]:
    """Those that can be pressed, in all rows and containers; a link is none."""
    for component in components:
        if component.get("type") == _BUTTON and "custom_id" in component and not component.get("disabled"):
            yield Button(str(component["custom_id"]), str(component.get("label") or ""))
        yield from buttons_of(component.get("components") or [])


def _only_for(message: Message) -> str | None:
    """An ephemeral message is seen by the one whose interaction it answers."""
    if not message.flags & MessageFlag.EPHEMERAL or message.interaction is None:
        return None
    return str(message.interaction["user"]["id"])


def _target(reference: Json | None) -> str | None:
    return str(reference["message_id"]) if reference and "message_id" in reference else None


def name_in(world: World, mention: str) -> str | None:
    """The name behind `@42`, `@&42` or `#42`."""
    sign = mention.rstrip("0123456789")
    number = int(mention.removeprefix(sign))
    if sign == "@":
        return world.users[number].shown_as if number in world.users else None
    if sign == "#":
        return world.channels[number].name if number in world.channels else None
    return world.bot.username if any(number == guild.bot_role_id for guild in world.guilds.values()) else None


def _text(world: World, message: Message) -> str:
    def shown(found: re.Match[str]) -> str:
        sign = found.group(1).replace("!", "")
        name = name_in(world, sign + found.group(2))
        return found.group(0) if name is None else sign[0] + name

    return _notice(message) or _MENTION.sub(shown, (message.passed_on or message).content)


def _html(world: World, message: Message) -> str:
    notice = _notice(message)
    if notice:
        return f"<em>{markup.to_html(notice, lambda _: None)}</em>"
    if message.passed_on is not None:
        return f"<blockquote><small>Forwarded</small>\n{_html(world, message.passed_on)}</blockquote>"
    html = markup.to_html(message.content, lambda mention: name_in(world, mention))
    return html + "".join(_embed(embed) for embed in message.embeds)


def _embed(embed: Json) -> str:
    lines = (f"**{embed['title']}**" if embed.get("title") else "", str(embed.get("description") or ""))
    shown = markup.to_html("\n".join(line for line in lines if line), lambda _: None)
    return f'<div class="embed">{shown}</div>'


def _notice(message: Message) -> str:
    """What the client writes for messages of the system."""
    who = message.author.shown_as
    return {
        MessageKind.NAME_CHANGED: f"{who} changed the thread name: {message.content}",
        MessageKind.PINNED: f"{who} pinned a message to this channel.",
        MessageKind.JOINED: f"{who} joined the server.",
        MessageKind.THREAD_CREATED: f"{who} started a thread: {message.content}",
        MessageKind.THREAD_STARTER: "The message this thread began with.",
    }.get(message.kind, "")
