"""What several channel processes share besides replies: named leases and send buckets."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.bus.keys import ShardKeys
from gateway.bus.line import Line
from gateway.bus.processes import ProcessName
from gateway.bus.scripts import script
from gateway.contracts.ports import TokenWish


class Holds:
    """Named leases with an end: one poller per bot token."""

    def __init__(self, line: Line, keys: ShardKeys, process: ProcessName) -> None:
        self._line = line
        self._keys = keys
        self._process = process

    async def hold(self, name: str, holder: str, *, ttl_s: float) -> bool:
        """Take or renew the lease. False: someone else holds it.

        A holder whose process died on this machine is replaced at once, any other when its time is over.
        """
        present = await self._take(name, holder, ttl_s)
        if present is not None and self._process.knows_dead(present):
            present = await self._take(name, holder, ttl_s, over=present)
        return present is None

    async def release(self, name: str, holder: str) -> None:
        """Let go of the lease, if it is ours."""
        await self._line.run(script("release"), (self._keys.hold(name),), (self._process.sign(holder),))

    async def _take(self, name: str, holder: str, ttl_s: float, *, over: str = "") -> str | None:
        answer = await self._line.run(
            script("hold"),
            (self._keys.hold(name),),
            (self._process.sign(holder), int(ttl_s * 1000), over),
        )
        return None if answer is None else answer.decode()


class Buckets:
    """Token buckets on Redis's clock, one budget for all processes."""

    def __init__(self, line: Line, keys: ShardKeys) -> None:
        self._line = line
        self._keys = keys

    async def take_send_tokens(self, account: str, wishes: Sequence[TokenWish]) -> float:
        """0: one token of each was spent, send now. Else nothing was spent: wait so many seconds and ask again."""
        keys = [self._keys.tokens(account, wish.bucket) for wish in wishes]
        numbers = [number for wish in wishes for number in (wish.per_s, wish.burst, wish.spare)]
        return int(await self._line.run(script("take_tokens"), keys, numbers)) / 1000

    async def pause_bucket(self, account: str, bucket: str, *, for_s: float) -> None:
        """A 429 said how long everybody has to wait; a longer pause that runs already stays."""
        await self._line.run(script("pause_bucket"), (self._keys.tokens(account, bucket),), (int(for_s * 1000),))
