"""What a folder may come to hold while somebody else's program writes in it: no mount of bubblewrap's is limited."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Self

from agent.limits import SANDBOX_QUOTA_EVERY_S
from agent.tools.files.quota import Share, Usage, at_least, complaint, usage


class Room:
    """The room of one run, measured now and then. `share` is that of the folder among what its owner has."""

    def __init__(self, folder: Path, allowed: Usage, taken: Usage, share: Share | None) -> None:
        self._folder = folder
        self._allowed = allowed
        self._before = self._taken = taken
        self._share = share
        self._loop = asyncio.get_running_loop()
        self._due_s = self._loop.time() + SANDBOX_QUOTA_EVERY_S

    @classmethod
    async def measured(cls, folder: Path, quota: Usage, share: Share | None = None) -> Self:
        """As much as `quota`, or as there is already: a program that is to make room in a full folder must be able to
        run."""
        taken = await asyncio.to_thread(usage, folder)
        return cls(folder, at_least(quota, taken), taken, share)

    async def complaint(self) -> str:
        """Why the run has to be stopped, "" if it may go on."""
        if self._loop.time() < self._due_s:
            return ""
        said = await asyncio.to_thread(self._looked)
        self._due_s = self._loop.time() + SANDBOX_QUOTA_EVERY_S
        return said

    async def leave(self) -> None:
        """Count what came since the last look: the run is over."""
        await asyncio.to_thread(self._looked)

    def _looked(self) -> str:
        taken = usage(self._folder)
        growth, self._taken = taken.size_bytes - self._taken.size_bytes, taken
        if self._share is None:
            return complaint(taken, self._allowed)
        self._share.grown(growth)
        has_grown = taken.size_bytes > self._before.size_bytes
        return complaint(taken, self._allowed) or (self._share.complaint(0) if has_grown else "")
