"""What keeps Trivet from being ready, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gateway.contracts.ports import QueueFigures

CONNECTED: Final = "connected"


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
