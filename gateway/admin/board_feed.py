"""Tells listeners when the task board has changed. One question to SQL answers them all, while there are any.

first listener ──▶ look every half second ──▶ another revision: all wake ──▶ … ──▶ last one gone: nobody looks
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

import structlog

from gateway.contracts.errors import StoreError
from gateway.store.subagents import TaskStore

LISTENERS_MAX: Final = 128  # operators' windows, and scripts; each holds a connection and a few kB
LOOK_EVERY_S: Final = 0.5

_log = structlog.get_logger("trivet.admin")


class TooManyListeners(Exception):
    """There are as many as may be."""


class BoardFeed:
    """The revisions of the board, for as many listeners as may be, until `stopping` is set or SQL is away."""

    def __init__(self, book: TaskStore, stopping: asyncio.Event, *, look_every_s: float = LOOK_EVERY_S) -> None:
        self._book = book
        self._stopping = stopping
        self._look_every_s = look_every_s
        self._listeners = 0
        self._looking: asyncio.Task[None] | None = None
        self._revision = 0
        self._news = asyncio.Event()

    @contextlib.asynccontextmanager
    async def seat(self) -> AsyncIterator[None]:
        """A listener's place, as long as the block lasts. Raises `TooManyListeners`, and `StoreError` if the board
        cannot be read to begin with."""
        if self._listeners >= LISTENERS_MAX:
            raise TooManyListeners
        self._listeners += 1
        try:
            self._see(await self._book.revision())
            yield
        finally:
            self._listeners -= 1
            if not self._listeners and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def revisions(self, known: int | None) -> AsyncIterator[int]:
        """For who has a seat: the present revision, unless it is `known`, and each one from then on. Where several
        follow each other quickly, the last is enough."""
        looking = self._looked_at()
        while True:
            news = self._news
            if self._revision != known:
                known = self._revision
                yield known
            elif looking.done():
                return
            else:
                await news.wait()

    def _looked_at(self) -> asyncio.Task[None]:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return self._looking

    async def _look(self) -> None:
        """Until told to stop, or nobody is left, or SQL is away: those who listen come again then."""
        try:
            while not await self._is_stopping():
                self._see(await self._book.revision())
        except StoreError as error:
            _log.warning("the board cannot be read", reason=str(error))
        finally:
            self._wake()

    async def _is_stopping(self) -> bool:
        try:
            async with asyncio.timeout(self._look_every_s):
                return await self._stopping.wait()
        except TimeoutError:
            return False

    def _see(self, revision: int) -> None:
        if revision != self._revision:
            self._revision = revision
            self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
