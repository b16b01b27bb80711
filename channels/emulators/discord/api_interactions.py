"""REST: the first answer to an interaction, and what follows it."""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

from starlette.responses import JSONResponse, Response

from channels.emulators.discord import shapes
from channels.emulators.discord.api import Call, Route
from channels.emulators.discord.api_messages import NO_CONTENT
from channels.emulators.discord.commands import check_choices
from channels.emulators.discord.drafts import edited_draft, new_draft
from channels.emulators.discord.errors import invalid_form, unknown
from channels.emulators.discord.interactions import Interaction, InteractionKind, Interactions
from channels.emulators.discord.posting import Draft, Posting
from channels.emulators.discord.switches import Switches
from channels.emulators.discord.world import Message, MessageFlag, MessageKind, User, World
from channels.emulators.traffic import Json


class Answer(IntEnum):
    PONG = 1
    MESSAGE = 4
    DEFERRED_MESSAGE = 5
    DEFERRED_UPDATE = 6
    UPDATE = 7
    AUTOCOMPLETE = 8
    MODAL = 9


class InteractionsApi:
    def __init__(
        self,
        *,
        world: World,
        posting: Posting,
        interactions: Interactions,
        switches: Switches,
        application_id: int,
    ) -> None:
        self._world = world
        self._posting = posting
        self._interactions = interactions
        self._switches = switches
        self._application_id = application_id

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

    async def answer(self, call: Call) -> Response:
        """204, or 200 with what was made of it when `with_response` asks for that."""
        asked = self._interactions.to_answer(call.id("interaction_id"), call.path["token"])
        kind, data = call.body.get("type"), call.body.get("data") or {}
        if kind not in list(Answer):
            raise invalid_form("type", "BASE_TYPE_CHOICES", "Value must be one of (1, 4, 5, 6, 7, 8, 9).")
        if (kind == Answer.AUTOCOMPLETE) is not (asked.kind is InteractionKind.AUTOCOMPLETE):
            raise invalid_form("type", "INTERACTION_INVALID_RESPONSE_TYPE", "Invalid interaction response type.")
        if kind in (Answer.DEFERRED_UPDATE, Answer.UPDATE) and asked.source is None:
            raise invalid_form("type", "INTERACTION_APPLICATION_COMMAND_INVALID_RESPONSE_TYPE", "Not for commands.")
        message = self._answered(asked, Answer(kind), data, call)
        asked.answered(kind, data, message)
        if call.query.get("with_response", "").lower() not in ("1", "true"):
            return Response(status_code=NO_CONTENT)
        return JSONResponse(self._callback(asked, message))

    def _answered(self, asked: Interaction, kind: Answer, data: Json, call: Call) -> Message | None:
        if kind is Answer.MESSAGE:
            draft = new_draft(data, call.files, reply_to=None, strips=self._switches.strips_content)
            return self._post(asked, draft)
        if kind is Answer.DEFERRED_MESSAGE:
            hidden = int(data.get("flags") or 0) & MessageFlag.EPHEMERAL
            return self._post(asked, Draft(flags=MessageFlag.LOADING | hidden))
        if kind is Answer.AUTOCOMPLETE:
            check_choices(data)
        if kind is Answer.UPDATE and asked.source is not None:
            strips = self._switches.strips_content
            self._posting.edit(asked.source, edited_draft(asked.source, data, call.files, reply_to=None, strips=strips))
        return asked.source

    def _callback(self, asked: Interaction, message: Message | None) -> Json:
        told: Json = {"id": str(asked.id), "type": asked.kind.value}
        if message is None:
            return {"interaction": told}
        told |= {
            "response_message_id": str(message.id),
            "response_message_loading": bool(message.flags & MessageFlag.LOADING),
            "response_message_ephemeral": bool(message.flags & MessageFlag.EPHEMERAL),
        }
        return {"interaction": told, "resource": {"type": asked.answer_kind, "message": self._shape(message)}}

    def _post(self, asked: Interaction, draft: Draft) -> Message:
        """Signed by the bot through the interaction's webhook, whose id is the application's."""
        kind = MessageKind.COMMAND_ANSWER if asked.kind is InteractionKind.COMMAND else MessageKind.DEFAULT
        author: User = replace(self._world.bot, webhook_id=self._application_id)
        metadata = self._interactions.metadata(asked)
        command = str(asked.data.get("name", "")) if asked.kind is InteractionKind.COMMAND else ""
        told = replace(draft, kind=kind, interaction=metadata, command=command)
        return self._posting.post(asked.channel, author, told)

    def _shape(self, message: Message) -> Json:
        return shapes.message(self._world, message, reads_everything=True)

    # --- what follows

    async def follow_up(self, call: Call) -> Response:
        """A new message; but the first one after a deferral fills the message that is waiting for it."""
        asked = self._follow(call)
        draft = new_draft(call.body, call.files, reply_to=None, strips=self._switches.strips_content)
        waiting = asked.original
        if waiting is not None and waiting.flags & MessageFlag.LOADING:
            self._posting.fill(waiting, draft)
            return JSONResponse(self._shape(waiting))
        return JSONResponse(self._shape(self._post(asked, draft)))

    async def show(self, call: Call) -> Response:
        return JSONResponse(self._shape(self._message(call)))

    async def edit(self, call: Call) -> Response:
        message = self._message(call)
        draft = edited_draft(message, call.body, call.files, reply_to=None, strips=self._switches.strips_content)
        if message.flags & MessageFlag.LOADING:
            self._posting.fill(message, draft)
        else:
            self._posting.edit(message, draft)
        return JSONResponse(self._shape(message))

    async def delete(self, call: Call) -> Response:
        self._posting.delete(self._message(call))
        return Response(status_code=NO_CONTENT)

    def _follow(self, call: Call) -> Interaction:
        return self._interactions.to_follow(call.id("webhook_id"), call.path["token"])

    def _message(self, call: Call) -> Message:
        """The original, or a follow-up of the same interaction. Raises `Refused` 10008."""
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
