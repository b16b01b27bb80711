"""Channels that got another id: a private one does when somebody shares it with another workspace (Slack Connect).

What is kept of a channel keeps its first id: sessions, marks, threads, and the ids of messages, by which one that comes
under both is known. What we ask Slack for needs the newest.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from channels.normalized import Migrated
from channels.raw import Raw, mapping, text
from gateway.bus.places import Places

log = logging.getLogger(__name__)


class Moves:
    """Those of one account, whose `channel` names it. They are known by heart, so that nothing that is heard has to
    wait for the bus."""

    def __init__(self, places: Places, channel: str) -> None:
        self._places = places
        self._channel = channel
        self._firsts: Mapping[str, str] = {}
        self._newest: Mapping[str, str] = {}

    async def load(self) -> None:
        """Learn what other processes noted. Raises `BusUnavailable`."""
        self._firsts = await self._places.moved(self._channel)
        ids = sorted(set(self._firsts.values()))
        self._newest = dict(zip(ids, await self._places.newest_ids(self._channel, ids), strict=True))

    async def note(self, move: Migrated) -> None:
        """On record for ever. Raises `BusUnavailable`."""
        log.info("%s: channel %s is %s now", self._channel, move.old, move.new)
        await self._places.note_move(self._channel, move.old, move.new)
        await self.load()

    def first(self, channel_id: str) -> str:
        """The id under which a channel was known at first; its own if it never moved."""
        return self._firsts.get(channel_id, channel_id)

    def newest(self, channel_id: str) -> str:
        """Where a channel lives now."""
        first = self.first(channel_id)
        return self._newest.get(first, first)

    def as_known(self, body: Raw) -> Raw:
        """A request in which the channel of a message has its first id."""
        event = mapping(body.get("event"))
        channel_id = text(event.get("channel"))
        first = self.first(channel_id)
        return body if first == channel_id else {**body, "event": {**event, "channel": first}}
