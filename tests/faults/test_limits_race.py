"""One budget, many who spend from it at the same moment in processes of their own: it is never overdrawn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.parts.model_server import Body, serve_model
from tests.parts.spenders import CALL_TOKENS, running_spenders

CALLS = (13, 13, 12, 12)
BUDGET = 10
LIMITS: dict[str, dict[str, Any]] = {
    "telegram:1": {"user": {"turns": BUDGET}},
    "telegram:2": {"user": {"tokens": BUDGET * CALL_TOKENS}},
    "telegram:3": {"pot": {"turns": 3 * BUDGET}},  # the two before have taken their part of it
}


@pytest.mark.long
async def test_of_fifty_calls_in_four_processes_ten_are_begun(database_url: str) -> None:
    """A real model server counts them; all overlap, because none is answered before ten have come."""
    async with serve_model() as server, running_spenders(database_url, server.url, CALLS) as spenders:
        full = asyncio.Event()

        async def wait_for_all(_body: Body) -> None:
            if len(server.requests) >= BUDGET:
                full.set()
            await full.wait()

        server.gate = wait_for_all
        for owner, limits in LIMITS.items():
            server.requests.clear()
            full.clear()
            assert await spenders.spend(owner, limits) == BUDGET, owner
            assert len(server.requests) == BUDGET, owner
