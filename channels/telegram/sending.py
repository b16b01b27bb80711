"""Calls to Telegram that send: messages, placeholders and their edits, drafts, names of topics.

Telegram has no key by which it recognizes a repeated send, and no history to look in. Two things help. An edit may
be repeated: "message is not modified" says that it is done. And whether there is a message of ours after the one we
answered can be found out without changing anything, see `find_lost`."""

from __future__ import annotations

import contextlib
import logging
import zlib
from collections.abc import Awaitable, Callable, Mapping
from itertools import count, islice
from typing import Any, Final, TypeVar

import telegram
from telegram.error import BadRequest, InvalidToken, TelegramError

from channels.core.message import mapping
from channels.markdown.chunk import clipped
from channels.telegram import limits
from channels.telegram.client import PageMissing, call
from channels.telegram.normalize import TelegramTarget
from channels.telegram.render import TelegramChunk, TelegramFile, TelegramPart
from gateway.bounded_dict import BoundedDict
from gateway.contracts.errors import FormatRefused, SendFailed
from gateway.contracts.messages import CleanText
from gateway.limits import SENT_IDS_MAX

log = logging.getLogger(__name__)

_T = TypeVar("_T")

PLACEHOLDER: Final = "…"
_NO_PREVIEW: Final = {"is_disabled": True}
_NOT_MODIFIED: Final = "message is not modified"
_NOT_OURS: Final = ("message to edit not found", "message can't be edited")
_ALREADY_DELETED: Final = "message to delete not found"
_MAY_NOT_DELETE: Final = ("message can't be deleted", "not enough rights", "message_delete_forbidden")
_SINGLE_PLACES: Final = ("group", "supergroup", "channel")
_NOTHING_TO_ANSWER: Final = ("replied not found", "reply message not found", "reply_message_id_invalid")
_NO_VOICES: Final = "voice_messages_forbidden"  # by the privacy settings of a person with Telegram Premium
_NO_MEDIA: Final = "no media in the message"  # before Bot API 7.11 a text could not become a document
_GONE: Final = (*_NOT_OURS, "message_id_invalid", _NO_MEDIA)
_EDIT_TEXT: Final = "editMessageText"
_UNKNOWN_METHOD: Final = "not found"  # 404 of a server with fewer methods, for which the SDK blames the token


class TelegramSender:
    """The calls of one bot that send. All raise the SDK's `TelegramError`."""

    def __init__(self, bot: telegram.Bot) -> None:
        self._bot = bot
        self.can_edit = True
        """False once the server has said that it does not know how to edit."""
        self._known_edits: set[str] = set()
        self._searches: BoundedDict[str, dict[int, bool | None]] = BoundedDict(limits.SEARCHES_MAX)

    async def send(self, target: TelegramTarget, chunk: TelegramChunk, *, plain: bool) -> str:
        """Send a new message; return its id."""
        said = {
            "chat_id": target.chat_id,
            "text": chunk.plain if plain else chunk.text,
            "entities": None if plain else entities_of(chunk),
            "message_thread_id": target.message_thread_id,
            "direct_messages_topic_id": target.direct_messages_topic_id,
            "reply_markup": keyboard(chunk),
            "disable_notification": chunk.is_silent or None,
            "link_preview_options": _NO_PREVIEW,
        }
        sent = await _answering(
            None if chunk.is_silent else target.reply_to_message_id,
            lambda reply: call(
                self._bot,
                "sendMessage",
                said | {"reply_parameters": reply and reply.to_dict()},
                read_timeout_s=limits.SEND_READ_TIMEOUT_S,
            ),
        )
        return str(mapping(sent)["message_id"])

    async def delete(self, target: TelegramTarget, *, message_id: str) -> bool:
        """Delete a message of somebody else and tell whether it is gone. A bot may delete what is younger than 48
        hours: in a private chat anything, in a group with the right `can_delete_messages` (Bot API, deleteMessage)."""
        try:
            return await self._bot.delete_message(target.chat_id, int(message_id))
        except BadRequest as error:
            said = error.message.lower()
            if _ALREADY_DELETED in said:
                return True
            if any(sign in said for sign in _MAY_NOT_DELETE):
                return False
            raise
        except (InvalidToken, PageMissing) as error:
            if not _is_unknown(error) or (isinstance(error, PageMissing) and self.can_edit):
                raise  # what is to be deleted may be a secret: a page alone is no reason to leave it
            return False

    async def send_file(self, target: TelegramTarget, file: TelegramFile) -> str:
        """Send a new message with a document, or a voice message where its reader takes such; return its id. Raises
        `FormatRefused` where the server knows no files."""
        try:
            return await self._send_file(target, file)
        except (InvalidToken, PageMissing) as error:
            if not _is_unknown(error):
                raise
            raise FormatRefused("the Bot API server takes no files") from error

    async def _send_file(self, target: TelegramTarget, file: TelegramFile) -> str:
        if file.is_voice:
            try:
                return await self._upload("sendVoice", "voice", target, file)
            except BadRequest as error:
                if _NO_VOICES not in error.message.lower():
                    raise
        return await self._upload("sendDocument", "document", target, file)

    async def _upload(self, method: str, kind: str, target: TelegramTarget, file: TelegramFile) -> str:
        """Send a file by sendDocument, or Opus in Ogg by sendVoice, which shows it as a voice message (Bot API)."""
        said = {
            "chat_id": target.chat_id,
            "caption": file.caption or None,
            "message_thread_id": target.message_thread_id,
            "direct_messages_topic_id": target.direct_messages_topic_id,
            "disable_content_type_detection": True if kind == "document" else None,
        }
        sent = await _answering(
            target.reply_to_message_id,
            lambda reply: call(
                self._bot,
                method,
                said | {"reply_parameters": reply and reply.to_dict()},
                file=(kind, telegram.InputFile(file.content, filename=file.name)),
                read_timeout_s=limits.SEND_READ_TIMEOUT_S,
            ),
        )
        return str(mapping(sent)["message_id"])

    async def put_placeholder(self, target: TelegramTarget) -> str:
        """Send a message that says nothing yet; return its id."""
        return await self.send(target, TelegramChunk(PLACEHOLDER, (), PLACEHOLDER), plain=True)

    async def complete(self, target: TelegramTarget, chunk: TelegramChunk, *, message_id: str, plain: bool) -> bool:
        """Make the message show the chunk, and no buttons but its own. False: it is gone, or none of ours."""
        shown = {
            "text": chunk.plain if plain else chunk.text,
            "chat_id": target.chat_id,
            "message_id": int(message_id),
            "entities": None if plain else entities_of(chunk),
            "reply_markup": keyboard(chunk),
            "link_preview_options": _NO_PREVIEW,
        }
        return await self._is_edited(_EDIT_TEXT, shown)

    async def complete_with_file(self, target: TelegramTarget, file: TelegramFile, *, message_id: str) -> bool:
        """Make the message show the document: since Bot API 7.11 one of text may become one. False as above."""
        content = telegram.InputFile(file.content, filename=file.name, attach=True)
        media = {"type": "document", "media": content.attach_uri, "disable_content_type_detection": True}
        shown = {
            "chat_id": target.chat_id,
            "message_id": int(message_id),
            "media": media | ({"caption": file.caption} if file.caption else {}),
        }
        return await self._is_edited("editMessageMedia", shown, file=("media file", content))

    async def _is_edited(
        self, method: str, shown: Mapping[str, Any], *, file: tuple[str, telegram.InputFile] | None = None
    ) -> bool:
        """Edit a message. True once the message shows what it should; False: it is gone, or none of ours, or the server
        does not know how to edit it so."""
        try:
            await call(self._bot, method, shown, file=file, read_timeout_s=limits.SEND_READ_TIMEOUT_S)
        except BadRequest as error:
            said = error.message.lower()
            if _NOT_MODIFIED not in said:
                if any(sign in said for sign in _GONE):
                    return False
                raise
        except (InvalidToken, PageMissing) as error:
            if method in self._known_edits or not _is_unknown(error):
                raise
            self.can_edit = self.can_edit and method != _EDIT_TEXT
            return False
        self._known_edits.add(method)
        return True

    async def find_lost(
        self, target: TelegramTarget, chunk: TelegramPart, *, after: int, known: frozenset[str]
    ) -> str | None:
        """Find the one message of ours among the next ids that is not `known`; None when that cannot be said.

        `editMessageReplyMarkup` with the chunk's own keyboard (or without one) changes nothing in a message that has
        the same, and the answers differ: "message to edit not found" for an id that is not there, "message can't be
        edited" for somebody else's message, "message is not modified" for ours. That order of checks was read in the
        sources of TDLib and of the Bot API server; it was not tried on the real service. So "not modified" is taken for
        a proof, and so is a success where the chunk has buttons: it was a placeholder of ours that has got them now.
        Anything unforeseen ends the search without one.

        Where a chat has topics the lost message may belong to another of them: no search."""
        if not await self._can_search(target):
            return None
        if len(known) >= SENT_IDS_MAX and min(map(int, known)) > after:
            return None  # older ones of ours were forgotten
        buttons, unknown = keyboard(chunk), (number for number in count(after + 1) if str(number) not in known)
        search = f"{target.chat_id} {after} {buttons}"
        answers, found = self._searches.setdefault(search, {}), list[int]()
        for message_id in islice(unknown, limits.LOST_IDS_MAX):
            if message_id not in answers:  # a 429 breaks the search off, and the next try goes on from there
                answers[message_id] = await self._is_ours(target.chat_id, message_id, buttons)
            if answers[message_id]:
                found.append(message_id)
            if answers[message_id] is None or len(found) > 1:
                found.clear()
                break
        self._searches.pop(search, None)
        return str(found[0]) if found else None

    async def begin(self, target: TelegramTarget, chunk: TelegramChunk) -> str:
        """Begin a message that is going to change; return its id. Where it could not be found again if it got lost it
        begins as a placeholder, which nobody takes for an answer."""
        if await self._can_search(target):
            return await self.send(target, chunk, plain=False)
        message_id = await self.put_placeholder(target)
        with contextlib.suppress(TelegramError):  # it is there; the next text comes soon
            await self.complete(target, chunk, message_id=message_id, plain=False)
        return message_id

    async def _can_search(self, target: TelegramTarget) -> bool:
        return not await self._has_topics(target)

    async def _is_ours(self, chat_id: int, message_id: int, keyboard: Mapping[str, Any] | None) -> bool | None:
        """Tell whether there is a message of ours with this id. None: unknown."""
        shown = {"chat_id": chat_id, "message_id": message_id, "reply_markup": keyboard}
        try:
            await call(self._bot, "editMessageReplyMarkup", shown)
        except BadRequest as error:
            said = error.message.lower()
            if _NOT_MODIFIED in said:
                return True
            return False if any(sign in said for sign in _NOT_OURS) else None
        except (InvalidToken, PageMissing):  # a server that does not know the method answers 404
            return None
        return True if keyboard else None

    async def _has_topics(self, target: TelegramTarget) -> bool:
        """Tell whether the chat may have topics: True unless it surely is one single conversation."""
        if target.message_thread_id or target.direct_messages_topic_id:
            return True
        try:
            if target.chat_id > 0:
                return mapping(await call(self._bot, "getMe", {})).get("has_topics_enabled") is True
            chat = mapping(await call(self._bot, "getChat", {"chat_id": target.chat_id}))
            return chat.get("type") not in _SINGLE_PLACES or chat.get("is_forum") is True
        except (BadRequest, InvalidToken, PageMissing):
            return True

    async def show_typing(self, target: TelegramTarget) -> None:
        """Show "typing…" for a few seconds."""
        await self._bot.send_chat_action(target.chat_id, "typing", message_thread_id=target.message_thread_id)


def _is_unknown(error: TelegramError) -> bool:
    return _UNKNOWN_METHOD in error.message.lower()


def entities_of(chunk: TelegramChunk) -> list[Mapping[str, Any]]:
    """Convert the entities to what a call takes."""
    return [
        {"type": entity.type, "offset": entity.offset, "length": entity.length}
        | ({"url": entity.url} if entity.url else {})
        | ({"language": entity.language} if entity.language else {})
        for entity in chunk.entities
    ]


def keyboard(chunk: TelegramPart) -> Mapping[str, Any] | None:
    """Build a keyboard with a button for each choice; None for a chunk without choices. Two short buttons share a row,
    otherwise each has its own."""
    if not chunk.choices:
        return None
    buttons = [{"text": choice.label, "callback_data": choice.command} for choice in chunk.choices]
    is_short = len(buttons) <= limits.ROW_BUTTONS_MAX and all(
        len(button["text"]) <= limits.ROW_LABEL_CHARS_MAX for button in buttons
    )
    return {"inline_keyboard": [buttons] if is_short else [[button] for button in buttons]}


async def _answering(message_id: int | None, send: Callable[[telegram.ReplyParameters | None], Awaitable[_T]]) -> _T:
    """Send as the answer to a message; where that is refused, because it is gone, as no answer to any."""
    if message_id is not None:
        try:
            return await send(telegram.ReplyParameters(message_id, allow_sending_without_reply=True))
        except BadRequest as error:
            if not any(sign in error.message.lower() for sign in _NOTHING_TO_ANSWER):
                raise
    return await send(None)


# The name of a topic: the title of the conversation in it.

_NAME_NOT_MODIFIED: Final = "topic_not_modified"


async def name_topic(bot: telegram.Bot, target: TelegramTarget, title: CleanText) -> None:
    """Rename the topic, however often this is asked. Raises the SDK's `TelegramError`."""
    name = clipped(title, limits.TOPIC_NAME_UNITS_MAX)
    try:
        await bot.edit_forum_topic(target.chat_id, target.message_thread_id or 0, name=name)
    except BadRequest as error:
        if _NAME_NOT_MODIFIED not in error.message.lower():
            raise


# Drafts of private chats (Bot API 9.3): a preview that grows, fades half a minute after the last call, and is no
# message: nothing of it has to be remembered, and the answer is sent as if nothing had been shown.
#
# A server that does not know the method answers 404, by itself or by its framework's page; one that has it for some
# bots only refuses the first call. Either way there are none for the rest of this process, and answers grow in messages
# that are edited.

_OF_THIS_ONE: Final = ("not found", "peer_id_invalid", "can't parse", "entit", "too long", "empty")
"""Signs in a refusal that concerns one chat or one text, and not drafts."""


class TelegramDrafts:
    """The drafts of one bot."""

    def __init__(self, bot: telegram.Bot) -> None:
        self._bot = bot
        self._are_known = False
        self._are_absent = False

    def are_for(self, target: TelegramTarget) -> bool:
        """Tell whether a growing answer is shown as a draft in this chat: the bot's private chats have drafts."""
        return target.chat_id > 0 and not self._are_absent

    async def show(self, target: TelegramTarget, chunk: TelegramChunk, *, send_id: str) -> None:
        """Show the draft, or let it grow. Raises the SDK's errors, `SendFailed` where there are no drafts."""
        try:
            await call(
                self._bot,
                "sendMessageDraft",
                {
                    "chat_id": target.chat_id,
                    "draft_id": draft_id_of(send_id),
                    "text": chunk.text,
                    "message_thread_id": target.message_thread_id,
                    "entities": entities_of(chunk),
                    "can_stop": True,  # since Bot API 10.3; the press is read in `presses`. Older servers pass over it
                },
            )
        # A 404 is an invalid token to the SDK; polling knows better.
        except (InvalidToken, BadRequest, PageMissing) as error:
            is_of_this_one = any(sign in error.message.lower() for sign in _OF_THIS_ONE)
            is_refused = not self._are_known and (isinstance(error, PageMissing) or not is_of_this_one)
            if not isinstance(error, InvalidToken) and not is_refused:
                raise
            self._are_absent = True
            log.info("telegram: this server shows no drafts, so answers grow in messages")
            raise SendFailed("no drafts here") from None
        self._are_known = True


def draft_id_of(send_id: str) -> int:
    """Derive an id that is the same for all that is shown of one message: 31 bits, and never 0, which is no id."""
    return zlib.crc32(send_id.encode()) >> 1 or 1
