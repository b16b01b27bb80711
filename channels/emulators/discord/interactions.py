"""Slash commands, what is suggested while they are typed, and buttons: a person asks, the app answers within three
seconds and may go on for fifteen minutes.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from channels.emulators.discord import shapes
from channels.emulators.discord.api import FILE_BYTES_MAX
from channels.emulators.discord.commands import is_offered
from channels.emulators.discord.errors import Refused, unknown
from channels.emulators.discord.herald import Herald
from channels.emulators.discord.switches import Switches
from channels.emulators.discord.world import Channel, Message, User, World
from channels.emulators.traffic import Json

NOT_ANSWERED: Final = "The application did not respond"
EVERY_PERMISSION: Final = int(shapes.EVERYTHING)
_BUTTON: Final = 2
_OPTION_TYPES: Final = {bool: 5, int: 4, float: 10, str: 3}

Option = str | int | float | bool


class InteractionKind(IntEnum):
    COMMAND = 2
    COMPONENT = 3
    AUTOCOMPLETE = 4


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
    _answering: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_answered(self) -> bool:
        return self.answer_kind is not None

    def answered(self, kind: int, data: Json, original: Message | None) -> None:
        """The first callback has come."""
        self.answer_kind, self.answer_data, self.original = kind, data, original
        self._answering.set()

    async def until_answered(self) -> None:
        await self._answering.wait()


class Interactions:
    """Begins interactions and finds them again by their token. `clock_s` gives seconds."""

    def __init__(
        self,
        *,
        world: World,
        herald: Herald,
        switches: Switches,
        application_id: int,
        clock_s: Callable[[], float],
    ) -> None:
        self._world = world
        self._herald = herald
        self._switches = switches
        self._application_id = application_id
        self._clock_s = clock_s
        self._by_token: dict[str, Interaction] = {}
        self._suggested: dict[tuple[int, str], list[Json]] = {}  # by person and command
        self.commands: dict[int | None, list[Json]] = {}  # registered commands by guild, None for everywhere
        self.permissions: dict[int, int] = {}  # of people in the guild, where they are not all

    # --- what people do

    def run_command(self, person_id: str, place_id: str, name: str, **options: Option) -> Interaction:
        """A person runs `/name`. The command need not be registered."""
        data = self._command_data(name, [_option(*option) for option in options.items()])
        return self._ask(InteractionKind.COMMAND, person_id, place_id, data)

    def offered(self, person_id: str, place_id: str) -> list[Json]:
        """The commands that the person's client shows there; a guild's own hide those of the same name."""
        channel = self._world.channels[int(place_id)]
        known = {command["name"]: command for command in self.commands.get(None, [])}
        if channel.guild_id is not None:
            known |= {command["name"]: command for command in self.commands.get(channel.guild_id, [])}
        power, in_guild = self._power_of(int(person_id)), channel.guild_id is not None
        return [command for command in known.values() if is_offered(command, in_guild=in_guild, permissions=power)]

    def invoke(self, person_id: str, place_id: str, name: str, argument: str) -> Interaction:
        """Choose an offered command, with its first option if there is an argument. Raises `ValueError`."""
        first = _first_option(self._offered_one(person_id, place_id, name))
        if argument and not first:
            raise ValueError("the command takes nothing")
        if first.get("required") and not argument:
            raise ValueError(f"the client asks for {first['name']} first")
        options = [_typed(first, self._chosen(person_id, name, argument))] if argument else []
        return self._ask(InteractionKind.COMMAND, person_id, place_id, self._command_data(name, options))

    async def suggest(self, person_id: str, place_id: str, name: str, typed: str) -> list[Json]:
        """Type the first option: what the app suggests, nothing if it says nothing in time. Raises `ValueError`."""
        first = _first_option(self._offered_one(person_id, place_id, name))
        if not first.get("autocomplete"):
            raise ValueError("the command suggests nothing")
        data = self._command_data(name, [_typed(first, typed) | {"focused": True}])
        asked = self._ask(InteractionKind.AUTOCOMPLETE, person_id, place_id, data)
        try:
            async with asyncio.timeout(self._switches.first_answer_s):
                await asked.until_answered()
        except TimeoutError:
            return []
        choices: list[Json] = (asked.answer_data or {}).get("choices") or []
        self._suggested[int(person_id), name] = choices
        return choices

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
        if kind is InteractionKind.COMMAND:
            asyncio.get_running_loop().call_later(self._switches.first_answer_s, self._miss, asked)
        return asked

    def _miss(self, asked: Interaction) -> None:
        if not asked.is_answered:
            self._herald.failed(asked.channel, asked.user, NOT_ANSWERED)

    def _command_data(self, name: str, options: list[Json]) -> Json:
        registered = [command for group in self.commands.values() for command in group if command["name"] == name]
        command_id = registered[0]["id"] if registered else str(self._world.new_id())
        data: Json = {"id": command_id, "name": name, "type": 1}
        return data | {"options": options} if options else data

    def _offered_one(self, person_id: str, place_id: str, name: str) -> Json:
        found = next((c for c in self.offered(person_id, place_id) if c["name"] == name), None)
        if found is None:
            raise ValueError("the menu offers no such command")
        return found

    def _chosen(self, person_id: str, name: str, argument: str) -> Option:
        """Who picks what was suggested says its value."""
        suggested = self._suggested.get((int(person_id), name), [])
        return next((choice["value"] for choice in suggested if choice["name"] == argument), argument)

    def _power_of(self, person_id: int) -> int:
        return self.permissions.get(person_id, EVERY_PERMISSION)

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
            "locale": asked.user.locale,
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
            "member": member | {"user": shapes.user(asked.user), "permissions": str(self._power_of(asked.user.id))},
            "context": 0,
            "authorizing_integration_owners": {"0": str(guild.id)},
        }

    def known(self) -> list[Interaction]:
        """Every one there was."""
        return list(self._by_token.values())

    # --- what the app finds again

    def to_answer(self, interaction_id: int, token: str) -> Interaction:
        """For the first callback. Raises `Refused`: 10062 when it comes too late, 40060 when it comes again."""
        asked = self._by_token.get(token)
        if asked is None or asked.id != interaction_id:
            raise unknown("interaction")
        if asked.is_answered:
            raise Refused(400, 40060, "Interaction has already been acknowledged.")
        if self._clock_s() - asked.asked_s > self._switches.first_answer_s:
            raise unknown("interaction")
        return asked

    def to_follow(self, application_id: int, token: str) -> Interaction:
        """For what comes after. Raises `Refused`: 10015 for no answer yet, 50027 for a dead token."""
        asked = self._by_token.get(token)
        if application_id != self._application_id or asked is None or not asked.is_answered:
            raise unknown("Webhook")
        if self._switches.refuses_links is not None:
            raise self._switches.refuses_links
        if self._clock_s() - asked.asked_s > self._switches.token_life_s:
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


def _first_option(command: Json) -> Json:
    options: list[Json] = command.get("options") or [{}]
    return options[0]


def _typed(option: Json, value: Option) -> Json:
    return {"name": option["name"], "type": option["type"], "value": value}


def _option(name: str, value: Option) -> Json:
    return {"name": name, "type": _OPTION_TYPES[type(value)], "value": value}
