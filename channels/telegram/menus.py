"""The menus of commands at Telegram: which of them a client shows is decided by the chat first, then by the language of
the person. What is set for a narrower scope hides all of the wider ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from telegram import (
    Bot,
    BotCommandScope,
    BotCommandScopeAllGroupChats,
    BotCommandScopeChat,
    BotCommandScopeDefault,
)
from telegram.error import BadRequest

from channels.menus import offered
from gateway.contracts.commands import CommandSpec
from gateway.words import Language, about_in

_Rows = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Menu:
    """What the clients show in `scope` to people of a language; with an empty one, to those of all others."""

    scope: BotCommandScope
    language_code: str
    rows: _Rows


def menus_for(admins: Iterable[int]) -> Iterator[Menu]:
    """Those of one bot. `admins` are users with commands of their own in their direct chats."""
    yield from _in_all_languages(BotCommandScopeDefault(), offered())
    yield from _in_all_languages(BotCommandScopeAllGroupChats(), offered(is_private=False))
    admins_commands = offered(is_admin=True)
    if admins_commands != offered():
        for user_id in admins:
            yield from _in_all_languages(BotCommandScopeChat(user_id), admins_commands)


async def publish(bot: Bot, menus: Iterable[Menu]) -> None:
    """Set those that differ from what is there. A chat that the bot does not know yet has none. Raises the SDK's
    `TelegramError`."""
    for menu in menus:
        try:
            known = await bot.get_my_commands(scope=menu.scope, language_code=menu.language_code or None)
            if tuple((command.command, command.description) for command in known) != menu.rows:
                await bot.set_my_commands(menu.rows, scope=menu.scope, language_code=menu.language_code or None)
        except BadRequest:
            if menu.scope.type != BotCommandScope.CHAT:
                raise


def _in_all_languages(scope: BotCommandScope, specs: Sequence[CommandSpec]) -> Iterator[Menu]:
    for language in Language:
        code = "" if language is Language.EN else language.value
        yield Menu(scope, code, tuple((spec.name, about_in(spec, language)) for spec in specs))
