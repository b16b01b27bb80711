"""The bot about itself."""

from __future__ import annotations

from typing import Final

from channels.emulators.telegram.backstage import Backstage
from channels.emulators.telegram.call import Call
from channels.emulators.telegram.errors import bad_request
from channels.emulators.telegram.methods.method import Method
from channels.emulators.telegram.people import Json

COMMANDS_MAX: Final = 100


async def get_me(backstage: Backstage, call: Call) -> Json:
    return backstage.world.bot.as_json() | {
        "can_join_groups": True,
        "can_read_all_group_messages": not backstage.switch("privacy"),
        "supports_inline_queries": False,
        "can_connect_to_business": False,
        "has_main_web_app": False,
        "has_topics_enabled": False,
    }


async def set_my_commands(backstage: Backstage, call: Call) -> bool:
    rows = call.rows("commands") or []
    if len(rows) > COMMANDS_MAX:
        raise bad_request("too many commands specified")
    for row in rows:
        if not isinstance(row, dict) or not row.get("command"):
            raise bad_request("can't parse BotCommand: object expected as BotCommand")
        name = str(row["command"]).removeprefix("/")
        if not 1 <= len(name) <= 32 or not all(each.islower() or each.isdigit() or each == "_" for each in name):
            raise bad_request("BOT_COMMAND_INVALID")
        if not 1 <= len(str(row.get("description", ""))) <= 256:
            raise bad_request("BOT_COMMAND_DESCRIPTION_INVALID")
    backstage.commands[_scope(call)] = rows
    return True


async def get_my_commands(backstage: Backstage, call: Call) -> list[object]:
    return backstage.commands.get(_scope(call), [])


async def delete_my_commands(backstage: Backstage, call: Call) -> bool:
    backstage.commands.pop(_scope(call), None)
    return True


async def agree(backstage: Backstage, call: Call) -> bool:
    """For settings that change nothing anybody could see here."""
    return True


def _scope(call: Call) -> str:
    return f"{call.text('scope')} {call.text('language_code')}"


METHODS: Final = (
    Method("getMe", get_me),
    Method("setMyCommands", set_my_commands),
    Method("getMyCommands", get_my_commands),
    Method("deleteMyCommands", delete_my_commands),
    Method("setMyName", agree),
    Method("setMyDescription", agree),
    Method("setMyShortDescription", agree),
    Method("setChatMenuButton", agree),
    Method("close", agree),
    Method("logOut", agree),
)
