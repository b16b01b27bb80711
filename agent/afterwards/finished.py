"""What happens after a turn: work that never delays its reply and whose failures nobody is told."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from agent.engine import Turn
from gateway.contracts.entries import TurnCommit


@dataclass(frozen=True, slots=True)
class Finished:
    """A turn whose commit is in SQL and on the bus, however it ended (`commit.state`). `has_boundary` is that of
    `Committed`."""

    turn: Turn
    commit: TurnCommit
    has_boundary: bool


AfterTurn = Callable[[Finished], Coroutine[Any, Any, None]]
"""Runs in the background once a turn is finished; what it raises is logged. It may be lost with its process."""
