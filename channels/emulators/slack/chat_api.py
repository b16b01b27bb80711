"""Methods `chat.*` but for streams: post, change, delete, whisper."""

from __future__ import annotations

from typing import Final

from channels.emulators.slack import blocks as block_kit
from channels.emulators.slack import shapes
from channels.emulators.slack.errors import Refused
from channels.emulators.slack.mrkdwn import TEXT_MAX, cut, stored
from channels.emulators.slack.posting import Draft, Posting
from channels.emulators.slack.switches import Switches
from channels.emulators.slack.web_api import Call, Lookup, Method
from channels.emulators.slack.world import Conversation, Message, World
from channels.emulators.traffic import Json

UPDATE_MAX: Final = 4000
METADATA_BYTES_MAX: Final = 8 * 1024
EVENT_TYPE_MAX: Final = 255


class ChatApi:
    def __init__(self, *, world: World, posting: Posting, lookup: Lookup, switches: Switches) -> None:
        self._world = world
        self._posting = posting
        self._lookup = lookup
        self._switches = switches
        self._by_client_id: dict[str, tuple[str, str]] = {}

    def methods(self) -> dict[str, Method]:
        write = ("chat:write",)
        return {
            "chat.postMessage": Method(self.post, write, delivers=True),
            "chat.update": Method(self.update, write, delivers=True),
            "chat.delete": Method(self.delete, write, delivers=True),
            "chat.postEphemeral": Method(self.whisper, write, delivers=True),
        }

    async def post(self, call: Call) -> Json:
        place = self._lookup.postable(call.required("channel"))
        known = self._known(call)
        if known is not None:
            return self._posted(place, known)
        metadata = checked_metadata(call.arguments.get("metadata"))
        text, blocks = content(call, self._switches)
        draft = Draft(
            text=text,
            blocks=blocks,
            thread_ts=call.text("thread_ts") or None,
            is_broadcast=call.flag("reply_broadcast"),
            client_msg_id=call.text("client_msg_id") or None,
            metadata=metadata,
            unfurls=not {call.text("unfurl_links").lower(), call.text("unfurl_media").lower()} <= {"false", "0"},
        )
        pieces = cut(text) if self._switches.splits_long_text and not blocks else [text[:TEXT_MAX]]
        posted = [self._posting.post(place, self._world.bot, _piece(draft, piece)) for piece in pieces]
        named = posted[-1 if self._switches.split_names_last else 0]
        if draft.client_msg_id is not None:
            self._by_client_id[draft.client_msg_id] = (place.id, named.ts)
        return self._posted(place, named)

    def _known(self, call: Call) -> Message | None:
        known = self._by_client_id.get(call.text("client_msg_id"))
        if known is None or not self._switches.dedupes_client_msg_id:
            return None
        message = self._world.conversations[known[0]].messages.get(known[1])
        if message is None:
            raise Refused("duplicate_message_not_found")
        return message

    def _posted(self, place: Conversation, message: Message) -> Json:
        shape = shapes.message(self._world, message, with_metadata=True)
        return {"channel": place.id, "ts": message.ts, "message": shape}

    async def update(self, call: Call) -> Json:
        """Own messages only, named by the `C…` or `D…` id; without `blocks` the old ones go, `metadata` stays."""
        place = self._lookup.conversation(call.required("channel"))
        message = self._lookup.own_message(place, call.required("ts"), "cant_update_message")
        if message.streams_until_s is not None and self._world.now_s() < message.streams_until_s:
            raise Refused("streaming_state_conflict")
        text, blocks = content(call, self._switches)
        if len(text) > UPDATE_MAX and not call.text("markdown_text"):
            raise Refused("msg_too_long")
        message.metadata = checked_metadata(call.arguments.get("metadata")) or message.metadata
        self._posting.change(message, text=text, blocks=blocks)
        return {
            "channel": place.id,
            "ts": message.ts,
            "text": text,
            "message": shapes.message(self._world, message),
        }

    async def delete(self, call: Call) -> Json:
        place = self._lookup.conversation(call.required("channel"))
        message = self._lookup.own_message(place, call.required("ts"), "cant_delete_message")
        self._posting.delete(message)
        return {"channel": place.id, "ts": message.ts}

    async def whisper(self, call: Call) -> Json:
        place = self._lookup.postable(call.required("channel"))
        user_id = call.required("user")
        if user_id not in place.member_ids:
            raise Refused("user_not_in_channel")
        text, blocks = content(call, self._switches)
        draft = Draft(text=text, blocks=blocks, thread_ts=call.text("thread_ts") or None, only_for=user_id)
        return {"message_ts": self._posting.post(place, self._world.bot, draft).ts}


def _piece(draft: Draft, text: str) -> Draft:
    return Draft(
        text=text,
        blocks=draft.blocks,
        thread_ts=draft.thread_ts,
        is_broadcast=draft.is_broadcast,
        client_msg_id=draft.client_msg_id,
        metadata=draft.metadata,
        unfurls=draft.unfurls,
    )


def content(call: Call, switches: Switches) -> tuple[str, list[Json]]:
    """Text as stored, and blocks. Raises `no_text`, `msg_too_long`, `markdown_text_conflict` or a block's error."""
    markdown = call.text("markdown_text")
    raw_blocks = call.arguments.get("blocks")
    text = call.text("text")
    if markdown:
        if text or raw_blocks:
            raise Refused("markdown_text_conflict")
        return from_markdown(markdown, switches)
    checked = block_kit.check(raw_blocks, knows_markdown=switches.knows_markdown) if raw_blocks else []
    if not text.strip() and not checked and not call.arguments.get("attachments"):
        raise Refused("no_text")
    return stored(text), checked


def from_markdown(markdown: str, switches: Switches) -> tuple[str, list[Json]]:
    """`markdown_text` as Slack keeps it: one markdown block, and its source as the text."""
    if not switches.knows_markdown:
        raise Refused("invalid_arguments")
    if len(markdown) > block_kit.MARKDOWN_MAX:
        raise Refused("msg_too_long")
    return stored(markdown, links=False), [{"type": "markdown", "text": markdown}]


def checked_metadata(metadata: object) -> Json | None:
    """Raises `invalid_metadata_format`, `invalid_metadata_schema` or `metadata_too_large`."""
    if metadata in (None, ""):
        return None
    if not isinstance(metadata, dict):
        raise Refused("invalid_metadata_format")
    kind, payload = metadata.get("event_type"), metadata.get("event_payload")
    if not isinstance(kind, str) or not kind or not isinstance(payload, dict):
        raise Refused("invalid_metadata_schema")
    if len(kind) > EVENT_TYPE_MAX or len(str(payload).encode()) > METADATA_BYTES_MAX:
        raise Refused("metadata_too_large")
    return {"event_type": kind, "event_payload": payload}
