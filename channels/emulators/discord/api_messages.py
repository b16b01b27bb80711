"""REST: messages, typing and reactions in a channel."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from starlette.responses import JSONResponse, Response

from channels.emulators.discord import shapes
from channels.emulators.discord.api import Call, Route, snowflake
from channels.emulators.discord.drafts import edited_draft, is_system, new_draft
from channels.emulators.discord.errors import Refused, forbidden, invalid_form, unknown
from channels.emulators.discord.herald import Herald
from channels.emulators.discord.posting import Posting
from channels.emulators.discord.switches import Switches
from channels.emulators.discord.world import Channel, Message, MessageFlag, World
from channels.emulators.traffic import Json

PAGE_MAX: Final = 100
REACTION_KINDS_MAX: Final = 20
_CUSTOM_EMOJI: Final = re.compile(r"\w{2,32}:\d{15,}")
NO_CONTENT: Final = 204

_LEAST = ("id", "channel_id", "content", "nonce")


class MessagesApi:
    """`clock_s` gives seconds, for the life of nonces."""

    def __init__(
        self, *, world: World, posting: Posting, herald: Herald, switches: Switches, clock_s: Callable[[], float]
    ) -> None:
        self._world = world
        self._posting = posting
        self._herald = herald
        self._switches = switches
        self._clock_s = clock_s
        self._nonces: dict[str, tuple[float, int, int]] = {}

    def routes(self) -> list[Route]:
        all_of = "/channels/{channel_id}/messages"
        one = all_of + "/{message_id}"
        reaction = one + "/reactions/{emoji}"
        return [
            Route("GET", all_of, self.page, "read_messages"),
            Route("POST", all_of, self.create, "create_message", delivers=True),
            Route("GET", one, self.show, "read_messages"),
            Route("PATCH", one, self.edit, "edit_message", delivers=True),
            Route("DELETE", one, self.delete, "delete_message", delivers=True),
            Route("POST", "/channels/{channel_id}/typing", self.typing, "typing"),
            Route("GET", reaction, self.reactors, "reaction"),
            Route("PUT", reaction + "/@me", self.react, "reaction"),
            Route("DELETE", reaction + "/@me", self.take_reaction_back, "reaction"),
        ]

    # --- reading

    async def page(self, call: Call) -> Response:
        """Newest first, whichever way the page was asked for; `after` gives the messages right above that id."""
        channel = self._posting.channel(call.id("channel_id"))
        limit = int(call.query.get("limit", "50")) if call.query.get("limit", "50").isdigit() else 0
        if not 1 <= limit <= PAGE_MAX:
            raise invalid_form("limit", "NUMBER_TYPE_MAX", f"int value should be between 1 and {PAGE_MAX}.")
        return JSONResponse([self._shape(m) for m in _page(_public(channel), call.query, limit)])

    async def show(self, call: Call) -> Response:
        return JSONResponse(self._shape(self._message(call)))

    def _shape(self, message: Message) -> Json:
        told = shapes.message(self._world, message, reads_everything=self._switches.has_message_content)
        return {name: told[name] for name in _LEAST if name in told} if self._switches.says_little else told

    def _message(self, call: Call) -> Message:
        return self._posting.message(call.id("channel_id"), call.id("message_id"))

    # --- writing

    async def create(self, call: Call) -> Response:
        channel = self._posting.channel(call.id("channel_id"))
        if not channel.takes_messages:
            raise Refused(400, 50008, "Cannot send messages in a non-text channel")
        existing = self._same_nonce(call.body)
        if existing is not None:
            return JSONResponse(self._shape(existing))
        if self._switches.refuses_replies is not None and call.body.get("message_reference"):
            raise self._switches.refuses_replies
        reply_to = self._replied_to(channel, call.body.get("message_reference"))
        draft = new_draft(call.body, call.files, reply_to=reply_to, strips=self._switches.strips_content)
        message = self._posting.post(channel, self._world.bot, draft)
        if draft.nonce is not None:
            self._remember_nonce(draft.nonce, message)
        return JSONResponse(self._shape(message))

    def _remember_nonce(self, nonce: str, message: Message) -> None:
        now_s = self._clock_s()
        while self._nonces:  # oldest first: the window is the same for all
            oldest = next(iter(self._nonces))
            if self._nonces[oldest][0] > now_s - self._switches.nonce_window_s:
                break
            del self._nonces[oldest]
        self._nonces.pop(nonce, None)
        self._nonces[nonce] = (now_s, message.channel_id, message.id)

    def _same_nonce(self, body: Json) -> Message | None:
        """The message that this nonce made before, if `enforce_nonce` asks for it and the window still stands.

        A message that was deleted since gives `Unknown Message`.
        """
        known = self._nonces.get(str(body.get("nonce")))
        if known is None or not body.get("enforce_nonce"):
            return None
        at_s, channel_id, message_id = known
        if self._clock_s() - at_s > self._switches.nonce_window_s:
            return None
        return self._posting.message(channel_id, message_id)

    def _replied_to(self, channel: Channel, reference: Json | None) -> Message | None:
        if reference is None:
            return None
        message_id = snowflake(reference.get("message_id"), "message_reference.message_id")
        target = channel.messages.get(message_id)
        if target is None:
            if reference.get("fail_if_not_exists", True):
                raise invalid_form("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
            return None
        if is_system(target):
            raise invalid_form(
                "message_reference", "REPLIES_CANNOT_REPLY_TO_SYSTEM_MESSAGE", "Cannot reply to a system message"
            )
        return target

    async def edit(self, call: Call) -> Response:
        message = self._message(call)
        if self._switches.refuses_edits is not None:
            raise self._switches.refuses_edits
        only_flags = set(call.body) <= {"flags"}
        if message.author.id != self._world.bot.id and not (only_flags and self._switches.moderates):
            raise forbidden(50005)
        reply_to = self._world.message(message.reference)
        strips = self._switches.strips_content
        self._posting.edit(message, edited_draft(message, call.body, call.files, reply_to=reply_to, strips=strips))
        return JSONResponse(self._shape(message))

    async def delete(self, call: Call) -> Response:
        message = self._message(call)
        if message.author.id != self._world.bot.id:
            if self._world.channels[message.channel_id].is_dm:
                raise forbidden(50003)
            if not self._switches.moderates:
                raise forbidden(50013)
        self._posting.delete(message)
        return Response(status_code=NO_CONTENT)

    async def typing(self, call: Call) -> Response:
        """Shown for 10 s or until the bot's next message."""
        self._herald.typing(self._posting.channel(call.id("channel_id")), self._world.bot)
        return Response(status_code=NO_CONTENT)

    # --- reactions

    async def react(self, call: Call) -> Response:
        message, emoji = self._message(call), _emoji(call.path["emoji"])
        users = message.reactions.get(emoji, [])
        if not users and len(message.reactions) >= REACTION_KINDS_MAX:
            raise Refused(400, 30010, f"Maximum number of reactions reached ({REACTION_KINDS_MAX})")
        if self._world.bot.id not in users:
            message.reactions[emoji] = [*users, self._world.bot.id]
            self._herald.reacted(message, self._world.bot, emoji, added=True)
        return Response(status_code=NO_CONTENT)

    async def take_reaction_back(self, call: Call) -> Response:
        message, emoji = self._message(call), _emoji(call.path["emoji"])
        users = message.reactions.get(emoji, [])
        if self._world.bot.id in users:
            users.remove(self._world.bot.id)
            if not users:
                del message.reactions[emoji]
            self._herald.reacted(message, self._world.bot, emoji, added=False)
        return Response(status_code=NO_CONTENT)

    async def reactors(self, call: Call) -> Response:
        users = self._message(call).reactions.get(_emoji(call.path["emoji"]), [])
        return JSONResponse([shapes.user(self._world.users[user_id]) for user_id in users])


def _public(channel: Channel) -> list[Message]:
    return [m for m in channel.messages.values() if not m.flags & MessageFlag.EPHEMERAL]


def _page(messages: list[Message], query: dict[str, str], limit: int) -> list[Message]:
    """`messages` oldest first; the answer newest first."""
    if "around" in query:
        middle = snowflake(query["around"], "around")
        older = [m for m in messages if m.id < middle][-(limit // 2) :]
        newer = [m for m in messages if m.id >= middle][: limit - len(older)]
        chosen = older + newer
    elif "before" in query:
        chosen = [m for m in messages if m.id < snowflake(query["before"], "before")][-limit:]
    elif "after" in query:
        chosen = [m for m in messages if m.id > snowflake(query["after"], "after")][:limit]
    else:
        chosen = messages[-limit:]
    return chosen[::-1]


def _emoji(emoji: str) -> str:
    """A Unicode emoji or `name:id`; ordinary letters are no emoji. Raises `Refused` 10014."""
    if emoji.isascii() and not _CUSTOM_EMOJI.fullmatch(emoji):
        raise unknown("Emoji")
    return emoji
