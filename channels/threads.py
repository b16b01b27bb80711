"""The threads the bot takes part in, where people need not mention it again. Durable, on the bus."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from gateway.contracts.ports import IntakeBus

THREADS_KNOWN_MAX: Final = 5_000  # remembered in memory; the durable set is on the bus


class Threads:
    """The threads of one account, which `prefix` names. Raises `BusUnavailable`."""

    def __init__(self, positions: IntakeBus, prefix: str) -> None:
        self._positions = positions
        self._prefix = prefix
        self._known: OrderedDict[str, bool] = OrderedDict()

    async def has_joined(self, channel_id: str, thread_id: str) -> bool:
        """True when the bot was called into this thread before."""
        name = self._name(channel_id, thread_id)
        if name not in self._known:
            self._remember(name, await self._positions.position(name) is not None)
        return self._known[name]

    async def join(self, channel_id: str, thread_id: str) -> None:
        """From now on what is said in this thread is said to the bot."""
        name = self._name(channel_id, thread_id)
        if not self._known.get(name):
            await self._positions.set_position(name, thread_id)
            self._remember(name, True)

    def _name(self, channel_id: str, thread_id: str) -> str:
        return f"{self._prefix}:thread:{channel_id}:{thread_id}"

    def _remember(self, name: str, has_joined: bool) -> None:
        self._known[name] = has_joined
        self._known.move_to_end(name)
        while len(self._known) > THREADS_KNOWN_MAX:
            self._known.popitem(last=False)
