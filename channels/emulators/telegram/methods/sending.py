"""sendMessage and the smaller ways to be noticed: typing, drafts, reactions, copies."""

from __future__ import annotations

from typing import Final

from channels.emulators.telegram.backstage import Backstage
from channels.emulators.telegram.call import Call
from channels.emulators.telegram.errors import bad_request, method_not_found
from channels.emulators.telegram.methods.method import Method
from channels.emulators.telegram.methods.writing import read_text
from channels.emulators.telegram.people import Chat, Json, Message

ACTIONS: Final = frozenset(
    {
        "typing",
        "upload_photo",
        "record_video",
        "upload_video",
        "record_voice",
        "upload_voice",
        "upload_document",
        "choose_sticker",
        "find_location",
        "record_video_note",
        "upload_video_note",
    }
)
_EMOJI: Final = """
❤ 👍 👎 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤‍🔥 🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐
🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂ 🤷 🤷‍♀ 😡
"""
REACTIONS: Final = frozenset(_EMOJI.split())


async def send_message(backstage: Backstage, call: Call) -> Json:
    content = read_text(backstage, call)
    keyboard = backstage.keyboard_of(call)
    chat = backstage.chat_of(call)
    target = backstage.target_of(call, chat)
    backstage.spend(chat)
    return backstage.post(chat, target, content, keyboard=keyboard)


async def send_message_draft(backstage: Backstage, call: Call) -> bool:
    """A preview in a private chat: no message, no id, no history. Without text it says that the bot thinks."""
    if backstage.switch("no_drafts"):
        raise method_not_found()
    content = read_text(backstage, call, is_optional=True)
    chat = backstage.chat_of(call)
    if chat.user is None:
        raise bad_request("message drafts can be sent only to private chats")
    draft_id = call.number("draft_id")
    if not draft_id:
        raise bad_request("draft_id must be non-zero")
    thread_id = backstage.thread_of(call, chat)
    if backstage.switch("drafts_cost"):
        backstage.spend(chat)
    backstage.show_draft(chat, thread_id, draft_id, content, can_stop=call.flag("can_stop"))
    return True


async def send_chat_action(backstage: Backstage, call: Call) -> bool:
    action = call.text("action").lower()
    if action not in ACTIONS:
        raise bad_request("wrong parameter action in request")
    chat = backstage.chat_of(call)
    backstage.show_status(chat, backstage.thread_of(call, chat), action)
    return True


async def copy_message(backstage: Backstage, call: Call) -> Json:
    chat = backstage.chat_of(call)
    message = _source(backstage, call)
    target = backstage.target_of(call, chat)
    backstage.spend(chat)
    sent = backstage.post(chat, target, message.content, media=message.media_alone, files=message.files)
    return {"message_id": sent["message_id"]}


async def forward_message(backstage: Backstage, call: Call) -> Json:
    chat = backstage.chat_of(call)
    message = _source(backstage, call)
    target = backstage.target_of(call, chat)
    backstage.spend(chat)
    media, origin = message.media_alone, message.as_origin
    return backstage.post(chat, target, message.content, media=media, files=message.files, origin=origin)


async def set_message_reaction(backstage: Backstage, call: Call) -> bool:
    """One reaction per bot and message, from a fixed list; an empty list takes it back."""
    chat = backstage.chat_of(call)
    message = chat.messages.get(call.number("message_id"))
    if message is None:
        raise bad_request("message to react not found")
    rows = call.rows("reaction") or []
    if len(rows) > 1:
        raise bad_request("REACTIONS_TOO_MANY")
    chosen: list[Json] = []
    for row in rows:
        emoji = str(row.get("emoji", "")) if isinstance(row, dict) else ""
        if emoji.replace("\ufe0f", "") not in REACTIONS:
            raise bad_request("REACTION_INVALID")
        chosen.append({"type": "emoji", "emoji": emoji})
    message.reactions[backstage.world.bot.id] = chosen
    return True


def _source(backstage: Backstage, call: Call) -> Message:
    source: Chat | None = backstage.world.chats.get(call.number("from_chat_id"))
    message = source.messages.get(call.number("message_id")) if source else None
    if message is None or message.service:
        raise bad_request(f"message to {call.method.removesuffix('message')} not found")
    return message


METHODS: Final = (
    Method("sendMessage", send_message, is_write=True),
    Method("sendMessageDraft", send_message_draft, is_write=True),
    Method("sendChatAction", send_chat_action),
    Method("copyMessage", copy_message, is_write=True),
    Method("forwardMessage", forward_message, is_write=True),
    Method("setMessageReaction", set_message_reaction),
)
