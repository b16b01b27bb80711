"""SlackState to wire: Slack's JSON objects. What all objects of a kind have alike is in `shapes.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from channels.emulators.slack.world import Conversation, FileObject, SlackMessage, SlackState, SlackUser, ts_key
from channels.emulators.stage import Json

VOICE_NAME: Final = "audio_message"
"""The client's name for what somebody records in it."""

_ALIKE: Final[Mapping[str, Json]] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))


def user(world: SlackState, who: SlackUser) -> Json:
    return _ALIKE["user"] | {
        "id": who.id,
        "team_id": who.team_id,
        "name": who.handle,
        "real_name": who.real_name,
        "profile": {
            "real_name": who.real_name,
            "display_name": who.real_name,
            "real_name_normalized": who.real_name,
            "display_name_normalized": who.real_name,
            "team": who.team_id,
        }
        | ({"api_app_id": world.app_id, "bot_id": who.bot_id} if who.bot_id else {}),
        "is_bot": who.bot_id is not None,
    }


def bot_profile(world: SlackState, who: SlackUser) -> Json:
    return _ALIKE["bot_profile"] | {
        "id": who.bot_id,
        "app_id": world.app_id if who.id == world.bot.id else "A0OTHERAPP",
        "user_id": who.id,
        "name": who.real_name,
        "team_id": who.team_id,
    }


def conversation(world: SlackState, place: Conversation) -> Json:
    common = _ALIKE["conversation"] | {
        "id": place.id,
        "created": place.created_s,
        "is_archived": place.is_archived,
        "is_im": place.is_im,
        "context_team_id": world.team_id,
        "updated": place.created_s * 1000,
    }
    if place.is_im:
        return common | _ALIKE["im"] | {"user": place.person_id}
    return (
        common
        | _ALIKE["channel"]
        | {
            "name": place.name,
            "name_normalized": place.name,
            "is_shared": place.is_shared,
            "is_ext_shared": place.is_shared,
            "is_member": world.bot.id in place.member_ids,
            "num_members": len(place.member_ids),
            "creator": place.member_ids[0] if place.member_ids else "",
            "shared_team_ids": [world.team_id],
        }
    )


def file(world: SlackState, item: FileObject) -> Json:
    link = f"{world.origin}/files-pri/{world.team_id}-{item.id}/{item.name}"
    shape = _ALIKE["file"] | {
        "id": item.id,
        "created": int(world.now_s()),
        "timestamp": int(world.now_s()),
        "name": item.name,
        "title": item.title or item.name,
        "mimetype": item.mimetype,
        "filetype": item.name.rpartition(".")[2].lower() or "text",
        "user": item.user_id,
        "user_team": world.team_id,
        "size": len(item.content),
        "url_private": link,
        "url_private_download": link.replace("/files-pri/", "/files-pri/download/"),
        "permalink": f"{world.origin}/files/{item.user_id}/{item.id}/{item.name}",
    }
    return shape | _ALIKE["recording"] if item.name.startswith(VOICE_NAME) else shape


def shares(item: FileObject) -> Json:
    """Return where a file was posted, as files.info shows it."""
    public: Json = {}
    for channel_id, ts in item.shares:
        public.setdefault(channel_id, []).append({"ts": ts})
    return {"public": public, "private": {}}


def message(world: SlackState, said: SlackMessage, *, with_metadata: bool = False) -> Json:
    """Return a message as history, answers and events carry it, without channel and event fields.

    `metadata` comes only to a caller that asks for it (`include_all_metadata`); others never learn that there is some.
    """
    who = said.author
    shape: Json = {"type": "message", "ts": said.ts, "text": said.text}
    if who.is_user:
        shape |= {"user": who.id, "team": who.team_id}
        if world.conversations[said.channel_id].is_shared:
            shape |= {"user_team": who.team_id, "source_team": who.team_id}
    if who.bot_id is not None:
        shape["bot_id"] = who.bot_id
        if who.is_user:
            profile = bot_profile(world, who)
            shape |= {"app_id": profile["app_id"], "bot_profile": profile}
    optional: Json = {
        "subtype": said.subtype,
        "username": said.username,
        "client_msg_id": said.client_msg_id,
        "thread_ts": said.thread_ts,
        "blocks": said.blocks or None,
        "files": [file(world, item) for item in said.files] or None,
        "attachments": list(said.attachments) or None,
        "edited": {"user": who.id, "ts": said.edited_ts} if said.edited_ts else None,
        "metadata": said.metadata if with_metadata else None,
        "streaming_state": "in_progress" if said.streams_until_s is not None else None,
    }
    if said.files:
        shape["upload"] = False
    return shape | {key: value for key, value in optional.items() if value is not None} | _thread(world, said)


def shared(world: SlackState, said: SlackMessage) -> Json:
    """Return a message inside another one, in which somebody passes it on."""
    who, place = said.author, world.conversations[said.channel_id]
    link = f"https://emulator.slack.com/archives/{place.id}/p{said.ts.replace('.', '')}"
    shape = _ALIKE["shared"] | {
        "ts": said.ts,
        "author_id": who.id,
        "author_name": who.real_name,
        "author_subname": who.real_name,
        "channel_id": place.id,
        "channel_team": world.team_id,
        "text": said.text,
        "fallback": f"[{said.ts}] {who.real_name}: {said.text}",
        "from_url": link,
        "original_url": link,
        "footer": "Direct message" if place.is_im else f"Posted in #{place.name}",
    }
    return shape | ({"files": [file(world, item) for item in said.files]} if said.files else {})


def _thread(world: SlackState, said: SlackMessage) -> Json:
    place = world.conversations[said.channel_id]
    if said.is_reply:
        root = place.messages.get(said.thread_ts or "")
        return {"parent_user_id": root.author.id} if root is not None and root.author.is_user else {}
    replies = place.replies_to(said.ts)
    if not replies:
        return {}
    users = list(dict.fromkeys(reply.author.id for reply in replies))
    return {
        "thread_ts": said.ts,
        "reply_count": len(replies),
        "reply_users_count": len(users),
        "latest_reply": max((reply.ts for reply in replies), key=ts_key),
        "reply_users": users[:5],
        "is_locked": False,
        "subscribed": world.bot.id in users or said.author.id == world.bot.id,
    }
