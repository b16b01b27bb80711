"""The pulse of a worker: a small thread with its own connection.

An event loop that is busy for some seconds must not lose its leases, so the beat does not depend on it;
a loop that is dead must lose them, so the beat pauses when the loop has not ticked for LOOP_DEAD_AFTER_S.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from redis import Redis
from redis.exceptions import RedisError

from gateway.bus.lanescripts import ScriptCall
from gateway.bus.leases import Leases
from gateway.contracts.ports import Cancel
from gateway.limits import BEAT_EVERY_S, LEASE_TTL_S, LOOP_DEAD_AFTER_S

_TICK_EVERY_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Beating:
    """How often a worker beats, how long a beat lasts, and how long its event loop may stand still."""

    lease_ttl_s: float = LEASE_TTL_S
    every_s: float = BEAT_EVERY_S
    loop_dead_after_s: float = LOOP_DEAD_AFTER_S


class Heartbeat:
    """Beats and reaps for one registered worker while its block runs.

    `on_cancel(cancel)` and `on_lost()` are called in the event loop: cancel that turn; cancel all of
    them and register again. The beat goes on after a loss, so the worker may register at any time.
    """

    def __init__(
        self,
        connect: Callable[[], Redis],
        leases: Leases,
        worker: str,
        *,
        on_cancel: Callable[[Cancel], None],
        on_lost: Callable[[], None],
        beating: Beating,
    ) -> None:
        self._connect = connect
        self._leases = leases
        self._worker = worker
        self._on_cancel = on_cancel
        self._on_lost = on_lost
        self._lease_ttl_s = beating.lease_ttl_s
        self._beat_every_s = beating.every_s
        self._loop_dead_after_s = beating.loop_dead_after_s
        self._stop = threading.Event()
        self._ticked_at = 0.0
        self._reap_from_s = 0.0
        self._ticker: asyncio.TimerHandle | None = None
        self._thread: threading.Thread | None = None

    @property
    def lease_end_s(self) -> float:
        """The monotonic time up to which nobody can have taken our lanes; 0 once the lease is known to be lost.

        Whatever ends before it was done by the only owner. A process that was paused finds it in the past.
        """
        return self._leases.end_s(self._worker)

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
        client: Redis | None = None
        while not self._stop.wait(self._beat_every_s):
            if time.monotonic() - self._ticked_at > self._loop_dead_after_s:
                continue
            try:
                client = client or self._connect()
                answer = self._beat(client)
            except (RedisError, OSError):
                # Another server may serve us by the next beat: it is looked up anew.
                if client is not None:
                    client.close()
                client = None
                continue
            if not self._stop.is_set() and not loop.is_closed():
                loop.call_soon_threadsafe(self._tell, answer)
        if client is not None:
            client.close()

    def _beat(self, client: Redis) -> Any:
        now_s = time.monotonic()
        if 0 < self._leases.end_s(self._worker) < now_s:
            # Redis was away, and not only for us: the others get the time of a lease to say that they live.
            self._reap_from_s = now_s + self._lease_ttl_s
        end_s = now_s + self._lease_ttl_s
        answer = _evaluate(client, self._leases.beat_call(self._worker, lease_ttl_s=self._lease_ttl_s))
        self._leases.renewed(self._worker, answer, end_s=end_s)
        if now_s >= self._reap_from_s:
            _evaluate(client, self._leases.reap_call())
        return answer

    def _tell(self, answer: Any) -> None:
        cancels = self._leases.heard(self._worker, answer)
        if cancels is None:
            self._on_lost()
            return
        for cancel in cancels:
            self._on_cancel(cancel)


def _evaluate(client: Redis, call: ScriptCall) -> Any:
    return client.eval(call.script.text, len(call.keys), *call.keys, *call.arguments)
