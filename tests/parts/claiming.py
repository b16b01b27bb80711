"""Claims for the suites of the bus. A Cluster hears of work a moment after it is there; whoever expects some asks
until it is given, whoever expects none asks once."""

from __future__ import annotations

from contextlib import suppress

from gateway.bus.bus import RedisBus
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ports import Claim

_ASKED_AGAIN_AFTER_S = 1.0


async def claim_now(
    bus: RedisBus,
    worker: str = "w1",
    *,
    lanes_max: int = 100,
    messages_max: int = 20,
    attempts_max: int = 4,
    wait_s: float = 0.0,
) -> list[Claim]:
    """What `worker` is given at this moment, or when work arrives within `wait_s`, which may be nothing."""
    batch = await bus.lanes.claim(
        worker, lanes_max=lanes_max, messages_max=messages_max, attempts_max=attempts_max, wait_s=wait_s
    )
    return list(batch.claims)


async def claim_some(
    bus: RedisBus, worker: str = "w1", *, lanes: int = 1, lanes_max: int = 100, messages_max: int = 20
) -> list[Claim]:
    """What `worker` is given, asked again until these are `lanes` or more; with 1, what a single claim gives."""
    claims: list[Claim] = []
    wait_s = 0.0
    while len(claims) < lanes:
        with suppress(BusUnavailable):  # all servers of a Cluster at once: a busy test machine is no outage
            lanes_left = lanes_max - len(claims)
            claims += await claim_now(bus, worker, lanes_max=lanes_left, messages_max=messages_max, wait_s=wait_s)
            wait_s = _ASKED_AGAIN_AFTER_S
    return claims


async def claim_one(bus: RedisBus, worker: str = "w1", *, messages_max: int = 20) -> Claim:
    """The one lane that is ready."""
    (claim,) = await claim_some(bus, worker, messages_max=messages_max)
    return claim
