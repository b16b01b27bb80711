"""Who the app is, who people are, reactions, the home tab, and the door of Socket Mode."""

from __future__ import annotations

import re
from typing import Final

from channels.emulators.slack import shapes
from channels.emulators.slack.errors import Refused
from channels.emulators.slack.herald import Herald
from channels.emulators.slack.sockets import SocketMode
from channels.emulators.slack.web_api import Call, Lookup, Method
from channels.emulators.slack.world import Message, World
from channels.emulators.traffic import Json

REACTION_KINDS_MAX: Final = 23
_EMOJI: Final = re.compile(r"[a-z0-9_+'-]{1,100}(?:::skin-tone-[2-6])?")


class PeopleApi:
    def __init__(self, *, world: World, herald: Herald, lookup: Lookup, sockets: SocketMode) -> None:
        self._world = world
        self._herald = herald
        self._lookup = lookup
        self._sockets = sockets
        self.homes: dict[str, Json] = {}

    def methods(self) -> dict[str, Method]:
        return {
            "auth.test": Method(self.who_am_i),
            "apps.connections.open": Method(self.open_socket, is_app_level=True),
            "users.info": Method(self.user, ("users:read",)),
            "users.list": Method(self.users, ("users:read",)),
            "bots.info": Method(self.bot, ("users:read",)),
            "reactions.add": Method(self.react, ("reactions:write",)),
            "reactions.remove": Method(self.take_reaction_back, ("reactions:write",)),
            "views.publish": Method(self.publish_home),
        }

    async def who_am_i(self, _: Call) -> Json:
        return {
            "url": "https://emulator.slack.com/",
            "team": "Emulator",
            "user": self._world.bot.handle,
            "team_id": self._world.team_id,
            "user_id": self._world.bot.id,
            "bot_id": self._world.bot.bot_id,
            "is_enterprise_install": False,
        }

    async def open_socket(self, call: Call) -> Json:
        return {"url": self._sockets.new_url(call.host)}

    async def user(self, call: Call) -> Json:
        user = self._world.users.get(call.required("user"))
        if user is None:
            raise Refused("user_not_found")
        locale = {"locale": user.locale} if call.flag("include_locale") else {}
        return {"user": shapes.user(self._world, user) | locale}

    async def users(self, _: Call) -> Json:
        members = [shapes.user(self._world, user) for user in self._world.users.values()]
        return {"members": members, "cache_ts": int(self._world.now_s()), "response_metadata": {"next_cursor": ""}}

    async def bot(self, call: Call) -> Json:
        wanted = call.text("bot") or self._world.bot.bot_id
        user = next((u for u in self._world.users.values() if u.bot_id == wanted), None)
        if user is None:
            raise Refused("bot_not_found")
        return {"bot": shapes.bot_profile(self._world, user)}

    # --- reactions

    async def react(self, call: Call) -> Json:
        message, name = self._reacted_to(call)
        users = message.reactions.get(name, [])
        if self._world.bot.id in users:
            raise Refused("already_reacted")
        if not users and len(message.reactions) >= REACTION_KINDS_MAX:
            raise Refused("too_many_emoji")
        message.reactions[name] = [*users, self._world.bot.id]
        self._herald.reacted(message, self._world.bot, name, added=True)
        return {}

    async def take_reaction_back(self, call: Call) -> Json:
        message, name = self._reacted_to(call)
        users = message.reactions.get(name, [])
        if self._world.bot.id not in users:
            raise Refused("no_reaction")
        message.reactions[name] = [user for user in users if user != self._world.bot.id]
        if not message.reactions[name]:
            del message.reactions[name]
        self._herald.reacted(message, self._world.bot, name, added=False)
        return {}

    def _reacted_to(self, call: Call) -> tuple[Message, str]:
        name = call.required("name").strip(":")
        if not _EMOJI.fullmatch(name):
            raise Refused("invalid_name")
        place = self._lookup.conversation(call.required("channel"))
        self._lookup.member(place)
        message = place.messages.get(call.required("timestamp"))
        if message is None:
            raise Refused("message_not_found")
        return message, name

    async def publish_home(self, call: Call) -> Json:
        user_id, view = call.required("user_id"), call.arguments.get("view")
        if not isinstance(view, dict) or view.get("type") != "home" or not isinstance(view.get("blocks"), list):
            raise Refused("invalid_arguments")
        if user_id not in self._world.users:
            raise Refused("user_not_found")
        self.homes[user_id] = view
        return {"view": {"id": self._world.new_id("V"), "team_id": self._world.team_id} | view}
