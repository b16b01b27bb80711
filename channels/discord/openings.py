"""Threads that begin with a message which called us, and the channels in which we may not begin any.

A thread has the id of its message, so that where an answer goes is known before the thread exists; and to begin it
twice is refused, so that whoever comes after a crash finds the one that is there.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import replace

import discord

from channels.discord import limits
from channels.discord.address import DiscordTarget
from gateway.contracts.ports import Clock

log = logging.getLogger(__name__)

_NOTICE = "notice:"


class Openings:
    """Those of one bot."""

    def __init__(self, clock: Clock, *, is_wanted: bool) -> None:
        self.is_wanted = is_wanted
        self._clock = clock
        self._begun: OrderedDict[str, str] = OrderedDict()
        self._barred_s: dict[str, float] = {}

    def may_begin(self, channel_id: str) -> bool:
        """Whether nobody forbade it lately."""
        barred_s = self._barred_s.get(channel_id)
        return barred_s is None or self._clock.monotonic_s() - barred_s > limits.THREADS_BARRED_S

    def parent_of(self, thread_id: str) -> str | None:
        """The channel of a thread that we began; Discord tells of it too, in its own time."""
        return self._begun.get(thread_id)

    async def where(self, client: discord.Client, target: DiscordTarget, *, send_id: str = "") -> DiscordTarget:
        """Where to write now: in the thread, which is begun if need be, or in its channel where that cannot be. What a
        stranger is told begins none. Raises what the SDK raises."""
        if target.begun_in is None:
            return target
        if send_id.startswith(_NOTICE) or not await self._is_begun(client, target.begun_in, target.channel_id):
            return in_place(target)
        return replace(target, begun_in=None)

    async def _is_begun(self, client: discord.Client, channel_id: str, message_id: str) -> bool:
        if message_id in self._begun:
            return True
        if not self.may_begin(channel_id):
            return False
        try:
            await _begin(client, channel_id, message_id)
        except discord.RateLimited as error:
            self._bar(channel_id, str(error))  # an answer does not wait for minutes
            return False
        except discord.HTTPException as error:
            if error.status >= 500 or error.status == 401:
                raise
            if error.code != limits.THREAD_EXISTS and not await _exists(client, message_id):
                if error.code != limits.UNKNOWN_MESSAGE:
                    self._bar(channel_id, f"code {error.code}")
                return False
        self._begun[message_id] = channel_id
        while len(self._begun) > limits.THREADS_BEGUN_MAX:
            self._begun.popitem(last=False)
        return True

    def _bar(self, channel_id: str, reason: str) -> None:
        if channel_id not in self._barred_s:
            log.warning("discord: no thread can be begun in channel %s (%s): answers stay in it", channel_id, reason)
        self._barred_s[channel_id] = self._clock.monotonic_s()


async def _begin(client: discord.Client, channel_id: str, message_id: str) -> None:
    """Its bucket lasts for minutes, and the SDK would take that for a limit that is used up; so each message has a
    route of its own, and Discord says itself when it is too much."""
    route = discord.http.Route("POST", f"/channels/{{channel_id}}/messages/{message_id}/threads", channel_id=channel_id)
    name = client.user.display_name if client.user else "…"
    payload = {"name": name, "auto_archive_duration": limits.THREAD_ARCHIVED_AFTER_MIN}
    await client.http.request(route, json=payload)


async def _exists(client: discord.Client, thread_id: str) -> bool:
    """What was begun before may not be begun now: the message was deleted, a permission taken away."""
    try:
        await client.http.get_channel(int(thread_id))
    except (discord.NotFound, discord.Forbidden):
        return False
    return True


def in_place(target: DiscordTarget) -> DiscordTarget:
    """The answer to the message, where that stands."""
    if target.begun_in is None:
        return target
    return DiscordTarget(target.begun_in, reply_to_message_id=target.channel_id)
