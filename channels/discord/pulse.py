"""The pulse of a gateway connection: asked for often, so that silence is noticed soon, and counted when it races.

discord.py sends a heartbeat every 41 seconds and does not miss its answer; only when not a single frame has come for
`silence_s` does it take up the session on a new socket. And it comes back at once, without any pause, to a gateway that
lets it in and drops it again: dozens of times a second, an IDENTIFY each, of which a day has a thousand.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from channels.discord import limits


class GatewayUnstable(Exception):
    """The gateway lets us in and drops us, again and again."""


class Pulsing(Protocol):
    """What is asked of a client."""

    @property
    def losses(self) -> int:
        """How often it lost the gateway so far."""
        ...

    async def probe(self) -> None:
        """Send a heartbeat, which the gateway answers."""
        ...


async def keep_pulse(client: Pulsing, *, every_s: float) -> None:
    """Probe until cancelled. Raises `GatewayUnstable` when the gateway is lost more often than networks explain."""
    loop = asyncio.get_running_loop()
    probed_s = counted_s = loop.time()
    losses = client.losses
    while client.losses - losses <= limits.LOSSES_MAX:
        await asyncio.sleep(min(limits.WATCH_EVERY_S, every_s))
        now_s = loop.time()
        if now_s - probed_s >= every_s:
            probed_s = now_s
            await client.probe()
        if now_s - counted_s >= limits.LOSSES_WITHIN_S:
            counted_s, losses = now_s, client.losses
    raise GatewayUnstable
