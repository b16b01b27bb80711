"""Slash commands and buttons: a person asks, the app answers within three seconds and may go on for fifteen minutes."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from channels.emulators.discord import shapes
from channels.emulators.discord.api import FILE_BYTES_MAX
from channels.emulators.discord.errors import Refused, unknown
from channels.emulators.discord.herald import Herald
from channels.emulators.discord.world import Channel, Message, User, World
from channels.emulators.traffic import Json

FIRST_ANSWER_S: Final = 3.0
TOKEN_LIFE_S: Final = 15 * 60.0
_BUTTON: Final = 2
_OPTION_TYPES: Final = {bool: 5, int: 4, float: 10, str: 3}

Option = str | int | float | bool


class InteractionKind(IntEnum):
    COMMAND = 2
    COMPONENT = 3


@dataclass(slots=True)
class Interaction:
    """What a person did, and how far the app got in answering. `answer_kind` is the type of the first callback."""

    id: int
    token: str
    kind: InteractionKind
    channel: Channel
    user: User
    asked_s: float
    data: Json
    source: Message | None = None
    answer_kind: int | None = None
    answer_data: Json | None = None
    original: Message | None = None

    @property
    def is_answered(self) -> bool:
        return self.answer_kind is not None


class Interactions:
    """Begins interactions and finds them again by their token. `clock_s` gives seconds."""

    def __init__(self, *, world: World, herald: Herald, application_id: int, clock_s: Callable[[], float]) -> None:
        self._world = world
        self._herald = herald
        self._application_id = application_id
        self._clock_s = clock_s
        self._by_token: dict[str, Interaction] = {}
        self.commands: dict[int | None, list[Json]] = {}  # registered commands by guild, None for everywhere

    # --- what people do

    def run_command(self, person_id: str, place_id: str, name: str, **options: Option) -> Interaction:
        """A person runs `/name`. The command need not be registered."""
        registered = [command for group in self.commands.values() for command in group if command["name"] == name]
        command_id = registered[0]["id"] if registered else str(self._world.new_id())
        data: Json = {"id": command_id, "name": name, "type": 1, "options": _options(options)}
        return self._ask(InteractionKind.COMMAND, person_id, place_id, data)

    def press(self, person_id: str, message_id: str, place_id: str, custom_id: str) -> Interaction:
        """A person presses a button of a message."""
        source = self._world.channels[int(place_id)].messages[int(message_id)]
        data: Json = {"custom_id": custom_id, "component_type": _BUTTON}
        return self._ask(InteractionKind.COMPONENT, person_id, place_id, data, source)

    def _ask(
        self, kind: InteractionKind, person_id: str, place_id: str, data: Json, source: Message | None = None
    ) -> Interaction:
        channel, user = self._world.channels[int(place_id)], self._world.users[int(person_id)]
        token = secrets.token_urlsafe(48)
        asked = Interaction(self._world.new_id(), token, kind, channel, user, self._clock_s(), data, source)
        self._by_token[token] = asked
        self._herald.interacted(self._shape(asked), channel)
        return asked

    def _shape(self, asked: Interaction) -> Json:
        world, channel = self._world, asked.channel
        shape: Json = {
            "id": str(asked.id),
            "application_id": str(self._application_id),
            "type": asked.kind.value,
            "data": asked.data,
            "token": asked.token,
            "version": 1,
            "channel_id": str(channel.id),
            "channel": shapes.channel(world, channel),
            "app_permissions": shapes.EVERYTHING,
            "locale": "en-US",
            "entitlements": [],
            "attachment_size_limit": FILE_BYTES_MAX,
        }
        if asked.source is not None:
            shape["message"] = shapes.message(world, asked.source, reads_everything=True)
        if channel.guild_id is None:
            owners = {"1": str(asked.user.id)}
            return shape | {"user": shapes.user(asked.user), "context": 1, "authorizing_integration_owners": owners}
        guild = world.guilds[channel.guild_id]
        member = shapes.member(world, guild, asked.user)
        return shape | {
            "guild_id": str(guild.id),
            "guild": {"id": str(guild.id), "locale": "en-US", "features": []},
            "guild_locale": "en-US",
            "member": member | {"user": shapes.user(asked.user), "permissions": shapes.EVERYTHING},
            "context": 0,
            "authorizing_integration_owners": {"0": str(guild.id)},
        }

    # --- what the app finds again

    def to_answer(self, interaction_id: int, token: str) -> Interaction:
        """For the first callback. Raises `Refused`: 10062 when it comes too late, 40060 when it comes again."""
        asked = self._by_token.get(token)
        if asked is None or asked.id != interaction_id:
            raise unknown("interaction")
        if asked.is_answered:
            raise Refused(400, 40060, "Interaction has already been acknowledged.")
        if self._clock_s() - asked.asked_s > FIRST_ANSWER_S:
            raise unknown("interaction")
        return asked

    def to_follow(self, application_id: int, token: str) -> Interaction:
        """For what comes after. Raises `Refused`: 10015 for no answer yet, 50027 for a dead token."""
        asked = self._by_token.get(token)
        if application_id != self._application_id or asked is None or not asked.is_answered:
            raise unknown("Webhook")
        if self._clock_s() - asked.asked_s > TOKEN_LIFE_S:
            raise Refused(401, 50027, "Invalid Webhook Token")
        return asked

    def metadata(self, asked: Interaction) -> Json:
        """`interaction_metadata` of the messages that answer it."""
        owners = {"0": str(asked.channel.guild_id)} if asked.channel.guild_id else {"1": str(asked.user.id)}
        shape: Json = {
            "id": str(asked.id),
            "type": asked.kind.value,
            "user": shapes.user(asked.user),
            "authorizing_integration_owners": owners,
        }
        return shape if asked.source is None else shape | {"interacted_message_id": str(asked.source.id)}


def _options(options: Mapping[str, Option]) -> list[Json]:
    return [{"name": name, "type": _OPTION_TYPES[type(value)], "value": value} for name, value in options.items()]
