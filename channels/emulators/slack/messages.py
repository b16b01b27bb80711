"""Messages, commands and buttons: the rules for apps and people alike, and who is told of a change."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from channels.emulators.serving import NoAnswer
from channels.emulators.slack import shapes
from channels.emulators.slack.delivery import Delivery, EventDelivery
from channels.emulators.slack.text import as_said, mentioned, place_of, stored, thread_id
from channels.emulators.slack.world import (
    Conversation,
    SlackDraft,
    SlackMessage,
    SlackRefusal,
    SlackState,
    SlackSwitches,
    SlackUser,
    token_digest,
)
from channels.emulators.stage import EventKind, Faults, Json, StageAudience, StageEvent, fields_of

# --- what changed, told once: to the app as Slack's events, to people as the stage's


_SUBSCRIPTION: Final = {"channel": "message.channels", "im": "message.im"}


@dataclass(slots=True)
class SlackEvents:
    world: SlackState
    delivery: Delivery
    audience: StageAudience
    switches: SlackSwitches
    faults: Faults
    _statuses: dict[str, str] = field(default_factory=dict)  # by place

    # --- messages

    def said(self, message: SlackMessage) -> None:
        """Send a `message` event, also to the app that wrote it; a mention in a channel is an `app_mention` besides."""
        place_id = place_of(message)
        if message.author.id == self.world.bot.id and self._statuses.pop(place_id, ""):
            self.audience.tell(StageEvent(EventKind.TYPING, place_id, status=""))
        self.audience.tell(StageEvent(EventKind.SAID, place_of(message), said=as_said(self.world, message)))
        if message.only_for is not None:
            return
        place = self.world.conversations[message.channel_id]
        event = shapes.message(self.world, message) | {
            "channel": place.id,
            "event_ts": message.ts,
            "channel_type": place.event_type,
        }
        is_inbound = message.author.id != self.world.bot.id
        if is_inbound and self.faults.take("poison"):
            payload: Json = {"type": "event_callback", "team_id": self.world.team_id, "event": "\u0000"}
            self.delivery.send(EventDelivery("events_api", payload))
        if is_inbound and not place.is_im and self.world.bot.id in mentioned(message.text):
            mention = {key: value for key, value in event.items() if key not in ("channel_type", "subtype")}
            self._send(place, mention | {"type": "app_mention"}, "app_mention")
        self._send(place, event, _SUBSCRIPTION[place.event_type], is_inbound=is_inbound)

    def changed(self, message: SlackMessage, previous: SlackMessage, *, is_seen: bool = True) -> None:
        """Send `message_changed` with both versions; `is_seen` false when people notice nothing, as with an unfurl."""
        place = self.world.conversations[message.channel_id]
        self._send_hidden(
            place,
            "message_changed",
            message=shapes.message(self.world, message),
            previous_message=shapes.message(self.world, previous),
        )
        if is_seen:
            self.audience.tell(StageEvent(EventKind.EDITED, place_of(message), said=as_said(self.world, message)))

    def deleted(self, previous: SlackMessage) -> None:
        if previous.only_for is None:
            place = self.world.conversations[previous.channel_id]
            shape = shapes.message(self.world, previous)
            self._send_hidden(place, "message_deleted", previous_message=shape, deleted_ts=previous.ts)
        self.audience.tell(StageEvent(EventKind.DELETED, place_of(previous), message_id=previous.ts))

    def _send_hidden(self, place: Conversation, subtype: str, **parts: object) -> None:
        ts = self.world.new_ts(place)
        event: Json = {
            "type": "message",
            "subtype": subtype,
            "channel": place.id,
            "hidden": True,
            "ts": ts,
            "event_ts": ts,
            "channel_type": place.event_type,
        }
        self._send(place, event | parts, _SUBSCRIPTION[place.event_type])

    def thread_opened(self, place: Conversation, root_ts: str) -> None:
        """Show people a thread as soon as something hangs on its root; the app learns of it by the reply."""
        self.audience.tell(StageEvent(EventKind.PLACE, thread_id(place.id, root_ts)))

    # --- status: "… is thinking"

    def status(self, place_id: str, text: str) -> None:
        """Show a status until the app's next message there, or an empty text."""
        self._statuses[place_id] = text
        self.audience.tell(StageEvent(EventKind.TYPING, place_id, status=text))

    # --- people and places

    def opened(self, place: Conversation) -> None:
        self.audience.tell(StageEvent(EventKind.PLACE, place.id))

    def bot_left(self, place: Conversation) -> None:
        """Tell the app that it was put out of a channel."""
        event: Json = {
            "type": "member_left_channel",
            "user": self.world.bot.id,
            "channel": place.id,
            "channel_type": "C",
            "team": self.world.team_id,
            "event_ts": self.world.new_ts(place),
        }
        if "member_left_channel" in self.switches.subscriptions:
            self._post(event)

    def id_changed(self, old: str, place: Conversation) -> None:
        event: Json = {"type": "channel_id_changed", "old_channel_id": old, "new_channel_id": place.id}
        self._send(place, event | {"event_ts": self.world.new_ts(place)}, "channel_id_changed")
        self.opened(place)

    def home_opened(self, user: SlackUser) -> None:
        place = self.world.dm_with(user)
        event: Json = {"type": "app_home_opened", "user": user.id, "channel": place.id, "tab": "home"}
        self._send(place, event | {"event_ts": self.world.new_ts(place)}, "app_home_opened")

    def assistant_opened(self, user: SlackUser, root: SlackMessage) -> None:
        place = self.world.conversations[root.channel_id]
        thread: Json = {"user_id": user.id, "context": {}, "channel_id": place.id, "thread_ts": root.ts}
        event: Json = {"type": "assistant_thread_started", "assistant_thread": thread}
        self._send(place, event | {"event_ts": self.world.new_ts(place)}, "assistant_thread_started")

    # --- the outer event

    def _send(self, place: Conversation, event: Json, subscription: str, *, is_inbound: bool = False) -> None:
        """Send only what the app subscribed to, only from conversations it is in."""
        if self.faults.blocked or self.world.bot.id not in place.member_ids:
            return
        if subscription not in self.switches.subscriptions:
            return
        delivery = self._post(event, is_shared=place.is_shared)
        if is_inbound and self.faults.take("duplicate"):
            self.delivery.send(replace(delivery, answered=type(delivery.answered)()), as_retry=True)

    def _post(self, event: Json, *, is_shared: bool = False) -> EventDelivery:
        world = self.world
        authorization: Json = {
            "enterprise_id": None,
            "team_id": world.team_id,
            "user_id": world.bot.id,
            "is_bot": True,
            "is_enterprise_install": False,
        }
        event_id = world.new_id("Ev")
        delivery = EventDelivery(
            "events_api",
            {
                "token": token_digest(world.app_id),
                "team_id": world.team_id,
                "context_team_id": world.team_id,
                "context_enterprise_id": None,
                "api_app_id": world.app_id,
                "event": event,
                "type": "event_callback",
                "event_id": event_id,
                "event_time": int(world.now_s()),
                "authorizations": [authorization],
                "is_ext_shared_channel": is_shared,
                "event_context": f"4-{token_digest(event_id)}",
            },
        )
        self.delivery.send(delivery)
        return delivery


# --- writing, changing and taking back messages


_LINK: Final = re.compile(r"https?://[^\s<>|)]+")


@dataclass(slots=True)
class SlackPosting:
    world: SlackState
    events: SlackEvents
    switches: SlackSwitches

    def post(self, place: Conversation, author: SlackUser, draft: SlackDraft) -> SlackMessage:
        """Keep the message under a new ts and tell everybody. A reply to a reply goes to the thread's root."""
        root = place.root_of(draft.thread_ts) if draft.thread_ts else None
        if draft.thread_ts and (root is None or root.only_for is not None):
            raise SlackRefusal("thread_not_found")
        opens_thread = root is not None and not place.replies_to(root.ts)
        written = replace(draft, blocks=_named(draft.blocks), thread_ts=root.ts if root else None)
        message = SlackMessage(**fields_of(written), ts=self.world.new_ts(place), channel_id=place.id, author=author)
        place.keep(message)
        for file in draft.files:
            file.shares.append((place.id, message.ts))
        if opens_thread and root is not None:
            self.events.thread_opened(place, root.ts)
        self.events.said(message)
        if draft.unfurls:
            self.unfurl(message)
        return message

    def unfurl(self, message: SlackMessage) -> None:
        """Show below the message what its first link leads to."""
        link = _LINK.search(message.text)
        if self.switches.unfurls_links and link is not None and not message.attachments:
            previous = replace(message)
            message.attachments = ({"from_url": link.group(0)},)
            self.events.changed(message, previous, is_seen=False)

    def change(self, message: SlackMessage, *, text: str, blocks: Sequence[Json], is_edit: bool = True) -> None:
        """Put new content in place; `is_edit` leaves the "(edited)" mark, which a growing stream does not."""
        previous = replace(message)
        message.text = text
        message.blocks = _named(blocks)
        if is_edit:
            message.edited_ts = f"{int(self.world.now_s())}.000000"
        self.events.changed(message, previous)

    def delete(self, message: SlackMessage) -> None:
        """Delete a message; but a root with replies leaves a tombstone, so that the thread still hangs on something."""
        place = self.world.conversations[message.channel_id]
        if place.replies_to(message.ts):
            previous = replace(message)
            message.text, message.blocks, message.files = "This message was deleted.", [], ()
            message.subtype = "tombstone"
            self.events.changed(message, previous)
            return
        place.forget(message)
        self.events.deleted(message)


def _named(blocks: Sequence[Json]) -> list[Json]:
    """Give each block a name, unless the app has named it."""
    return [{"block_id": f"b{number}"} | block for number, block in enumerate(blocks)]


# --- `response_url`: five messages within thirty minutes, into a conversation the bot need not be in


LIFE_S: Final = 30 * 60.0


@dataclass(slots=True)
class _Link:
    place: Conversation
    user: SlackUser
    source: SlackMessage | None
    until_s: float
    uses: int = 0


@dataclass(slots=True)
class ResponseLinks:
    """`clock_s` gives seconds."""

    world: SlackState
    posting: SlackPosting
    switches: SlackSwitches
    faults: Faults
    clock_s: Callable[[], float]
    _links: dict[str, _Link] = field(default_factory=dict)

    def new_url(self, place: Conversation, user: SlackUser, source: SlackMessage | None = None) -> str:
        """Make a link for this person in this place; `source` is the message whose button was pressed."""
        token = secrets.token_urlsafe(18)
        self._links[token] = _Link(place, user, source, self.clock_s() + LIFE_S)
        return f"{self.world.origin}/commands/{self.world.team_id}/{token}"

    async def endpoint(self, request: Request) -> Response:
        link = self._links.get(request.path_params["token"])
        if link is None:
            return PlainTextResponse("invalid_token", 404)
        if link.uses >= self.switches.link_uses_max:
            return JSONResponse({"ok": False, "error": "used_url"}, 404)
        if self.clock_s() > link.until_s:
            return JSONResponse({"ok": False, "error": "expired_url"}, 404)
        try:
            body = json.loads(await request.body())
        except ValueError:
            return PlainTextResponse("invalid_payload", 400)
        link.uses += 1
        try:
            self.respond(link.place, link.user, body, link.source)
        except SlackRefusal as refused:
            return JSONResponse(refused.body(), 400)
        if self.faults.take("drop_after"):
            return NoAnswer()
        return PlainTextResponse("ok")

    def respond(self, place: Conversation, user: SlackUser, body: Json, source: SlackMessage | None = None) -> None:
        """Do what an answer to a command or a button asks for. Raises `no_text`."""
        if source is not None and body.get("delete_original"):
            self.posting.delete(source)
            return
        text, blocks = stored(str(body.get("text") or "")), body.get("blocks") or []
        if not text and not blocks:
            raise SlackRefusal("no_text")
        if source is not None and body.get("replace_original"):
            self.posting.change(source, text=text, blocks=blocks)
            return
        is_public = body.get("response_type") == "in_channel"
        thread_ts = body.get("thread_ts")
        draft = SlackDraft(text=text, blocks=blocks, thread_ts=thread_ts, only_for=None if is_public else user.id)
        self.posting.post(place, self.world.bot, draft)


# --- slash commands and presses of buttons, as Slack tells them to the app


ANSWER_WITHIN_S: Final = 3.0
OPTIONS_MAX: Final = 100
LABEL_MAX: Final = 75
VALUE_MAX: Final = 150


@dataclass(slots=True)
class SlackInteractions:
    """The interactions of one workspace. An acknowledgement may carry the answer with it."""

    world: SlackState
    delivery: Delivery
    links: ResponseLinks

    def command(self, user: SlackUser, place: Conversation, command: str, text: str) -> EventDelivery:
        world = self.world
        payload: Json = {
            "token": "emulated",
            "team_id": world.team_id,
            "team_domain": "emulator",
            "channel_id": place.id,
            "channel_name": "directmessage" if place.is_im else place.name,
            "user_id": user.id,
            "user_name": user.handle,
            "command": command,
            "text": text,
            "api_app_id": world.app_id,
            "is_enterprise_install": "false",
            "response_url": self.links.new_url(place, user),
            "trigger_id": _trigger_id(),
        }
        return self._ask("slash_commands", payload, place, user, None)

    def press(self, user: SlackUser, message: SlackMessage, action_id: str, value: str) -> EventDelivery:
        return self._act(user, message, {"type": "button", "action_id": action_id, "value": value})

    def _act(self, user: SlackUser, message: SlackMessage, action: Json) -> EventDelivery:
        place = self.world.conversations[message.channel_id]
        payload = self._about(user, message) | {
            "type": "block_actions",
            "response_url": self.links.new_url(place, user, message),
            "actions": [action | {"action_ts": self.world.new_ts(place)}],
        }
        return self._ask("interactive", payload, place, user, message)

    def _about(self, user: SlackUser, message: SlackMessage) -> Json:
        """Return what every interaction with a message says."""
        world, place = self.world, self.world.conversations[message.channel_id]
        is_ephemeral = message.only_for is not None
        thread = {"thread_ts": message.thread_ts} if message.is_reply else {}
        container: Json = {
            "type": "message",
            "message_ts": message.ts,
            "channel_id": place.id,
            "is_ephemeral": is_ephemeral,
        } | thread
        shape: Json = {
            "user": {"id": user.id, "username": user.handle, "name": user.handle, "team_id": world.team_id},
            "api_app_id": world.app_id,
            "token": "emulated",
            "container": container,
            "trigger_id": _trigger_id(),
            "team": {"id": world.team_id, "domain": "emulator"},
            "enterprise": None,
            "is_enterprise_install": False,
            "channel": {"id": place.id, "name": place.name},
            "state": {"values": {}},
        }
        return shape | ({} if is_ephemeral else {"message": shapes.message(world, message)})

    async def options(
        self, user: SlackUser, message: SlackMessage, action_id: str, typed: str
    ) -> list[tuple[str, str]]:
        """Ask the app what is in a list while somebody types: label and value of each line.

        Nothing if it does not say so in time, or says what Slack does not take."""
        said: list[Json] = []
        payload = self._about(user, message) | {
            "type": "block_suggestion",
            "action_id": action_id,
            "block_id": "b0",
            "value": typed,
        }
        delivery = EventDelivery("interactive", payload, accepts_response=True, on_response=said.append)
        self.delivery.send(delivery)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await delivery.answered.wait()
        lines = [(each["text"]["text"], each["value"]) for answer in said for each in answer.get("options", ())]
        is_taken = len(lines) <= OPTIONS_MAX and all(
            0 < len(label) <= LABEL_MAX and 0 < len(value) <= VALUE_MAX for label, value in lines
        )
        return lines if is_taken else []

    def pick(self, user: SlackUser, message: SlackMessage, action_id: str, line: tuple[str, str]) -> EventDelivery:
        """Pick a line of a list as a person."""
        chosen = {"text": {"type": "plain_text", "text": line[0]}, "value": line[1]}
        action = {"type": "external_select", "action_id": action_id, "block_id": "b0", "selected_option": chosen}
        return self._act(user, message, action)

    def _ask(
        self, kind: str, payload: Json, place: Conversation, user: SlackUser, source: SlackMessage | None
    ) -> EventDelivery:
        def respond(body: Json) -> None:
            self.links.respond(place, user, body, source)

        delivery = EventDelivery(kind, payload, accepts_response=True, on_response=respond)
        self.delivery.send(delivery)
        return delivery


def _trigger_id() -> str:
    return f"{secrets.randbelow(10**12)}.{secrets.token_hex(8)}"
