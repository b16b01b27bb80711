"""How much of everything an experiment does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Size:
    """FULL is for a quiet machine and keeps the whole bench under ten minutes; QUICK shows that all of it works."""

    sequential: int
    chats: int
    messages: int
    waiting: int
    """Chats that wait for a slow model at once."""
    starts: int
    rounds: int
    """Of every comparison: its contestants take turns, and medians are printed."""
    window_s: float
    """How long a steady load is watched."""
    jobs: int
    their_jobs: int
    sessions: int
    stored_sessions: int
    kills: int
    in_flight: int
    stops: int
    hot_places: int
    history: int
    opened: int
    """Turns of the long conversation that are timed."""
    children: int
    """Sub-agents that are started, in each confinement."""


FULL: Final = Size(
    sequential=200,
    chats=200,
    messages=5,
    waiting=500,
    starts=5,
    rounds=3,
    window_s=4.0,
    jobs=10_000,
    their_jobs=1_500,
    sessions=100_000,
    stored_sessions=1_000,
    kills=8,
    in_flight=100,
    stops=200,
    hot_places=100,
    history=10_000,
    opened=40,
    children=40,
)
QUICK: Final = Size(
    sequential=40,
    chats=50,
    messages=3,
    waiting=50,
    starts=2,
    rounds=1,
    window_s=1.0,
    jobs=1_000,
    their_jobs=300,
    sessions=2_000,
    stored_sessions=50,
    kills=1,
    in_flight=20,
    stops=20,
    hot_places=30,
    history=1_000,
    opened=5,
    children=4,
)
