"""The threads the bot takes part in, where people need not mention it again. Durable, on the bus."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from gateway.bus.inbound import Inbound

THREADS_KNOWN_MAX: Final = 5_000  # remembered in memory; the durable set is on the bus


class Threads:
    """The threads of one account, which `prefix` names. Raises `BusUnavailable`."""

    def __init__(self, positions: Inbound, prefix: str) -> None:
        self._positions = positions
        self._prefix = prefix
        self._joined: OrderedDict[str, None] = OrderedDict()

    async def has_joined(self, channel_id: str, thread_id: str) -> bool:
        """True when the bot was called into this thread before."""
        name = self._name(channel_id, thread_id)
        if name not in self._joined and await self._positions.position(name) is not None:
            self._remember(name)
        return name in self._joined

    async def join(self, channel_id: str, thread_id: str) -> None:
        """From now on what is said in this thread is said to the bot."""
        name = self._name(channel_id, thread_id)
        if name not in self._joined:
            await self._positions.set_position(name, thread_id)
            self._remember(name)

    def _name(self, channel_id: str, thread_id: str) -> str:
        return f"{self._prefix}:thread:{channel_id}:{thread_id}"

    def _remember(self, name: str) -> None:
        """What is not so yet may become so by another process."""
        self._joined[name] = None
        while len(self._joined) > THREADS_KNOWN_MAX:
            self._joined.popitem(last=False)
