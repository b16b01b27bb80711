"""The SDK's client over several connections: each tells of some of the bot's servers, the first of all direct chats.

After trouble the SDK begins a new session where it could have resumed the old one, so each of them is told as
one that began: what was said in between is in the history only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import discord
from discord.gateway import DiscordWebSocket

from channels.discord.client import GatewayClient
from channels.discord.gateway import Start
from channels.discord.left_session import LeftSession

IDENTIFY_EVERY_S: Final = 5.0  # within one of the rows that may identify side by side


class ShardedClient(GatewayClient, discord.AutoShardedClient):
    """As many sessions with the gateway as `start` says."""

    def __init__(self, start: Start, **parts: Any) -> None:
        super().__init__(**parts, shard_count=start.shards)
        self._concurrency = start.concurrency
        self._count = start.shards
        self._known: set[int] = set()
        self._identified_at_s: dict[int, float] = {}

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Discord lets so many connections identify at a time, and the next ones five seconds later."""
        row = (shard_id or 0) % self._concurrency
        now_s = asyncio.get_running_loop().time()
        at_s = max(now_s, self._identified_at_s.get(row, now_s - IDENTIFY_EVERY_S) + IDENTIFY_EVERY_S)
        self._identified_at_s[row] = at_s
        await asyncio.sleep(at_s - now_s)

    @property
    def session(self) -> LeftSession | None:
        """Of the first connection: only there are direct chats, which no history finds."""
        first = self.shards.get(0)
        return None if first is None else self._left(first._parent.ws)

    @property
    def _open_sockets(self) -> Sequence[DiscordWebSocket]:
        return [shard._parent.ws for shard in self.shards.values() if shard._parent.ws.open]

    async def on_shard_connect(self, shard_id: int) -> None:
        self._known.discard(shard_id)
        self._has_begun(shard_id)

    async def on_shard_ready(self, shard_id: int) -> None:
        """The SDK says that all are ready only once, whatever becomes of single ones later."""
        self._known.add(shard_id)
        self._is_well(shard_id)
        if len(self._known) == self._count:
            self._guilds_known.set()

    async def on_shard_resumed(self, shard_id: int) -> None:
        self._is_well(shard_id)

    async def on_shard_disconnect(self, shard_id: int) -> None:
        self._is_lost(shard_id)

    async def on_connect(self) -> None:
        """Told shard by shard."""

    async def on_ready(self) -> None:
        """Told shard by shard."""

    async def on_resumed(self) -> None:
        """Told shard by shard."""

    async def on_disconnect(self) -> None:
        """Told shard by shard."""
