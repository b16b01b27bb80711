"""The end of processes that we started: killed with everything they began, and reaped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Coroutine, Iterable
from typing import Any, Final

from agent.limits import REAP_S
from agent.tools.execution.processes import children

_ORDERLY_S: Final = 1.0  # bubblewrap takes a millisecond, unless somebody has stopped it


async def undisturbed(work: Coroutine[Any, Any, None]) -> None:
    """Do it to its end, whoever cancels meanwhile; a cancellation is raised behind it."""
    doing = asyncio.ensure_future(work)
    while not doing.done():
        try:
            await asyncio.shield(doing)
        except asyncio.CancelledError:
            if doing.cancelled():
                raise
    if (task := asyncio.current_task()) is not None and task.cancelling():
        raise asyncio.CancelledError


async def kill_namespace(process: Process) -> bool:
    """Kill a bubblewrap that leads its group, and with it its namespace. True when it was reaped.

    First of all the namespace's first process: the kernel ends everything in it, bubblewrap reaps it and ends by
    itself, and nobody is left to whoever is the machine's process 1. Then the group, for one that is not so far yet.
    """
    if process.returncode is None:
        kill_each(children(process.pid))
        if await reaped(process, within_s=_ORDERLY_S):
            return True
    kill_group(process)
    return await reaped(process)


async def reaped(process: Process, *, within_s: float = REAP_S) -> bool:
    """Wait until it has ended, but not for ever: a killed process ends at once, unless a disk holds it."""
    waiting = asyncio.ensure_future(process.wait())
    await asyncio.wait([waiting], timeout=within_s)
    waiting.cancel()
    return process.returncode is not None


def kill_group(process: Process) -> None:
    """Kill the group that this process leads."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def kill_each(pids: Iterable[int]) -> None:
    """Kill these; who has ended meanwhile is no matter."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
