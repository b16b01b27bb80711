"""What a folder may come to hold while somebody else's program writes in it: no mount of bubblewrap's is limited."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Self

from agent.limits import SANDBOX_QUOTA_EVERY_S
from agent.tools.execution.unnamed import NOTHING, unnamed
from agent.tools.files.quota import Share, Usage, at_least, complaint, usage
from agent.tools.files.walk import MOUNT


class Room:
    """The room of one run, measured now and then. `share` is that of the folder among what its owner has."""

    def __init__(self, folder: Path, allowed: Usage, taken: Usage, share: Share | None) -> None:
        self._folder = folder
        self._allowed = allowed
        self._before = self._taken = taken
        self._share = share
        self._loop = asyncio.get_running_loop()
        self._due_s = self._loop.time() + SANDBOX_QUOTA_EVERY_S
        self.memory_bytes = 0
        """What was held in memory and counted as nobody's, when it was looked at last."""

    @classmethod
    async def measured(cls, folder: Path, quota: Usage, share: Share | None = None) -> Self:
        """As much as `quota`, or as there is already: a program that is to make room in a full folder must be able to
        run."""
        taken = await asyncio.to_thread(usage, folder)
        return cls(folder, at_least(quota, taken), taken, share)

    async def complaint(self, pid: int | None = None) -> str:
        """Why the run has to be stopped, "" if it may go on. What the processes below `pid` hold and no folder shows
        counts as well."""
        if self._loop.time() < self._due_s:
            return ""
        said = await asyncio.to_thread(self._look, pid)
        self._due_s = self._loop.time() + SANDBOX_QUOTA_EVERY_S
        return said

    async def leave(self) -> None:
        """Count what came since the last look: the run is over."""
        await asyncio.to_thread(self._look, None)

    def _look(self, pid: int | None) -> str:
        taken, held = usage(self._folder), NOTHING if pid is None else unnamed(pid, MOUNT)
        self.memory_bytes = held.memory_bytes
        growth, self._taken = taken.size_bytes - self._taken.size_bytes, taken
        if self._share is not None:
            self._share.grown(growth)
        if held.is_closed:
            return "a program of it cannot be looked at: it may be run, but not read"
        said = complaint(Usage(taken.size_bytes + held.disk_bytes, taken.files), self._allowed)
        has_grown = taken.size_bytes + held.disk_bytes > self._before.size_bytes
        return said or (self._share.complaint(held.disk_bytes) if self._share is not None and has_grown else "")
