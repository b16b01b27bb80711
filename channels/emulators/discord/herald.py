"""What changed in the world is told here, once, to both who may know: the bot's gateway and the people's pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from channels.emulators.audience import Audience
from channels.emulators.discord import shapes
from channels.emulators.discord.gateway import Gateway
from channels.emulators.discord.sessions import Happening, Intent
from channels.emulators.discord.stagecraft import as_said
from channels.emulators.discord.switches import Switches
from channels.emulators.discord.world import Channel, ChannelKind, Message, MessageFlag, User, World
from channels.emulators.stage import EventKind, Faults, StageEvent
from channels.emulators.traffic import Json

_LINK: Final = re.compile(r"https?://(\S+)")


class Herald:
    def __init__(
        self, *, world: World, gateway: Gateway, audience: Audience, switches: Switches, faults: Faults
    ) -> None:
        self._world = world
        self._gateway = gateway
        self._audience = audience
        self._switches = switches
        self._faults = faults
        self.endpoint: Callable[[Json], None] | None = None

    # --- messages

    def said(self, message: Message) -> None:
        """MESSAGE_CREATE, also to the author if it is the bot; the faults on inbound events apply to others."""
        is_inbound = message.author.id != self._world.bot.id
        if is_inbound and self._faults.poison > 0:
            self._faults.poison -= 1
            self._to_bot(message, "MESSAGE_CREATE", only={"id", "channel_id", "content"})
        self._to_bot(message, "MESSAGE_CREATE")
        if is_inbound and self._faults.duplicate > 0:
            self._faults.duplicate -= 1
            self._to_bot(message, "MESSAGE_CREATE")
        self._to_people(EventKind.SAID, message)
        self._unfurl(message)

    def changed(self, message: Message) -> None:
        """MESSAGE_UPDATE with the whole message, for an edit as for a flag."""
        self._to_bot(message, "MESSAGE_UPDATE")
        self._to_people(EventKind.EDITED, message)
        self._unfurl(message)

    def filled(self, message: Message) -> None:
        """MESSAGE_UPDATE for the bot; for people it is there only now."""
        self._to_bot(message, "MESSAGE_UPDATE")
        self._to_people(EventKind.SAID, message)
        self._unfurl(message)

    def deleted(self, message: Message) -> None:
        channel = self._world.channels[message.channel_id]
        data: Json = {"id": str(message.id), "channel_id": str(channel.id)} | _guild_of(channel)
        self._dispatch("MESSAGE_DELETE", data, channel, Intent.GUILD_MESSAGES, Intent.DIRECT_MESSAGES)
        self._audience.tell(StageEvent(EventKind.DELETED, str(channel.id), message_id=str(message.id)))

    def reacted(self, message: Message, user: User, emoji: str, *, added: bool) -> None:
        channel = self._world.channels[message.channel_id]
        data: Json = {
            "user_id": str(user.id),
            "channel_id": str(channel.id),
            "message_id": str(message.id),
            "emoji": shapes.partial_emoji(emoji),
            "burst": False,
            "type": 0,
        } | _guild_of(channel)
        if added:
            data["message_author_id"] = str(message.author.id)
            data |= self._member(channel, user, with_user=True)
        name = "MESSAGE_REACTION_ADD" if added else "MESSAGE_REACTION_REMOVE"
        self._dispatch(name, data, channel, Intent.GUILD_MESSAGE_REACTIONS, Intent.DIRECT_MESSAGE_REACTIONS)

    def typing(self, channel: Channel, user: User) -> None:
        data: Json = {"channel_id": str(channel.id), "user_id": str(user.id)} | _guild_of(channel)
        data["timestamp"] = self._world.now_ms() // 1000
        data |= self._member(channel, user, with_user=True)
        self._dispatch("TYPING_START", data, channel, Intent.GUILD_MESSAGE_TYPING, Intent.DIRECT_MESSAGE_TYPING)
        self._audience.tell(StageEvent(EventKind.TYPING, str(channel.id), status=f"{user.shown_as} is typing"))

    def _unfurl(self, message: Message) -> None:
        """What stands behind a link is fetched and shown, in a new message and in one that gets other words."""
        link = _LINK.search(message.content)
        is_wanted = self._switches.sends_unfurls and not message.flags & MessageFlag.SUPPRESS_EMBEDS
        if link is not None and is_wanted and not message.embeds:
            message.embeds = [{"type": "link", "url": link.group(0), "title": link.group(1)}]
            self._to_bot(message, "MESSAGE_UPDATE")

    def _to_bot(self, message: Message, name: str, *, only: set[str] | None = None) -> None:
        channel = self._world.channels[message.channel_id]

        def shape(reads_everything: bool) -> Json:
            data = shapes.message(self._world, message, reads_everything=reads_everything)
            data["channel_type"] = channel.kind.value
            if not message.flags & MessageFlag.EPHEMERAL:  # such a message names no guild
                data |= _guild_of(channel)
            if message.author.webhook_id is None:
                data |= self._member(channel, message.author, with_user=False)
            return data if only is None else {key: data[key] for key in only}

        if not self._faults.blocked and self._is_visible(channel):
            intent = Intent.DIRECT_MESSAGES if channel.is_dm else Intent.GUILD_MESSAGES
            self._gateway.dispatch(Happening(name, shape, intent, channel.guild_id))

    def _to_people(self, kind: EventKind, message: Message) -> None:
        """A message that is still to be filled is only a sign that the bot works."""
        if message.flags & MessageFlag.LOADING:
            status = f"{message.author.shown_as} is thinking"
            self._audience.tell(StageEvent(EventKind.TYPING, str(message.channel_id), status=status))
            return
        self._audience.tell(StageEvent(kind, str(message.channel_id), said=as_said(self._world, message)))

    # --- places

    def opened(self, channel: Channel) -> None:
        """A guild channel, or a direct chat for which most API versions tell the bot nothing."""
        if not channel.is_dm or self._switches.announces_dms:
            self._dispatch(
                "CHANNEL_CREATE", shapes.channel(self._world, channel), channel, Intent.GUILDS, Intent.ALWAYS
            )
        self._audience.tell(StageEvent(EventKind.PLACE, str(channel.id)))

    def thread_opened(self, thread: Channel) -> None:
        data = shapes.channel(self._world, thread) | {"newly_created": True}
        self._dispatch("THREAD_CREATE", data, thread, Intent.GUILDS, Intent.GUILDS)
        self._audience.tell(StageEvent(EventKind.PLACE, str(thread.id)))

    def thread_changed(self, thread: Channel) -> None:
        self._dispatch("THREAD_UPDATE", shapes.channel(self._world, thread), thread, Intent.GUILDS, Intent.GUILDS)
        self._audience.tell(StageEvent(EventKind.PLACE, str(thread.id)))

    def joined(self, user: User, guild_id: int) -> None:
        guild = self._world.guilds[guild_id]
        data: Json = shapes.member(self._world, guild, user) | {
            "user": shapes.user(user),
            "guild_id": str(guild_id),
        }
        self._gateway.dispatch(Happening("GUILD_MEMBER_ADD", lambda _: data, Intent.GUILD_MEMBERS, guild_id))

    def interacted(self, interaction: Json, channel: Channel) -> None:
        """INTERACTION_CREATE needs no intent; with an endpoint, the gateway tells nothing of interactions."""
        if self.endpoint is not None:
            self.endpoint(interaction)
            return
        times = 1
        if self._faults.duplicate > 0:
            self._faults.duplicate -= 1
            times = 2
        for _ in range(times):
            self._dispatch("INTERACTION_CREATE", interaction, channel, Intent.ALWAYS, Intent.ALWAYS)

    def failed(self, channel: Channel, user: User, why: str) -> None:
        """What only the one sees whose interaction failed."""
        self._audience.tell(StageEvent(EventKind.TOAST, str(channel.id), status=why, person_id=str(user.id)))

    def _dispatch(self, name: str, data: Json, channel: Channel, in_guild: Intent, in_dm: Intent) -> None:
        if self._faults.blocked or not self._is_visible(channel):
            return
        intent = in_dm if channel.is_dm else in_guild
        self._gateway.dispatch(Happening(name, lambda _: data, intent, channel.guild_id))

    def _is_visible(self, channel: Channel) -> bool:
        """Bots hear public threads without joining them, private ones only as members."""
        return channel.kind is not ChannelKind.PRIVATE_THREAD or self._world.bot.id in channel.member_ids

    def _member(self, channel: Channel, user: User, *, with_user: bool) -> Json:
        if channel.guild_id is None:
            return {}
        member = shapes.member(self._world, self._world.guilds[channel.guild_id], user)
        return {"member": member | {"user": shapes.user(user)} if with_user else member}


def _guild_of(channel: Channel) -> Json:
    return {} if channel.guild_id is None else {"guild_id": str(channel.guild_id)}
