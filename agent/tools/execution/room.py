"""What a folder may come to hold while somebody else's program writes in it: no mount of bubblewrap's is limited."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Self

from agent.limits import SANDBOX_QUOTA_EVERY_S
from agent.tools.files.quota import Usage, at_least, complaint, usage


class Room:
    """The room of one run, measured now and then."""

    def __init__(self, folder: Path, allowed: Usage) -> None:
        self._folder = folder
        self._allowed = allowed
        self._loop = asyncio.get_running_loop()
        self._due_s = self._loop.time() + SANDBOX_QUOTA_EVERY_S

    @classmethod
    async def measured(cls, folder: Path, quota: Usage) -> Self:
        """As much as `quota`, or as there is already: a program that is to make room in a full folder must be able to
        run."""
        return cls(folder, at_least(quota, await asyncio.to_thread(usage, folder)))

    async def complaint(self) -> str:
        """Why the run has to be stopped, "" if it may go on."""
        if self._loop.time() < self._due_s:
            return ""
        taken = await asyncio.to_thread(usage, self._folder)
        self._due_s = self._loop.time() + SANDBOX_QUOTA_EVERY_S
        return complaint(taken, self._allowed)
