"""How work runs in an event loop: again until it succeeds, in the background, with a deadline, so much at a time, on
threads."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import Context, ContextVar, Token, copy_context
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, TypeVar

import structlog

from gateway.contracts.errors import BusUnavailable, StoreUnavailable
from gateway.contracts.ids import SessionKey

_log = structlog.get_logger(__name__)
_T = TypeVar("_T")


class Backoff:
    """Delays `first_s`, twice that, … up to `cap_s`, each between half and all of its size, so that many callers do not
    come back at once."""

    def __init__(self, first_s: float, cap_s: float) -> None:
        self._first_s = first_s
        self._cap_s = cap_s
        self._tries = 0

    @property
    def tries(self) -> int:
        """Count the delays handed out since the last reset."""
        return self._tries

    def reset(self) -> None:
        """Begin anew after a try that went well."""
        self._tries = 0

    def next_s(self) -> float:
        """Return the seconds to wait before the next try."""
        whole_s = min(self._cap_s, self._first_s * 2.0 ** min(self._tries, 32))
        self._tries += 1
        return jittered(whole_s)


def jittered(delay_s: float) -> float:
    """Return a time between half and all of `delay_s`."""
    return delay_s * (0.5 + 0.5 * random.random())


# What may not be left half done while bus or store are away.


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The time for which a call is repeated, and the `Backoff` between its tries.

    A server that restarts is back within a second; one that fails over needs half a minute."""

    for_s: float = math.inf
    first_s: float = 0.1
    cap_s: float = 2.0


FOR_EVER: Final = RetryPolicy()


async def retry_until_available(
    call: Callable[[], Awaitable[_T]],
    policy: RetryPolicy = FOR_EVER,
    *,
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> _T:
    """Return the answer of `call`, made again for as long as bus or store are away; so it must bear repetition.

    Ends only with an answer, another error, what `wait` raises, or the cancellation of its caller; raises
    `BusUnavailable` or `StoreUnavailable` when the call has failed for as long as the policy says."""
    backoff, give_up_at = Backoff(policy.first_s, policy.cap_s), time.monotonic() + policy.for_s
    while True:
        try:
            return await call()
        except (BusUnavailable, StoreUnavailable) as error:
            pause_s = backoff.next_s()
            if time.monotonic() + pause_s > give_up_at:
                raise
            _log.warning("away.retry", attempt=backoff.tries, reason=str(error))
        await wait(pause_s)


class BackgroundTasks:
    """Tasks of one owner. A task that nobody holds may vanish, so these are held until they end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, None], *, name: str | None = None) -> asyncio.Task[None]:
        """Run `work` in the background."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def settle(self, *, timeout_s: float | None = None) -> None:
        """Wait for what runs, `timeout_s` at most."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=timeout_s)

    async def finish(self, *, timeout_s: float) -> None:
        """Wait for what runs, then cancel the rest."""
        await self.settle(timeout_s=timeout_s)
        for task in self._tasks:
            task.cancel()

    async def cancel(self) -> None:
        """Cancel what runs, and wait until it has ended."""
        await self.finish(timeout_s=0)
        await self.settle()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("background.failed", exc_info=error)


@asynccontextmanager
async def alongside(work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run `work` alongside the block; at the end of the block it is cancelled, and waited for."""
    running = asyncio.create_task(work)
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait([running])


async def wait_at_most(event: asyncio.Event, limit_s: float | None) -> bool:
    """Wait until the event is set, at the latest `limit_s` (None: for ever); tell whether it is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s):  # wait_for may swallow a cancellation before Python 3.12
            await event.wait()
    return event.is_set()


_NOTICED_WITHIN_S: Final = 0.02  # a cancellation that is not forgotten ends a call at once


async def cancel_reliably(call: Awaitable[_T]) -> _T:
    """Await a call into a library without losing a cancellation.

    redis-py and the platforms' SDKs wait by `asyncio.wait_for`, which before Python 3.12 forgets a cancellation that
    arrives in the moment when the waiting ends: a process told to stop would go on. So the call has a task of its own,
    which is cancelled until it has noticed."""
    calling = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(calling)
    except asyncio.CancelledError:
        while not calling.done():
            calling.cancel()
            await asyncio.wait({calling}, timeout=_NOTICED_WITHIN_S)
        if not calling.cancelled():
            calling.exception()  # looked at, or asyncio would complain that nobody did
        raise


async def first_to_end(*works: Coroutine[Any, Any, None]) -> None:
    """Run all until one ends, or fails and raises; then cancel the others and wait for them."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# Time limits that stand still while a person is asked.
#
# A turn, and within it a tool, may take only so long; a person who is asked may take a quarter of an hour, and that
# is not their time. So a question is asked `while_asking()`: every limit around it, in this task or in one that led to
# it, stops counting until the answer is there. Other work of the same turn gains by that; it has limits of its own.


class Deadline:
    """`async with Deadline(limit_s):` is like `asyncio.timeout`, but stands still `while_asking()`. Enter it once.

    Raises `TimeoutError` at the end of the block when the limit has passed."""

    def __init__(self, limit_s: float) -> None:
        self._left_s = limit_s
        self._timeout = asyncio.timeout(None)
        self._pauses = 0
        self._is_over = False
        self._token: Token[tuple[Deadline, ...]] | None = None

    @property
    def has_passed(self) -> bool:
        """Tell whether it was this limit that ended the block."""
        return self._timeout.expired()

    @property
    def left_s(self) -> float:
        """Return how many seconds are left; all of them before it is entered."""
        when = self._timeout.when()
        return self._left_s if when is None else max(when - _now_s(), 0.0)

    async def __aenter__(self) -> Deadline:
        await self._timeout.__aenter__()
        self._token = _AROUND.set((*_AROUND.get(), self))
        self._count()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        if self._token is not None:
            _AROUND.reset(self._token)
        await self._timeout.__aexit__(kind, error, trace)

    def pause(self) -> None:
        """Pause until `resume` was called as often."""
        self._pauses += 1
        if self._pauses == 1 and self._counts:
            self._left_s = max((self._timeout.when() or 0.0) - _now_s(), 0.0)
            self._timeout.reschedule(None)

    def resume(self) -> None:
        """Go on with what was left."""
        self._pauses -= 1
        if self._pauses == 0 and self._counts:
            self._count()

    @property
    def _counts(self) -> bool:
        """Tell whether the deadline is still active: work that was left over may ask after its end, and its time does
        not count."""
        return not self._is_over and not self._timeout.expired()

    def _count(self) -> None:
        self._timeout.reschedule(_now_s() + self._left_s)


_AROUND: Final[ContextVar[tuple[Deadline, ...]]] = ContextVar("deadlines", default=())


@contextmanager
def while_asking() -> Iterator[None]:
    """Pause every deadline around this block."""
    around = _AROUND.get()
    for limit in around:
        limit.pause()
    try:
        yield
    finally:
        for limit in around:
            limit.resume()


def outside_deadlines() -> Context:
    """Return the context for work that outlives what begins it: no deadline around this applies to it."""
    context = copy_context()
    context.run(_AROUND.set, ())
    return context


def _now_s() -> float:
    return asyncio.get_running_loop().time()


# How much of one kind runs at a time in one process, and which is next when more is waiting.
#
# The next slot goes to the waiting user with the fewest running, so that one user's crowd does not delay another's
# first; among equals, and for each user, first come is first served.


class Slots:
    """Limits work to `live_max` at a time, and to `owner_max` of one owner. For one event loop.

    A slot that is freed goes to the next waiter in the same step, so nobody can come in between."""

    def __init__(self, live_max: int, owner_max: int | None = None) -> None:
        self._live_max = live_max
        self._owner_max = live_max if owner_max is None else owner_max
        self._live: Counter[SessionKey] = Counter()
        self._line: deque[tuple[SessionKey, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def held(self, owner: SessionKey) -> AsyncIterator[None]:
        """Hold a slot for as long as the block lasts. Waits for one; cancelling the wait gives up the place in the
        line and loses no slot."""
        await self.enter(owner)
        try:
            yield
        finally:
            self.leave(owner)

    @property
    def live(self) -> int:
        """Count the slots that are held."""
        return self._live.total()

    @property
    def waiting(self) -> int:
        """Count those who wait for a slot."""
        return sum(not turn.done() for _, turn in self._line)

    async def enter(self, owner: SessionKey) -> None:
        """Wait for a slot and take it, for what ends elsewhere than it began; `held` is for everything else."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append((owner, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(owner)  # admitted and cancelled in one step: the slot goes on to the next
            else:
                self._line.remove((owner, turn))
            raise

    def leave(self, owner: SessionKey) -> None:
        """Free a slot that `enter` took."""
        self._live[owner] -= 1
        self._live = +self._live
        self._admit()

    def _admit(self) -> None:
        while self.live < self._live_max:
            waiting = [
                place  # a cancelled one is about to go
                for place in self._line
                if not place[1].done() and self._live[place[0]] < self._owner_max
            ]
            if not waiting:
                return
            owner, turn = min(waiting, key=lambda place: self._live[place[0]])
            self._line.remove((owner, turn))
            self._live[owner] += 1
            turn.set_result(None)


class SharedThreads:
    """Threads of one purpose, with a share for each owner: work that models ask for never occupies the threads
    that attachments and sandboxes need. For one event loop."""

    def __init__(self, name: str, live_max: int, owner_max: int) -> None:
        self._slots = Slots(live_max, owner_max)
        self._pool = ThreadPoolExecutor(live_max, thread_name_prefix=name)

    async def call(self, owner: SessionKey, work: Callable[[], _T]) -> _T:
        """Return what `work` returns, on a thread. A cancelled caller waits no longer; the slot is free when the
        thread is."""
        await self._slots.enter(owner)
        loop = asyncio.get_running_loop()

        def ended(_done: Future[_T]) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits for a slot any more
                loop.call_soon_threadsafe(self._slots.leave, owner)

        running = self._pool.submit(copy_context().run, work)
        running.add_done_callback(ended)
        return await asyncio.wrap_future(running)

    def close(self) -> None:
        """Begin nothing more; what runs ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)


# Wakes a loop that sleeps between two looks at the database, where this process knows better.


class Wakeup:
    """Wakes a loop of this process when there is something for it to do."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Look again now."""
        self._rung.set()

    async def wait(self, timeout_s: float) -> None:
        """Return when it rings, at the latest after `timeout_s`."""
        await wait_at_most(self._rung, timeout_s)
        self._rung.clear()
