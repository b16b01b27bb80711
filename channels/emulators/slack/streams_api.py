"""Methods `chat.*Stream` and `assistant.threads.*`: text that grows, and the "is thinking" line above it."""

from __future__ import annotations

from typing import Final

from channels.emulators.slack import blocks as block_kit
from channels.emulators.slack import shapes
from channels.emulators.slack.chat_api import checked_metadata
from channels.emulators.slack.errors import Refused
from channels.emulators.slack.herald import Herald
from channels.emulators.slack.mrkdwn import stored
from channels.emulators.slack.posting import Draft, Posting
from channels.emulators.slack.stagecraft import thread_id
from channels.emulators.slack.switches import Switches
from channels.emulators.slack.web_api import Call, Lookup, Method
from channels.emulators.slack.world import Conversation, Message, World
from channels.emulators.traffic import Json

LOADING_MESSAGES_MAX: Final = 10
PROMPTS_MAX: Final = 4
_CHUNKS: Final = frozenset({"markdown_text", "task_update", "plan_update", "blocks"})


class StreamsApi:
    def __init__(self, *, world: World, posting: Posting, herald: Herald, lookup: Lookup, switches: Switches) -> None:
        self._world = world
        self._posting = posting
        self._herald = herald
        self._lookup = lookup
        self._switches = switches
        self.prompts: dict[str, list[Json]] = {}

    def methods(self) -> dict[str, Method]:
        write, assistant = ("chat:write",), ("chat:write", "assistant:write")
        return {
            "chat.startStream": Method(self.start, write, delivers=True),
            "chat.appendStream": Method(self.append, write, delivers=True),
            "chat.stopStream": Method(self.stop, write, delivers=True),
            "assistant.threads.setStatus": Method(self.set_status, assistant),
            "assistant.threads.setTitle": Method(self.set_title, assistant),
            "assistant.threads.setSuggestedPrompts": Method(self.set_prompts, assistant),
        }

    # --- streams

    async def start(self, call: Call) -> Json:
        """A message that stays open for about five minutes; in channels it needs to know for whom."""
        if not self._switches.has_streams:
            raise Refused("unknown_method", req_method=call.method)
        place = self._lookup.postable(call.required("channel"))
        if not place.is_im:
            for name in ("recipient_team_id", "recipient_user_id"):
                if not call.text(name):
                    raise Refused(f"missing_{name}")
        markdown, more = self._grown(call)
        draft = Draft(
            text=stored(markdown, links=False),
            blocks=_shown(markdown, more),
            thread_ts=call.required("thread_ts"),
            streams_until_s=self._world.now_s() + self._switches.stream_life_s,
        )
        message = self._posting.post(place, self._world.bot, draft)
        return {"channel": place.id, "ts": message.ts}

    async def append(self, call: Call) -> Json:
        if not call.text("markdown_text") and not call.arguments.get("chunks"):
            raise Refused("no_text")
        place, message = self._open_stream(call)
        self._grow(message, call, is_heard=self._switches.echoes_streams)
        return {"channel": place.id, "ts": message.ts}

    async def stop(self, call: Call) -> Json:
        place, message = self._open_stream(call)
        metadata = checked_metadata(call.arguments.get("metadata"))
        raw_blocks = call.arguments.get("blocks")
        checked = block_kit.check(raw_blocks, knows_markdown=self._switches.knows_markdown) if raw_blocks else []
        message.streams_until_s = None
        message.metadata = metadata or message.metadata
        self._grow(message, call, is_heard=True, last=checked)
        return {"channel": place.id, "ts": message.ts, "message": shapes.message(self._world, message)}

    def interrupt(self, message: Message) -> None:
        """A person has had enough of it. Raises `ValueError` for a message that does not grow."""
        if message.streams_until_s is None:
            raise ValueError("the message is no stream")
        message.streams_until_s, message.is_stopped_by_user = None, True

    def _open_stream(self, call: Call) -> tuple[Conversation, Message]:
        place = self._lookup.conversation(call.required("channel"))
        message = self._lookup.own_message(place, call.required("ts"), "message_not_owned_by_app")
        if message.is_stopped_by_user:
            raise Refused("stopped_by_user")
        if message.streams_until_s is None or self._world.now_s() >= message.streams_until_s:
            message.streams_until_s = None
            raise Refused("message_not_in_streaming_state")
        return place, message

    def _grow(self, message: Message, call: Call, *, is_heard: bool, last: list[Json] | None = None) -> None:
        markdown, more = self._grown(call)
        kept = [{k: v for k, v in block.items() if k != "block_id"} for block in message.blocks]
        open_text = next((block for block in kept if block["type"] == "markdown"), None)
        whole = (open_text["text"] if open_text else "") + markdown
        others = [block for block in kept if block is not open_text]
        text, blocks = stored(whole, links=False), _shown(whole, [*others, *more, *(last or [])])
        if is_heard:
            self._posting.change(message, text=text, blocks=blocks, is_edit=False)
        else:
            message.text, message.blocks = text, blocks
        self._posting.unfurl(message)

    def _grown(self, call: Call) -> tuple[str, list[Json]]:
        """The Markdown and the blocks that this call adds. Raises `invalid_chunks`, `msg_too_long`."""
        chunks = call.arguments.get("chunks") or []
        if call.text("markdown_text") and chunks:
            raise Refused("markdown_text_conflict")
        if not isinstance(chunks, list) or any(not isinstance(c, dict) or c.get("type") not in _CHUNKS for c in chunks):
            raise Refused("invalid_chunks")
        markdown = call.text("markdown_text") + "".join(
            str(chunk.get("text", "")) for chunk in chunks if chunk["type"] == "markdown_text"
        )
        if len(markdown) > block_kit.MARKDOWN_MAX:
            raise Refused("msg_too_long")
        tasks = [chunk for chunk in chunks if chunk["type"] in ("task_update", "plan_update")]
        more = [_task(chunk) for chunk in tasks]
        more += [block for chunk in chunks if chunk["type"] == "blocks" for block in chunk.get("blocks") or []]
        return markdown, more

    # --- the line above

    async def set_status(self, call: Call) -> Json:
        place, root = self._thread(call)
        if not self._switches.status_anywhere and not place.is_im:
            raise Refused("channel_not_supported")
        loading = call.arguments.get("loading_messages") or []
        if len(loading) > LOADING_MESSAGES_MAX:
            raise Refused("invalid_arguments")
        self._herald.status(thread_id(place.id, root.ts), call.text("status"))
        return {}

    async def set_title(self, call: Call) -> Json:
        """Only threads in the direct messages of an app have titles."""
        place, root = self._thread(call)
        if not place.is_im:
            raise Refused("channel_not_found", detail="Invalid channel_id")
        root.title = call.required("title")
        self._herald.thread_opened(place, root.ts)
        return {}

    async def set_prompts(self, call: Call) -> Json:
        place, root = self._thread(call)
        prompts = call.arguments.get("prompts")
        if not isinstance(prompts, list) or not 1 <= len(prompts) <= PROMPTS_MAX:
            raise Refused("invalid_arguments")
        self.prompts[thread_id(place.id, root.ts)] = prompts
        return {}

    def _thread(self, call: Call) -> tuple[Conversation, Message]:
        place = self._lookup.conversation(call.required("channel_id"))
        self._lookup.member(place)
        root = place.root_of(call.required("thread_ts"))
        if root is None:
            raise Refused("invalid_thread_ts")
        return place, root


def _shown(markdown: str, more: list[Json]) -> list[Json]:
    return [{"type": "markdown", "text": markdown}, *more] if markdown else more


def _task(chunk: Json) -> Json:
    """A task or plan as the line of context it is shown as."""
    text = " ".join(str(chunk[name]) for name in ("status", "title", "details", "output") if chunk.get(name))
    return {"type": "context", "elements": [{"type": "plain_text", "text": text or chunk["type"]}]}
