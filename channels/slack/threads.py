"""The threads the bot takes part in, where people need not mention it again. Durable, on the bus."""

from __future__ import annotations

from collections import OrderedDict

from channels.slack.limits import THREADS_KNOWN_MAX
from gateway.contracts.ports import IntakeBus


class Threads:
    """The threads of one workspace. Raises `BusUnavailable`."""

    def __init__(self, positions: IntakeBus, account: str) -> None:
        self._positions = positions
        self._account = account
        self._known: OrderedDict[str, bool] = OrderedDict()

    async def has_joined(self, channel_id: str, thread_ts: str) -> bool:
        """True when the bot has answered in this thread."""
        name = self._name(channel_id, thread_ts)
        if name not in self._known:
            self._remember(name, await self._positions.position(name) is not None)
        return self._known[name]

    async def join(self, channel_id: str, thread_ts: str) -> None:
        """From now on what is said in this thread is said to the bot."""
        name = self._name(channel_id, thread_ts)
        if not self._known.get(name):
            await self._positions.set_position(name, thread_ts)
            self._remember(name, True)

    def _name(self, channel_id: str, thread_ts: str) -> str:
        return f"slack:{self._account}:thread:{channel_id}:{thread_ts}"

    def _remember(self, name: str, has_joined: bool) -> None:
        self._known[name] = has_joined
        self._known.move_to_end(name)
        while len(self._known) > THREADS_KNOWN_MAX:
            self._known.popitem(last=False)
