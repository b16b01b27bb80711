"""REST: who the bot is, where the gateway is, channels, threads, guilds and users."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import JSONResponse, Response

from channels.emulators.discord import shapes
from channels.emulators.discord.api import Call, Route, snowflake, too_many
from channels.emulators.discord.api_messages import NO_CONTENT
from channels.emulators.discord.buckets import Buckets
from channels.emulators.discord.drafts import new_draft
from channels.emulators.discord.errors import Refused, forbidden, unknown
from channels.emulators.discord.herald import Herald
from channels.emulators.discord.posting import Posting
from channels.emulators.discord.switches import Switches
from channels.emulators.discord.world import Channel, ChannelKind, Guild, User, World
from channels.emulators.traffic import Json


class PlacesApi:
    def __init__(
        self,
        *,
        world: World,
        posting: Posting,
        herald: Herald,
        switches: Switches,
        buckets: Buckets,
        application_id: int,
        endpoint: Callable[[], Json],
    ) -> None:
        """`endpoint` says what the application\'s owner set up for interactions."""
        self._world = world
        self._posting = posting
        self._herald = herald
        self._switches = switches
        self._buckets = buckets
        self._application_id = application_id
        self._endpoint = endpoint

    def routes(self) -> list[Route]:
        channel, guild = "/channels/{channel_id}", "/guilds/{guild_id}"
        member = channel + "/thread-members/{user_id}"
        return [
            Route("GET", "/gateway", self.gateway, needs_token=False),
            Route("GET", "/gateway/bot", self.gateway_for_bot),
            Route("GET", "/users/@me", self.me),
            Route("GET", "/users/@me/guilds", self.my_guilds),
            Route("POST", "/users/@me/channels", self.open_dm, "open_dm"),
            Route("GET", "/users/{user_id}", self.user),
            Route("GET", "/oauth2/applications/@me", self.application),
            Route("GET", "/applications/@me", self.application),
            Route("GET", channel, self.channel),
            Route("PATCH", channel, self.change_channel),
            Route("POST", channel + "/messages/{message_id}/threads", self.thread_from, "create_thread", delivers=True),
            Route("POST", channel + "/threads", self.thread_in, "create_thread", delivers=True),
            Route("GET", channel + "/thread-members", self.thread_members),
            Route("GET", member, self.thread_member),
            Route("PUT", member, self.join_thread),
            Route("DELETE", member, self.leave_thread),
            Route("GET", channel + "/threads/archived/public", self.archived_threads),
            Route("GET", guild, self.guild),
            Route("GET", guild + "/channels", self.guild_channels),
            Route("GET", guild + "/roles", self.guild_roles),
            Route("GET", guild + "/threads/active", self.active_threads),
            Route("GET", guild + "/members/{user_id}", self.guild_member),
        ]

    # --- the bot itself

    async def gateway(self, call: Call) -> Response:
        return JSONResponse({"url": f"ws://{call.host}/gateway"})

    async def gateway_for_bot(self, call: Call) -> Response:
        left = self._switches.sessions_left
        at_once = self._switches.max_concurrency
        limit: Json = {"total": 1000, "remaining": left, "reset_after": 14_400_000, "max_concurrency": at_once}
        url = f"ws://{call.host}/gateway"
        return JSONResponse({"url": url, "shards": self._switches.shards, "session_start_limit": limit})

    async def me(self, _: Call) -> Response:
        return JSONResponse(shapes.own_user(self._world))

    async def application(self, _: Call) -> Response:
        has_content = self._switches.has_message_content
        shape = shapes.application(self._world, self._application_id, has_message_content=has_content)
        return JSONResponse(shape | self._endpoint())

    async def my_guilds(self, _: Call) -> Response:
        guilds = self._world.guilds.values()
        return JSONResponse([_partial_guild(guild) for guild in guilds])

    # --- people

    async def user(self, call: Call) -> Response:
        return JSONResponse(shapes.user(self._user(call.id("user_id"))))

    async def open_dm(self, call: Call) -> Response:
        user = self._world.users.get(snowflake(call.body.get("recipient_id"), "recipient_id"))
        if user is None or user.id == self._world.bot.id:
            raise Refused(400, 50033, "Invalid Recipient(s)")
        return JSONResponse(shapes.channel(self._world, self._world.dm_with(user)))

    def _user(self, user_id: int) -> User:
        if user_id not in self._world.users:
            raise unknown("User")
        return self._world.users[user_id]

    # --- channels and threads

    async def channel(self, call: Call) -> Response:
        return JSONResponse(shapes.channel(self._world, self._posting.channel(call.id("channel_id"))))

    async def change_channel(self, call: Call) -> Response:
        """Of a thread that the bot began: name, archived, locked and the time to archive. Other channels are not its to
        change, and new names are counted apart from all else, without a word of it in the headers."""
        thread = self._posting.channel(call.id("channel_id"))
        if not (thread.is_thread and self._may_change(thread)):
            raise forbidden(50013)
        if "name" in call.body and str(call.body["name"]) != thread.name:
            allowance = self._buckets.take("rename", str(thread.id))
            if allowance is not None and not allowance.is_granted:
                return too_many(allowance, via=True)
        self._posting.change_thread(thread, self._world.bot, call.body)
        return JSONResponse(shapes.channel(self._world, thread))

    def _may_change(self, thread: Channel) -> bool:
        """Its creator may, while nobody has locked it."""
        return self._switches.moderates or (thread.owner_id == self._world.bot.id and not thread.locked)

    async def thread_from(self, call: Call) -> Response:
        message = self._posting.message(call.id("channel_id"), call.id("message_id"))
        thread = self._posting.thread_from(message, self._world.bot, *_asked_for(call.body))
        return JSONResponse(shapes.channel(self._world, thread), 201)

    async def thread_in(self, call: Call) -> Response:
        """A thread without a message, private unless its type says otherwise; in a forum, a post with its message."""
        parent = self._posting.channel(call.id("channel_id"))
        name, archive_min = _asked_for(call.body)
        if parent.kind is ChannelKind.FORUM:
            strips = self._switches.strips_content
            draft = new_draft(call.body.get("message") or {}, call.files, reply_to=None, strips=strips)
            thread = self._posting.thread_in(
                parent, self._world.bot, name, kind=ChannelKind.PUBLIC_THREAD, auto_archive_min=archive_min
            )
            first = self._posting.post(thread, self._world.bot, draft)
            shown = shapes.message(self._world, first, reads_everything=True)
            return JSONResponse(shapes.channel(self._world, thread) | {"message": shown}, 201)
        is_public = call.body.get("type") == ChannelKind.PUBLIC_THREAD
        kind = ChannelKind.PUBLIC_THREAD if is_public else ChannelKind.PRIVATE_THREAD
        thread = self._posting.thread_in(parent, self._world.bot, name, kind=kind, auto_archive_min=archive_min)
        return JSONResponse(shapes.channel(self._world, thread), 201)

    async def archived_threads(self, call: Call) -> Response:
        parent = self._posting.channel(call.id("channel_id"))
        found = [c for c in self._world.channels.values() if c.parent_id == parent.id and c.archived]
        return JSONResponse(self._thread_list(found) | {"has_more": False})

    def _thread_list(self, threads: list[Channel]) -> Json:
        bot_id = self._world.bot.id
        joined = [thread for thread in threads if bot_id in thread.member_ids]
        return {
            "threads": [shapes.channel(self._world, thread) for thread in threads],
            "members": [shapes.thread_member(thread, bot_id) for thread in joined],
        }

    # --- thread members

    def _thread(self, call: Call) -> Channel:
        thread = self._posting.channel(call.id("channel_id"))
        if not thread.is_thread:
            raise Refused(400, 50024, "Cannot execute action on this channel type")
        return thread

    def _named(self, call: Call) -> int:
        return self._world.bot.id if call.path["user_id"] == "@me" else call.id("user_id")

    async def thread_members(self, call: Call) -> Response:
        thread = self._thread(call)
        return JSONResponse([shapes.thread_member(thread, user_id) for user_id in thread.member_ids])

    async def thread_member(self, call: Call) -> Response:
        thread, user_id = self._thread(call), self._named(call)
        if user_id not in thread.member_ids:
            raise unknown("Member")
        return JSONResponse(shapes.thread_member(thread, user_id))

    async def join_thread(self, call: Call) -> Response:
        thread, user_id = self._thread(call), self._user(self._named(call)).id
        if user_id not in thread.member_ids:
            thread.member_ids.append(user_id)
        return Response(status_code=NO_CONTENT)

    async def leave_thread(self, call: Call) -> Response:
        thread, user_id = self._thread(call), self._named(call)
        if user_id in thread.member_ids:
            thread.member_ids.remove(user_id)
        return Response(status_code=NO_CONTENT)

    # --- guilds

    def _guild(self, call: Call) -> Guild:
        guild = self._world.guilds.get(call.id("guild_id"))
        if guild is None:
            raise unknown("Guild")
        return guild

    async def guild(self, call: Call) -> Response:
        return JSONResponse(shapes.guild(self._world, self._guild(call)))

    async def guild_channels(self, call: Call) -> Response:
        channels = self._world.channels_of(self._guild(call))
        return JSONResponse([shapes.channel(self._world, channel) for channel in channels])

    async def guild_roles(self, call: Call) -> Response:
        return JSONResponse(shapes.roles(self._world, self._guild(call)))

    async def active_threads(self, call: Call) -> Response:
        return JSONResponse(self._thread_list(self._world.active_threads_of(self._guild(call))))

    async def guild_member(self, call: Call) -> Response:
        guild, user_id = self._guild(call), self._named(call)
        if user_id not in guild.member_ids:
            raise unknown("Member")
        user = self._world.users[user_id]
        return JSONResponse(shapes.member(self._world, guild, user) | {"user": shapes.user(user)})


def _asked_for(body: Json) -> tuple[str, int]:
    return str(body.get("name") or ""), int(body.get("auto_archive_duration") or 1440)


def _partial_guild(guild: Guild) -> Json:
    return {
        "id": str(guild.id),
        "name": guild.name,
        "icon": None,
        "owner": False,
        "permissions": shapes.EVERYTHING,
        "features": [],
    }
