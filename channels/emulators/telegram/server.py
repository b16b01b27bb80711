"""The ground of every method of the API: calls, quotas, and the checks in the order the real server makes them."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from json import JSONDecodeError
from typing import Final

from starlette.datastructures import UploadFile
from starlette.requests import Request

from channels.emulators.stage import EventKind, Faults, Said, StageAudience, StageButton, StageEvent
from channels.emulators.telegram.text import FormattedText, to_html
from channels.emulators.telegram.updates import UpdateQueue, WebhookSender
from channels.emulators.telegram.world import (
    GENERAL_TOPIC,
    TELEGRAM,
    ApiError,
    Chat,
    ChatType,
    Json,
    TelegramMessage,
    TelegramState,
    TelegramUser,
    bad_request,
    forbidden,
    person,
    too_many_requests,
    upgraded,
)

# --- parameters from the query, a form, a multipart body or JSON


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that came with the call."""

    name: str
    mime_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class TelegramCall:
    """`method` in lower case. Values are text, except those that came in a JSON body."""

    method: str
    given: Mapping[str, object] = field(default_factory=dict)
    uploads: Mapping[str, Upload] = field(default_factory=dict)

    def text(self, name: str) -> str:
        value = self.given.get(name)
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        return value if isinstance(value, str) else json.dumps(value) if isinstance(value, dict | list) else str(value)

    def number(self, name: str, default: int = 0) -> int:
        """Read a number; text that is none counts as `default`, as it does for the server."""
        try:
            return int(self.text(name))
        except ValueError:
            return default

    def flag(self, name: str) -> bool:
        return self.text(name).lower() in {"true", "yes", "1"}

    def structure(self, name: str) -> object:
        """Parse a JSON-serialised parameter, None when absent. Raises 400 when it is not JSON."""
        value = self.given.get(name)
        if not isinstance(value, str):
            return value
        if not value.strip():
            return None
        try:
            return json.loads(value)
        except JSONDecodeError:
            what = name.replace("_", " ")
            raise bad_request(f"can't parse {what} JSON object") from None

    def table(self, name: str) -> Json | None:
        value = self.structure(name)
        if value is None or isinstance(value, dict):
            return value
        raise bad_request(f"object expected as {name.replace('_', ' ')}")

    def rows(self, name: str) -> list[object] | None:
        value = self.structure(name)
        if value is None or isinstance(value, list):
            return value
        raise bad_request(f"expected an Array of {name.replace('_', ' ')}")


async def read_call(request: Request, method: str) -> TelegramCall:
    """Read the call that a request carries. Raises 400 for a body that is not what its type says."""
    given: dict[str, object] = dict(request.query_params)
    uploads: dict[str, Upload] = {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        body = await request.body()
        try:
            parsed = json.loads(body) if body.strip() else {}
        except (JSONDecodeError, UnicodeDecodeError):
            raise bad_request("can't parse JSON object") from None
        if not isinstance(parsed, dict):
            raise bad_request("object expected as parameters")
        given |= parsed
    elif kind in {"application/x-www-form-urlencoded", "multipart/form-data"}:
        async with request.form() as form:
            for name, value in form.multi_items():
                if isinstance(value, UploadFile):
                    mime_type = value.content_type or "application/octet-stream"
                    uploads[name] = Upload(value.filename or name, mime_type, await value.read())
                else:
                    given[name] = value
    return TelegramCall(method.lower(), given, uploads)


# --- how much a bot may send
#
# The vendor documents about one message a second in a chat (short bursts pass), 20 a minute in a group and about
# 30 a second overall; how much burst passes is not published, so the bursts here are our reading.


@dataclass(frozen=True, slots=True)
class TelegramAllowance:
    """`burst` calls at once, then `per_s` a second."""

    burst: float
    per_s: float


PRIVATE: Final = TelegramAllowance(burst=20, per_s=1)
GROUP: Final = TelegramAllowance(burst=20, per_s=20 / 60)
OVERALL: Final = TelegramAllowance(burst=120, per_s=30)

_EVERYTHING: Final = 0  # no chat has this id


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Quotas:
    """The buckets of one bot."""

    def __init__(self) -> None:
        self._buckets: dict[int, _Bucket] = {}

    def spend(self, chat_id: int) -> None:
        """Take one message's worth. Raises the 429 that tells when there will be enough again."""
        allowance = GROUP if chat_id < 0 else PRIVATE
        wait_s = max(self._wait_s(_EVERYTHING, OVERALL), self._wait_s(chat_id, allowance))
        if wait_s > 0:
            raise too_many_requests(math.ceil(wait_s))
        self._buckets[_EVERYTHING].left -= 1
        self._buckets[chat_id].left -= 1

    def _wait_s(self, name: int, allowance: TelegramAllowance) -> float:
        now = time.monotonic()
        bucket = self._buckets.setdefault(name, _Bucket(allowance.burst, now))
        bucket.left = min(allowance.burst, bucket.left + (now - bucket.at) * allowance.per_s)
        bucket.at = now
        return max(0.0, 1 - bucket.left) / allowance.per_s


# --- lists of commands, and which of them a client shows to whom and where


class ScopeKind(StrEnum):
    DEFAULT = "default"
    ALL_PRIVATE_CHATS = "all_private_chats"
    ALL_GROUP_CHATS = "all_group_chats"
    CHAT = "chat"


@dataclass(frozen=True, slots=True)
class Scope:
    """Say whom a list is for; the chat id is zero where none belongs."""

    kind: ScopeKind
    chat_id: int = 0


@dataclass(frozen=True, slots=True)
class BotCommand:
    name: str
    description: str


@dataclass(slots=True)
class CommandLists:
    """By scope and language code; "" is for people in whose language there is no list. Both ways are counted."""

    lists: dict[tuple[Scope, str], tuple[BotCommand, ...]] = field(default_factory=dict)
    reads: int = 0
    writes: int = 0

    def set(self, scope: Scope, language: str, commands: tuple[BotCommand, ...]) -> None:
        """Keep a list; an empty one is none."""
        self.writes += 1
        if commands:
            self.lists[scope, language] = commands
        else:
            self.lists.pop((scope, language), None)

    def get(self, scope: Scope, language: str) -> tuple[BotCommand, ...]:
        self.reads += 1
        return self.lists.get((scope, language), ())

    def shown(self, user: TelegramUser, chat: Chat) -> tuple[BotCommand, ...]:
        """Return the first list there is: the narrowest scope, in it the language of the person before no language."""
        for scope in _narrowest_first(chat):
            for language in (user.language, ""):
                if found := self.lists.get((scope, language)):
                    return found
        return ()


def _narrowest_first(chat: Chat) -> Iterator[Scope]:
    yield Scope(ScopeKind.CHAT, chat.id)
    yield Scope(ScopeKind.ALL_GROUP_CHATS if chat.user is None else ScopeKind.ALL_PRIVATE_CHATS)
    yield Scope(ScopeKind.DEFAULT)


# --- the server


DRAFT_SHOWN_S: Final = 30
CALLBACK_DATA_BYTES_MAX: Final = 64
STOP: Final = StageButton("stop", "Stop")


@dataclass(frozen=True, slots=True)
class Target:
    """The place in a chat to which a message of the bot goes, and whether it is heard there."""

    thread_id: int | None = None
    reply_to: int | None = None
    is_silent: bool = False


@dataclass(slots=True)
class Press:
    """A button that somebody pressed; the client shows that it waits until the bot answers."""

    at_s: float
    person_id: int
    place_id: str
    is_answered: bool = False


@dataclass(slots=True)
class TelegramServer:
    world: TelegramState
    updates: UpdateQueue
    webhook: WebhookSender
    quotas: Quotas
    audience: StageAudience
    faults: Faults
    drafts: dict[str, Said] = field(default_factory=dict)  # by place
    stoppable: dict[str, tuple[Chat, int | None, int] | None] = field(default_factory=dict)  # by place
    stopped: set[int] = field(default_factory=set)
    commands: CommandLists = field(default_factory=CommandLists)
    callbacks: dict[str, Press] = field(default_factory=dict)  # by the id of the callback query

    # --- what is seen

    def show(self, kind: EventKind, chat: Chat, message: TelegramMessage) -> None:
        """Let the audience see a message that is new, changed or gone. Service messages stay unseen."""
        place_id = self.world.place_id(chat.id, message.topic_id)
        if not place_id or message.service:
            return
        said = None if kind is EventKind.DELETED else self.world.said(chat, message, place_id)
        self.audience.tell(StageEvent(kind, place_id, said, str(message.id)))

    def show_status(self, chat: Chat, thread_id: int | None, status: str) -> None:
        if place_id := self.world.place_id(chat.id, thread_id):
            self.audience.tell(StageEvent(EventKind.TYPING, place_id, status=status))

    def show_draft(
        self, chat: Chat, thread_id: int | None, draft_id: int, content: FormattedText, *, can_stop: bool
    ) -> None:
        """Show what the bot is about to say, until it fades by itself or the bot speaks there.

        One that was stopped is not shown again."""
        place_id = self.world.place_id(chat.id, thread_id)
        if place_id and draft_id not in self.stopped:
            self.stoppable[place_id] = (chat, thread_id, draft_id) if can_stop else None
            said = Said(
                id=f"draft-{draft_id}",
                place_id=place_id,
                author=person(self.world.bot),
                text=content.text,
                html=to_html(content),
                at_ms=int(self.world.now() * 1000),
                buttons=(STOP,) if can_stop else (),
            )
            self.drafts[place_id] = said
            self.audience.tell(StageEvent(EventKind.DRAFT, place_id, said))

    def draft(self, place_id: str) -> Said | None:
        """Return what of the draft can be seen now."""
        said = self.drafts.get(place_id)
        return said if said and self.world.now() * 1000 - said.at_ms < DRAFT_SHOWN_S * 1000 else None

    def stop_draft(self, place_id: str) -> None:
        """Stop the draft as somebody who presses its button: no more of it is seen, and the bot is told."""
        shown = self.stoppable.pop(place_id, None)
        if shown is None or self.draft(place_id) is None:
            raise ValueError("no draft with a stop button is shown there")
        chat, thread_id, draft_id = shown
        self.stopped.add(draft_id)
        said = self.drafts.pop(place_id)
        self.audience.tell(StageEvent(EventKind.DELETED, place_id, message_id=said.id))
        payload: Json = {"chat": chat.as_json(), "draft_id": draft_id}
        payload |= {} if thread_id is None else {"message_thread_id": thread_id}
        self.updates.put("stopped_message_generation", payload, lane=chat.id)

    def show_toast(self, press: Press, text: str) -> None:
        """Show the answer to a press, to the person who pressed."""
        self.audience.tell(StageEvent(EventKind.TOAST, press.place_id, status=text, person_id=str(press.person_id)))

    def tell_bot(self, kind: str, chat: Chat, message: TelegramMessage) -> None:
        """Put the update for a message into the queue, and what the fault switches add to it."""
        if self.faults.take("poison"):
            self.updates.put(kind, {"message_id": "poison", "date": "never", "chat": "nowhere"}, lane=chat.id)
        date = message.edited_at or message.date
        payload = chat.message_json(message, self.world.users)
        self.updates.put(kind, payload, lane=chat.id, date=date, times=2 if self.faults.take("duplicate") else 1)

    def discuss(self, channel: Chat, post: TelegramMessage) -> None:
        """Show a post of a channel in the group in which it is discussed; the bot hears of it there as well."""
        group = self.world.chats.get(channel.discussed_in or 0)
        if group is None:
            return
        origin: Json = {"type": "channel", "chat": channel.as_json(), "message_id": post.id, "date": post.date}
        shown = self.world.add_message(
            group, TELEGRAM, post.content, media=post.media_alone, files=post.files, origin=origin
        )
        shown.sender_chat = channel.as_json()
        self.show(EventKind.SAID, group, shown)
        self.tell_bot("message", group, shown)

    # --- what is checked

    def chat_of(self, call: TelegramCall) -> Chat:
        """Find the chat a call names, if the bot may write there. Raises 400, 403, or 400 with the new chat id."""
        given = call.text("chat_id").strip()
        if not given:
            raise bad_request("chat_id is empty")
        chat = self.world.chats.get(int(given)) if given.lstrip("-").isdecimal() else None
        if chat is None:
            raise bad_request("chat not found")
        if chat.type is ChatType.GROUP and chat.migrated_to is None and self.faults.take_other("migrate"):
            self.upgrade(chat)
        if chat.migrated_to is not None:
            raise upgraded(chat.migrated_to)
        if self.faults.blocked or chat.is_lost:
            raise self._lost(chat)
        return chat

    def _lost(self, chat: Chat) -> ApiError:
        if chat.user is not None:
            return forbidden("bot was blocked by the user")
        return forbidden(f"bot was kicked from the {chat.type.value} chat")

    def thread_of(self, call: TelegramCall, chat: Chat) -> int | None:
        """Find the topic a call names. The General topic has none, and naming it is refused."""
        thread_id = call.number("message_thread_id")
        if not thread_id:
            return None
        if thread_id == GENERAL_TOPIC and chat.is_forum and self.faults.switch("general_topic_is_1"):
            return None
        if thread_id not in chat.topics:
            raise bad_request("message thread not found")
        return thread_id

    def target_of(self, call: TelegramCall, chat: Chat) -> Target:
        """Find topic and quoted message. Raises 400 for a quoted message that is gone, unless the call allows it."""
        return replace(self._place_of(call, chat), is_silent=call.flag("disable_notification"))

    def _place_of(self, call: TelegramCall, chat: Chat) -> Target:
        thread_id = self.thread_of(call, chat)
        given = call.table("reply_parameters") or {
            "message_id": call.number("reply_to_message_id"),
            "allow_sending_without_reply": call.flag("allow_sending_without_reply"),
        }
        quoted = TelegramCall(call.method, given)
        reply_to = quoted.number("message_id")
        if not reply_to:
            return Target(thread_id)
        message = None if self.faults.switch("no_reply_targets") else chat.messages.get(reply_to)
        if message is None:
            if quoted.flag("allow_sending_without_reply") and not self.faults.switch("no_reply_targets"):
                return Target(thread_id)
            raise bad_request("message to be replied not found")
        if quoted.text("quote") and quoted.text("quote") not in message.content.text:
            raise bad_request("QUOTE_TEXT_INVALID")
        if thread_id is None and message.is_topic_message:
            thread_id = message.thread_id
        return Target(thread_id, reply_to)

    def keyboard_of(self, call: TelegramCall) -> Json | None:
        """Read the inline keyboard of a call; other keyboards leave no trace in a message."""
        markup = call.table("reply_markup")
        rows = markup.get("inline_keyboard") if markup else None
        if rows is None:
            return None
        if not isinstance(rows, list):
            raise bad_request('field "inline_keyboard" of the InlineKeyboardMarkup must be of type Array')
        for row in rows:
            for button in row if isinstance(row, list) else []:
                data = button.get("callback_data") if isinstance(button, dict) else None
                if data is not None and not 1 <= len(str(data).encode()) <= CALLBACK_DATA_BYTES_MAX:
                    raise bad_request("BUTTON_DATA_INVALID")
        return {"inline_keyboard": rows}

    def spend(self, chat: Chat) -> None:
        """Take one message's worth of the chat's allowance. Raises 429 when none is left."""
        if not self.faults.switch("unlimited"):
            self.quotas.spend(chat.id)

    # --- what is done

    def post(
        self,
        chat: Chat,
        target: Target,
        content: FormattedText,
        *,
        keyboard: Json | None = None,
        media: Json | None = None,
        files: tuple[str, ...] = (),
    ) -> Json:
        """Post as the bot and return the Message. The bot gets no update for what it sends itself."""
        message = self.world.add_message(
            chat,
            self.world.bot,
            content,
            thread_id=target.thread_id,
            reply_to=target.reply_to,
            media=media,
            files=files,
        )
        message.reply_markup, message.is_silent = keyboard, target.is_silent
        self.drafts.pop(self.world.place_id(chat.id, message.topic_id), None)
        self.show(EventKind.SAID, chat, message)
        self.discuss(chat, message)
        return chat.message_json(message, self.world.users)

    def upgrade(self, chat: Chat) -> Chat:
        """Turn a basic group into a supergroup; each of the two chats says so in a service message."""
        by = next((user for user in self.world.users.values() if not user.is_bot), self.world.bot)
        new = self.world.migrate(chat)
        farewell = self.world.add_message(chat, by, service={"migrate_to_chat_id": new.id})
        welcome = self.world.add_message(new, by, service={"migrate_from_chat_id": chat.id})
        self.tell_bot("message", chat, farewell)
        self.tell_bot("message", new, welcome)
        return new
