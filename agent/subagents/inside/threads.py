"""The threads of a child that run its tools."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread


class ToolThreads:
    """None, until they stand; nobody waits for them at the end of the process."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def stand(self, count: int) -> None:
        """Start so many, all of them now."""
        for _ in range(count):
            Thread(target=self._work, daemon=True).start()

    def do(self, work: Callable[[], None]) -> None:
        """As soon as one of them is free; what was asked first begins first."""
        self._waiting.put(work)

    def _work(self) -> None:
        while True:
            self._waiting.get()()
