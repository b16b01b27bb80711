"""Leases as a heartbeat keeps them, one step at a time and without its threads."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gateway.bus.lanes import Lanes, Leases
from gateway.contracts.ports import Cancel


def _leases(lanes: Lanes) -> Sequence[Leases]:
    return [lanes.leases_in(shard) for shard in lanes._shards]


async def beat(lanes: Lanes, worker: str, *, lease_ttl_s: float) -> tuple[Cancel, ...] | None:
    """Renew the lease of a worker; the turns to cancel, None if the lease was lost in any shard."""
    heard: list[Cancel] = []
    for leases in _leases(lanes):
        end_s = time.monotonic() + lease_ttl_s
        answer = await leases._shard.line.run_script(leases.beat_call(worker, lease_ttl_s=lease_ttl_s))
        leases.renewed(worker, answer, end_s=end_s)
        cancels = leases.heard(worker, answer)
        if cancels is None:
            return None
        heard += cancels
    return tuple(heard)


async def reap(lanes: Lanes) -> int:
    """Make the lanes of dead workers ready again, in front; how many."""
    return sum([int(await leases._shard.line.run_script(leases.reap_call())) for leases in _leases(lanes)])
