"""The experiments by name, in the order in which they are made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from tests.bench.figures import Findings
from tests.bench.history import history
from tests.bench.lanes import lanes
from tests.bench.measures import latency, litellm, memory, slow_model, start, throughput, waiting
from tests.bench.profile import profile
from tests.bench.recovery import recovery
from tests.bench.scale import scale
from tests.bench.sessions import sessions
from tests.bench.sizes import Size
from tests.bench.stops import hot, stops
from tests.bench.sub_agents import sub_agents

PROGRAMME: Final[Mapping[str, Callable[[Size], Awaitable[Findings]]]] = {
    "latency": latency,
    "throughput": throughput,
    "litellm": litellm,
    "slow-model": slow_model,
    "waiting": waiting,
    "start": start,
    "memory": memory,
    "scale": scale,
    "lanes": lanes,
    "sessions": sessions,
    "history": history,
    "recovery": recovery,
    "stops": stops,
    "hot": hot,
    "sub-agents": sub_agents,
}

ON_REQUEST: Final[Mapping[str, Callable[[Size], Awaitable[Findings]]]] = {"profile": profile}
"""What is measured only when it is named: it explains a figure and is none."""
