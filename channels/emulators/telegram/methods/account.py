"""The bot about itself."""

from __future__ import annotations

from typing import Final

from channels.emulators.telegram.backstage import Backstage
from channels.emulators.telegram.call import Call
from channels.emulators.telegram.methods.method import Method
from channels.emulators.telegram.people import Json


async def get_me(backstage: Backstage, call: Call) -> Json:
    return backstage.world.bot.as_json() | {
        "can_join_groups": True,
        "can_read_all_group_messages": not backstage.switch("privacy"),
        "supports_inline_queries": False,
        "can_connect_to_business": False,
        "has_main_web_app": False,
        "has_topics_enabled": bool(backstage.switch("private_topics")),
        "allows_users_to_create_topics": bool(backstage.switch("private_topics")),
    }


async def agree(backstage: Backstage, call: Call) -> bool:
    """For settings that change nothing anybody could see here."""
    return True


METHODS: Final = (
    Method("getMe", get_me),
    Method("setMyName", agree),
    Method("setMyDescription", agree),
    Method("setMyShortDescription", agree),
    Method("setChatMenuButton", agree),
    Method("close", agree),
    Method("logOut", agree),
)
