"""The lease of a worker: registered, renewed, lost. One lease covers all lanes the worker owns."""

from __future__ import annotations

import re
import time
from typing import Any, Final

from gateway.bus.holdings import Holdings
from gateway.bus.keys import ShardKeys
from gateway.bus.lanescripts import LaneScripts, ScriptCall
from gateway.bus.line import Line
from gateway.bus.scripts import script
from gateway.contracts.errors import BusError
from gateway.contracts.ports import Cancel

_WORKER: Final = re.compile(r"[^\s|\x00-\x1f]{1,128}")


class Leases:
    """`register`, `beat`, `reap` and `drain` of the lane bus, and how long each lease surely lasts."""

    def __init__(self, line: Line, keys: ShardKeys, scripts: LaneScripts, holdings: Holdings) -> None:
        self._line = line
        self._keys = keys
        self._scripts = scripts
        self._holdings = holdings
        self._ends_s: dict[str, float] = {}
        self._heard: dict[str, tuple[bytes, ...]] = {}

    def end_s(self, worker: str) -> float:
        """The monotonic time up to which nobody can have taken the worker's lanes; 0 without a lease."""
        return self._ends_s.get(worker, 0.0)

    async def register(self, worker: str, *, lease_ttl_s: float) -> None:
        """Make `worker` known; it must beat before `lease_ttl_s` passes.

        What an earlier worker of this name still owned is handed back as if it had died.
        """
        if not _WORKER.fullmatch(worker):
            raise BusError(f"not a worker id: {worker[:40]!r} (no spaces, no '|', at most 128 characters)")
        self._forget(worker)
        end_s = time.monotonic() + lease_ttl_s
        await self._scripts.run("register", (self._keys.workers,), (worker, _ms(lease_ttl_s)))
        self._ends_s[worker] = end_s

    async def beat(self, worker: str, *, lease_ttl_s: float) -> tuple[Cancel, ...] | None:
        """Renew the lease of `worker`; the turns to cancel, None if the lease was lost."""
        call = self.beat_call(worker, lease_ttl_s=lease_ttl_s)
        end_s = time.monotonic() + lease_ttl_s
        answer = await self._line.run(call.script, call.keys, call.arguments)
        self.renewed(worker, answer, end_s=end_s)
        return self.heard(worker, answer)

    def beat_call(self, worker: str, *, lease_ttl_s: float) -> ScriptCall:
        """The next beat: it also says which cancels the last one brought."""
        keys = (self._keys.workers, self._keys.cancels(worker))
        return ScriptCall(script("beat"), keys, (worker, _ms(lease_ttl_s), *self._heard.get(worker, ())))

    def renewed(self, worker: str, answer: Any, *, end_s: float) -> None:
        """Note what the raw answer of a beat says about the lease, in whichever thread."""
        self._ends_s[worker] = 0.0 if answer == -1 else end_s

    def heard(self, worker: str, answer: Any) -> tuple[Cancel, ...] | None:
        """The turns to cancel by the raw answer of a beat, None if it says that the lease was lost."""
        if answer == -1:
            return None
        self._heard[worker] = tuple(answer)
        return self._holdings.cancelled(worker, [cancel.decode() for cancel in answer])

    async def reap(self) -> int:
        """Make the lanes of dead workers ready again, in front; how many."""
        call = self.reap_call()
        return int(await self._line.run(call.script, call.keys, call.arguments))

    def reap_call(self) -> ScriptCall:
        """The script that reaps."""
        return self._scripts.call("reap", (self._keys.workers,))

    async def drain(self, worker: str) -> None:
        """Hand every lane of `worker` back at once, without counting a failed run, and forget the worker."""
        self._forget(worker)
        await self._scripts.run("drain", (self._keys.workers,), (worker,))

    def _forget(self, worker: str) -> None:
        self._ends_s.pop(worker, None)
        self._heard.pop(worker, None)
        self._holdings.forget(worker)


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
