"""How a tool has its turn yield: it says what is waited for, and the turn ends without an answer. Pure."""

from __future__ import annotations

from gateway.contracts.errors import ToolError
from gateway.contracts.subagents import Barrier


class Suspension:
    """What one turn is to wait for once the round is over: one barrier at most."""

    def __init__(self) -> None:
        self._barrier: Barrier | None = None

    @property
    def barrier(self) -> Barrier | None:
        """What it waits for; None: it goes on."""
        return self._barrier

    def wait_for(self, barrier: Barrier) -> None:
        """Yield behind this round. Raises `ToolError` when the turn waits for something else already."""
        if self._barrier is not None:
            raise ToolError("this turn waits for sub-agents already: wait for all of them in one call")
        self._barrier = barrier
