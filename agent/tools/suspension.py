"""How a tool has its turn yield to sub-agents: it says what is waited for; the turn ends without an answer. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gateway.contracts.errors import ToolError
from gateway.contracts.subagents import Barrier


class Suspension:
    """What one turn is to wait for once the round is over, one barrier at most; and whose results it has read. Both
    count when it is committed: of a turn that is taken again nothing stays."""

    def __init__(self) -> None:
        self._barrier: Barrier | None = None
        self._collected: dict[str, None] = {}

    @property
    def barrier(self) -> Barrier | None:
        """What it waits for; None: it goes on."""
        return self._barrier

    @property
    def collected(self) -> Sequence[str]:
        """The tasks whose results it has read."""
        return tuple(self._collected)

    def wait_for(self, barrier: Barrier) -> None:
        """Yield behind this round. Raises `ToolError` when the turn waits for something else already."""
        if self._barrier is not None:
            raise ToolError("this turn waits for sub-agents already: wait for all of them in one call")
        self._barrier = barrier

    def collect(self, task_ids: Iterable[str]) -> None:
        """It reads what these have found."""
        self._collected.update(dict.fromkeys(task_ids))
