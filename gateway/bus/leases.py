"""The lease of a worker: registered, renewed, lost. One lease covers all lanes the worker owns."""

from __future__ import annotations

import re
from typing import Any, Final

from gateway.bus.holdings import Holdings
from gateway.bus.keys import ShardKeys
from gateway.bus.line import Line
from gateway.bus.scripts import script
from gateway.contracts.errors import BusError

REAP_LANES_MAX: Final = 500  # per call, so that a beat stays short; the next beat goes on
_WORKER: Final = re.compile(r"[^\s|\x00-\x1f]{1,128}")


class Leases:
    """`register`, `beat`, `reap` and `drain` of the lane bus."""

    def __init__(self, line: Line, keys: ShardKeys, holdings: Holdings) -> None:
        self._line = line
        self._keys = keys
        self._holdings = holdings

    async def register(self, worker: str, *, lease_ttl_s: float) -> None:
        """Make `worker` known; it must beat before `lease_ttl_s` passes.

        What an earlier worker of this name still owned is handed back as if it had died.
        """
        if not _WORKER.fullmatch(worker):
            raise BusError(f"not a worker id: {worker[:40]!r} (no spaces, no '|', at most 128 characters)")
        keys = self._keys
        self._holdings.forget(worker)
        await self._line.run(
            script("register"),
            (
                keys.workers,
                keys.ready,
                keys.own,
                keys.attempts,
                keys.wake,
                keys.worker_lanes(worker),
                keys.cancels(worker),
            ),
            (worker, _ms(lease_ttl_s)),
        )

    async def beat(self, worker: str, *, lease_ttl_s: float) -> tuple[str, ...] | None:
        """Renew the lease of `worker`; the lanes whose running turn was stopped, None if the lease was lost."""
        answer = await self._line.run(
            script("beat"),
            (self._keys.workers, self._keys.cancels(worker)),
            (worker, _ms(lease_ttl_s)),
        )
        return self.heard(worker, answer)

    def heard(self, worker: str, answer: Any) -> tuple[str, ...] | None:
        """What the raw answer of a beat means for this worker."""
        if answer == -1:
            return None
        return self._holdings.cancelled(worker, [cancel.decode() for cancel in answer])

    async def reap(self) -> int:
        """Make the lanes of dead workers ready again, in front; how many."""
        keys = self._keys
        return int(
            await self._line.run(
                script("reap"),
                (keys.workers, keys.ready, keys.own, keys.attempts, keys.wake),
                (keys.worker_lanes(""), keys.cancels(""), REAP_LANES_MAX),
            )
        )

    async def drain(self, worker: str) -> None:
        """Hand every lane of `worker` back at once, without counting a failed run, and forget the worker."""
        keys = self._keys
        self._holdings.forget(worker)
        await self._line.run(
            script("drain"),
            (keys.workers, keys.ready, keys.own, keys.wake, keys.worker_lanes(worker), keys.cancels(worker)),
            (worker,),
        )


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
