"""The end of processes that we started: killed with everything they began, and reaped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from agent.limits import REAP_S

_ATTEMPTS: Final = 3
_LOOK_S: Final = 0.01


async def undisturbed(work: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Do it to its end, whoever cancels meanwhile; a cancellation is raised behind it. Work that is itself cancelled,
    as everything is at the end of a loop, is begun anew."""
    doing, attempts = asyncio.ensure_future(work()), 1
    while not doing.done():
        try:
            await asyncio.shield(doing)
        except asyncio.CancelledError:
            if doing.cancelled() and attempts < _ATTEMPTS:
                doing, attempts = asyncio.ensure_future(work()), attempts + 1
    doing.result()
    if (task := asyncio.current_task()) is not None and task.cancelling():
        raise asyncio.CancelledError


async def reaped(process: Process, *, within_s: float = REAP_S) -> bool:
    """Wait until it has ended, but not for ever: a killed process ends at once, unless a disk holds it.

    `Process.wait` alone would also wait for its pipes, which others may hold open.
    """
    waiting = asyncio.ensure_future(process.wait())
    ends_s = asyncio.get_running_loop().time() + within_s
    while process.returncode is None and asyncio.get_running_loop().time() < ends_s:
        await asyncio.wait([waiting], timeout=_LOOK_S)
    waiting.cancel()
    return process.returncode is not None


def kill_group(process: Process) -> None:
    """Kill the group that this process leads."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def signal_each(pids: Iterable[int], number: signal.Signals) -> None:
    """Signal these; who has ended meanwhile is no matter."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
