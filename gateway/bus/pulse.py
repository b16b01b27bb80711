"""The pulse of a worker over the shards of a Cluster: one heartbeat per shard, each in a thread of its own.

A server that hangs holds up the beats of its shards only: the leases in the others go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Final, Self

from redis import Redis

from gateway.bus.cluster import Cluster, client_of_owner
from gateway.bus.heartbeat import Beating, Heartbeat
from gateway.bus.server import Server
from gateway.bus.shard import Shard
from gateway.contracts.errors import BusError
from gateway.contracts.ports import Cancel, CancelKind

_NEVER: Final = float("inf")


class SpreadPulse:
    """As `Heartbeat`, but a lease that one shard lost is taken again there, and its turns alone are cancelled."""

    def __init__(
        self,
        server: Server,
        cluster: Cluster,
        shards: Sequence[Shard],
        worker: str,
        *,
        on_cancel: Callable[[Cancel], None],
        beating: Beating,
    ) -> None:
        self._shards = shards
        self._worker = worker
        self._on_cancel = on_cancel
        self._lease_ttl_s = beating.lease_ttl_s
        self._returning: dict[int, asyncio.Task[None]] = {}
        self._beats = [
            Heartbeat(
                partial(_connect, server, cluster, number),
                shard.lanes.leases,
                worker,
                on_cancel=on_cancel,
                on_lost=partial(self._lose, number),
                beating=beating,
            )
            for number, shard in enumerate(shards)
        ]

    @property
    def lease_end_s(self) -> float:
        """As that of `Heartbeat`, for the lanes the worker holds: a shard in which it has none does not count."""
        held = [shard for shard in self._shards if shard.lanes.held(self._worker)]
        return min((shard.lanes.leases.end_s(self._worker) for shard in held), default=_NEVER)

    async def __aenter__(self) -> Self:
        for beat in self._beats:
            await beat.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*[beat.__aexit__(None, None, None) for beat in self._beats])
        for task in self._returning.values():
            task.cancel()
        if self._returning:
            await asyncio.wait(self._returning.values())

    def _lose(self, number: int) -> None:
        """The shard reaped us, or forgot us in a failover: what we run there is somebody else's by now."""
        if number in self._returning:
            return
        for lane in self._shards[number].lanes.held(self._worker):
            self._on_cancel(Cancel(lane, CancelKind.RESTART))
        self._returning[number] = asyncio.create_task(self._return(number), name=f"bus-return-{number}")

    async def _return(self, number: int) -> None:
        try:
            await self._shards[number].lanes.register(self._worker, lease_ttl_s=self._lease_ttl_s)
        except BusError:  # the next beat that is answered says again that we are not known
            return
        finally:
            del self._returning[number]


def _connect(server: Server, cluster: Cluster, shard: int) -> Redis:
    return client_of_owner(server, cluster.known, shard)
