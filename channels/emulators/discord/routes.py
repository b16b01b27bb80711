"""The REST routes, by what they are about: the bot and its places, messages, commands, interactions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from starlette.responses import JSONResponse, Response

from channels.emulators.discord import shapes
from channels.emulators.discord.api import Buckets, DiscordCall, Route, snowflake, too_many
from channels.emulators.discord.gateway import DiscordEvents
from channels.emulators.discord.interactions import (
    DiscordInteractions,
    Interaction,
    InteractionKind,
    check_all,
    check_choices,
    without_localizations,
)
from channels.emulators.discord.messages import DiscordPosting, edited_draft, is_system, new_draft
from channels.emulators.discord.world import (
    Channel,
    DiscordDraft,
    DiscordRefusal,
    DiscordState,
    DiscordSwitches,
    DiscordUser,
    MessageFlag,
    MessageKind,
    MessageObject,
    forbidden,
    invalid_form,
    unknown,
)
from channels.emulators.stage import Json


@dataclass(slots=True)
class PlacesApi:
    """`endpoint` says what the application's owner set up for interactions."""

    world: DiscordState
    posting: DiscordPosting
    switches: DiscordSwitches
    buckets: Buckets
    application_id: int
    endpoint: Callable[[], Json]

    def routes(self) -> list[Route]:
        channel = "/channels/{channel_id}"
        return [
            Route("GET", "/gateway/bot", self.gateway_for_bot),
            Route("GET", "/users/@me", self.me),
            Route("GET", "/oauth2/applications/@me", self.application),
            Route("GET", channel, self.channel),
            Route("PATCH", channel, self.change_channel),
            Route("POST", channel + "/messages/{message_id}/threads", self.thread_from, "create_thread", delivers=True),
        ]

    # --- the bot itself

    async def gateway_for_bot(self, call: DiscordCall) -> Response:
        left = self.switches.sessions_left
        at_once = self.switches.max_concurrency
        limit: Json = {"total": 1000, "remaining": left, "reset_after": 14_400_000, "max_concurrency": at_once}
        url = f"ws://{call.host}/gateway"
        return JSONResponse({"url": url, "shards": self.switches.shards, "session_start_limit": limit})

    async def me(self, _: DiscordCall) -> Response:
        return JSONResponse(shapes.own_user(self.world))

    async def application(self, _: DiscordCall) -> Response:
        has_content = self.switches.has_message_content
        shape = shapes.application(self.world, self.application_id, has_message_content=has_content)
        return JSONResponse(shape | self.endpoint())

    # --- channels and threads

    async def channel(self, call: DiscordCall) -> Response:
        return JSONResponse(shapes.channel(self.world, self.posting.channel(call.id("channel_id"))))

    async def change_channel(self, call: DiscordCall) -> Response:
        """Change name, archived, locked and time to archive of a thread that the bot began.

        Other channels are not its to change. New names are counted apart from all else, without a word in the headers.
        """
        thread = self.posting.channel(call.id("channel_id"))
        if not (thread.is_thread and self._may_change(thread)):
            raise forbidden(50013)
        if "name" in call.body and str(call.body["name"]) != thread.name:
            allowance = self.buckets.take("rename", str(thread.id))
            if allowance is not None and not allowance.is_granted:
                return too_many(allowance, via=True)
        self.posting.change_thread(thread, self.world.bot, call.body)
        return JSONResponse(shapes.channel(self.world, thread))

    def _may_change(self, thread: Channel) -> bool:
        """Tell whether the bot may change the thread: its creator may, while nobody has locked it."""
        return self.switches.moderates or (thread.owner_id == self.world.bot.id and not thread.locked)

    async def thread_from(self, call: DiscordCall) -> Response:
        message = self.posting.message(call.id("channel_id"), call.id("message_id"))
        thread = self.posting.thread_from(message, self.world.bot, *_asked_for(call.body))
        return JSONResponse(shapes.channel(self.world, thread), 201)


def _asked_for(body: Json) -> tuple[str, int]:
    return str(body.get("name") or ""), int(body.get("auto_archive_duration") or 1440)


PAGE_MAX: Final = 100
NO_CONTENT: Final = 204

_LEAST = ("id", "channel_id", "content", "nonce")


@dataclass(slots=True)
class MessagesApi:
    """`clock_s` gives seconds, for the life of nonces."""

    world: DiscordState
    posting: DiscordPosting
    events: DiscordEvents
    switches: DiscordSwitches
    clock_s: Callable[[], float]
    _nonces: dict[str, tuple[float, int, int]] = field(default_factory=dict)

    def routes(self) -> list[Route]:
        all_of = "/channels/{channel_id}/messages"
        one = all_of + "/{message_id}"
        return [
            Route("GET", all_of, self.page, "read_messages"),
            Route("POST", all_of, self.create, "create_message", delivers=True),
            Route("GET", one, self.show, "read_messages"),
            Route("PATCH", one, self.edit, "edit_message", delivers=True),
            Route("DELETE", one, self.delete, "delete_message", delivers=True),
            Route("POST", "/channels/{channel_id}/typing", self.typing, "typing"),
        ]

    # --- reading

    async def page(self, call: DiscordCall) -> Response:
        """List messages newest first, whichever way was asked for; `after` gives the messages right above that id."""
        channel = self.posting.channel(call.id("channel_id"))
        limit = int(call.query.get("limit", "50")) if call.query.get("limit", "50").isdigit() else 0
        if not 1 <= limit <= PAGE_MAX:
            raise invalid_form("limit", "NUMBER_TYPE_MAX", f"int value should be between 1 and {PAGE_MAX}.")
        return JSONResponse([self._shape(m) for m in _page(_public(channel), call.query, limit)])

    async def show(self, call: DiscordCall) -> Response:
        return JSONResponse(self._shape(self._message(call)))

    def _shape(self, message: MessageObject) -> Json:
        told = shapes.message(self.world, message, reads_everything=self.switches.has_message_content)
        return {name: told[name] for name in _LEAST if name in told} if self.switches.says_little else told

    def _message(self, call: DiscordCall) -> MessageObject:
        return self.posting.message(call.id("channel_id"), call.id("message_id"))

    # --- writing

    async def create(self, call: DiscordCall) -> Response:
        channel = self.posting.channel(call.id("channel_id"))
        if not channel.takes_messages:
            raise DiscordRefusal(400, 50008, "Cannot send messages in a non-text channel")
        existing = self._same_nonce(call.body)
        if existing is not None:
            return JSONResponse(self._shape(existing))
        if self.switches.refuses_replies is not None and call.body.get("message_reference"):
            raise self.switches.refuses_replies
        reply_to = self._replied_to(channel, call.body.get("message_reference"))
        draft = new_draft(call.body, call.files, reply_to=reply_to)
        message = self.posting.post(channel, self.world.bot, draft, reply_to=reply_to)
        if draft.nonce is not None:
            now_s = self.clock_s()
            while self._nonces:  # oldest first: the window is the same for all
                oldest = next(iter(self._nonces))
                if self._nonces[oldest][0] > now_s - self.switches.nonce_window_s:
                    break
                del self._nonces[oldest]
            self._nonces.pop(draft.nonce, None)
            self._nonces[draft.nonce] = (now_s, message.channel_id, message.id)
        return JSONResponse(self._shape(message))

    def _same_nonce(self, body: Json) -> MessageObject | None:
        """Find the message that this nonce made before, if `enforce_nonce` asks for it and the window is still open.

        A message that was deleted since gives `Unknown Message`."""
        known = self._nonces.get(str(body.get("nonce")))
        if known is None or not body.get("enforce_nonce"):
            return None
        at_s, channel_id, message_id = known
        if self.clock_s() - at_s > self.switches.nonce_window_s:
            return None
        return self.posting.message(channel_id, message_id)

    def _replied_to(self, channel: Channel, reference: Json | None) -> MessageObject | None:
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

    async def edit(self, call: DiscordCall) -> Response:
        message = self._message(call)
        if self.switches.refuses_edits is not None:
            raise self.switches.refuses_edits
        only_flags = set(call.body) <= {"flags"}
        if message.author.id != self.world.bot.id and not (only_flags and self.switches.moderates):
            raise forbidden(50005)
        reply_to = self.world.message(message.reference)
        self.posting.edit(message, edited_draft(message, call.body, call.files, reply_to=reply_to))
        return JSONResponse(self._shape(message))

    async def delete(self, call: DiscordCall) -> Response:
        message = self._message(call)
        if message.author.id != self.world.bot.id:
            if self.world.channels[message.channel_id].is_dm:
                raise forbidden(50003)
            if not self.switches.moderates:
                raise forbidden(50013)
        self.posting.delete(message)
        return Response(status_code=NO_CONTENT)

    async def typing(self, call: DiscordCall) -> Response:
        """Show typing for 10 s or until the bot's next message."""
        self.events.typing(self.posting.channel(call.id("channel_id")), self.world.bot)
        return Response(status_code=NO_CONTENT)


def _public(channel: Channel) -> list[MessageObject]:
    return [m for m in channel.messages.values() if not m.flags & MessageFlag.EPHEMERAL]


def _page(messages: list[MessageObject], query: dict[str, str], limit: int) -> list[MessageObject]:
    """Choose a page of `messages`, which are oldest first; the answer is newest first."""
    if "before" in query:
        chosen = [m for m in messages if m.id < snowflake(query["before"], "before")][-limit:]
    elif "after" in query:
        chosen = [m for m in messages if m.id > snowflake(query["after"], "after")][:limit]
    else:
        chosen = messages[-limit:]
    return chosen[::-1]


_DISCORDS_OWN: Final = ("id", "application_id", "version")


@dataclass(slots=True)
class CommandsApi:
    world: DiscordState
    interactions: DiscordInteractions
    application_id: int

    def routes(self) -> list[Route]:
        path = "/applications/{application_id}/commands"
        return [Route("GET", path, self.list_all), Route("PUT", path, self.replace_all)]

    async def list_all(self, call: DiscordCall) -> Response:
        self._check_application(call)
        known = self.interactions.commands
        if call.query.get("with_localizations", "").lower() in ("1", "true"):
            return JSONResponse(known)
        return JSONResponse([without_localizations(command) for command in known])

    async def replace_all(self, call: DiscordCall) -> Response:
        """Set all at once: what is not in the list is gone; what is keeps its id."""
        self._check_application(call)
        self.interactions.commands = [self._kept(body) for body in check_all(call.body_list or [])]
        return JSONResponse(self.interactions.commands)

    def _check_application(self, call: DiscordCall) -> None:
        if call.id("application_id") != self.application_id:
            raise forbidden(50001)

    def _kept(self, body: Json) -> Json:
        """Keep the id of a command of that name and type, and its version if nothing about it changed."""
        same = (c for c in self.interactions.commands if (c["type"], c["name"]) == (body["type"], body["name"]))
        before = next(same, None)
        if before is not None and {key: before[key] for key in before if key not in _DISCORDS_OWN} == body:
            return before
        own: Json = {
            "id": before["id"] if before else str(self.world.new_id()),
            "application_id": str(self.application_id),
            "version": str(self.world.new_id()),
        }
        return own | body


class Answer(IntEnum):
    """The callbacks that our adapter makes."""

    MESSAGE = 4
    DEFERRED_MESSAGE = 5
    DEFERRED_UPDATE = 6
    UPDATE = 7
    AUTOCOMPLETE = 8


@dataclass(slots=True)
class InteractionsApi:
    world: DiscordState
    posting: DiscordPosting
    interactions: DiscordInteractions
    application_id: int

    def routes(self) -> list[Route]:
        hook, callback = "/webhooks/{webhook_id}/{token}", "/interactions/{interaction_id}/{token}/callback"
        original, one = hook + "/messages/@original", hook + "/messages/{message_id}"
        routes = [
            Route("POST", callback, self.answer, "callback", delivers=True, needs_token=False),
            Route("POST", hook, self.follow_up, "webhook", delivers=True, needs_token=False),
        ]
        for path in (original, one):
            routes += [
                Route("GET", path, self.show, "webhook", needs_token=False),
                Route("PATCH", path, self.edit, "webhook", delivers=True, needs_token=False),
                Route("DELETE", path, self.delete, "webhook", delivers=True, needs_token=False),
            ]
        return routes

    # --- the first answer

    async def answer(self, call: DiscordCall) -> Response:
        """Answer 204, or 200 with what was made of it when `with_response` asks for that and the server knows it."""
        asked = self.interactions.to_answer(call.id("interaction_id"), call.path["token"])
        kind, data = call.body.get("type"), call.body.get("data") or {}
        if kind not in list(Answer):
            raise invalid_form("type", "BASE_TYPE_CHOICES", "Value must be one of (4, 5, 6, 7, 8).")
        if (kind == Answer.AUTOCOMPLETE) is not (asked.kind is InteractionKind.AUTOCOMPLETE):
            raise invalid_form("type", "INTERACTION_INVALID_RESPONSE_TYPE", "Invalid interaction response type.")
        if kind in (Answer.DEFERRED_UPDATE, Answer.UPDATE) and asked.source is None:
            raise invalid_form("type", "INTERACTION_APPLICATION_COMMAND_INVALID_RESPONSE_TYPE", "Not for commands.")
        message = self._answered(asked, Answer(kind), data, call)
        asked.answered(kind, data, message)
        is_asked = call.query.get("with_response", "").lower() in ("1", "true")
        if not is_asked or self.interactions.switches.says_little:
            return Response(status_code=NO_CONTENT)
        return JSONResponse(self._callback(asked, message))

    def _answered(self, asked: Interaction, kind: Answer, data: Json, call: DiscordCall) -> MessageObject | None:
        if kind is Answer.MESSAGE:
            draft = new_draft(data, call.files, reply_to=None)
            return self._post(asked, draft)
        if kind is Answer.DEFERRED_MESSAGE:
            hidden = int(data.get("flags") or 0) & MessageFlag.EPHEMERAL
            return self._post(asked, DiscordDraft(flags=MessageFlag.LOADING | hidden))
        if kind is Answer.AUTOCOMPLETE:
            check_choices(data)
        if kind is Answer.UPDATE and asked.source is not None:
            self.posting.edit(asked.source, edited_draft(asked.source, data, call.files, reply_to=None))
        return asked.source

    def _callback(self, asked: Interaction, message: MessageObject | None) -> Json:
        told: Json = {"id": str(asked.id), "type": asked.kind.value}
        if message is None:
            return {"interaction": told}
        told |= {
            "response_message_id": str(message.id),
            "response_message_loading": bool(message.flags & MessageFlag.LOADING),
            "response_message_ephemeral": bool(message.flags & MessageFlag.EPHEMERAL),
        }
        return {"interaction": told, "resource": {"type": asked.answer_kind, "message": self._shape(message)}}

    def _post(self, asked: Interaction, draft: DiscordDraft) -> MessageObject:
        """Post as the bot through the interaction's webhook, whose id is the application's."""
        kind = MessageKind.COMMAND_ANSWER if asked.kind is InteractionKind.COMMAND else MessageKind.DEFAULT
        author: DiscordUser = replace(self.world.bot, webhook_id=self.application_id)
        metadata = self.interactions.metadata(asked)
        command = str(asked.data.get("name", "")) if asked.kind is InteractionKind.COMMAND else ""
        told = replace(draft, kind=kind, interaction=metadata, command=command)
        return self.posting.post(asked.channel, author, told)

    def _shape(self, message: MessageObject) -> Json:
        return shapes.message(self.world, message, reads_everything=True)

    # --- what follows

    async def follow_up(self, call: DiscordCall) -> Response:
        """Post a new message; but the first one after a deferral fills the message that is waiting for it."""
        asked = self._follow(call)
        draft = new_draft(call.body, call.files, reply_to=None)
        waiting = asked.original
        if waiting is not None and waiting.flags & MessageFlag.LOADING:
            self.posting.fill(waiting, draft)
            return JSONResponse(self._shape(waiting))
        return JSONResponse(self._shape(self._post(asked, draft)))

    async def show(self, call: DiscordCall) -> Response:
        return JSONResponse(self._shape(self._message(call)))

    async def edit(self, call: DiscordCall) -> Response:
        message = self._message(call)
        draft = edited_draft(message, call.body, call.files, reply_to=None)
        if message.flags & MessageFlag.LOADING:
            self.posting.fill(message, draft)
        else:
            self.posting.edit(message, draft)
        return JSONResponse(self._shape(message))

    async def delete(self, call: DiscordCall) -> Response:
        self.posting.delete(self._message(call))
        return Response(status_code=NO_CONTENT)

    def _follow(self, call: DiscordCall) -> Interaction:
        return self.interactions.to_follow(call.id("webhook_id"), call.path["token"])

    def _message(self, call: DiscordCall) -> MessageObject:
        """Find the original, or a follow-up of the same interaction. Raises `DiscordRefusal` 10008."""
        asked = self._follow(call)
        if "message_id" not in call.path:
            message = asked.original
        else:
            message = asked.channel.messages.get(call.id("message_id"))
            if message is not None and (message.interaction or {}).get("id") != str(asked.id):
                message = None
        if message is None or message.id not in asked.channel.messages:
            raise unknown("Message")
        return message
