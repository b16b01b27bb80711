"""The Bot API over HTTP: `/bot{token}/{method}` with its methods, and `/file/bot{token}/{path}`.

The HTTP status of a refusal equals its `error_code`, as clients rely on it, unless a switch says otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from channels.emulators.serving import NoAnswer
from channels.emulators.stage import EventKind, PlaceKind, StageEvent
from channels.emulators.telegram import world
from channels.emulators.telegram.server import BotCommand, Scope, ScopeKind, TelegramCall, TelegramServer, read_call
from channels.emulators.telegram.text import (
    ENTITIES_MAX,
    Entity,
    EntityError,
    FormattedText,
    checked_link,
    tidy,
    utf16_length,
    with_found,
)
from channels.emulators.telegram.updates import BATCH_MAX, CONNECTIONS_MAX, PollCut, checked_hook


@dataclass(frozen=True, slots=True)
class TelegramMethod:
    """`is_write` marks those that put or change something in a chat: the counted faults strike only these."""

    name: str
    handle: Callable[[TelegramServer, TelegramCall], Awaitable[object]]
    is_write: bool = False


# --- text as a call brings it, checked and made ready to be shown


TEXT_MAX: Final = 4096
CAPTION_MAX: Final = 1024
RAW_BYTES_MAX: Final = 32_768
_RECOGNISED: Final = frozenset(
    {"mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number", "bank_card_number"}
)
_GIVEN: Final = frozenset(
    {"bold", "italic", "underline", "strikethrough", "spoiler", "blockquote", "expandable_blockquote"}
    | {"code", "pre", "text_link"}
)


def read_text(
    server: TelegramServer, call: TelegramCall, *, name: str = "text", is_optional: bool = False
) -> FormattedText:
    """Read the text of a message or caption. Raises 400 when it is empty or too long, or comes with a parse mode."""
    raw = call.text(name)
    if not raw.strip():
        if is_optional:
            return FormattedText()
        raise world.bad_request("message text is empty")
    if len(raw.encode()) > RAW_BYTES_MAX:
        raise world.bad_request("text is too long")
    if call.text("parse_mode"):
        raise world.bad_request("unsupported parse_mode: this emulator takes entities")
    entities = _entities(call, "caption_entities" if name == "caption" else "entities")
    if entities and server.faults.take("refuse_format"):
        raise world.bad_request("can't parse entities: Can't find end of the entity starting at byte offset 0")
    shown = _tidied(FormattedText(raw, tuple(entities)))
    if not shown.text and not is_optional:
        raise world.bad_request("text must be non-empty")
    longest = CAPTION_MAX if name == "caption" else TEXT_MAX
    length = utf16_length(shown.text) if server.faults.switch("utf16_length") else len(shown.text)
    if length > longest:
        raise world.bad_request("message caption is too long" if name == "caption" else "message is too long")
    return with_found(FormattedText(shown.text, shown.entities[:ENTITIES_MAX]))


def _tidied(parsed: FormattedText) -> FormattedText:
    try:
        return tidy(parsed)
    except EntityError as refused:
        what = str(refused)
        raise world.bad_request(what[0].lower() + what[1:]) from None


def _entities(call: TelegramCall, name: str) -> list[Entity]:
    entities = []
    for row in call.rows(name) or []:
        if not isinstance(row, dict):
            raise world.bad_request("can't parse MessageEntity: expected an object")
        given = TelegramCall(call.method, row)
        kind = given.text("type")
        if kind in _RECOGNISED:
            continue  # the server finds these by itself and does not believe anybody else
        if kind not in _GIVEN:
            raise world.bad_request("can't parse MessageEntity: unsupported entity type")
        entities.append(_entity(given, kind))
    return entities


def _entity(given: TelegramCall, kind: str) -> Entity:
    if "offset" not in given.given or "length" not in given.given:
        missing = "length" if "offset" in given.given else "offset"
        raise world.bad_request(f"can't parse MessageEntity: can't find field \"{missing}\"")
    url, offset, length = given.text("url"), given.number("offset", -1), given.number("length", -1)
    link = checked_link(url) if kind == "text_link" else ""
    if link is None:
        raise world.bad_request(f"entity URL '{url}' is invalid: unsupported URL protocol")
    return Entity(kind, offset, length, url=link, language=given.text("language") if kind == "pre" else "")


# --- the bot about itself


async def get_me(server: TelegramServer, call: TelegramCall) -> world.Json:
    return server.world.bot.as_json() | {
        "can_join_groups": True,
        "can_read_all_group_messages": not server.faults.switch("privacy"),
        "supports_inline_queries": False,
        "can_connect_to_business": False,
        "has_main_web_app": False,
        "has_topics_enabled": False,
        "allows_users_to_create_topics": False,
    }


# --- chats and topics; the bot is an ordinary member


REACTIONS_PER_MESSAGE: Final = 11
TOPIC_NAME_MAX: Final = 128
_NO_GIFTS: Final = {
    "unlimited_gifts": False,
    "limited_gifts": False,
    "unique_gifts": False,
    "premium_subscription": False,
    "gifts_from_channels": False,
}


async def get_chat(server: TelegramServer, call: TelegramCall) -> world.Json:
    if server.faults.switch("lean_chats"):
        return server.chat_of(call).as_json()
    return server.chat_of(call).as_json() | {
        "accent_color_id": 0,
        "max_reaction_count": REACTIONS_PER_MESSAGE,
        "accepted_gift_types": dict(_NO_GIFTS),
    }


async def create_forum_topic(server: TelegramServer, call: TelegramCall) -> world.Json:
    chat = server.chat_of(call)
    if not chat.is_forum:
        raise world.bad_request("the chat is not a forum")
    _check_name(call.text("name"))
    topic, _ = server.world.add_topic(chat, call.text("name"), server.world.bot)
    place_id = server.world.add_location(PlaceKind.THREAD, chat, topic.id)
    server.audience.tell(StageEvent(EventKind.PLACE, place_id))
    return {"message_thread_id": topic.id, "name": topic.name, "icon_color": 7322096}


async def edit_forum_topic(server: TelegramServer, call: TelegramCall) -> bool:
    """Give a topic a new name, which the topic itself announces.

    In a group only the topics that the bot created are its to name, for it is no administrator."""
    chat, bot = server.chat_of(call), server.world.bot
    topic = chat.topics.get(call.number("message_thread_id"))
    if topic is None:
        raise world.bad_request("TOPIC_ID_INVALID")
    if chat.user is None and topic.creator_id != bot.id:
        raise world.bad_request("not enough rights to manage topics")
    name = call.text("name") or topic.name
    _check_name(name)
    if name == topic.name:
        raise world.bad_request("TOPIC_NOT_MODIFIED")
    chat.topics[topic.id] = replace(topic, name=name)
    told = server.world.add_message(chat, bot, service={"forum_topic_edited": {"name": name}})
    told.thread_id, told.is_topic_message = topic.id, True
    server.audience.tell(StageEvent(EventKind.PLACE, server.world.place_id(chat.id, topic.id)))
    return True


def _check_name(name: str) -> None:
    if not name:
        raise world.bad_request("TOPIC_TITLE_EMPTY")
    if len(name) > TOPIC_NAME_MAX:
        raise world.bad_request("TOPIC_TITLE_TOO_LONG")


# --- the commands of the bot's menu, by scope and language


COMMANDS_MAX: Final = 100
NAME_MAX: Final = 32
DESCRIPTION_MAX: Final = 256
_NAME: Final = re.compile(r"[a-z0-9_]+")
_LANGUAGE: Final = re.compile(r"([a-z]{2})?")


async def set_my_commands(server: TelegramServer, call: TelegramCall) -> bool:
    rows = call.rows("commands") or []
    scope, language = _scope(server, call), _language(call)
    if len(rows) > COMMANDS_MAX:
        raise world.bad_request(f"can't set more than {COMMANDS_MAX} commands")
    server.commands.set(scope, language, tuple(_command(row) for row in rows))
    return True


async def get_my_commands(server: TelegramServer, call: TelegramCall) -> list[world.Json]:
    """Return those of exactly this scope and language; nothing is looked up in a wider one."""
    known = server.commands.get(_scope(server, call), _language(call))
    return [{"command": command.name, "description": command.description} for command in known]


def _command(row: object) -> BotCommand:
    if not isinstance(row, dict):
        raise world.bad_request("can't parse BotCommand: expected an Object")
    name, description = row.get("command"), row.get("description")
    if not isinstance(name, str) or not isinstance(description, str):
        raise world.bad_request('can\'t parse BotCommand: can\'t find field "command" or "description"')
    name, description = name.strip().removeprefix("/"), description.strip()
    for what, value, longest in (("command", name, NAME_MAX), ("command description", description, DESCRIPTION_MAX)):
        if not value:
            raise world.bad_request(f"{what} must be non-empty")
        if len(value) > longest:
            raise world.bad_request(f"{what} length must not exceed {longest}")
    if not _NAME.fullmatch(name):
        raise world.bad_request("BOT_COMMAND_INVALID")
    return BotCommand(name, description)


def _language(call: TelegramCall) -> str:
    language = call.text("language_code")
    if not _LANGUAGE.fullmatch(language):
        raise world.bad_request("invalid language code specified")
    return language


def _scope(server: TelegramServer, call: TelegramCall) -> Scope:
    given = call.table("scope")
    if given is None:
        return Scope(ScopeKind.DEFAULT)
    if given.get("type") not in set(ScopeKind):
        raise world.bad_request("can't parse BotCommandScope: unsupported type specified")
    kind = ScopeKind(str(given["type"]))
    if kind is not ScopeKind.CHAT:
        return Scope(kind)
    chat_id = str(given.get("chat_id") or "")
    if not chat_id:
        raise world.bad_request("can't parse BotCommandScope: can't find field \"chat_id\"")
    chat = server.world.chats.get(int(chat_id)) if chat_id.lstrip("-").isdecimal() else None
    if chat is None:
        raise world.bad_request("chat not found")
    return Scope(kind, chat.id)


# --- messages, drafts and typing


ACTIONS: Final = frozenset({"typing", "upload_document", "upload_photo", "upload_voice"})


async def send_message(server: TelegramServer, call: TelegramCall) -> world.Json:
    content = read_text(server, call)
    keyboard = server.keyboard_of(call)
    chat = server.chat_of(call)
    target = server.target_of(call, chat)
    server.spend(chat)
    return server.post(chat, target, content, keyboard=keyboard)


async def send_message_draft(server: TelegramServer, call: TelegramCall) -> bool:
    """Show a preview in a private chat: no message, no id, no history. Without text it says that the bot thinks."""
    if server.faults.switch("no_drafts"):
        raise world.method_not_found()
    content = read_text(server, call, is_optional=True)
    chat = server.chat_of(call)
    if chat.user is None:
        raise world.bad_request("message drafts can be sent only to private chats")
    draft_id = call.number("draft_id")
    if not draft_id:
        raise world.bad_request("draft_id must be non-zero")
    thread_id = server.thread_of(call, chat)
    server.show_draft(chat, thread_id, draft_id, content, can_stop=call.flag("can_stop"))
    return True


async def send_chat_action(server: TelegramServer, call: TelegramCall) -> bool:
    action = call.text("action").lower()
    if action not in ACTIONS:
        raise world.bad_request("wrong parameter action in request")
    chat = server.chat_of(call)
    server.show_status(chat, server.thread_of(call, chat), action)
    return True


# --- files out and in


UPLOAD_BYTES_MAX: Final = 50 * 1024 * 1024
DOWNLOAD_BYTES_MAX: Final = 20 * 1024 * 1024


def read_media(server: TelegramServer, call: TelegramCall, row: world.Json) -> tuple[world.StoredFile, FormattedText]:
    """Read an InputMediaDocument: the file and its caption. Raises 400 for another type."""
    given = TelegramCall(call.method, row, call.uploads)
    if given.text("type") != "document":
        raise world.bad_request("can't parse InputMedia: this emulator takes documents")
    caption = read_text(server, given, name="caption", is_optional=True)
    return _document(server, given, given.text("media")), caption


async def send_file(server: TelegramServer, call: TelegramCall) -> world.Json:
    """Answer sendDocument and sendVoice."""
    caption = read_text(server, call, name="caption", is_optional=True)
    keyboard = server.keyboard_of(call)
    kind = "voice" if call.method.lower() == "sendvoice" else "document"
    stored = _document(server, call, call.text(kind), kind)
    chat = server.chat_of(call)
    target = server.target_of(call, chat)
    if kind == "voice" and server.faults.switch("no_voices"):
        raise world.bad_request("VOICE_MESSAGES_FORBIDDEN")
    server.spend(chat)
    media = world.media_shape(kind, stored)
    return server.post(chat, target, caption, keyboard=keyboard, media=media, files=(stored.name,))


async def get_file(server: TelegramServer, call: TelegramCall) -> world.Json:
    if not call.text("file_id"):
        raise world.bad_request("file_id not specified")
    stored = server.world.files.get(call.text("file_id"))
    if stored is None:
        raise world.bad_request("wrong file_id or the file is temporarily unavailable")
    if len(stored.content) > DOWNLOAD_BYTES_MAX:
        raise world.bad_request("file is too big")
    return stored.as_json() | {"file_path": stored.path}


def _document(server: TelegramServer, call: TelegramCall, given: str, field: str = "document") -> world.StoredFile:
    """Find a new upload, or a file the bot knows already. Raises what the server says of the others."""
    name = given.removeprefix("attach://") if given.startswith("attach://") else field
    upload = call.uploads.get(name)
    if upload is None:
        known = server.world.files.get(given)
        if known is not None:
            return known
        if not given:
            raise world.bad_request("there is no document in the request")
        if given.startswith(("http://", "https://")):
            raise world.bad_request("failed to get HTTP URL content")
        raise world.bad_request("wrong remote file identifier specified: Wrong string length")
    if not upload.content:
        raise world.bad_request("file must be non-empty")
    if len(upload.content) > UPLOAD_BYTES_MAX:
        raise world.ApiError(413, "Request Entity Too Large")
    name = "voice.oga" if field == "voice" else upload.name  # a voice message has none of its own
    return server.world.add_file(name, upload.mime_type, upload.content)


# --- changing and removing messages


DELETABLE_FOR_S: Final = 48 * 3600
FORBIDDEN: Final = 403
NOT_MODIFIED: Final = (
    "message is not modified: specified new message content and reply markup are exactly the same "
    "as a current content and reply markup of the message"
)


async def edit_message_text(server: TelegramServer, call: TelegramCall) -> world.Json:
    content = read_text(server, call)
    keyboard = server.keyboard_of(call)
    chat, message = _own_message(server, call)
    if message.media:
        raise world.bad_request("there is no text in the message to edit")
    if (message.content, message.reply_markup) == (content, keyboard):
        raise world.bad_request(NOT_MODIFIED)
    server.spend(chat)
    message.content = content
    return _edited(server, chat, message, keyboard)


async def edit_message_media(server: TelegramServer, call: TelegramCall) -> world.Json:
    """Put another document in place of a message's, or of its text (since Bot API 7.11)."""
    if server.faults.switch("no_media_edits") == HTTPStatus.NOT_FOUND:
        raise world.method_not_found()
    stored, caption = read_media(server, call, call.table("media") or {})
    keyboard = server.keyboard_of(call)
    chat, message = _own_message(server, call)
    if server.faults.switch("no_media_edits") and not message.media:
        raise world.bad_request("there is no media in the message to edit")
    media = world.media_shape("document", stored)
    if (message.media, message.content, message.reply_markup) == (media, caption, keyboard):
        raise world.bad_request(NOT_MODIFIED)
    server.spend(chat)
    message.media, message.content, message.files = media, caption, (stored.name,)
    return _edited(server, chat, message, keyboard)


async def edit_message_reply_markup(server: TelegramServer, call: TelegramCall) -> world.Json:
    keyboard = server.keyboard_of(call)
    chat, message = _own_message(server, call)
    if message.reply_markup == keyboard:
        raise world.bad_request(NOT_MODIFIED)
    server.spend(chat)
    return _edited(server, chat, message, keyboard)


async def delete_message(server: TelegramServer, call: TelegramCall) -> bool:
    chat = server.chat_of(call)
    message = chat.messages.get(call.number("message_id"))
    if message is None:
        raise world.bad_request("message to delete not found")
    if not _is_deletable(server, chat, message):
        raise world.bad_request("message can't be deleted")
    del chat.messages[message.id]
    server.show(EventKind.DELETED, chat, message)
    return True


def _own_message(server: TelegramServer, call: TelegramCall) -> tuple[world.Chat, world.TelegramMessage]:
    chat = server.chat_of(call)
    if server.faults.switch("costly_edits"):
        server.spend(chat)
    message = chat.messages.get(call.number("message_id"))
    if message is None:
        raise world.bad_request("message to edit not found")
    if message.sender.id != server.world.bot.id or message.service:
        raise world.bad_request("message can't be edited")
    if refusal := server.faults.switch("refuses_edits"):
        raise (
            world.forbidden("not enough rights to send text messages to the chat")
            if refusal == FORBIDDEN
            else world.bad_request("message can't be edited")
        )
    return chat, message


def _edited(
    server: TelegramServer, chat: world.Chat, message: world.TelegramMessage, keyboard: world.Json | None
) -> world.Json:
    message.reply_markup = keyboard
    message.edited_at = int(server.world.now())
    server.show(EventKind.EDITED, chat, message)
    return chat.message_json(message, server.world.users)


def _is_deletable(server: TelegramServer, chat: world.Chat, message: world.TelegramMessage) -> bool:
    """Tell whether the bot may delete it: for 48 hours, its own, in a private chat, or where it has the right."""
    has_right = chat.user is not None or bool(server.faults.switch("can_delete_messages"))
    is_allowed = has_right or message.sender.id == server.world.bot.id
    return is_allowed and server.world.now() - message.date < DELETABLE_FOR_S


# --- updates, webhooks, and answers to button presses


CALLBACK_ANSWER_S: Final = 30.0
CALLBACK_TEXT_MAX: Final = 200
_NEW_KINDS: Final = ("stopped_message_generation",)


async def get_updates(server: TelegramServer, call: TelegramCall) -> list[world.Json]:
    if server.webhook.hook is not None:
        raise world.conflict(
            "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
        )
    if server.faults.take_other("conflict"):
        raise world.conflict("terminated by other getUpdates request; make sure that only one bot instance is running")
    _allow(server, call)
    limit = call.number("limit", BATCH_MAX)
    return await server.updates.poll(
        offset=call.number("offset"),
        limit=limit if 1 <= limit <= BATCH_MAX else BATCH_MAX,
        timeout_s=0 if server.faults.switch("hasty_polls") else max(0, call.number("timeout")),
    )


async def set_webhook(server: TelegramServer, call: TelegramCall) -> bool:
    if not call.text("url"):
        return await delete_webhook(server, call)
    hook = checked_hook(call.text("url"), call.text("secret_token"), call.number("max_connections", CONNECTIONS_MAX))
    _allow(server, call)
    if call.flag("drop_pending_updates"):
        server.updates.clear()
    server.updates.end_polls(world.conflict("terminated by setWebhook request"))
    server.webhook.set(hook)
    return True


async def delete_webhook(server: TelegramServer, call: TelegramCall) -> bool:
    if call.flag("drop_pending_updates"):
        server.updates.clear()
    server.webhook.delete()
    return True


async def get_webhook_info(server: TelegramServer, call: TelegramCall) -> world.Json:
    return server.webhook.as_json()


async def answer_callback_query(server: TelegramServer, call: TelegramCall) -> bool:
    query_id, text = call.text("callback_query_id"), call.text("text")
    press = server.callbacks.get(query_id)
    if press is None or server.world.now() - press.at_s > CALLBACK_ANSWER_S:
        raise world.bad_request("query is too old and response timeout expired or query ID is invalid")
    if len(text) > CALLBACK_TEXT_MAX:
        raise world.bad_request("MESSAGE_TOO_LONG")
    press.is_answered = True
    if text:
        server.show_toast(press, text)
    return True


def _allow(server: TelegramServer, call: TelegramCall) -> None:
    rows = call.rows("allowed_updates")
    if rows is not None:
        known = rows if not server.faults.switch("before_10_3") else [each for each in rows if each not in _NEW_KINDS]
        server.updates.allow([str(each) for each in known])


# --- the HTTP application


_METHODS: Final = {
    method.name.lower(): method
    for method in (
        TelegramMethod("getMe", get_me),
        TelegramMethod("getChat", get_chat),
        TelegramMethod("createForumTopic", create_forum_topic, is_write=True),
        TelegramMethod("editForumTopic", edit_forum_topic, is_write=True),
        TelegramMethod("setMyCommands", set_my_commands),
        TelegramMethod("getMyCommands", get_my_commands),
        TelegramMethod("sendMessage", send_message, is_write=True),
        TelegramMethod("sendMessageDraft", send_message_draft, is_write=True),
        TelegramMethod("sendChatAction", send_chat_action),
        TelegramMethod("sendDocument", send_file, is_write=True),
        TelegramMethod("sendVoice", send_file, is_write=True),
        TelegramMethod("getFile", get_file),
        TelegramMethod("editMessageText", edit_message_text, is_write=True),
        TelegramMethod("editMessageMedia", edit_message_media, is_write=True),
        TelegramMethod("editMessageReplyMarkup", edit_message_reply_markup, is_write=True),
        TelegramMethod("deleteMessage", delete_message, is_write=True),
        TelegramMethod("getUpdates", get_updates),
        TelegramMethod("setWebhook", set_webhook),
        TelegramMethod("deleteWebhook", delete_webhook),
        TelegramMethod("getWebhookInfo", get_webhook_info),
        TelegramMethod("answerCallbackQuery", answer_callback_query),
    )
}
_TOKEN: Final = re.compile(r"\d+:[\w-]+")
_BASICS: Final = frozenset({"getme", "getupdates", "deletewebhook", "sendmessage"})
_LEAST: Final = ("id", "username", "message_id", "file_path", "url")
BY_A_PAGE: Final = 2  # of `only_basics`
FRONT_PAGE: Final = "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>nginx</body>\r\n</html>\r\n"
BAD_GATEWAY: Final = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>nginx</body>\r\n</html>\r\n"


class BotApi:
    """One bot's Bot API as an ASGI application."""

    def __init__(self, token: str, server: TelegramServer) -> None:
        self._token = token
        self._server = server
        self.app = Starlette(
            routes=[
                Route("/bot{token}/{method}", self._enveloped(self._call), methods=["GET", "POST"]),
                Route("/file/bot{token}/{path:path}", self._enveloped(self._download), methods=["GET"]),
            ],
            lifespan=self._lifespan,
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        await self._server.webhook.close()

    def _enveloped(self, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                self._admit(request.path_params["token"])
                return await handler(request)
            except world.ApiError as refusal:
                return _refusal(refusal, 200 if self._server.faults.switch("status_200") else refusal.status)
            except PollCut:
                return NoAnswer()

        return endpoint

    def _admit(self, token: str) -> None:
        """Check the token: what does not look like one is not found, what does but is not ours is unauthorized."""
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            raise world.unauthorized() if _TOKEN.fullmatch(token) else world.ApiError(404, "Not Found")
        if self._server.faults.switch("revoked"):
            raise world.unauthorized()

    async def _call(self, request: Request) -> Response:
        if self._server.faults.take_other("front_pages"):
            return Response(FRONT_PAGE, 404, media_type="text/html")
        name = request.path_params["method"].lower()
        method = _METHODS.get(name)
        basics = self._server.faults.switch("only_basics")
        if basics == BY_A_PAGE and name not in _BASICS:
            return Response(FRONT_PAGE, 404, media_type="text/html")
        if method is None or (basics and name not in _BASICS):
            raise world.method_not_found()
        call = await read_call(request, method.name)
        if method.name != "getUpdates" and self._server.faults.delay_s > 0:
            await asyncio.sleep(self._server.faults.delay_s)
        if method.name == "getUpdates" and self._server.faults.take_other("hang_polls"):
            while (await request.receive())["type"] != "http.disconnect":
                pass
        if (fault := self._fault_answer(method)) is not None:
            return fault
        result = await method.handle(self._server, call)
        if method.is_write and self._server.faults.take("drop_after"):
            return NoAnswer()
        if self._server.faults.switch("lean_answers") and isinstance(result, dict):
            result = {name: result[name] for name in _LEAST if name in result}
        return JSONResponse({"ok": True, "result": result})

    def _fault_answer(self, method: TelegramMethod) -> Response | None:
        """Return what a fault switch answers instead of doing anything; None when none is on."""
        server = self._server
        if method.name == "getUpdates" and server.faults.take_other("poll_errors"):
            return Response(BAD_GATEWAY, 502, media_type="text/html")
        if not method.is_write and not server.faults.switch("faults_everywhere"):
            return None
        if server.faults.take("drop_before"):
            return NoAnswer()
        if server.faults.take("server_error"):
            return Response(BAD_GATEWAY, 502, media_type="text/html")
        if server.faults.take("rate_limit"):
            raise world.too_many_requests(max(1, math.ceil(server.faults.retry_after_s)))
        return None

    async def _download(self, request: Request) -> Response:
        wanted = request.path_params["path"]
        for stored in self._server.world.files.values():
            if stored.path == wanted:
                return Response(stored.content, media_type="application/octet-stream")
        raise world.ApiError(404, "Not Found")


def _refusal(refusal: world.ApiError, status: int) -> JSONResponse:
    body: dict[str, object] = {"ok": False, "error_code": refusal.status, "description": refusal.description}
    if refusal.parameters:
        body["parameters"] = dict(refusal.parameters)
    return JSONResponse(body, status)
