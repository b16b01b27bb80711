"""Changing and removing messages."""

from __future__ import annotations

from typing import Final

from channels.emulators.stage import EventKind
from channels.emulators.telegram.backstage import Backstage
from channels.emulators.telegram.call import Call
from channels.emulators.telegram.errors import bad_request, forbidden
from channels.emulators.telegram.methods.files import media_shape, read_media
from channels.emulators.telegram.methods.method import Method
from channels.emulators.telegram.methods.writing import read_text
from channels.emulators.telegram.people import Chat, Json, Message

DELETABLE_FOR_S: Final = 48 * 3600
FORBIDDEN: Final = 403
NOT_MODIFIED: Final = (
    "message is not modified: specified new message content and reply markup are exactly the same "
    "as a current content and reply markup of the message"
)


async def edit_message_text(backstage: Backstage, call: Call) -> Json:
    content = read_text(backstage, call)
    keyboard = backstage.keyboard_of(call)
    chat, message = _own_message(backstage, call)
    if message.media:
        raise bad_request("there is no text in the message to edit")
    if (message.content, message.reply_markup) == (content, keyboard):
        raise bad_request(NOT_MODIFIED)
    backstage.spend(chat)
    message.content = content
    return _edited(backstage, chat, message, keyboard)


async def edit_message_caption(backstage: Backstage, call: Call) -> Json:
    content = read_text(backstage, call, name="caption", is_optional=True)
    keyboard = backstage.keyboard_of(call)
    chat, message = _own_message(backstage, call)
    if not message.media:
        raise bad_request("there is no caption in the message to edit")
    if (message.content, message.reply_markup) == (content, keyboard):
        raise bad_request(NOT_MODIFIED)
    backstage.spend(chat)
    message.content = content
    return _edited(backstage, chat, message, keyboard)


async def edit_message_media(backstage: Backstage, call: Call) -> Json:
    """Another medium in place of a message's, or of its text (since Bot API 7.11)."""
    row = call.table("media")
    kind, stored, caption = read_media(backstage, call, row or {})
    keyboard = backstage.keyboard_of(call)
    chat, message = _own_message(backstage, call)
    media = media_shape(kind, stored)
    if (message.media, message.content, message.reply_markup) == (media, caption, keyboard):
        raise bad_request(NOT_MODIFIED)
    backstage.spend(chat)
    message.media, message.content, message.files = media, caption, (stored.name,)
    return _edited(backstage, chat, message, keyboard)


async def edit_message_reply_markup(backstage: Backstage, call: Call) -> Json:
    keyboard = backstage.keyboard_of(call)
    chat, message = _own_message(backstage, call)
    if message.reply_markup == keyboard:
        raise bad_request(NOT_MODIFIED)
    backstage.spend(chat)
    return _edited(backstage, chat, message, keyboard)


async def delete_message(backstage: Backstage, call: Call) -> bool:
    chat = backstage.chat_of(call)
    message = chat.messages.get(call.number("message_id"))
    if message is None:
        raise bad_request("message to delete not found")
    if not _is_deletable(backstage, chat, message):
        raise bad_request("message can't be deleted")
    _remove(backstage, chat, message)
    return True


async def delete_messages(backstage: Backstage, call: Call) -> bool:
    """Those that cannot be found or deleted are skipped."""
    chat = backstage.chat_of(call)
    for row in call.rows("message_ids") or []:
        message = chat.messages.get(int(row)) if isinstance(row, int | str) and str(row).isdecimal() else None
        if message is not None and _is_deletable(backstage, chat, message):
            _remove(backstage, chat, message)
    return True


def _own_message(backstage: Backstage, call: Call) -> tuple[Chat, Message]:
    chat = backstage.chat_of(call)
    message = chat.messages.get(call.number("message_id"))
    if message is None:
        raise bad_request("message to edit not found")
    if message.sender.id != backstage.world.bot.id or message.service:
        raise bad_request("message can't be edited")
    if refusal := backstage.switch("refuses_edits"):
        raise (
            forbidden("not enough rights to send text messages to the chat")
            if refusal == FORBIDDEN
            else bad_request("message can't be edited")
        )
    return chat, message


def _edited(backstage: Backstage, chat: Chat, message: Message, keyboard: Json | None) -> Json:
    message.reply_markup = keyboard
    message.edited_at = int(backstage.world.now())
    backstage.show(EventKind.EDITED, chat, message)
    return chat.message_json(message, backstage.world.users)


def _is_deletable(backstage: Backstage, chat: Chat, message: Message) -> bool:
    """Within 48 hours: the bot's own messages, anybody's in a private chat, and in a group where it has the right."""
    has_right = chat.user is not None or bool(backstage.switch("can_delete_messages"))
    is_allowed = has_right or message.sender.id == backstage.world.bot.id
    return is_allowed and backstage.world.now() - message.date < DELETABLE_FOR_S


def _remove(backstage: Backstage, chat: Chat, message: Message) -> None:
    del chat.messages[message.id]
    backstage.show(EventKind.DELETED, chat, message)


METHODS: Final = (
    Method("editMessageText", edit_message_text, is_write=True),
    Method("editMessageCaption", edit_message_caption, is_write=True),
    Method("editMessageMedia", edit_message_media, is_write=True),
    Method("editMessageReplyMarkup", edit_message_reply_markup, is_write=True),
    Method("deleteMessage", delete_message, is_write=True),
    Method("deleteMessages", delete_messages, is_write=True),
)
