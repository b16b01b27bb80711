"""What a child may take of the machine, held by its parent: a child need not have limited itself."""

from __future__ import annotations

from typing import Final

from agent.limits import SUBAGENT_THREADS_MAX, SUBAGENT_TREE_MAX
from agent.tools.execution.processes import footprint
from agent.tools.execution.room import Room

TOO_MANY_FILES: Final = "workspace_full"


class Quota:
    """Of one child. `room` is what it may write in, None for one that only reads."""

    def __init__(self, pid: int, memory_bytes_max: int, room: Room | None) -> None:
        self._pid = pid
        self._memory_bytes_max = memory_bytes_max
        self._room = room

    async def excess(self) -> str:
        """What it has taken too much of, as one word; "" for nothing."""
        taken = footprint(self._pid)
        if taken.memory_bytes > self._memory_bytes_max:
            return f"memory_over_{self._memory_bytes_max // 1024**2}_mb"
        if taken.processes > SUBAGENT_TREE_MAX:
            return f"processes_over_{SUBAGENT_TREE_MAX}"
        if taken.threads > SUBAGENT_THREADS_MAX:
            return f"threads_over_{SUBAGENT_THREADS_MAX}"
        return TOO_MANY_FILES if self._room is not None and await self._room.complaint() else ""
