"""Slash commands, what is suggested while they are typed, and buttons.

A person asks, the app answers within three seconds and may go on for fifteen minutes."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.types import ASGIApp

from channels.emulators.discord import shapes
from channels.emulators.discord.api import FILE_BYTES_MAX
from channels.emulators.discord.gateway import DiscordEvents
from channels.emulators.discord.world import (
    Channel,
    DiscordRefusal,
    DiscordState,
    DiscordSwitches,
    DiscordUser,
    MessageObject,
    invalid_form,
    unknown,
)
from channels.emulators.stage import RECORDED_MAX, Json, MenuEntry

# --- commands: what Discord takes as one, what it makes of it, and whom its clients offer it to


COMMANDS_MAX: Final = 100
CHOICES_MAX: Final = 25
TEXT_MAX: Final = 100  # of descriptions, choices and their values
COMMAND_CHARS_MAX: Final = 8000
CHAT_INPUT: Final = 1
IN_A_GUILD: Final = 0
WITH_THE_BOT: Final = 1
ADMINISTRATOR: Final = 1 << 3
_STRING: Final = 3
_NAME: Final = re.compile(r"[-_'\w]{1,32}")
_LOCALES: Final = frozenset(
    {"bg", "cs", "da", "de", "el", "en-GB", "en-US", "es-419", "es-ES", "fi", "fr", "hi", "hr", "hu", "id", "it"}
    | {"ja", "ko", "lt", "nl", "no", "pl", "pt-BR", "ro", "ru", "sv-SE", "th", "tr", "uk", "vi", "zh-CN", "zh-TW"}
)


def registered(body: Json, at: str = "") -> Json:
    """Return a command with its defaults written out, without what only Discord knows.

    `at` is where errors are hung. Raises `DiscordRefusal` 50035."""
    if body.get("type", CHAT_INPUT) != CHAT_INPUT:
        raise invalid_form(f"{at}type", "BASE_TYPE_CHOICES", "This emulator takes chat input only.")
    _check_name(body.get("name"), f"{at}name")
    _check_text(body.get("description"), f"{at}description")
    options = [_option(option, f"{at}options.{number}.") for number, option in enumerate(body.get("options") or [])]
    _check_options(options, at)
    shape: Json = {
        "type": CHAT_INPUT,
        "name": body["name"],
        "name_localizations": _localizations(body, "name_localizations", at, _check_name),
        "description": body["description"],
        "description_localizations": _localizations(body, "description_localizations", at, _check_text),
        "default_member_permissions": _permissions(body.get("default_member_permissions"), at),
        "contexts": _numbers(body.get("contexts"), (0, 1, 2), f"{at}contexts"),
        "integration_types": _numbers(body.get("integration_types"), (0, 1), f"{at}integration_types") or [0],
        "nsfw": bool(body.get("nsfw")),
    }
    if options:
        shape["options"] = options
    if _chars(shape) > COMMAND_CHARS_MAX:
        raise invalid_form(f"{at}options", "APPLICATION_COMMAND_TOO_LARGE", "Command exceeds maximum size (8000)")
    return shape


def check_all(listed: Iterable[Json]) -> list[Json]:
    """Check a list that takes the place of all commands. Raises `DiscordRefusal`."""
    checked = [registered(body, f"{number}.") for number, body in enumerate(listed)]
    if len(checked) > COMMANDS_MAX:
        raise DiscordRefusal(400, 30032, f"Maximum number of application commands reached ({COMMANDS_MAX})")
    seen: set[tuple[object, object]] = set()
    for number, command in enumerate(checked):
        if (command["type"], command["name"]) in seen:
            message = "Application command names must be unique"
            raise invalid_form(f"{number}.name", "APPLICATION_COMMANDS_DUPLICATE_NAME", message)
        seen.add((command["type"], command["name"]))
    return checked


def check_choices(data: Mapping[str, Any]) -> list[Json]:
    """Check what is suggested while somebody types. Raises `DiscordRefusal`."""
    choices = data.get("choices")
    if not isinstance(choices, list):
        raise invalid_form("data.choices", "BASE_TYPE_REQUIRED", "This field is required")
    if len(choices) > CHOICES_MAX:
        raise invalid_form("data.choices", "BASE_TYPE_MAX_LENGTH", f"Must be {CHOICES_MAX} or fewer in length.")
    for number, choice in enumerate(choices):
        _check_text(choice.get("name"), f"data.choices.{number}.name")
        if isinstance(choice.get("value"), str) and len(choice["value"]) > TEXT_MAX:
            where = f"data.choices.{number}.value"
            raise invalid_form(where, "BASE_TYPE_MAX_LENGTH", f"Must be {TEXT_MAX} or fewer in length.")
    return choices


def without_localizations(command: Json) -> Json:
    """Return the command as a request sees it that does not ask for localizations."""
    kept = {key: value for key, value in command.items() if not key.endswith("_localizations")}
    if "options" in kept:
        kept["options"] = [without_localizations(option) for option in kept["options"]]
    return kept


def is_offered(command: Json, *, in_guild: bool, permissions: int) -> bool:
    """Tell whether the client of a person with these permissions shows the command there."""
    contexts = [IN_A_GUILD, WITH_THE_BOT] if command["contexts"] is None else command["contexts"]
    if (IN_A_GUILD if in_guild else WITH_THE_BOT) not in contexts:
        return False
    needed = command["default_member_permissions"]
    if not in_guild or needed is None or permissions & ADMINISTRATOR:
        return True
    return int(needed) != 0 and permissions & int(needed) == int(needed)


def as_entry(command: Json, locale: str) -> MenuEntry:
    """Return the command in the words of the client."""
    options = command.get("options") or []
    first = options[0] if options else {}
    return MenuEntry(
        command["name"],
        _said(command, "description", locale),
        _said(first, "name", locale) if first else "",
        bool(first.get("autocomplete")),
    )


def _said(shape: Json, field: str, locale: str) -> str:
    return str((shape.get(f"{field}_localizations") or {}).get(locale, shape[field]))


def _option(option: Json, at: str) -> Json:
    if option.get("type") != _STRING:
        raise invalid_form(f"{at}type", "BASE_TYPE_CHOICES", "This emulator takes texts only.")
    _check_name(option.get("name"), f"{at}name")
    _check_text(option.get("description"), f"{at}description")
    shape: Json = {
        "type": option["type"],
        "name": option["name"],
        "name_localizations": _localizations(option, "name_localizations", at, _check_name),
        "description": option["description"],
        "description_localizations": _localizations(option, "description_localizations", at, _check_text),
    }
    return shape | {name: True for name in ("required", "autocomplete") if option.get(name)}


def _check_options(options: list[Json], at: str) -> None:
    names = [option["name"] for option in options]
    for number, option in enumerate(options):
        if option["name"] in names[:number]:
            code = "APPLICATION_COMMAND_OPTIONS_NAME_ALREADY_EXISTS"
            raise invalid_form(f"{at}options.{number}.name", code, "Option name already exists")
        if option.get("required") and any(not before.get("required") for before in options[:number]):
            code = "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID"
            raise invalid_form(f"{at}options.{number}", code, "Required options must be placed before non-required")


def _check_name(name: object, at: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name != name.lower():
        raise invalid_form(at, "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")


def _check_text(text: object, at: str) -> None:
    if not isinstance(text, str) or not 1 <= len(text) <= TEXT_MAX:
        raise invalid_form(at, "BASE_TYPE_BAD_LENGTH", f"Must be between 1 and {TEXT_MAX} in length.")


def _localizations(body: Json, field: str, at: str, check: Callable[[object, str], None]) -> Json | None:
    given = body.get(field)
    if not given:
        return None
    for locale, text in given.items():
        if locale not in _LOCALES:
            raise invalid_form(
                f"{at}{field}.{locale}", "ENUM_TYPE_COERCE", f'Value "{locale}" is not a valid enum value.'
            )
        check(text, f"{at}{field}.{locale}")
    return dict(given)


def _permissions(given: object, at: str) -> str | None:
    if given is None:
        return None
    if not str(given).isdecimal():
        where = f"{at}default_member_permissions"
        raise invalid_form(where, "NUMBER_TYPE_COERCE", f'Value "{given}" is not int.')
    return str(given)


def _numbers(given: object, allowed: tuple[int, ...], at: str) -> list[int] | None:
    if given is None:
        return None
    if not isinstance(given, list) or any(number not in allowed for number in given):
        raise invalid_form(at, "BASE_TYPE_CHOICES", f"Value must be one of {allowed}.")
    return list(given)


def _chars(shape: Json) -> int:
    """Count names and descriptions; of a localization the longest."""
    return sum(_texts(shape)) + sum(_chars(option) for option in shape.get("options") or [])


def _texts(shape: Json) -> Iterator[int]:
    for name in ("name", "description"):
        said = [str(shape[name]), *(shape.get(f"{name}_localizations") or {}).values()]
        yield max(map(len, said))


# --- interactions


NOT_ANSWERED: Final = "The application did not respond"
EVERY_PERMISSION: Final = int(shapes.EVERYTHING)
_BUTTON: Final = 2


class InteractionKind(IntEnum):
    COMMAND = 2
    COMPONENT = 3
    AUTOCOMPLETE = 4


@dataclass(slots=True)
class Interaction:
    """An action of a person, and how far the app got in answering. `answer_kind` is the type of the first callback."""

    id: int
    token: str
    kind: InteractionKind
    channel: Channel
    user: DiscordUser
    asked_s: float
    data: Json
    source: MessageObject | None = None
    answer_kind: int | None = None
    answer_data: Json | None = None
    original: MessageObject | None = None
    has_answer: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_answered(self) -> bool:
        return self.answer_kind is not None

    def answered(self, kind: int, data: Json, original: MessageObject | None) -> None:
        """Keep the first callback."""
        self.answer_kind, self.answer_data, self.original = kind, data, original
        self.has_answer.set()


@dataclass(slots=True)
class DiscordInteractions:
    """Begins interactions and finds them again by their token. `clock_s` gives seconds."""

    world: DiscordState
    events: DiscordEvents
    switches: DiscordSwitches
    application_id: int
    clock_s: Callable[[], float]
    _by_token: dict[str, Interaction] = field(default_factory=dict)
    _suggested: dict[tuple[int, str], list[Json]] = field(default_factory=dict)  # by person and command
    commands: list[Json] = field(default_factory=list)  # as registered
    permissions: dict[int, int] = field(default_factory=dict)  # of people in the guild, where they are not all

    # --- what people do

    def run_command(self, person_id: str, place_id: str, name: str, **options: str) -> Interaction:
        """Run `/name` as a person. The command need not be registered."""
        given = [{"name": option, "type": _STRING, "value": value} for option, value in options.items()]
        data = self._command_data(name, given)
        return self._ask(InteractionKind.COMMAND, person_id, place_id, data)

    def offered(self, person_id: str, place_id: str) -> list[Json]:
        """List the commands that the person's client shows there."""
        power = self._power_of(int(person_id))
        in_guild = self.world.channels[int(place_id)].guild_id is not None
        return [command for command in self.commands if is_offered(command, in_guild=in_guild, permissions=power)]

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
            async with asyncio.timeout(self.switches.first_answer_s):
                await asked.has_answer.wait()
        except TimeoutError:
            return []
        choices: list[Json] = (asked.answer_data or {}).get("choices") or []
        self._suggested[int(person_id), name] = choices
        return choices

    def press(self, person_id: str, message_id: str, place_id: str, custom_id: str) -> Interaction:
        """Press a button of a message as a person."""
        source = self.world.channels[int(place_id)].messages[int(message_id)]
        data: Json = {"custom_id": custom_id, "component_type": _BUTTON}
        return self._ask(InteractionKind.COMPONENT, person_id, place_id, data, source)

    def _ask(
        self, kind: InteractionKind, person_id: str, place_id: str, data: Json, source: MessageObject | None = None
    ) -> Interaction:
        channel, user = self.world.channels[int(place_id)], self.world.users[int(person_id)]
        token = secrets.token_urlsafe(48)
        asked = Interaction(self.world.new_id(), token, kind, channel, user, self.clock_s(), data, source)
        self._by_token[token] = asked
        self.events.interacted(self._shape(asked), channel)
        if kind is InteractionKind.COMMAND:
            asyncio.get_running_loop().call_later(self.switches.first_answer_s, self._miss, asked)
        return asked

    def _miss(self, asked: Interaction) -> None:
        if not asked.is_answered:
            self.events.failed(asked.channel, asked.user, NOT_ANSWERED)

    def _command_data(self, name: str, options: list[Json]) -> Json:
        registered = [command for command in self.commands if command["name"] == name]
        command_id = registered[0]["id"] if registered else str(self.world.new_id())
        data: Json = {"id": command_id, "name": name, "type": 1}
        return data | {"options": options} if options else data

    def _offered_one(self, person_id: str, place_id: str, name: str) -> Json:
        found = next((c for c in self.offered(person_id, place_id) if c["name"] == name), None)
        if found is None:
            raise ValueError("the menu offers no such command")
        return found

    def _chosen(self, person_id: str, name: str, argument: str) -> str:
        """Return the value of the suggestion that was picked, else the argument itself."""
        suggested = self._suggested.get((int(person_id), name), [])
        return next((str(choice["value"]) for choice in suggested if choice["name"] == argument), argument)

    def _power_of(self, person_id: int) -> int:
        return self.permissions.get(person_id, EVERY_PERMISSION)

    def _shape(self, asked: Interaction) -> Json:
        world, channel = self.world, asked.channel
        shape: Json = {
            "id": str(asked.id),
            "application_id": str(self.application_id),
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
        """Return every interaction there was."""
        return list(self._by_token.values())

    # --- what the app finds again

    def to_answer(self, interaction_id: int, token: str) -> Interaction:
        """Find what a first callback answers. Raises `DiscordRefusal`: 10062 when it comes too late, 40060 again."""
        asked = self._by_token.get(token)
        if asked is None or asked.id != interaction_id:
            raise unknown("interaction")
        if asked.is_answered:
            raise DiscordRefusal(400, 40060, "Interaction has already been acknowledged.")
        if self.clock_s() - asked.asked_s > self.switches.first_answer_s:
            raise unknown("interaction")
        return asked

    def to_follow(self, application_id: int, token: str) -> Interaction:
        """Find what comes after. Raises `DiscordRefusal`: 10015 for no answer yet, 50027 for a dead token."""
        asked = self._by_token.get(token)
        if application_id != self.application_id or asked is None or not asked.is_answered:
            raise unknown("Webhook")
        if self.switches.refuses_links is not None:
            raise self.switches.refuses_links
        if self.clock_s() - asked.asked_s > self.switches.token_life_s:
            raise DiscordRefusal(401, 50027, "Invalid Webhook Token")
        return asked

    def metadata(self, asked: Interaction) -> Json:
        """Return the `interaction_metadata` of the messages that answer it."""
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


def _typed(option: Json, value: str) -> Json:
    return {"name": option["name"], "type": option["type"], "value": value}


# --- signed requests to the application's own endpoint, whose answer is the first callback


ANSWER_WITHIN_S: Final = 3.0
_USER_AGENT: Final = "Discord-Interactions/1.0 (+https://discord.com)"
_OK: Final = 200
_ACCEPTED: Final = 202


class HttpInteractions:
    """Posts to `url`; `api` is Discord's own, which takes what the endpoint answers as if it had been posted there."""

    def __init__(
        self, *, url: str, key: Ed25519PrivateKey, application_id: int, api: ASGIApp, clock_s: Callable[[], float]
    ) -> None:
        self.url = url
        self._key = key
        self._application_id = application_id
        self._clock_s = clock_s
        self._out = httpx.AsyncClient(trust_env=False, timeout=ANSWER_WITHIN_S)
        self._in = httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://discord.invalid/api/v10")
        self._under_way: set[asyncio.Task[None]] = set()
        self.failures: deque[str] = deque(maxlen=RECORDED_MAX)  # why people saw "This interaction failed"

    async def verify(self) -> bool:
        """Check the URL as the portal does: a PING is answered, one with a wrong signature refused."""
        ping = {"id": "1", "application_id": str(self._application_id), "type": 1, "token": "ping", "version": 1}
        try:
            good, bad = await self._post(ping), await self._post(ping, is_genuine=False)
            return good.status_code == _OK and good.json().get("type") == 1 and bad.status_code == 401
        except (httpx.HTTPError, ValueError):
            return False

    def send(self, interaction: Json) -> None:
        """Send the interaction once; nothing is tried again."""
        task = asyncio.create_task(self._send(interaction))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _send(self, interaction: Json) -> None:
        try:
            answer = await self._post(interaction)
            if answer.status_code not in (_OK, _ACCEPTED):
                self.failures.append(f"answered {answer.status_code}")
            elif answer.content:
                path = f"/interactions/{interaction['id']}/{interaction['token']}/callback"
                taken = await self._in.post(path, json=answer.json())
                if not taken.is_success:
                    self.failures.append(f"the answer is refused: {taken.text}")
        except (httpx.HTTPError, ValueError) as error:
            self.failures.append(type(error).__name__)

    async def _post(self, payload: Json, *, is_genuine: bool = True) -> httpx.Response:
        body, timestamp = json.dumps(payload).encode(), str(int(self._clock_s()))
        key = self._key if is_genuine else Ed25519PrivateKey.generate()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": _USER_AGENT,
            "X-Signature-Timestamp": timestamp,
            "X-Signature-Ed25519": key.sign(timestamp.encode() + body).hex(),
        }
        return await self._out.post(self.url, content=body, headers=headers)

    async def aclose(self) -> None:
        """Give up on what is still under way."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await self._out.aclose()
        await self._in.aclose()
