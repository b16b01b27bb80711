"""The commands that the bot's menu offers, by scope and language."""

from __future__ import annotations

import re
from typing import Final

from channels.emulators.telegram.backstage import Backstage
from channels.emulators.telegram.call import Call
from channels.emulators.telegram.errors import bad_request
from channels.emulators.telegram.menus import BotCommand, Scope, ScopeKind
from channels.emulators.telegram.methods.method import Method
from channels.emulators.telegram.people import ChatType, Json

COMMANDS_MAX: Final = 100
NAME_MAX: Final = 32
DESCRIPTION_MAX: Final = 256
_NAME: Final = re.compile(r"[a-z0-9_]+")
_LANGUAGE: Final = re.compile(r"([a-z]{2})?")
_IN_A_CHAT: Final = frozenset({ScopeKind.CHAT, ScopeKind.CHAT_ADMINISTRATORS, ScopeKind.CHAT_MEMBER})


async def set_my_commands(backstage: Backstage, call: Call) -> bool:
    rows = call.rows("commands") or []
    scope, language = _scope(backstage, call), _language(call)
    if len(rows) > COMMANDS_MAX:
        raise bad_request(f"can't set more than {COMMANDS_MAX} commands")
    backstage.commands.set(scope, language, tuple(_command(row) for row in rows))
    return True


async def get_my_commands(backstage: Backstage, call: Call) -> list[Json]:
    """Those of exactly this scope and language; nothing is looked up in a wider one."""
    known = backstage.commands.get(_scope(backstage, call), _language(call))
    return [{"command": command.name, "description": command.description} for command in known]


async def delete_my_commands(backstage: Backstage, call: Call) -> bool:
    backstage.commands.set(_scope(backstage, call), _language(call), ())
    return True


def _command(row: object) -> BotCommand:
    if not isinstance(row, dict):
        raise bad_request("can't parse BotCommand: expected an Object")
    name, description = row.get("command"), row.get("description")
    if not isinstance(name, str) or not isinstance(description, str):
        raise bad_request('can\'t parse BotCommand: can\'t find field "command" or "description"')
    name, description = name.strip().removeprefix("/"), description.strip()
    for what, value, longest in (("command", name, NAME_MAX), ("command description", description, DESCRIPTION_MAX)):
        if not value:
            raise bad_request(f"{what} must be non-empty")
        if len(value) > longest:
            raise bad_request(f"{what} length must not exceed {longest}")
    if not _NAME.fullmatch(name):
        raise bad_request("BOT_COMMAND_INVALID")
    return BotCommand(name, description)


def _language(call: Call) -> str:
    language = call.text("language_code")
    if not _LANGUAGE.fullmatch(language):
        raise bad_request("invalid language code specified")
    return language


def _scope(backstage: Backstage, call: Call) -> Scope:
    given = call.table("scope")
    if given is None:
        return Scope(ScopeKind.DEFAULT)
    if given.get("type") not in set(ScopeKind):
        raise bad_request("can't parse BotCommandScope: unsupported type specified")
    kind = ScopeKind(str(given["type"]))
    if kind not in _IN_A_CHAT:
        return Scope(kind)
    chat_id = str(given.get("chat_id") or "")
    if not chat_id:
        raise bad_request("can't parse BotCommandScope: can't find field \"chat_id\"")
    chat = backstage.world.chats.get(int(chat_id)) if chat_id.lstrip("-").isdecimal() else None
    if chat is None:
        raise bad_request("chat not found")
    if kind is ScopeKind.CHAT:
        return Scope(kind, chat.id)
    if chat.type is ChatType.PRIVATE:
        raise bad_request("can't use specified scope in private chats")
    if kind is ScopeKind.CHAT_ADMINISTRATORS:
        return Scope(kind, chat.id)
    user_id = str(given.get("user_id") or "")
    if not user_id.isdecimal() or int(user_id) not in backstage.world.users:
        raise bad_request("user not found")
    return Scope(kind, chat.id, int(user_id))


METHODS: Final = (
    Method("setMyCommands", set_my_commands),
    Method("getMyCommands", get_my_commands),
    Method("deleteMyCommands", delete_my_commands),
)
