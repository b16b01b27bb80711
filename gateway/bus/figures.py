"""What the operator asks the bus, and what channels report about themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.bus.keys import ShardKeys
from gateway.bus.line import Line
from gateway.bus.scripts import script
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import QueueFigures


class Operator:
    """`gateway.contracts.ports.OperatorBus`."""

    def __init__(self, line: Line, keys: ShardKeys) -> None:
        self._line = line
        self._keys = keys

    async def figures(self) -> QueueFigures:
        """The state of the bus at one moment. `queued` counts every message not yet answered."""
        keys = self._keys
        queued, ready, running, delayed, dead, workers, pending, states = await self._line.run(
            script("figures"),
            (
                keys.total,
                keys.ready,
                keys.own,
                keys.delay,
                keys.dead_letters,
                keys.workers,
                keys.outbound_channels,
                keys.channel_reports,
            ),
            (keys.outbound(""),),
        )
        return QueueFigures(
            queued=queued,
            ready=ready,
            running=running,
            delayed=delayed,
            dead_letters=dead,
            workers_alive=workers,
            outbound_pending={name.decode(): count for name, count in _pairs(pending)},
            channels_connected={name.decode(): state.decode() for name, state in _pairs(states)},
        )

    async def lane_depth(self, key: SessionKey) -> tuple[int, bool]:
        """Messages waiting in a lane, and whether a turn runs."""
        lane = str(key)
        length, owner = await self._line.call_all(
            [("LLEN", self._keys.mailbox(lane)), ("HGET", self._keys.own, lane)],
        )
        in_work = int(owner.rpartition(b"|")[2]) if owner else 0
        return max(0, length - in_work), owner is not None

    async def is_in_work(self, key: SessionKey, fence: int) -> bool:
        """Whether the turn with this fencing token still owns the lane."""
        owner = await self._line.call("HGET", self._keys.own, str(key))
        return owner is not None and int(owner.split(b"|")[-2]) == fence

    async def report_channel(self, channel: str, state: str, *, ttl_s: float) -> None:
        """A channel says how it is (`connected`, or a plain reason); forgotten after `ttl_s`."""
        await self._line.run(
            script("report_channel"),
            (self._keys.channel_reports,),
            (channel, state, int(ttl_s * 1000)),
        )

    async def ping(self) -> None:
        """Raises `BusUnavailable` unless Redis answers."""
        await self._line.call("PING")


def _pairs(flat: Sequence[Any]) -> list[tuple[Any, Any]]:
    return list(zip(flat[::2], flat[1::2], strict=True))
