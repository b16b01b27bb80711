"""Processes that we start together with all that will come of them, so that all of it can be ended."""

from __future__ import annotations

import asyncio
import secrets
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from agent.tools.execution.processes import children, family, has_ended, marked
from agent.tools.execution.reaping import kill_group, reaped, signal_each, undisturbed

_MARK: Final = "FAMILY"
"""A variable by which the processes of one family are known, wherever they went."""
_ROUNDS: Final = 100
_ROUND_S: Final = 0.01
_ORDERLY_S: Final = 1.0  # bubblewrap takes a millisecond


class Family:
    """A process that leads its group, and all that came of it. `mark` stands in their environment and in nobody
    else's: by it those are found that have left the group and whose parents have ended."""

    def __init__(self, process: Process, mark: str) -> None:
        self.process = process
        self._mark = mark

    @classmethod
    async def start(
        cls,
        program: Sequence[str],
        *,
        stderr: int,
        environment: Mapping[str, str],
        folder: Path | None = None,
        pass_fds: Sequence[int] = (),
    ) -> Self:
        """Start a program with pipes, in a group of its own. Raises `OSError`. Cancelled, it leaves nobody behind."""
        mark = secrets.token_hex(16)
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *program,
                stdin=PIPE,
                stdout=PIPE,
                stderr=stderr,
                cwd=folder,
                pass_fds=pass_fds,
                start_new_session=True,
                env={**environment, _MARK: mark},
            )
        )
        try:
            return cls(await asyncio.shield(starting), f"{_MARK}={mark}")
        except asyncio.CancelledError:
            await undisturbed(lambda: cls._abandon(starting, f"{_MARK}={mark}"))
            raise

    @classmethod
    async def _abandon(cls, starting: asyncio.Future[Process], mark: str) -> None:
        """End what was just being started. asyncio does not always come back from a start that it was made to give up,
        as at the end of a loop: it is told twice."""
        await asyncio.wait([starting], timeout=_ORDERLY_S)
        starting.cancel()
        await asyncio.wait([starting])
        if starting.cancelled():
            await _kill_marked(mark)
        else:
            with suppress(OSError):
                await cls(starting.result(), mark).kill()

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
        await _kill_marked(self._mark)
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


async def _kill_marked(mark: str) -> None:
    """Kill them until there are none, and wait until the kernel has ended them."""
    doomed: set[int] = set()
    for _ in range(_ROUNDS):
        signal_each(found := marked(mark), signal.SIGKILL)
        doomed.update(found)
        if all(map(has_ended, doomed)):
            return
        await asyncio.sleep(_ROUND_S)
