"""The methods of the Web API, by what they are about: messages, streams, conversations, people, files."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from channels.emulators.slack import shapes
from channels.emulators.slack.api import Lookup, SlackCall, SlackMethod, Tokens
from channels.emulators.slack.delivery import SocketMode
from channels.emulators.slack.messages import SlackEvents, SlackPosting
from channels.emulators.slack.text import TEXT_MAX, check_blocks, cut, stored, thread_id
from channels.emulators.slack.world import (
    Conversation,
    FileObject,
    SlackDraft,
    SlackMessage,
    SlackRefusal,
    SlackState,
    SlackSwitches,
    is_ts,
    missing_argument,
    ts_key,
)
from channels.emulators.stage import Json

UPDATE_MAX: Final = 4000
METADATA_BYTES_MAX: Final = 8 * 1024
EVENT_TYPE_MAX: Final = 255


@dataclass(slots=True)
class ChatApi:
    world: SlackState
    posting: SlackPosting
    lookup: Lookup
    switches: SlackSwitches

    def methods(self) -> dict[str, SlackMethod]:
        write = ("chat:write",)
        return {
            "chat.postMessage": SlackMethod(self.post, write, delivers=True),
            "chat.update": SlackMethod(self.update, write, delivers=True),
            "chat.delete": SlackMethod(self.delete, write, delivers=True),
        }

    async def post(self, call: SlackCall) -> Json:
        place = self.lookup.postable(call.required("channel"))
        metadata = checked_metadata(call.arguments.get("metadata"))
        text, blocks = content(call)
        draft = SlackDraft(
            text=text,
            blocks=blocks,
            thread_ts=call.text("thread_ts") or None,
            client_msg_id=call.text("client_msg_id") or None,
            metadata=metadata,
            unfurls=not {call.text("unfurl_links").lower(), call.text("unfurl_media").lower()} <= {"false", "0"},
        )
        pieces = cut(text) if self.switches.splits_long_text and not blocks else [text[:TEXT_MAX]]
        posted = [self.posting.post(place, self.world.bot, replace(draft, text=piece)) for piece in pieces]
        shape = shapes.message(self.world, posted[-1], with_metadata=True)
        return {"channel": place.id, "ts": posted[-1].ts, "message": shape}

    async def update(self, call: SlackCall) -> Json:
        """Change an own message; without `blocks` the old ones go, `metadata` stays."""
        message = self.lookup.own_message(call, "cant_update_message")
        if message.streams_until_s is not None and self.world.now_s() < message.streams_until_s:
            raise SlackRefusal("streaming_state_conflict")
        text, blocks = content(call)
        if len(text) > UPDATE_MAX:
            raise SlackRefusal("msg_too_long")
        message.metadata = checked_metadata(call.arguments.get("metadata")) or message.metadata
        self.posting.change(message, text=text, blocks=blocks)
        shape = shapes.message(self.world, message)
        return {"channel": message.channel_id, "ts": message.ts, "text": text, "message": shape}

    async def delete(self, call: SlackCall) -> Json:
        message = self.lookup.own_message(call, "cant_delete_message")
        self.posting.delete(message)
        return {"channel": message.channel_id, "ts": message.ts}


def content(call: SlackCall) -> tuple[str, list[Json]]:
    """Read the text as stored, and the blocks. Raises `no_text` or a block's error."""
    raw_blocks, text = call.arguments.get("blocks"), call.text("text")
    checked = check_blocks(raw_blocks) if raw_blocks else []
    if not text.strip() and not checked:
        raise SlackRefusal("no_text")
    return stored(text), checked


def checked_metadata(metadata: object) -> Json | None:
    """Check metadata. Raises `invalid_metadata_format`, `invalid_metadata_schema` or `metadata_too_large`."""
    if metadata in (None, ""):
        return None
    if not isinstance(metadata, dict):
        raise SlackRefusal("invalid_metadata_format")
    kind, payload = metadata.get("event_type"), metadata.get("event_payload")
    if not isinstance(kind, str) or not kind or not isinstance(payload, dict):
        raise SlackRefusal("invalid_metadata_schema")
    if len(kind) > EVENT_TYPE_MAX or len(str(payload).encode()) > METADATA_BYTES_MAX:
        raise SlackRefusal("metadata_too_large")
    return {"event_type": kind, "event_payload": payload}


LOADING_MESSAGES_MAX: Final = 10
MARKDOWN_MAX: Final = 12_000  # in one call


@dataclass(slots=True)
class StreamsApi:
    world: SlackState
    posting: SlackPosting
    events: SlackEvents
    lookup: Lookup
    switches: SlackSwitches

    def methods(self) -> dict[str, SlackMethod]:
        write, assistant = ("chat:write",), ("chat:write", "assistant:write")
        return {
            "chat.startStream": SlackMethod(self.start, write, delivers=True),
            "chat.appendStream": SlackMethod(self.append, write, delivers=True),
            "chat.stopStream": SlackMethod(self.stop, write, delivers=True),
            "assistant.threads.setStatus": SlackMethod(self.set_status, assistant),
            "assistant.threads.setTitle": SlackMethod(self.set_title, assistant),
        }

    # --- streams

    async def start(self, call: SlackCall) -> Json:
        """Begin a message that stays open for about five minutes; in channels it needs to know for whom."""
        if not self.switches.has_streams:
            raise SlackRefusal("unknown_method", req_method=call.method)
        place = self.lookup.postable(call.required("channel"))
        if not place.is_im:
            for name in ("recipient_team_id", "recipient_user_id"):
                if not call.text(name):
                    raise SlackRefusal(f"missing_{name}")
        markdown = _markdown(call)
        draft = SlackDraft(
            text=stored(markdown, links=False),
            blocks=_shown(markdown),
            thread_ts=call.required("thread_ts"),
            streams_until_s=self.world.now_s() + self.switches.stream_life_s,
        )
        message = self.posting.post(place, self.world.bot, draft)
        return {"channel": place.id, "ts": message.ts}

    async def append(self, call: SlackCall) -> Json:
        if not _markdown(call):
            raise SlackRefusal("no_text")
        message = self._open_stream(call)
        self._grow(message, call)
        return {"channel": message.channel_id, "ts": message.ts}

    async def stop(self, call: SlackCall) -> Json:
        message = self._open_stream(call)
        metadata = checked_metadata(call.arguments.get("metadata"))
        message.streams_until_s = None
        message.metadata = metadata or message.metadata
        self._grow(message, call)
        return {"channel": message.channel_id, "ts": message.ts, "message": shapes.message(self.world, message)}

    def interrupt(self, message: SlackMessage) -> None:
        """Stop a stream as a person. Raises `ValueError` for a message that does not grow."""
        if message.streams_until_s is None:
            raise ValueError("the message is no stream")
        message.streams_until_s, message.is_stopped_by_user = None, True

    def _open_stream(self, call: SlackCall) -> SlackMessage:
        message = self.lookup.own_message(call, "message_not_owned_by_app")
        if message.is_stopped_by_user:
            raise SlackRefusal("stopped_by_user")
        if message.streams_until_s is None or self.world.now_s() >= message.streams_until_s:
            message.streams_until_s = None
            raise SlackRefusal("message_not_in_streaming_state")
        return message

    def _grow(self, message: SlackMessage, call: SlackCall) -> None:
        """Add what the call brings; every append comes back as `message_changed`."""
        before = next((str(block["text"]) for block in message.blocks), "")
        whole = before + _markdown(call)
        self.posting.change(message, text=stored(whole, links=False), blocks=_shown(whole), is_edit=False)
        self.posting.unfurl(message)

    # --- the line above

    async def set_status(self, call: SlackCall) -> Json:
        place, root = self._thread(call)
        loading = call.arguments.get("loading_messages") or []
        if len(loading) > LOADING_MESSAGES_MAX:
            raise SlackRefusal("invalid_arguments")
        self.events.status(thread_id(place.id, root.ts), call.text("status"))
        return {}

    async def set_title(self, call: SlackCall) -> Json:
        """Name a thread; only those in the direct messages of an app have titles."""
        place, root = self._thread(call)
        if not place.is_im:
            raise SlackRefusal("channel_not_found", detail="Invalid channel_id")
        root.title = call.required("title")
        self.events.thread_opened(place, root.ts)
        return {}

    def _thread(self, call: SlackCall) -> tuple[Conversation, SlackMessage]:
        place = self.lookup.readable(call.required("channel_id"))
        root = place.root_of(call.required("thread_ts"))
        if root is None:
            raise SlackRefusal("invalid_thread_ts")
        return place, root


def _markdown(call: SlackCall) -> str:
    """Read the Markdown that this call adds. Raises `invalid_chunks`, `msg_too_long`."""
    if call.arguments.get("chunks"):
        raise SlackRefusal("invalid_chunks")  # the other way to write a stream, which nobody here goes
    markdown = call.text("markdown_text")
    if len(markdown) > MARKDOWN_MAX:
        raise SlackRefusal("msg_too_long")
    return markdown


def _shown(markdown: str) -> list[Json]:
    return [{"type": "markdown", "text": markdown}] if markdown else []


HISTORY_DEFAULT: Final = 100
REPLIES_DEFAULT: Final = 1000
LIST_DEFAULT: Final = 100
LIST_MAX: Final = 1000


@dataclass(slots=True)
class ConversationsApi:
    world: SlackState
    lookup: Lookup
    switches: SlackSwitches

    def methods(self) -> dict[str, SlackMethod]:
        history = ("channels:history", "groups:history", "im:history", "mpim:history")
        reading = ("channels:read", "groups:read", "im:read", "mpim:read")
        return {
            "conversations.history": SlackMethod(self.history, history),
            "conversations.replies": SlackMethod(self.replies, history),
            "users.conversations": SlackMethod(self.of_user, reading),
            "conversations.open": SlackMethod(self.open, ("im:write", "mpim:write")),
        }

    # --- what was said

    async def history(self, call: SlackCall) -> Json:
        """List what was said, newest first and without replies."""
        place = self.lookup.readable(call.required("channel"))
        messages = [m for m in place.public() if not m.is_reply]
        newest_first = sorted(_between(messages, call), key=lambda m: ts_key(m.ts), reverse=True)
        return self._page(call, newest_first, HISTORY_DEFAULT) | {"pin_count": 0}

    async def replies(self, call: SlackCall) -> Json:
        """List replies oldest first, the root before all, whatever the bounds say."""
        place = self.lookup.readable(call.required("channel"))
        root = place.root_of(call.required("ts"))
        if root is None or root.only_for is not None:
            raise SlackRefusal("thread_not_found")
        replies = sorted(_between(place.replies_to(root.ts), call), key=lambda m: ts_key(m.ts))
        return self._page(call, [root, *replies], REPLIES_DEFAULT)

    def _page(self, call: SlackCall, messages: Sequence[SlackMessage], default: int) -> Json:
        limit = call.number("limit", default)
        if limit < 1:
            raise SlackRefusal("invalid_limit")
        limit = min(limit, self.switches.history_page_max if default == HISTORY_DEFAULT else LIST_MAX)
        start = _position(call.text("cursor"))
        page = messages[start : start + limit]
        with_metadata = call.flag("include_all_metadata")
        body: Json = {"messages": [shapes.message(self.world, m, with_metadata=with_metadata) for m in page]}
        return body | _more(start + limit, len(messages))

    # --- where

    async def of_user(self, call: SlackCall) -> Json:
        """List the conversations that the bot, or the named user, is in."""
        user_id = call.text("user") or self.world.bot.id
        mine = [c for c in self.world.conversations.values() if user_id in c.member_ids]
        types = {kind.strip() for kind in (call.text("types") or "public_channel").split(",")}
        if types - {"public_channel", "private_channel", "mpim", "im"}:
            raise SlackRefusal("invalid_types")
        lacking = sorted({_SCOPES[kind] for kind in types} - self.switches.scopes)
        if lacking:
            raise SlackRefusal("missing_scope", needed=lacking[0], provided=",".join(sorted(self.switches.scopes)))
        found = [c for c in mine if _kind(c) in types and not (c.is_archived and call.flag("exclude_archived"))]
        start, limit = _position(call.text("cursor")), min(call.number("limit", LIST_DEFAULT), LIST_MAX)
        shown = [shapes.conversation(self.world, place) for place in found[start : start + limit]]
        return {"channels": shown} | _more(start + limit, len(found))

    async def open(self, call: SlackCall) -> Json:
        """Open a direct chat with one person; Slack answers with the id alone unless `return_im` is set."""
        if call.text("channel"):
            place = self.lookup.conversation(call.text("channel"))
        else:
            users = call.arguments.get("users")
            named = users if isinstance(users, list) else [u for u in call.text("users").split(",") if u]
            if not named:
                raise missing_argument("users")
            user = self.world.users.get(str(named[0]).strip())
            if user is None or len(named) > 1 or user.id == self.world.bot.id:
                raise SlackRefusal("user_not_found" if user is None else "cannot_dm_bot")
            place = self.world.dm_with(user)
        shown = shapes.conversation(self.world, place) if call.flag("return_im") else {"id": place.id}
        return {"channel": shown, "no_op": True, "already_open": True}


_SCOPES: Final = {
    "public_channel": "channels:read",
    "private_channel": "groups:read",
    "mpim": "mpim:read",
    "im": "im:read",
}


def _kind(place: Conversation) -> str:
    return "im" if place.is_im else "public_channel"


def _between(messages: Sequence[SlackMessage], call: SlackCall) -> list[SlackMessage]:
    """Keep what is within `oldest` and `latest`, which count themselves in only with `inclusive`."""
    oldest, latest = call.text("oldest") or "0", call.text("latest")
    if not is_ts(oldest):
        raise SlackRefusal("invalid_ts_oldest")
    if latest and not is_ts(latest):
        raise SlackRefusal("invalid_ts_latest")
    inclusive = call.flag("inclusive")

    def is_inside(message: SlackMessage) -> bool:
        at = ts_key(message.ts)
        above = at > ts_key(oldest) or (inclusive and at == ts_key(oldest))
        return above and (not latest or at < ts_key(latest) or (inclusive and at == ts_key(latest)))

    return [message for message in messages if is_inside(message)]


def _more(next_start: int, total: int) -> Json:
    has_more = next_start < total
    cursor = base64.urlsafe_b64encode(f"next:{next_start}".encode()).decode() if has_more else ""
    return {"has_more": has_more, "response_metadata": {"next_cursor": cursor}}


def _position(cursor: str) -> int:
    if not cursor:
        return 0
    try:
        return int(base64.urlsafe_b64decode(cursor).decode().removeprefix("next:"))
    except ValueError:
        raise SlackRefusal("invalid_cursor") from None


@dataclass(slots=True)
class PeopleApi:
    world: SlackState
    sockets: SocketMode

    def methods(self) -> dict[str, SlackMethod]:
        return {
            "auth.test": SlackMethod(self.who_am_i),
            "apps.connections.open": SlackMethod(self.open_socket, is_app_level=True),
            "users.info": SlackMethod(self.user, ("users:read",)),
        }

    async def who_am_i(self, _: SlackCall) -> Json:
        return {
            "url": "https://emulator.slack.com/",
            "team": "Emulator",
            "user": self.world.bot.handle,
            "team_id": self.world.team_id,
            "user_id": self.world.bot.id,
            "bot_id": self.world.bot.bot_id,
            "is_enterprise_install": False,
        }

    async def open_socket(self, call: SlackCall) -> Json:
        return {"url": self.sockets.new_url(call.host)}

    async def user(self, call: SlackCall) -> Json:
        user = self.world.users.get(call.required("user"))
        if user is None:
            raise SlackRefusal("user_not_found")
        locale = {"locale": user.locale} if call.flag("include_locale") else {}
        return {"user": shapes.user(self.world, user) | locale}


FILE_BYTES_MAX: Final = 1024 * 1024 * 1024
_LOGIN_PAGE: Final = "<!DOCTYPE html><html><head><title>Slack</title></head><body>Sign in to continue.</body></html>"


@dataclass(slots=True)
class FilesApi:
    world: SlackState
    posting: SlackPosting
    lookup: Lookup
    tokens: Tokens
    switches: SlackSwitches
    _promised: dict[str, tuple[str, int]] = field(default_factory=dict)
    _arrived: dict[str, bytes] = field(default_factory=dict)

    def methods(self) -> dict[str, SlackMethod]:
        return {
            "files.getUploadURLExternal": SlackMethod(self.promise, ("files:write",)),
            "files.completeUploadExternal": SlackMethod(self.complete, ("files:write",), delivers=True),
            "files.info": SlackMethod(self.info, ("files:read",)),
        }

    async def promise(self, call: SlackCall) -> Json:
        name, length = call.required("filename"), call.number("length", 0)
        if not 0 < length <= FILE_BYTES_MAX:
            raise SlackRefusal("file_upload_size_restricted" if length > 0 else "invalid_arguments")
        file_id = self.world.new_id("F")
        self._promised[file_id] = (name, length)
        return {"upload_url": f"http://{call.host}/upload/v1/{file_id}", "file_id": file_id}

    async def receive(self, request: Request) -> Response:
        """Take the bytes, raw or as multipart, at an address that was promised."""
        file_id = request.path_params["file_id"]
        if file_id not in self._promised:
            return PlainTextResponse("not found", 404)
        content = await _content(request)
        if len(content) != self._promised[file_id][1]:
            return PlainTextResponse("the length is not the promised one", 400)
        self._arrived[file_id] = content
        return PlainTextResponse(f"OK - {len(content)}")

    async def complete(self, call: SlackCall) -> Json:
        """Show in the channel the files that arrived. In truth this is asynchronous: the answer does not name the
        message."""
        named = call.arguments.get("files")
        if not isinstance(named, list) or not named:
            raise missing_argument("files")
        files = [self._uploaded(item) for item in named]
        channel_id = call.text("channel_id") or call.text("channels")
        if channel_id:
            place = self.lookup.postable(channel_id)
            thread_ts = call.text("thread_ts") or None
            text = stored(call.text("initial_comment"))
            draft = SlackDraft(text=text, files=tuple(files), thread_ts=thread_ts, subtype="file_share")
            self.posting.post(place, self.world.bot, draft)
        return {"files": [{"id": file.id, "title": file.title, "name": file.name} for file in files]}

    def _uploaded(self, item: Json) -> FileObject:
        file_id = str(item.get("id"))
        if file_id not in self._arrived:
            raise SlackRefusal("file_not_found")
        name, _ = self._promised.pop(file_id)
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        title = str(item.get("title") or name)
        file = FileObject(file_id, name, self._arrived.pop(file_id), kind, title=title, user_id=self.world.bot.id)
        self.world.files[file_id] = file
        return file

    async def info(self, call: SlackCall) -> Json:
        file = self.world.files.get(call.required("file"))
        if file is None:
            raise SlackRefusal("file_not_found")
        return {"file": shapes.file(self.world, file) | {"shares": shapes.shares(file)}}

    async def download(self, request: Request) -> Response:
        """Serve a file; without the bot's token or `files:read` a login page with status 200, as Slack does."""
        team_file = request.path_params["team_file"].partition("-")[2]
        file = self.world.files.get(team_file)
        if self.switches.hides_files == "redirect":
            return RedirectResponse("https://emulator.slack.com/?redir=file", 302)
        is_known = request.headers.get("authorization") == f"Bearer {self.tokens.bot}"
        is_known = is_known and not self.switches.hides_files
        if not is_known or "files:read" not in self.switches.scopes:
            return HTMLResponse(_LOGIN_PAGE)
        if file is None:
            return HTMLResponse(_LOGIN_PAGE, 404)
        return Response(file.content, headers={"Content-Type": file.mimetype})


async def _content(request: Request) -> bytes:
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        return await request.body()
    async with request.form() as form:
        uploads = [value for value in form.values() if not isinstance(value, str)]
        return await uploads[0].read() if uploads else b""
