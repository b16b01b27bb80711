"""What was said in a thread before we were called into it, for the first message that a lane has of it.

Each of us in a thread has a lane of his own, and none of them knows what was said before its first message there; nor
what our own message said under which a thread was begun.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from channels.inbound.threads import Threads
from channels.normalized import Incoming, RawQuote

log = logging.getLogger(__name__)

_REMEMBERED: Final = 500  # messages whose quotes are kept for an edit of them, or for their second event


class Briefing:
    """For one account. `read` holds who has been told of which thread. Raises `BusUnavailable`, and nothing for a
    platform that does not answer: a message without its context is still a message."""

    def __init__(self, read: Threads, *, wait_s: float) -> None:
        self._read = read
        self._wait_s = wait_s
        self._found: OrderedDict[str, tuple[RawQuote, ...]] = OrderedDict()

    async def of(
        self, incoming: Incoming, read_back: Callable[[], Awaitable[tuple[RawQuote, ...]]]
    ) -> tuple[RawQuote, ...]:
        """What goes along with a message, `read_back` from the platform; an edit has what the message had."""
        if incoming.id in self._found or incoming.is_edit:
            return self._found.get(incoming.id, ())
        if len(incoming.place) < 2 or await self._read.has_joined(*_reader(incoming)):
            return ()
        try:
            async with asyncio.timeout(self._wait_s):
                quotes = await read_back()
        except Exception as error:  # noqa: BLE001 - named boundary, adapter callback: context is never worth one
            log.info("%s: a thread is not read back: %s", incoming.channel, type(error).__name__)
            return ()
        self.told(incoming, quotes)
        return quotes

    def told(self, incoming: Incoming, quotes: tuple[RawQuote, ...] = ()) -> None:
        """This is what goes along with a message; nothing with the one that a thread begins with."""
        self._found[incoming.id] = quotes
        while len(self._found) > _REMEMBERED:
            self._found.popitem(last=False)

    async def taken(self, incoming: Incoming) -> None:
        """The lane has it: it is told of this thread no more. Raises `BusUnavailable`."""
        if incoming.id in self._found:
            await self._read.join(*_reader(incoming))


def _reader(incoming: Incoming) -> tuple[str, str]:
    channel, thread = incoming.place[-2:]
    return channel, f"{thread}:{incoming.user_id}"
