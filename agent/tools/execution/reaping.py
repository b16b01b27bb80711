"""The end of processes that we started: killed with everything they began, and reaped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from asyncio.subprocess import Process
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Final

from agent.limits import REAP_S
from agent.tools.execution.processes import children, family, has_ended, marked

_MARK: Final = "FAMILY"
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


class Family:
    """A process that leads its group, and all that came of it. `mark` stands in their environment and in nobody
    else's: by it those are found that have left the group and whose parents have ended."""

    def __init__(self, process: Process, mark: str) -> None:
        self.process = process
        self._mark = mark

    async def kill(self) -> bool:
        """Kill them all; true when the first was reaped. They are stopped before any is killed, so that nobody is born
        meanwhile. To be let run to its end."""
        if self.process.returncode is None:
            stopped: set[int] = set()
            while new := set(family(self.process.pid)) - stopped:
                signal_each(new, signal.SIGSTOP)
                stopped |= new
            signal_each(stopped, signal.SIGKILL)
        return await self._finish()

    async def _finish(self) -> bool:
        """Group and stragglers."""
        kill_group(self.process)
        doomed: set[int] = set()
        for _ in range(_ROUNDS):
            signal_each(found := marked(self._mark), signal.SIGKILL)
            doomed.update(found)
            if all(map(has_ended, doomed)):
                break
            await asyncio.sleep(_ROUND_S)
        return await reaped(self.process)


class Namespace(Family):
    """A bubblewrap, and what is in its namespace."""

    async def kill(self) -> bool:
        """Kill it all; true when it was reaped.

        First of all the namespace's first process: the kernel ends everything in it, bubblewrap reaps it and ends by
        itself, and nobody is left to whoever is the machine's process 1. Then whoever is left of a bubblewrap that has
        not come so far, or that somebody else has killed before it could tell that process to die with it.
        """
        inside = children(self.process.pid) if self.process.returncode is None else []
        if inside:
            signal_each(inside, signal.SIGKILL)
            signal_each([self.process.pid], signal.SIGCONT)  # should somebody have stopped it
            if await reaped(self.process, within_s=_ORDERLY_S):
                return True
        return await self._finish()


def new_mark() -> dict[str, str]:
    """What is to stand in the environment of a new family."""
    return {_MARK: secrets.token_hex(16)}


def told(mark: Mapping[str, str]) -> str:
    """A mark as it stands there."""
    return "".join(f"{name}={value}" for name, value in mark.items())


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
