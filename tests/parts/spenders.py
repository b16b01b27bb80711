"""Processes that spend from one budget at the same time, each call a real request to a model server.

    python -m tests.parts.spenders <database url> <model server url> <calls>

Says `ready`; for each line `<owner> <limits as JSON>` on its input it starts all its calls at once and says how
many of them were answered.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx

from agent.features.usage import Meter
from agent.models.client import ModelClient
from agent.models.requests import ModelAnswer, ModelEvent, ModelFacts, ModelRequest, TokenCount, ask
from gateway.clock import SystemClock
from gateway.config.limits import LimitSettings
from gateway.contracts.budgets import Caps
from gateway.contracts.errors import BudgetSpent
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import literal_text
from gateway.contracts.sessions import GrantRole, UsagePurpose
from gateway.store import open_store
from tests.parts.waiting import PATIENCE_S

CALL_TOKENS: Final = 100
"""What each call reserves, and costs."""


class PlainClient:
    """A `ModelProvider` that posts to the server and has an answer of a known price, without litellm's 190 MB."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._http = httpx.AsyncClient(timeout=PATIENCE_S)

    def facts(self, model: str) -> ModelFacts:
        """Nothing is known of it."""
        return ModelFacts()

    def check_name(self, model: str) -> None:
        """Every name will do."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """One request, one answer."""
        await request.permit()
        body = {"model": request.model, "stream": False, "messages": [{"role": "user", "content": "hi"}]}
        (await self._http.post(f"{self._url}/chat/completions", json=body)).raise_for_status()
        yield ModelAnswer("hello", (), "stop", TokenCount(0, CALL_TOKENS), 0.0, request.model)

    async def close(self) -> None:
        """Hang up."""
        await self._http.aclose()


@dataclass(frozen=True, slots=True)
class Spenders:
    """The processes, waiting for their orders."""

    processes: Sequence[Process]

    async def spend(self, owner: str, limits: dict[str, Any]) -> int:
        """All start all their calls; how many were answered, of all of them together."""
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(f"{owner} {json.dumps(limits)}\n".encode())
        return sum(await asyncio.gather(*(_count(process) for process in self.processes)))


async def _count(process: Process) -> int:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        return int(await process.stdout.readline())


@asynccontextmanager
async def running_spenders(database_url: str, model_url: str, calls: Sequence[int]) -> AsyncIterator[Spenders]:
    """One process for each number of calls."""
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.parts.spenders", database_url, model_url, str(number)),
            stdin=PIPE,
            stdout=PIPE,
        )
        for number in calls
    ]
    try:
        async with asyncio.timeout(PATIENCE_S):
            for process in processes:
                assert process.stdout is not None
                assert await process.stdout.readline() == b"ready\n"
        yield Spenders(processes)
    finally:
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()


async def _spend(client: PlainClient, meter: Meter, owner: SessionKey, turn_id: str) -> bool:
    request = ModelRequest(
        model="openai/any",
        purpose=UsagePurpose.TURN,
        key=owner,
        system=literal_text(""),
        messages=(),
        completion_tokens_max=CALL_TOKENS,
        turn_id=turn_id,
    )
    try:
        await ask(ModelClient(client, gate=meter), request)
    except BudgetSpent:
        return False
    return True


class _ForGuests:
    """`agent.features.usage.DailyTerms` where everybody is a guest."""

    def __init__(self, limits: LimitSettings) -> None:
        self._limits = limits

    @property
    def pot(self) -> Caps:
        """As configured."""
        return self._limits.pot.caps

    async def caps_of(self, owner: SessionKey) -> Caps:
        """As configured."""
        return self._limits.caps_of(GrantRole.GUEST)


async def _serve(database_url: str, model_url: str, calls: int) -> None:
    clock, client = SystemClock(), PlainClient(model_url)
    store = open_store(database_url, clock)
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        owner, _, limits = line.partition(" ")
        said = json.loads(limits)
        said |= {whose: {"usd": 0} | said.get(whose, {}) for whose in ("guest", "pot")}  # else the price is asked for
        meter = Meter(store.spending, _ForGuests(LimitSettings.model_validate(said)), clock)
        key = SessionKey.parse(owner)
        done = await asyncio.gather(*(_spend(client, meter, key, clock.new_id()) for _ in range(calls)))
        await meter.aclose()
        print(sum(done), flush=True)
    await client.close()
    await store.close()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], sys.argv[2], int(sys.argv[3])))
