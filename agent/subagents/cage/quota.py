"""What a child may take of the machine, held by its parent: a child need not have limited itself."""

from __future__ import annotations

from agent.limits import SUBAGENT_THREADS_MAX, SUBAGENT_TREE_MAX
from agent.tools.execution.processes import footprint
from agent.tools.execution.room import Room
from gateway.contracts.reasons import Code, Reason


class Quota:
    """Of one child. `room` is what it may write in, None for one that only reads."""

    def __init__(self, pid: int, memory_bytes_max: int, room: Room | None) -> None:
        self._pid = pid
        self._memory_bytes_max = memory_bytes_max
        self._room = room

    async def excess(self) -> Reason | Code | None:
        """What it has taken too much of; None for nothing."""
        taken = footprint(self._pid, processes_max=SUBAGENT_TREE_MAX, threads_max=SUBAGENT_THREADS_MAX)
        if taken.memory_bytes > self._memory_bytes_max:
            return Reason.MEMORY.of(self._memory_bytes_max // 1024**2)
        if taken.processes > SUBAGENT_TREE_MAX:
            return Reason.PROCESSES.of(SUBAGENT_TREE_MAX)
        if taken.threads > SUBAGENT_THREADS_MAX:
            return Reason.THREADS.of(SUBAGENT_THREADS_MAX)
        return Reason.WORKSPACE_FULL if self._room is not None and await self._room.complaint() else None
