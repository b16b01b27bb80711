"""The pulse of a worker: a small thread with its own connection.

An event loop that is busy for some seconds must not lose its leases, so the beat does not depend on it;
a loop that is dead must lose them, so the beat pauses when the loop has not ticked for LOOP_DEAD_AFTER_S.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from redis import Redis
from redis.exceptions import RedisError

from gateway.bus.keys import ShardKeys
from gateway.bus.leases import REAP_LANES_MAX, Leases
from gateway.bus.scripts import Script, script
from gateway.limits import BEAT_EVERY_S, LEASE_TTL_S, LOOP_DEAD_AFTER_S

_TICK_EVERY_S: Final = 0.5


class Heartbeat:
    """Beats and reaps for one registered worker while its block runs.

    `on_cancel(lane)` and `on_lost()` are called in the event loop: cancel the lane's turn; cancel all of
    them and register again. The beat goes on after a loss, so the worker may register at any time.
    """

    def __init__(
        self,
        connect: Callable[[], Redis],
        keys: ShardKeys,
        leases: Leases,
        worker: str,
        *,
        on_cancel: Callable[[str], None],
        on_lost: Callable[[], None],
        lease_ttl_s: float = LEASE_TTL_S,
        beat_every_s: float = BEAT_EVERY_S,
        loop_dead_after_s: float = LOOP_DEAD_AFTER_S,
    ) -> None:
        self._connect = connect
        self._keys = keys
        self._leases = leases
        self._worker = worker
        self._on_cancel = on_cancel
        self._on_lost = on_lost
        self._lease_ms = int(lease_ttl_s * 1000)
        self._beat_every_s = beat_every_s
        self._loop_dead_after_s = loop_dead_after_s
        self._stop = threading.Event()
        self._ticked_at = 0.0
        self._ticker: asyncio.TimerHandle | None = None
        self._thread: threading.Thread | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._tick(loop)
        self._thread = threading.Thread(target=self._beat_on, args=(loop,), name="bus-heartbeat", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._ticker is not None:
            self._ticker.cancel()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ticked_at = time.monotonic()
        self._ticker = loop.call_later(_TICK_EVERY_S, self._tick, loop)

    def _beat_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """The thread: beat, reap, tell the loop; an outage of Redis is waited out."""
        client = self._connect()
        try:
            while not self._stop.wait(self._beat_every_s):
                if time.monotonic() - self._ticked_at > self._loop_dead_after_s:
                    continue
                try:
                    answer = self._beat(client)
                except (RedisError, OSError):
                    continue
                if not self._stop.is_set() and not loop.is_closed():
                    loop.call_soon_threadsafe(self._tell, answer)
        finally:
            client.close()

    def _beat(self, client: Redis) -> Any:
        keys = self._keys
        answer = _evaluate(
            client,
            script("beat"),
            (keys.workers, keys.cancels(self._worker)),
            (self._worker, self._lease_ms),
        )
        _evaluate(
            client,
            script("reap"),
            (keys.workers, keys.ready, keys.own, keys.attempts, keys.wake),
            (keys.worker_lanes(""), keys.cancels(""), REAP_LANES_MAX),
        )
        return answer

    def _tell(self, answer: Any) -> None:
        lanes = self._leases.heard(self._worker, answer)
        if lanes is None:
            self._on_lost()
            return
        for lane in lanes:
            self._on_cancel(lane)


def _evaluate(client: Redis, run: Script, keys: tuple[str, ...], arguments: tuple[str | int, ...]) -> Any:
    return client.eval(run.text, len(keys), *keys, *arguments)
