"""Other bots in the rooms we are in: whom of them we hear, and for how long.

Two that answer each other never stop by themselves. So nobody hears a bot that the operator did not name
(`normalize`), no account of ours hears another one, and of all others a room hears a few messages until a person
speaks there again.
"""

from __future__ import annotations

import logging

from channels.normalized import Incoming
from gateway.bus.places import Places

log = logging.getLogger(__name__)


class Company:
    """The bots around one account. Raises `BusUnavailable`."""

    def __init__(self, places: Places) -> None:
        self._places = places

    async def hears(self, incoming: Incoming) -> bool:
        """Whether what was said is to be taken in. A message that comes again counts once; a person always is."""
        room = _room(incoming)
        if not incoming.is_bot:
            await self._places.person_spoke(room)
            return True
        is_heard = await self._places.hear_bot(room, incoming.id, speaker=incoming.user_id)
        if not is_heard:
            log.info("%s: bot %s is not heard until a person speaks in %s", incoming.channel, incoming.user_id, room)
        return is_heard


def platform_of(channel: str) -> str:
    """The vendor behind a channel: `telegram` for `telegram.support`. Rooms are the same for all accounts there."""
    return channel.partition(".")[0]


def _room(incoming: Incoming) -> str:
    return ":".join((platform_of(incoming.channel), *(incoming.place or (incoming.user_id,))))
