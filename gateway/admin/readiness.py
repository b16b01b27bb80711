"""What keeps Trivet from being ready, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from gateway.contracts.ports import ModelFault, ModelTrouble, QueueFigures

CONNECTED: Final = "connected"
_FAULTS: Final = {
    ModelFault.KEY: "does not accept its key",
    ModelFault.QUOTA: "says that its quota or credit is used up",
}


def reasons(figures: QueueFigures | None, *, channels: Iterable[str], database_problem: str) -> Iterator[str]:
    """Nothing when every configured channel is connected, an agent is alive and the database answers."""
    if database_problem:
        yield database_problem
    if figures is None:
        yield "the bus does not answer"
        return
    for name in channels:
        state = figures.channels_connected.get(name, "no report from the channels role")
        if state != CONNECTED:
            yield f"{name}: {state}"
    if figures.workers_alive == 0:
        yield "no agent process is alive"


def in_words(trouble: ModelTrouble) -> str:
    """Why a model does not answer, and when it was last asked in vain."""
    asked = datetime.fromtimestamp(trouble.at_ms / 1000, UTC)
    return f"{trouble.model}: {trouble.provider} {_FAULTS[trouble.fault]} ({asked:%Y-%m-%d %H:%M} UTC)"
