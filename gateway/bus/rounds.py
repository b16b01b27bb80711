"""Reading streams of many shards as if they were one: what rang is looked at, one shard after the other."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from gateway.bus.bell import Bell
from gateway.bus.outages import Outages
from gateway.limits import BUS_WAIT_MAX_S

T = TypeVar("T")


async def read_rung(
    bell: Bell, outages: Outages, look: Callable[[int], Awaitable[Sequence[T]]], *, wait_s: float
) -> tuple[int, Sequence[T]]:
    """The first shard that has something for us, and what; nothing after `wait_s` (at most BUS_WAIT_MAX_S).

    Who does not wait sees what is there now, in whichever shard. Nothing is held while another shard is
    asked, so that a caller who is cancelled loses nothing.
    """
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + min(wait_s, BUS_WAIT_MAX_S)
    if wait_s <= 0:
        bell.ring_all()
    while True:
        rung = outages.present(bell.take())
        random.shuffle(rung)
        while rung:
            shard = rung.pop()
            found: Sequence[T] = []
            try:
                async with outages.patience(shard):
                    found = await look(shard)
            except BaseException:  # cancelled: what the look was given waits there
                bell.put_back([shard, *rung])
                raise
            if found:
                bell.put_back([shard, *rung])
                return shard, found
        if loop.time() >= give_up_at:
            return 0, []
        await bell.wait(give_up_at - loop.time())
