"""Application commands: what Discord takes as one, what it makes of it, and whom its clients offer it to. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from channels.emulators.discord.errors import Refused, invalid_form
from channels.emulators.stage import MenuEntry
from channels.emulators.traffic import Json

COMMANDS_MAX: Final = 100
OPTIONS_MAX: Final = 25
CHOICES_MAX: Final = 25
TEXT_MAX: Final = 100  # of descriptions, choices and their values
COMMAND_CHARS_MAX: Final = 8000
CHAT_INPUT: Final = 1
IN_A_GUILD: Final = 0
WITH_THE_BOT: Final = 1
ADMINISTRATOR: Final = 1 << 3
_STRING, _OPTION_TYPES = 3, range(1, 12)
_SUGGESTED_TYPES: Final = (_STRING, 4, 10)  # text and numbers
_NAME: Final = re.compile(r"[-_'\w]{1,32}")
_LOCALES: Final = frozenset(
    {"bg", "cs", "da", "de", "el", "en-GB", "en-US", "es-419", "es-ES", "fi", "fr", "hi", "hr", "hu", "id", "it"}
    | {"ja", "ko", "lt", "nl", "no", "pl", "pt-BR", "ro", "ru", "sv-SE", "th", "tr", "uk", "vi", "zh-CN", "zh-TW"}
)


def registered(body: Json, at: str = "") -> Json:
    """A command with its defaults written out, without what only Discord knows. `at` is where errors are hung. Raises
    `Refused` 50035."""
    kind = body.get("type") or CHAT_INPUT
    name = body.get("name")
    if kind == CHAT_INPUT:
        _check_name(name, f"{at}name")
        _check_text(body.get("description"), f"{at}description")
    elif not isinstance(name, str) or not 1 <= len(name) <= 32:
        raise invalid_form(f"{at}name", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 32 in length.")
    options = [_option(option, f"{at}options.{number}.") for number, option in enumerate(_options(body, at))]
    _check_options(options, at)
    shape: Json = {
        "type": kind,
        "name": name,
        "name_localizations": _localizations(body, "name_localizations", at, _check_name),
        "description": body.get("description") or "",
        "description_localizations": _localizations(body, "description_localizations", at, _check_text),
        "default_member_permissions": _permissions(body.get("default_member_permissions"), at),
        "dm_permission": body.get("dm_permission", True),
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
    """A list that takes the place of all commands. Raises `Refused`."""
    checked = [registered(body, f"{number}.") for number, body in enumerate(listed)]
    if len(checked) > COMMANDS_MAX:
        raise Refused(400, 30032, f"Maximum number of application commands reached ({COMMANDS_MAX})")
    seen: set[tuple[object, object]] = set()
    for number, command in enumerate(checked):
        if (command["type"], command["name"]) in seen:
            message = "Application command names must be unique"
            raise invalid_form(f"{number}.name", "APPLICATION_COMMANDS_DUPLICATE_NAME", message)
        seen.add((command["type"], command["name"]))
    return checked


def check_choices(data: Mapping[str, Any]) -> list[Json]:
    """What is suggested while somebody types. Raises `Refused`."""
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
    """As it is listed for one who does not ask for them."""
    kept = {key: value for key, value in command.items() if not key.endswith("_localizations")}
    if "options" in kept:
        kept["options"] = [without_localizations(option) for option in kept["options"]]
    return kept


def is_offered(command: Json, *, in_guild: bool, permissions: int) -> bool:
    """Whether the client of one with these permissions shows it there."""
    contexts = command["contexts"]
    if contexts is None:
        contexts = [IN_A_GUILD, WITH_THE_BOT] if command["dm_permission"] else [IN_A_GUILD]
    if command["type"] != CHAT_INPUT or (IN_A_GUILD if in_guild else WITH_THE_BOT) not in contexts:
        return False
    needed = command["default_member_permissions"]
    if not in_guild or needed is None or permissions & ADMINISTRATOR:
        return True
    return int(needed) != 0 and permissions & int(needed) == int(needed)


def as_entry(command: Json, locale: str) -> MenuEntry:
    """The command in the words of the client."""
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


def _options(body: Json, at: str) -> list[Json]:
    options = body.get("options") or []
    if not isinstance(options, list) or len(options) > OPTIONS_MAX:
        raise invalid_form(f"{at}options", "BASE_TYPE_MAX_LENGTH", f"Must be {OPTIONS_MAX} or fewer in length.")
    return options


def _option(option: Json, at: str) -> Json:
    if option.get("type") not in _OPTION_TYPES:
        raise invalid_form(
            f"{at}type", "BASE_TYPE_CHOICES", "Value must be one of (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)."
        )
    _check_name(option.get("name"), f"{at}name")
    _check_text(option.get("description"), f"{at}description")
    shape: Json = {
        "type": option["type"],
        "name": option["name"],
        "name_localizations": _localizations(option, "name_localizations", at, _check_name),
        "description": option["description"],
        "description_localizations": _localizations(option, "description_localizations", at, _check_text),
    }
    if option.get("autocomplete") and (option.get("choices") or option["type"] not in _SUGGESTED_TYPES):
        code = "APPLICATION_COMMAND_OPTIONS_AUTOCOMPLETE_INVALID"
        raise invalid_form(f"{at}autocomplete", code, "Autocomplete is not possible for this option.")
    kept = ("required", "autocomplete", "choices", "min_value", "max_value", "min_length", "max_length")
    return shape | {name: option[name] for name in kept if option.get(name)}


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
    """Names, descriptions and values, of a localization the longest."""
    return sum(_texts(shape)) + sum(_chars(option) for option in shape.get("options") or [])


def _texts(shape: Json) -> Iterator[int]:
    for field in ("name", "description"):
        said = [str(shape[field]), *(shape.get(f"{field}_localizations") or {}).values()]
        yield max(map(len, said))
    for choice in shape.get("choices") or []:
        yield len(str(choice["name"])) + len(str(choice["value"]))
