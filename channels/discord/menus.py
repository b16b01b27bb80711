"""The application commands of a bot: what is to be registered, and whether what is registered says the same. Pure.

Discord adds fields of its own to a command, leaves out what is empty, and counts what is written anew against 200 a
day; so what is there is read first, and both are compared by what we chose ourselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from channels.menus import offered
from gateway.contracts.commands import CommandSpec, Suggests
from gateway.contracts.entries import GrantRole
from gateway.words import Language, about_in, argument_in

Json: TypeAlias = dict[str, Any]

LOCALES: Final[Mapping[Language, tuple[str, ...]]] = {
    Language.RU: ("ru",),
    Language.ZH: ("zh-CN", "zh-TW"),
    Language.ES: ("es-ES", "es-419"),
    Language.DE: ("de",),
}
"""Which of Discord's locales are shown the words of a language; English stands for all the others."""

CHAT_INPUT: Final = 1
STRING: Final = 3
_IN_A_GUILD, _WITH_THE_BOT = 0, 1  # contexts
_INSTALLED_BY_A_GUILD: Final = 0
_MANAGE_GUILD: Final = str(1 << 5)  # Discord cannot know our admins: the command itself looks who they are


def commands() -> list[Json]:
    """All that is to be registered, in the order of the table. In direct chats everybody is offered the same: what
    admins say there they type."""
    return [_command(spec) for spec in offered(is_admin=True) if not (_is_admins(spec) and spec.only_private)]


def say_the_same(known: Iterable[Mapping[str, Any]], wanted: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the registered commands are the wanted ones, in whatever order."""
    return _essences(known) == _essences(wanted)


def option_name(argument: str) -> str:
    """The name of what may follow, as Discord takes it: lower case, without spaces."""
    return argument.lower().replace(" ", "_")


def _command(spec: CommandSpec) -> Json:
    return {
        "type": CHAT_INPUT,
        "name": spec.name,
        "description": about_in(spec, Language.EN),
        "description_localizations": _localized(lambda language: about_in(spec, language)),
        "options": [_option(spec)] if spec.argument else [],
        "default_member_permissions": _MANAGE_GUILD if _is_admins(spec) else None,
        "contexts": _contexts(spec),
        "integration_types": [_INSTALLED_BY_A_GUILD],
    }


def _is_admins(spec: CommandSpec) -> bool:
    return spec.role is GrantRole.ADMIN


def _contexts(spec: CommandSpec) -> list[int]:
    if spec.only_private:
        return [_WITH_THE_BOT]
    return [_IN_A_GUILD] if _is_admins(spec) else [_IN_A_GUILD, _WITH_THE_BOT]


def _option(spec: CommandSpec) -> Json:
    return {
        "type": STRING,
        "name": option_name(spec.argument),
        "name_localizations": _localized(lambda language: option_name(argument_in(spec, language))),
        "description": argument_in(spec, Language.EN),
        "description_localizations": _localized(lambda language: argument_in(spec, language)),
        "required": spec.needs_argument,
        "autocomplete": spec.suggests is not Suggests.NOTHING,
    }


def _localized(say: Callable[[Language], str]) -> dict[str, str]:
    return {locale: say(language) for language, locales in LOCALES.items() for locale in locales}


def _essences(commands: Iterable[Mapping[str, Any]]) -> Sequence[Json]:
    return sorted((_essence(command) for command in commands), key=lambda essence: str(essence["name"]))


def _essence(command: Mapping[str, Any]) -> Json:
    """What we chose of it. What is absent means what it would mean if it were written out."""
    options = command.get("options") or []
    return {
        "type": command.get("type") or CHAT_INPUT,
        **{name: command.get(name) for name in ("name", "description", "default_member_permissions")},
        **{name: command.get(name) or {} for name in ("name_localizations", "description_localizations")},
        "contexts": sorted(command.get("contexts") or [_IN_A_GUILD, _WITH_THE_BOT]),
        "integration_types": sorted(command.get("integration_types") or [_INSTALLED_BY_A_GUILD]),
        "options": [_option_essence(option) for option in options],
    }


def _option_essence(option: Mapping[str, Any]) -> Json:
    return {
        **{name: option.get(name) for name in ("type", "name", "description")},
        **{name: option.get(name) or {} for name in ("name_localizations", "description_localizations")},
        **{name: bool(option.get(name)) for name in ("required", "autocomplete")},
    }
