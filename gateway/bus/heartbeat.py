"""The heartbeat of a worker, and names for processes that tell a dead one.

A heartbeat is a small thread with its own connection for each shard.

An event loop that is busy for some seconds must not lose its leases, so the beat does not depend on it;
a loop that is dead must lose them, so the beat pauses when the loop has not ticked for LOOP_DEAD_AFTER_S.
A server that hangs holds up the beats of its shards only: the leases in the others go on."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from redis import Redis
from redis.exceptions import RedisError

from gateway.bus.lanes import Lanes, Leases
from gateway.bus.scripts import ScriptCall
from gateway.bus.shards import Shard, Shards
from gateway.contracts.errors import BusError
from gateway.contracts.ports import Cancel, CancelKind
from gateway.limits import BEAT_EVERY_S, LEASE_TTL_S, LOOP_DEAD_AFTER_S

_TICK_EVERY_S: Final = 0.5
_SEPARATOR: Final = "@"
_PROC: Final = Path("/proc")
_START_FIELD: Final = 19  # of /proc/<pid>/stat after the command's name: starttime (proc(5), field 22)
_DEAD_STATES: Final = frozenset("ZXx")


@dataclass(frozen=True, slots=True)
class HeartbeatTimes:
    """The times of a heartbeat: how often it beats, how long a beat lasts, how long the event loop may stop."""

    lease_ttl_s: float = LEASE_TTL_S
    every_s: float = BEAT_EVERY_S
    loop_dead_after_s: float = LOOP_DEAD_AFTER_S


@dataclass(eq=False, repr=False)
class Heartbeat:
    """Beats and reaps for one registered worker while its block runs.

    `on_cancel(cancel)` and `on_lost()` are called in the event loop: cancel that turn; cancel all of
    them and register again. The beat goes on after a loss, so the worker may register at any time. Of several shards,
    a lease that one lost is taken again there, and its turns alone are cancelled."""

    shards: Shards
    lanes: Lanes
    worker: str
    _: KW_ONLY
    on_cancel: Callable[[Cancel], None]
    on_lost: Callable[[], None]
    times: HeartbeatTimes
    _returning: dict[int, asyncio.Task[None]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._beats = [
            _ShardBeat(
                shard.blocking_client,
                self.lanes.leases_in(shard),
                self.worker,
                on_cancel=self.on_cancel,
                on_lost=self.on_lost if self.shards.is_one else partial(self._lose, shard),
                times=self.times,
            )
            for shard in self.shards
        ]

    @property
    def lease_end_s(self) -> float:
        """Return the monotonic time up to which nobody can have taken our lanes; 0 once the lease is known to be lost.

        Whatever ends before it was done by the only owner. A process that was paused finds it in the past. A shard in
        which the worker has no lane does not count; without any lane it is the longest lease."""
        ends_s = [self.lanes.leases_in(shard).end_s(self.worker) for shard in self.shards]
        held = [ends_s[shard.number] for shard in self.shards if self.lanes.held(shard, self.worker)]
        return min(held, default=max(ends_s))

    async def __aenter__(self) -> Self:
        for beat in self._beats:
            beat.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*[beat.stop() for beat in self._beats])
        for task in self._returning.values():
            task.cancel()
        if self._returning:
            await asyncio.wait(self._returning.values())

    def _lose(self, shard: Shard) -> None:
        """Begin anew in a shard that reaped us, or forgot us in a failover: what we run there is somebody else's by
        now."""
        if shard.number in self._returning:
            return
        for lane in self.lanes.held(shard, self.worker):
            self.on_cancel(Cancel(lane, CancelKind.RESTART))
        returning = asyncio.create_task(self._return(shard), name=f"bus-return-{shard.number}")
        self._returning[shard.number] = returning

    async def _return(self, shard: Shard) -> None:
        try:
            await self.lanes.leases_in(shard).register(self.worker, lease_ttl_s=self.times.lease_ttl_s)
        except BusError:  # the next beat that is answered says again that we are not known
            return
        finally:
            del self._returning[shard.number]


@dataclass(eq=False, repr=False)
class _ShardBeat:
    """The thread that beats in one shard."""

    connect: Callable[[], Redis]
    leases: Leases
    worker: str
    _: KW_ONLY
    on_cancel: Callable[[Cancel], None]
    on_lost: Callable[[], None]
    times: HeartbeatTimes
    _stop: threading.Event = field(init=False, default_factory=threading.Event)
    _ticked_at: float = field(init=False, default=0.0)
    _reap_from_s: float = field(init=False, default=0.0)
    _ticker: asyncio.TimerHandle | None = field(init=False, default=None)
    _thread: threading.Thread | None = field(init=False, default=None)

    def start(self) -> None:
        """Begin to beat."""
        loop = asyncio.get_running_loop()
        self._tick(loop)
        self._thread = threading.Thread(target=self._beat_on, args=(loop,), name="bus-heartbeat", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._ticker is not None:
            self._ticker.cancel()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ticked_at = time.monotonic()
        self._ticker = loop.call_later(_TICK_EVERY_S, self._tick, loop)

    def _beat_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the thread: beat, reap, tell the loop; an outage of Redis is waited out."""
        client: Redis | None = None
        while not self._stop.wait(self.times.every_s):
            if time.monotonic() - self._ticked_at > self.times.loop_dead_after_s:
                continue
            try:
                client = client or self.connect()
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
        if 0 < self.leases.end_s(self.worker) < now_s:
            # Redis was away, and not only for us: the others get the time of a lease to say that they live.
            self._reap_from_s = now_s + self.times.lease_ttl_s
        end_s = now_s + self.times.lease_ttl_s
        answer = _evaluate(client, self.leases.beat_call(self.worker, lease_ttl_s=self.times.lease_ttl_s))
        self.leases.renewed(self.worker, answer, end_s=end_s)
        if now_s >= self._reap_from_s:
            _evaluate(client, self.leases.reap_call())
        return answer

    def _tell(self, answer: Any) -> None:
        cancels = self.leases.heard(self.worker, answer)
        if cancels is None:
            self.on_lost()
            return
        for cancel in cancels:
            self.on_cancel(cancel)


def _evaluate(client: Redis, call: ScriptCall) -> Any:
    return client.eval(call.script.text, len(call.keys), *call.keys, *call.arguments)


@dataclass(frozen=True, slots=True)
class ProcessName:
    """One process on one machine. `machine` is empty where nothing can be known.

    A lease tells after seconds that its holder is gone. A process that was killed and started again on the
    same machine need not wait: boot, process namespace, process id and start time together name one
    process for ever, and /proc says whether it still runs. Elsewhere (another machine, container, or a
    system without /proc) nobody is judged, and the lease decides."""

    machine: str
    pid: int
    started: int

    @classmethod
    def of_this_process(cls) -> ProcessName:
        """Return the name of the caller's process."""
        pid = os.getpid()
        return cls(_machine(), pid, _started(pid) or 0)

    def sign(self, name: str) -> str:
        """Return `name`, and whose it is."""
        return f"{name}{_SEPARATOR}{self.machine}.{self.pid}.{self.started}"

    def knows_dead(self, signed: str) -> bool:
        """Tell whether `signed` names a process of this machine that does not run any more."""
        other = _signer(signed)
        if other is None or not self.machine or other.machine != self.machine:
            return False
        return _started(other.pid) != other.started


def _signer(signed: str) -> ProcessName | None:
    machine, _, numbers = signed.rpartition(_SEPARATOR)[2].partition(".")
    pid, _, started = numbers.partition(".")
    if not (pid.isdecimal() and started.isdecimal()):
        return None
    return ProcessName(machine, int(pid), int(started))


@cache
def _machine() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return ""
    return f"{boot}-{''.join(filter(str.isdecimal, namespace))}"


def _started(pid: int) -> int | None:
    """Tell when a process of this machine started, in clock ticks; None when it does not run."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in _DEAD_STATES else int(fields[_START_FIELD])
