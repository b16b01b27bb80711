"""Methods `conversations.*`: what was said, and where."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final

from channels.emulators.slack import shapes
from channels.emulators.slack.errors import Refused, missing_argument
from channels.emulators.slack.herald import Herald
from channels.emulators.slack.switches import Switches
from channels.emulators.slack.web_api import Call, Lookup, Method
from channels.emulators.slack.world import Conversation, Message, World, is_ts, ts_key
from channels.emulators.traffic import Json

HISTORY_DEFAULT: Final = 100
REPLIES_DEFAULT: Final = 1000
LIST_DEFAULT: Final = 100
LIST_MAX: Final = 1000


class ConversationsApi:
    def __init__(self, *, world: World, herald: Herald, lookup: Lookup, switches: Switches) -> None:
        self._world = world
        self._herald = herald
        self._lookup = lookup
        self._switches = switches

    def methods(self) -> dict[str, Method]:
        history = ("channels:history", "groups:history", "im:history", "mpim:history")
        reading = ("channels:read", "groups:read", "im:read", "mpim:read")
        return {
            "conversations.history": Method(self.history, history),
            "conversations.replies": Method(self.replies, history),
            "conversations.info": Method(self.info, reading),
            "conversations.list": Method(self.listing, reading),
            "conversations.members": Method(self.members, reading),
            "users.conversations": Method(self.of_user, reading),
            "conversations.open": Method(self.open, ("im:write", "mpim:write")),
            "conversations.join": Method(self.join, ("channels:join",)),
            "conversations.leave": Method(self.leave, ("channels:manage",)),
        }

    # --- what was said

    async def history(self, call: Call) -> Json:
        """Newest first; replies are not here unless they were broadcast."""
        place = self._readable(call)
        messages = [m for m in place.public() if not m.is_reply or m.is_broadcast]
        newest_first = sorted(_between(messages, call), key=lambda m: ts_key(m.ts), reverse=True)
        return self._page(call, newest_first, HISTORY_DEFAULT) | {"pin_count": 0}

    async def replies(self, call: Call) -> Json:
        """Oldest first, the root before all, whatever the bounds say."""
        place = self._readable(call)
        root = place.root_of(call.required("ts"))
        if root is None or root.only_for is not None:
            raise Refused("thread_not_found")
        replies = sorted(_between(place.replies_to(root.ts), call), key=lambda m: ts_key(m.ts))
        return self._page(call, [root, *replies], REPLIES_DEFAULT)

    def _readable(self, call: Call) -> Conversation:
        place = self._lookup.conversation(call.required("channel"))
        self._lookup.member(place)
        return place

    def _page(self, call: Call, messages: Sequence[Message], default: int) -> Json:
        limit = call.number("limit", default)
        if limit < 1:
            raise Refused("invalid_limit")
        limit = min(limit, self._switches.history_page_max if default == HISTORY_DEFAULT else LIST_MAX)
        start = _position(call.text("cursor"))
        page = messages[start : start + limit]
        with_metadata = call.flag("include_all_metadata")
        body: Json = {"messages": [shapes.message(self._world, m, with_metadata=with_metadata) for m in page]}
        return body | _more(start + limit, len(messages))

    # --- where

    async def info(self, call: Call) -> Json:
        place = self._lookup.conversation(call.required("channel"))
        return {"channel": shapes.conversation(self._world, place)}

    async def listing(self, call: Call) -> Json:
        return self._listed(call, list(self._world.conversations.values()), "public_channel")

    async def of_user(self, call: Call) -> Json:
        """The conversations that the bot, or the named user, is in."""
        user_id = call.text("user") or self._world.bot.id
        mine = [c for c in self._world.conversations.values() if user_id in c.member_ids]
        return self._listed(call, mine, "public_channel")

    def _listed(self, call: Call, places: list[Conversation], default_types: str) -> Json:
        types = {kind.strip() for kind in (call.text("types") or default_types).split(",")}
        if types - {"public_channel", "private_channel", "mpim", "im"}:
            raise Refused("invalid_types")
        lacking = sorted({_SCOPES[kind] for kind in types} - self._switches.scopes)
        if lacking:
            raise Refused("missing_scope", needed=lacking[0], provided=",".join(sorted(self._switches.scopes)))
        found = [c for c in places if _kind(c) in types and not (c.is_archived and call.flag("exclude_archived"))]
        start, limit = _position(call.text("cursor")), min(call.number("limit", LIST_DEFAULT), LIST_MAX)
        shown = [shapes.conversation(self._world, place) for place in found[start : start + limit]]
        return {"channels": shown} | _more(start + limit, len(found))

    async def members(self, call: Call) -> Json:
        place = self._lookup.conversation(call.required("channel"))
        start, limit = _position(call.text("cursor")), min(call.number("limit", LIST_DEFAULT), LIST_MAX)
        return {"members": place.member_ids[start : start + limit]} | _more(start + limit, len(place.member_ids))

    async def open(self, call: Call) -> Json:
        """A direct chat with one person; Slack answers with the id alone unless `return_im` is set."""
        if call.text("channel"):
            place = self._lookup.conversation(call.text("channel"))
        else:
            users = call.arguments.get("users")
            named = users if isinstance(users, list) else [u for u in call.text("users").split(",") if u]
            if not named:
                raise missing_argument("users")
            user = self._world.users.get(str(named[0]).strip())
            if user is None or len(named) > 1 or user.id == self._world.bot.id:
                raise Refused("user_not_found" if user is None else "cannot_dm_bot")
            place = self._world.dm_with(user)
        shown = shapes.conversation(self._world, place) if call.flag("return_im") else {"id": place.id}
        return {"channel": shown, "no_op": True, "already_open": True}

    async def join(self, call: Call) -> Json:
        place = self._lookup.conversation(call.required("channel"))
        if place.is_im or place.is_private:
            raise Refused("method_not_supported_for_channel_type")
        if self._world.bot.id not in place.member_ids:
            place.member_ids.append(self._world.bot.id)
            self._herald.membership(place, self._world.bot, joined=True)
        return {"channel": shapes.conversation(self._world, place)}

    async def leave(self, call: Call) -> Json:
        place = self._lookup.conversation(call.required("channel"))
        if self._world.bot.id not in place.member_ids:
            return {"not_in_channel": True}
        place.member_ids.remove(self._world.bot.id)
        self._herald.membership(place, self._world.bot, joined=False)
        return {}


_SCOPES: Final = {
    "public_channel": "channels:read",
    "private_channel": "groups:read",
    "mpim": "mpim:read",
    "im": "im:read",
}


def _kind(place: Conversation) -> str:
    return "im" if place.is_im else "private_channel" if place.is_private else "public_channel"


def _between(messages: Sequence[Message], call: Call) -> list[Message]:
    """Within `oldest` and `latest`, which count themselves in only with `inclusive`."""
    oldest, latest = call.text("oldest") or "0", call.text("latest")
    if not is_ts(oldest):
        raise Refused("invalid_ts_oldest")
    if latest and not is_ts(latest):
        raise Refused("invalid_ts_latest")
    inclusive = call.flag("inclusive")

    def is_inside(message: Message) -> bool:
        at = ts_key(message.ts)
        above = at > ts_key(oldest) or (inclusive and at == ts_key(oldest))
        return above and (not latest or at < ts_key(latest) or (inclusive and at == ts_key(latest)))

    return [message for message in messages if is_inside(message)]


def _more(next_start: int, total: int) -> Json:
    has_more = next_start < total
    cursor = base64.urlsafe_b64encode(f"next:{next_start}".encode()).decode() if has_more else ""
    return {"has_more": has_more, "response_metadata": {"next_cursor": cursor}}


def _position(cursor: str) -> int:
    if not cursor:
        return 0
    try:
        return int(base64.urlsafe_b64decode(cursor).decode().removeprefix("next:"))
    except ValueError:
        raise Refused("invalid_cursor") from None
