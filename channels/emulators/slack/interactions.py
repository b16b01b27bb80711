"""What people do besides writing: slash commands and presses of buttons, as Slack tells them to the app."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import Final

from channels.emulators.slack import shapes
from channels.emulators.slack.delivery import Delivery, Parcel
from channels.emulators.slack.responses import ResponseLinks
from channels.emulators.slack.world import Conversation, Message, User, World
from channels.emulators.traffic import Json

ANSWER_WITHIN_S: Final = 3.0
OPTIONS_MAX: Final = 100
LABEL_MAX: Final = 75
VALUE_MAX: Final = 150


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
        action: Json = {"type": "button", "action_id": action_id, "value": value, "action_ts": world.new_ts(place)}
        payload = self._about(user, message) | {
            "type": "block_actions",
            "response_url": self._links.new_url(place, user, message),
            "actions": [action],
        }
        return self._ask("interactive", payload, place, user, message)

    def _about(self, user: User, message: Message) -> Json:
        """What every interaction with a message says."""
        world, place = self._world, self._world.conversations[message.channel_id]
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

    async def options(self, user: User, message: Message, action_id: str, typed: str) -> list[tuple[str, str]]:
        """What the app says is in a list while somebody types: label and value of each line; nothing if it does not
        say so in time, or says what Slack does not take."""
        said: list[Json] = []
        payload = self._about(user, message) | {
            "type": "block_suggestion",
            "action_id": action_id,
            "block_id": "b0",
            "value": typed,
        }
        parcel = Parcel("interactive", payload, accepts_response=True, on_response=said.append)
        self._delivery.send(parcel)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await parcel.answered.wait()
        lines = [(each["text"]["text"], each["value"]) for answer in said for each in answer.get("options", ())]
        is_taken = len(lines) <= OPTIONS_MAX and all(
            0 < len(label) <= LABEL_MAX and 0 < len(value) <= VALUE_MAX for label, value in lines
        )
        return lines if is_taken else []

    def pick(self, user: User, message: Message, action_id: str, line: tuple[str, str]) -> Parcel:
        """Somebody picks a line of a list."""
        place = self._world.conversations[message.channel_id]
        chosen = {"text": {"type": "plain_text", "text": line[0]}, "value": line[1]}
        action = {
            "type": "external_select",
            "action_id": action_id,
            "block_id": "b0",
            "selected_option": chosen,
            "action_ts": self._world.new_ts(place),
        }
        payload = self._about(user, message) | {
            "type": "block_actions",
            "response_url": self._links.new_url(place, user, message),
            "actions": [action],
        }
        return self._ask("interactive", payload, place, user, message)

    def _ask(self, kind: str, payload: Json, place: Conversation, user: User, source: Message | None) -> Parcel:
        def respond(body: Json) -> None:
            self._links.respond(place, user, body, source)

        parcel = Parcel(kind, payload, accepts_response=True, on_response=respond)
        self._delivery.send(parcel)
        return parcel


def _trigger_id() -> str:
    return f"{secrets.randbelow(10**12)}.{secrets.token_hex(8)}"
