"""DiscordState to wire: Discord's JSON objects, with every field that its own documents call required.

What all objects of a kind have alike is in `shapes.json`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote

from channels.emulators.discord.world import (
    AttachmentObject,
    Channel,
    ChannelKind,
    DiscordState,
    DiscordUser,
    Guild,
    MessageFlag,
    MessageKind,
    MessageObject,
)
from channels.emulators.stage import Json

EVERYTHING: Final = str((1 << 50) - 1)  # a permissions bit set with every named permission
CDN_LIFE_S: Final = 24 * 3600  # signed attachment links die after about a day
_ALIKE: Final[Mapping[str, Json]] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
_WAVEFORM: Final = "AAAAAAAAAAAA"  # base64 of its loudness over time
_SNAPSHOT: Final = (
    "type", "content", "timestamp", "edited_timestamp", "flags", "mentions", "mention_roles", "attachments", "embeds",
    "components",
)  # fmt: skip
_CONTENT_FLAGS: Final = 1 << 18  # application flag GATEWAY_MESSAGE_CONTENT


def timestamp(at_ms: int) -> str:
    """Write ISO 8601 with microseconds and offset, as Discord does."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="microseconds")


def user(who: DiscordUser) -> Json:
    return _ALIKE["user"] | {
        "id": str(who.id),
        "username": who.username,
        "global_name": None if who.is_bot else who.shown_as,
        "discriminator": "0000" if who.is_bot else "0",
        "bot": who.is_bot,
    }


def own_user(world: DiscordState) -> Json:
    return user(world.bot) | _ALIKE["own_user"]


def member(world: DiscordState, guild: Guild, who: DiscordUser) -> Json:
    """Return a guild member without its user."""
    return _ALIKE["member"] | {
        "roles": [str(guild.bot_role_id)] if who.id == world.bot.id else [*map(str, guild.roles_of.get(who.id, ()))],
        "joined_at": timestamp(guild.joined_ms),
    }


def role(role_id: int, name: str, *, bot_id: int | None = None) -> Json:
    shape = _ALIKE["role"] | {
        "id": str(role_id),
        "name": name,
        "position": 0 if bot_id is None else 1,
        "permissions": EVERYTHING,
        "managed": bot_id is not None,
        "mentionable": bot_id is not None,
    }
    return shape if bot_id is None else shape | {"tags": {"bot_id": str(bot_id)}}


def roles(world: DiscordState, guild: Guild) -> list[Json]:
    """Return @everyone, whose id is the guild's, the bot's managed role, which has its name, and what people have."""
    named = [role(role_id, name) for role_id, name in guild.role_names.items()]
    return [role(guild.id, "@everyone"), role(guild.bot_role_id, world.bot.username, bot_id=world.bot.id), *named]


def channel(world: DiscordState, place: Channel) -> Json:
    last = str(max(place.messages)) if place.messages else None
    if place.is_thread:
        return _thread(world, place, last)
    shape: Json = {"id": str(place.id), "type": place.kind.value, "last_message_id": last}
    if place.is_dm:
        assert place.recipient_id is not None
        return _ALIKE["dm"] | shape | {"recipients": [user(world.users[place.recipient_id])]}
    shape |= _ALIKE["channel"] | {"guild_id": str(place.guild_id), "name": place.name}
    return shape | {"available_tags": []} if place.kind is ChannelKind.FORUM else shape


def _thread(world: DiscordState, place: Channel, last: str | None) -> Json:
    count = len(place.messages)
    shape = _ALIKE["thread"] | {
        "id": str(place.id),
        "type": place.kind.value,
        "guild_id": str(place.guild_id),
        "parent_id": str(place.parent_id),
        "owner_id": str(place.owner_id),
        "name": place.name,
        "last_message_id": last,
        "message_count": count,
        "total_message_sent": count,
        "member_count": min(len(place.member_ids), 50),
        "thread_metadata": {
            "archived": place.archived,
            "locked": place.locked,
            "auto_archive_duration": place.auto_archive_min,
            "archive_timestamp": timestamp(place.created_ms),
            "create_timestamp": timestamp(place.created_ms),
        },
    }
    return shape | {"member": thread_member(place, world.bot.id)} if world.bot.id in place.member_ids else shape


def thread_member(place: Channel, user_id: int) -> Json:
    return {"id": str(place.id), "user_id": str(user_id), "join_timestamp": timestamp(place.created_ms), "flags": 0}


def guild(world: DiscordState, place: Guild) -> Json:
    """Return the guild as REST gives it."""
    return _ALIKE["guild"] | {
        "id": str(place.id),
        "name": place.name,
        "owner_id": str(place.owner_id),
        "roles": roles(world, place),
    }


def guild_create(world: DiscordState, place: Guild) -> Json:
    """Return the guild with what is in it. Without the presence intent, of the members only the bot itself."""
    return (
        guild(world, place)
        | _ALIKE["guild_create"]
        | {
            "joined_at": timestamp(place.joined_ms),
            "large": len(place.member_ids) > 250,
            "member_count": len(place.member_ids),
            "members": [member(world, place, world.bot) | {"user": user(world.bot)}],
            "channels": [channel(world, c) for c in world.channels_of(place)],
            "threads": [channel(world, c) for c in world.active_threads_of(place)],
        }
    )


def application(world: DiscordState, application_id: int, *, has_message_content: bool) -> Json:
    owner = next((u for u in world.users.values() if not u.is_bot), world.bot)
    return _ALIKE["application"] | {
        "id": str(application_id),
        "name": world.bot.username,
        "verify_key": hashlib.sha256(str(application_id).encode()).hexdigest(),
        "owner": user(owner),
        "flags": _CONTENT_FLAGS if has_message_content else 0,
        "bot": user(world.bot),
        "approximate_guild_count": len(world.guilds),
    }


def link_signature(file_id: int, expires: str) -> str:
    """Sign a link that dies at `expires`, as only the vendor can."""
    return hashlib.sha256(f"{file_id}:{expires}".encode()).hexdigest()


def attachment(world: DiscordState, channel_id: int, file: AttachmentObject, *, is_voice: bool = False) -> Json:
    """Return a file with its signed link; `ex` is the hour it dies, in hexadecimal seconds."""
    now_s = world.now_ms() // 1000
    expires = f"{now_s + CDN_LIFE_S:x}"
    signed = f"ex={expires}&is={now_s:x}&hm={link_signature(file.id, expires)}&"
    url = f"{world.origin}/attachments/{channel_id}/{file.id}/{quote(file.name)}?{signed}"
    shape: Json = {
        "id": str(file.id),
        "filename": file.name,
        "size": len(file.content),
        "url": url,
        "proxy_url": url,
        "content_type": file.content_type,
        "content_scan_version": 0,
    }
    if file.content_type.startswith("image/"):
        shape |= {"width": 640, "height": 480}
    if is_voice:
        shape |= {"duration_secs": 3.0, "waveform": _WAVEFORM}
    return shape if file.description is None else shape | {"description": file.description}


def message(world: DiscordState, said: MessageObject, *, reads_everything: bool) -> Json:
    """Return a message as the bot gets it.

    Without the message content intent (`reads_everything` false) a message that neither mentions the bot nor is in a
    direct chat nor is its own comes with its content, embeds, attachments and components emptied."""
    is_open = reads_everything or world.addresses_bot(said)
    shape = _ALIKE["message"] | {
        "id": str(said.id),
        "channel_id": str(said.channel_id),
        "type": said.kind.value,
        "author": user(said.author),
        "content": said.content if is_open else "",
        "timestamp": timestamp(said.at_ms),
        "edited_timestamp": None if said.edited_ms is None else timestamp(said.edited_ms),
        "mention_everyone": said.mentions.everyone,
        "mentions": [user(world.users[u]) for u in said.mentions.users if u in world.users],
        "mention_roles": [str(r) for r in said.mentions.roles],
        "attachments": _attachments(world, said) if is_open else [],
        "embeds": said.embeds if is_open and not said.flags & MessageFlag.SUPPRESS_EMBEDS else [],
        "components": said.components if is_open else [],
        "flags": said.flags,
    }
    shape |= _relations(world, said, reads_everything=reads_everything)
    return shape


def _attachments(world: DiscordState, said: MessageObject) -> list[Json]:
    is_voice = bool(said.flags & MessageFlag.VOICE)
    return [attachment(world, said.channel_id, file, is_voice=is_voice) for file in said.files]


def _relations(world: DiscordState, said: MessageObject, *, reads_everything: bool) -> Json:
    shape: Json = {}
    is_open = reads_everything or world.addresses_bot(said)
    if said.nonce is not None:
        shape["nonce"] = said.nonce
    if said.author.webhook_id is not None:
        shape["webhook_id"] = str(said.author.webhook_id)
    if said.interaction is not None:
        shape["interaction_metadata"] = said.interaction
    if said.reference is not None:
        shape["message_reference"] = said.reference
    if said.passed_on is not None:
        shape["message_snapshots"] = [{"message": _snapshot(world, said.passed_on)}] if is_open else []
    if said.kind in (MessageKind.REPLY, MessageKind.THREAD_STARTER):
        target = world.message(said.reference)
        shape["referenced_message"] = target and message(world, target, reads_everything=reads_everything)
    thread = world.thread_of(said)
    if thread is not None:
        shape["thread"] = channel(world, thread)
    return shape


def _snapshot(world: DiscordState, said: MessageObject) -> Json:
    """Return what a forward shows of a message: neither who wrote it, nor where."""
    whole = message(world, said, reads_everything=True)
    return {name: whole[name] for name in _SNAPSHOT}
