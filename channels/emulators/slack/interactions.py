"""What people do besides writing: slash commands and presses of buttons, as Slack tells them to the app."""

from __future__ import annotations

import secrets

from channels.emulators.slack import shapes
from channels.emulators.slack.delivery import Delivery, Parcel
from channels.emulators.slack.responses import ResponseLinks
from channels.emulators.slack.world import Conversation, Message, User, World
from channels.emulators.traffic import Json


class Interactions:
    """Those of one workspace. An acknowledgement may carry the answer with it."""

    def __init__(self, world: World, delivery: Delivery, links: ResponseLinks) -> None:
        self._world = world
        self._delivery = delivery
        self._links = links

    def command(self, user: User, place: Conversation, command: str, text: str) -> Parcel:
        world = self._world
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
            "response_url": self._links.new_url(place, user),
            "trigger_id": _trigger_id(),
        }
        return self._ask("slash_commands", payload, place, user, None)

    def press(self, user: User, message: Message, action_id: str, value: str) -> Parcel:
        world, place = self._world, self._world.conversations[message.channel_id]
        is_ephemeral = message.only_for is not None
        action: Json = {"type": "button", "action_id": action_id, "value": value, "action_ts": world.new_ts(place)}
        payload: Json = {
            "type": "block_actions",
            "user": {"id": user.id, "username": user.handle, "name": user.handle, "team_id": world.team_id},
            "api_app_id": world.app_id,
            "token": "emulated",
            "container": {
                "type": "message",
                "message_ts": message.ts,
                "channel_id": place.id,
                "is_ephemeral": is_ephemeral,
            },
            "trigger_id": _trigger_id(),
            "team": {"id": world.team_id, "domain": "emulator"},
            "enterprise": None,
            "is_enterprise_install": False,
            "channel": {"id": place.id, "name": place.name},
            "state": {"values": {}},
            "response_url": self._links.new_url(place, user, message),
            "actions": [action],
        } | ({} if is_ephemeral else {"message": shapes.message(world, message)})
        return self._ask("interactive", payload, place, user, message)

    def _ask(self, kind: str, payload: Json, place: Conversation, user: User, source: Message | None) -> Parcel:
        def respond(body: Json) -> None:
            self._links.respond(place, user, body, source)

        parcel = Parcel(kind, payload, accepts_response=True, on_response=respond)
        self._delivery.send(parcel)
        return parcel


def _trigger_id() -> str:
    return f"{secrets.randbelow(10**12)}.{secrets.token_hex(8)}"
