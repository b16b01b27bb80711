"""Discord's side of listening: messages as plain values, which of them are ours."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from channels.discord.context import ThreadContext
from channels.discord.hearing import DiscordEvent, heard_of
from channels.discord.history import History
from channels.discord.normalize import DiscordDeletion, DiscordIdentity, DiscordMessage, normalize, retraction_of
from channels.discord.openings import Openings
from channels.inbound.briefing import Briefing
from channels.inbound.listening import Heard
from channels.inbound.threads import Threads
from channels.normalized import Addressing, Ignored, Incoming, Retraction

log = logging.getLogger(__name__)


class DiscordSource:
    """`channels.inbound.listening.Source` for one bot."""

    def __init__(
        self,
        me: DiscordIdentity,
        history: History,
        threads: Threads,
        context: ThreadContext,
        briefing: Briefing,
        openings: Openings,
    ) -> None:
        self._me = me
        self._history = history
        self._threads = threads
        self._context = context
        self._briefing = briefing
        self._openings = openings

    async def rooms(self) -> Sequence[str]:
        return await self._history.rooms()

    async def missed(self, room: str) -> AsyncIterator[Heard[DiscordEvent]]:
        for message in await self._history.missed(room):
            yield heard_of(message)

    async def understand(self, heard: Heard[DiscordEvent]) -> Incoming | Retraction | None:
        if isinstance(heard.raw, DiscordDeletion):
            return retraction_of(heard.raw, self._me)
        message = await self._with_ownership(heard.raw)
        understood = normalize(message, self._me)
        if isinstance(understood, Incoming) and await self._begins_thread(message, understood):
            understood = normalize(replace(message, begins_thread=True), self._me)
        if isinstance(understood, Ignored):
            log.debug("discord: message %s ignored: %s", heard.message_id, understood.reason)
            return None
        return await self._briefed(understood)

    async def taken(self, incoming: Incoming) -> None:
        """From here on the thread in which we answer is one we take part in."""
        await self._briefing.taken(incoming)
        if len(incoming.place) > 1:
            await self._threads.join(*incoming.place[-2:])

    async def _briefed(self, incoming: Incoming) -> Incoming:
        """With what was said before it in its thread, if it is for us."""
        if not (incoming.is_addressed or incoming.is_edit):
            return incoming
        if incoming.place[-1:] == (incoming.id.rpartition(":")[2],):  # a thread begins with it
            self._briefing.told(incoming)
        before = await self._briefing.of(incoming, lambda: self._context.before(incoming))
        return replace(incoming, quotes=(*before, *incoming.quotes))

    async def _begins_thread(self, message: DiscordMessage, understood: Incoming) -> bool:
        """A mention in a channel may; of an edit, that depends on what the message did."""
        if not (self._openings.is_wanted and message.takes_threads):
            return False
        if understood.is_edit:
            return await self._threads.has_joined(message.channel_id, message.id)
        is_mention = understood.addressing is Addressing.MENTION
        return is_mention and self._openings.may_begin(message.channel_id)

    async def _with_ownership(self, message: DiscordMessage) -> DiscordMessage:
        """A thread that we were called into is as good as one that we opened."""
        if message.guild_id and not message.is_place_known:
            parent_id, owner_id = await self._context.origin_of(message.channel_id)
            message = replace(message, parent_id=parent_id, thread_owner_id=owner_id)
        parent_id = message.parent_id or self._openings.parent_of(message.channel_id)
        message = replace(message, parent_id=parent_id)
        if message.parent_id and await self._threads.has_joined(message.parent_id, message.channel_id):
            return replace(message, thread_owner_id=self._me.user_id)
        return message
