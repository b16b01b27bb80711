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
from agent.tools.execution.processes import children, family, marked

_ROUNDS: Final = 100
_ROUND_S: Final = 0.01
_ORDERLY_S: Final = 1.0  # bubblewrap takes a millisecond


async def undisturbed(work: Coroutine[Any, Any, object]) -> None:
    """Do it to its end, whoever cancels meanwhile; a cancellation is raised behind it."""
    doing = asyncio.ensure_future(work)
    while not doing.done():
        try:
            await asyncio.shield(doing)
        except asyncio.CancelledError:
            if doing.cancelled():
                raise
    doing.result()
    if (task := asyncio.current_task()) is not None and task.cancelling():
        raise asyncio.CancelledError


async def kill_namespace(process: Process) -> bool:
    """Kill a bubblewrap that leads its group, and with it its namespace. True when it was reaped.

    First of all the namespace's first process: the kernel ends everything in it, bubblewrap reaps it and ends by
    itself, and nobody is left to whoever is the machine's process 1. Then the group, for one that is not so far yet.
    """
    inside = children(process.pid) if process.returncode is None else []
    if inside:
        signal_each(inside, signal.SIGKILL)
        signal_each([process.pid], signal.SIGCONT)  # should somebody have stopped it
        if await reaped(process, within_s=_ORDERLY_S):
            return True
    kill_group(process)
    return await reaped(process)


async def kill_family(process: Process, mark: str) -> bool:
    """Kill a process that leads its group, what it started and what that started, also what has left the group; true
    when it was reaped. `mark` stands in their environment and nowhere else: by it those are found whose parents have
    ended.

    All are stopped before any is killed, so that nobody is born meanwhile.
    """
    if process.returncode is None:
        stopped: set[int] = set()
        while new := set(family(process.pid)) - stopped:
            signal_each(new, signal.SIGSTOP)
            stopped |= new
        signal_each(stopped, signal.SIGKILL)
    kill_group(process)
    for _ in range(_ROUNDS):
        left = marked(mark)
        if not left:
            break
        signal_each(left, signal.SIGKILL)
        await asyncio.sleep(_ROUND_S)
    return await reaped(process)


async def reaped(process: Process, *, within_s: float = REAP_S) -> bool:
    """Wait until it has ended, but not for ever: a killed process ends at once, unless a disk holds it.

    `Process.wait` alone would also wait for its pipes, which others may hold open.
    """
    waiting = asyncio.ensure_future(process.wait())
    ends_s = asyncio.get_running_loop().time() + within_s
    while process.returncode is None and asyncio.get_running_loop().time() < ends_s:
        await asyncio.wait([waiting], timeout=_ROUND_S)
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
