"""What changed in the workspace is told here, once: to the app as Slack's events, to people as the stage's."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from channels.emulators.audience import Audience
from channels.emulators.slack import shapes
from channels.emulators.slack.delivery import Delivery, Parcel
from channels.emulators.slack.mrkdwn import mentioned
from channels.emulators.slack.stagecraft import as_said, place_of, thread_id
from channels.emulators.slack.switches import Switches
from channels.emulators.slack.world import Conversation, Message, User, World, token_digest
from channels.emulators.stage import EventKind, Faults, StageEvent
from channels.emulators.traffic import Json

STATUS_LIFE_S: Final = 120.0
_SUBSCRIPTION: Final = {"channel": "message.channels", "group": "message.groups", "im": "message.im"}


class Herald:
    def __init__(
        self, *, world: World, delivery: Delivery, audience: Audience, switches: Switches, faults: Faults
    ) -> None:
        self._world = world
        self._delivery = delivery
        self._audience = audience
        self._switches = switches
        self._faults = faults
        self._statuses: dict[str, tuple[str, float]] = {}

    # --- messages

    def said(self, message: Message) -> None:
        """A `message` event, also to the app that wrote it; a mention in a channel is an `app_mention` besides."""
        self._clear_status(message)
        self._audience.tell(StageEvent(EventKind.SAID, place_of(message), said=as_said(self._world, message)))
        if message.only_for is not None:
            return
        place = self._world.conversations[message.channel_id]
        event = shapes.message(self._world, message) | {
            "channel": place.id,
            "event_ts": message.ts,
            "channel_type": place.event_type,
        }
        is_inbound = message.author.id != self._world.bot.id
        if is_inbound and self._faults.poison > 0:
            self._faults.poison -= 1
            self._send_poison()
        if is_inbound and not place.is_im and self._world.bot.id in mentioned(message.text):
            mention = {key: value for key, value in event.items() if key not in ("channel_type", "subtype")}
            self._send(place, mention | {"type": "app_mention"}, "app_mention")
        self._send(place, event, _SUBSCRIPTION[place.event_type], is_inbound=is_inbound)

    def changed(self, message: Message, previous: Message, *, is_seen: bool = True) -> None:
        """`message_changed` with both versions; `is_seen` false when people notice nothing, as with an unfurl."""
        place = self._world.conversations[message.channel_id]
        self._send_hidden(
            place,
            "message_changed",
            message=shapes.message(self._world, message),
            previous_message=shapes.message(self._world, previous),
        )
        if is_seen:
            self._audience.tell(StageEvent(EventKind.EDITED, place_of(message), said=as_said(self._world, message)))

    def deleted(self, previous: Message) -> None:
        if previous.only_for is None:
            place = self._world.conversations[previous.channel_id]
            shape = shapes.message(self._world, previous)
            self._send_hidden(place, "message_deleted", previous_message=shape, deleted_ts=previous.ts)
        self._audience.tell(StageEvent(EventKind.DELETED, place_of(previous), message_id=previous.ts))

    def _send_hidden(self, place: Conversation, subtype: str, **parts: object) -> None:
        ts = self._world.new_ts(place)
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

    def reacted(self, message: Message, user: User, name: str, *, added: bool) -> None:
        place = self._world.conversations[message.channel_id]
        kind = "reaction_added" if added else "reaction_removed"
        item: Json = {"type": "message", "channel": place.id, "ts": message.ts}
        event: Json = {
            "type": kind,
            "user": user.id,
            "reaction": name,
            "item": item,
            "item_user": message.author.id,
            "event_ts": self._world.new_ts(place),
        }
        self._send(place, event, kind)

    def thread_opened(self, place: Conversation, root_ts: str) -> None:
        """People see a thread as soon as something hangs on its root; the app learns of it by the reply."""
        self._audience.tell(StageEvent(EventKind.PLACE, thread_id(place.id, root_ts)))

    # --- status: "… is thinking"

    def status(self, place_id: str, text: str) -> None:
        """Shown until the app's next message there, an empty text, or two minutes."""
        self._statuses[place_id] = (text, self._world.now_s() + STATUS_LIFE_S)
        self._audience.tell(StageEvent(EventKind.TYPING, place_id, status=text))

    def status_of(self, place_id: str) -> str:
        text, until_s = self._statuses.get(place_id, ("", 0.0))
        return text if self._world.now_s() < until_s else ""

    def _clear_status(self, message: Message) -> None:
        place_id = place_of(message)
        if message.author.id == self._world.bot.id and self._statuses.pop(place_id, ("", 0.0))[0]:
            self._audience.tell(StageEvent(EventKind.TYPING, place_id, status=""))

    # --- people and places

    def opened(self, place: Conversation) -> None:
        self._audience.tell(StageEvent(EventKind.PLACE, place.id))

    def membership(self, place: Conversation, user: User, *, joined: bool) -> None:
        kind = "member_joined_channel" if joined else "member_left_channel"
        event: Json = {
            "type": kind,
            "user": user.id,
            "channel": place.id,
            "channel_type": "G" if place.is_private else "C",
            "team": self._world.team_id,
            "event_ts": self._world.new_ts(place),
        }
        if kind in self._switches.subscriptions:
            self._post(event)

    def id_changed(self, old: str, place: Conversation) -> None:
        event: Json = {"type": "channel_id_changed", "old_channel_id": old, "new_channel_id": place.id}
        self._send(place, event | {"event_ts": self._world.new_ts(place)}, "channel_id_changed")
        self.opened(place)

    def home_opened(self, user: User, tab: str) -> None:
        place = self._world.dm_with(user)
        event: Json = {"type": "app_home_opened", "user": user.id, "channel": place.id, "tab": tab}
        self._send(place, event | {"event_ts": self._world.new_ts(place)}, "app_home_opened")

    def assistant_opened(self, user: User, root: Message) -> None:
        place = self._world.conversations[root.channel_id]
        thread: Json = {"user_id": user.id, "context": {}, "channel_id": place.id, "thread_ts": root.ts}
        event: Json = {"type": "assistant_thread_started", "assistant_thread": thread}
        self._send(place, event | {"event_ts": self._world.new_ts(place)}, "assistant_thread_started")

    # --- the outer event

    def _send(self, place: Conversation, event: Json, subscription: str, *, is_inbound: bool = False) -> None:
        """Only what the app subscribed to, only from conversations it is in."""
        if self._faults.blocked or self._world.bot.id not in place.member_ids:
            return
        if subscription not in self._switches.subscriptions:
            return
        parcel = self._post(event, is_shared=place.is_shared)
        if is_inbound and self._faults.duplicate > 0:
            self._faults.duplicate -= 1
            self._delivery.send(replace_fresh(parcel), as_retry=True)

    def _post(self, event: Json, *, is_shared: bool = False) -> Parcel:
        world = self._world
        authorization: Json = {
            "enterprise_id": None,
            "team_id": world.team_id,
            "user_id": world.bot.id,
            "is_bot": True,
            "is_enterprise_install": False,
        }
        event_id = world.new_id("Ev")
        parcel = Parcel(
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
        self._delivery.send(parcel)
        return parcel

    def _send_poison(self) -> None:
        """An envelope that is no event: what should be the event is a text."""
        payload: Json = {"type": "event_callback", "team_id": self._world.team_id, "event": "\u0000"}
        self._delivery.send(Parcel("events_api", payload))


def replace_fresh(parcel: Parcel) -> Parcel:
    """The same event once more, to be acknowledged on its own."""
    return replace(parcel, answered=type(parcel.answered)())
