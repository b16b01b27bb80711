"""Calls that are made until they are answered: what was begun may not be left half done."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from gateway.contracts.errors import BusUnavailable, StoreUnavailable

_log = structlog.get_logger(__name__)
_T = TypeVar("_T")
_PAUSES_S: Final = (0.1, 0.3, 1.0, 2.0)
"""A server that restarts is back within a second; one that fails over needs half a minute."""


async def insist(call: Callable[[], Awaitable[_T]], *, for_s: float = math.inf) -> _T:
    """The answer of `call`, made again for as long as bus or store are away; so it must bear repetition.

    Ends only with an answer, another error, or the cancellation of whoever waits; raises `BusUnavailable` or
    `StoreUnavailable` when the call has failed for `for_s`.
    """
    attempt, give_up_at = 0, time.monotonic() + for_s
    while True:
        try:
            return await call()
        except (BusUnavailable, StoreUnavailable) as error:
            pause_s = _PAUSES_S[min(attempt, len(_PAUSES_S) - 1)]
            if time.monotonic() + pause_s > give_up_at:
                raise
            attempt += 1
            _log.warning("away.retry", attempt=attempt, reason=str(error))
        await asyncio.sleep(pause_s)
