"""Time limits that stand still while a person is asked.

A turn, and within it a tool, may take only so long; a person who is asked may take a quarter of an hour, and that
is not their time. Whoever asks does so `while_asking()`: every limit around it, in this task or in one that led to
it, stops counting until the answer is there. What runs beside it in the same turn gains by that; it has limits of
its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, Token, copy_context
from types import TracebackType
from typing import Final


class Deadline:
    """`async with Deadline(limit_s):` is like `asyncio.timeout`, but stands still `while_asking()`. Enter it once.

    Raises `TimeoutError` at the end of the block when the limit has passed.
    """

    def __init__(self, limit_s: float) -> None:
        self._left_s = limit_s
        self._timeout = asyncio.timeout(None)
        self._pauses = 0
        self._is_over = False
        self._token: Token[tuple[Deadline, ...]] | None = None

    @property
    def has_passed(self) -> bool:
        """True when it was this limit that ended the block."""
        return self._timeout.expired()

    @property
    def left_s(self) -> float:
        """How much of it is left; all of it before it is entered."""
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
        """Stand still, until `resume` was called as often."""
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
        """False once it has ended: work that was left behind may still ask, and nobody counts its time."""
        return not self._is_over and not self._timeout.expired()

    def _count(self) -> None:
        self._timeout.reschedule(_now_s() + self._left_s)


_AROUND: Final[ContextVar[tuple[Deadline, ...]]] = ContextVar("deadlines", default=())


@contextmanager
def while_asking() -> Iterator[None]:
    """Every deadline around this stands still."""
    around = _AROUND.get()
    for limit in around:
        limit.pause()
    try:
        yield
    finally:
        for limit in around:
            limit.resume()


def outside_deadlines() -> Context:
    """The context for work that outlives what begins it: no deadline around this is one of its own."""
    context = copy_context()
    context.run(_AROUND.set, ())
    return context


def _now_s() -> float:
    return asyncio.get_running_loop().time()
