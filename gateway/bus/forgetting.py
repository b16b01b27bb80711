"""Makes a server's append-only file forget: rewritten, it holds what is in the server now, and nothing of what was."""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.bus.connection import Refused
from gateway.bus.line import Line

_UNDER_WAY: Final = "already in progress"
_TRIES_MAX: Final = 50
_PAUSE_S: Final = 0.2  # a rewrite takes some milliseconds, and of a full queue less than a second


async def rewrite_log(line: Line) -> None:
    """Have the file written anew, if there is one; the server does so beside its work. A rewrite that is under way
    began before what has to be forgotten was changed: another one follows it. Raises `BusError`."""
    facts = await line.call("INFO", "persistence")
    if not int(facts.get("aof_enabled", 0)):
        return
    for _ in range(_TRIES_MAX):
        try:
            await line.call("BGREWRITEAOF")
            return
        except Refused as refused:
            if _UNDER_WAY not in str(refused):
                raise
        await asyncio.sleep(_PAUSE_S)
