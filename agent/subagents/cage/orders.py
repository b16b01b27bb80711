"""What is asked of a supervisor, what it asks of whoever orders a child, and what it answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agent.subagents.wire.frames import Chunk, Init, ModelCall, ModelDelta, ModelResult, ToolCall, ToolOutcome
from agent.tools.files.quota import Share
from gateway.contracts.reasons import Code, Reason
from gateway.contracts.subagents import TaskState


class Host(Protocol):
    """What the parent does for one child. A child is believed nothing: each call is checked as its model's would be."""

    def model(self, call: ModelCall) -> AsyncIterator[ModelDelta | ModelResult]:
        """Deltas, then exactly one result; a failure is a result with an error. Raises only what ends the child
        (`BudgetSpent`, `AllotmentSpent`, `StoreUnavailable`, `CancelledError`)."""
        ...

    async def tool(self, call: ToolCall) -> ToolOutcome:
        """Run a tool of the parent; a failure is an outcome."""
        ...

    def heard(self, chunk: Chunk) -> None:
        """The child said something on the way."""
        ...


@dataclass(frozen=True, slots=True)
class ChildOrder:
    """`home` is the folder of the conversation (`files/`, `journal/`), None where the child has no file tool, and
    `share` what it is among its owner's;
    `writes`: it may change the files. `limit_s` is wall-clock time from the start of the process. Where the child
    finds its home and whether it has to confine itself is for the supervisor to say: what `init` says is not sent."""

    init: Init
    home: Path | None
    writes: bool
    limit_s: float
    share: Share | None = None


@dataclass(frozen=True, slots=True)
class ChildEnding:
    """How it ended: `state` is one of those that are over, `reason` is None if it completed,
    `response` what the child said last, raw. `ready_ms` is None when it never was."""

    state: TaskState
    reason: Reason | Code | None
    response: str
    confinement: str
    duration_ms: int
    ready_ms: int | None
