"""Looks for what a turn waits for as soon as it has yielded: that may have happened meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from agent.afterwards.finished import AfterTurn, Finished


def waking_waiters(ring: Callable[[], None]) -> AfterTurn:
    """What is left to do after each turn."""

    async def look(finished: Finished) -> None:
        if finished.commit.barrier is not None:
            ring()

    return look
