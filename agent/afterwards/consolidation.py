"""Goes through what has left the model's view, once, in the background: it is made findable from later sessions,
and a cheap model takes lasting facts out of it.

Nothing is dropped from history by it, and whatever goes wrong is logged only. What is to be gone through stands in
SQL (`boundaries`), so a process that dies over it leaves it to the next. Facts go into the memory of the key that
the words were said under, whatever they say: nobody writes into another's memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import structlog

from agent.afterwards.finished import Finished
from agent.afterwards.gathering import facts_in, gathering_requests, said_by_people
from agent.limits import (
    BOUNDARIES_AT_ONCE,
    BOUNDARY_CLAIM_S,
    GATHER_KNOWN_MAX,
    GATHER_REASONING_TOKENS_MAX,
    GATHER_TEMPERATURE,
    GATHER_TIMEOUT_S,
    GATHER_TOKENS_MAX,
)
from agent.memory.knowledge import Memory
from agent.model.calling import ModelClient
from agent.model.client import ModelRequest, PromptMessage, ask
from agent.models import Models
from agent.prompts.library import PROMPTS
from agent.usage.ledger import usage_of
from gateway.contracts.entries import Entry, Session, UsagePurpose
from gateway.contracts.errors import MemoryFull, ModelError, StoreError
from gateway.contracts.ids import SessionKey
from gateway.contracts.memories import Boundary, Origin
from gateway.contracts.ports import Clock, Scrubber
from gateway.store import Store

_log = structlog.get_logger(__name__)
_PAGE: Final = 500


class Consolidation:
    """The built-in sub-agent that remembers. Without `gathers` it only indexes."""

    def __init__(
        self,
        client: ModelClient,
        models: Models,
        memory: Memory,
        store: Store,
        scrubber: Scrubber,
        clock: Clock,
        *,
        gathers: bool,
    ) -> None:
        self._client = client
        self._models = models
        self._memory = memory
        self._store = store
        self._scrubber = scrubber
        self._clock = clock
        self._gathers = gathers

    async def after(self, finished: Finished) -> None:
        """What the turn, or one before it, has left to be gone through."""
        if finished.has_boundary:
            await self.go_through(finished.turn.batch.key)

    @asynccontextmanager
    async def catching_up(self) -> AsyncIterator[None]:
        """While the block lasts: what processes that died have left."""
        going = asyncio.create_task(self.go_through(None))
        try:
            yield
        finally:
            going.cancel()
            await asyncio.wait([going])

    async def go_through(self, key: SessionKey | None) -> None:
        """Everything that is due for `key`, or for anybody: what others have left. Never raises ours."""
        try:
            for _ in range(BOUNDARIES_AT_ONCE):
                boundary = await self._store.memories.claim_boundary(
                    key, now_ms=self._clock.now_ms(), for_ms=int(BOUNDARY_CLAIM_S * 1000)
                )
                if boundary is None:
                    return
                await self._go_through(boundary)
        except StoreError as error:
            _log.warning("memory.put_off", reason=str(error))

    async def _go_through(self, boundary: Boundary) -> None:
        await self._store.memories.index(boundary)
        try:
            if self._gathers:
                await self._gather(boundary)
        except ModelError as error:
            _log.warning("memory.gathering_failed", session_id=boundary.session_id, reason=str(error))
            return  # it stays claimed for a while; then somebody tries once more
        await self._store.memories.finish_boundary(boundary, now_ms=self._clock.now_ms())

    async def _gather(self, boundary: Boundary) -> None:
        session = await self._store.sessions.by_id(boundary.session_id)
        said = said_by_people(await self._entries(boundary))
        if session is None or not said:
            return
        known = await self._memory.recall(boundary.key, "", limit=GATHER_KNOWN_MAX)
        kept = 0
        for messages in gathering_requests(said, [fact.text for fact in known]):
            kept += await self._keep(boundary.key, await self._ask(session, messages))
        _log.info("memory.gathered", session_id=session.id, entries=len(said), facts=kept)

    async def _entries(self, boundary: Boundary) -> list[Entry]:
        entries: list[Entry] = []
        after_seq = boundary.after_seq
        while page := await self._store.transcript.page(boundary.session_id, after_seq=after_seq, limit=_PAGE):
            entries += [entry for entry in page if entry.seq <= boundary.seq]
            after_seq = page[-1].seq
            if after_seq >= boundary.seq:
                break
        return entries

    async def _ask(self, session: Session, messages: tuple[PromptMessage, ...]) -> Sequence[str]:
        model = self._models.utility(session)
        is_reasoning = self._models.facts(model).is_reasoning
        request = ModelRequest(
            model=model,
            purpose=UsagePurpose.MEMORY,
            key=session.key,
            system=PROMPTS.gather,
            messages=messages,
            completion_tokens_max=GATHER_REASONING_TOKENS_MAX if is_reasoning else GATHER_TOKENS_MAX,
            temperature=GATHER_TEMPERATURE,
            timeout_s=GATHER_TIMEOUT_S,
        )
        answer = await ask(self._client, request)
        usage = usage_of(answer, session.key, UsagePurpose.MEMORY, now_ms=self._clock.now_ms())
        await self._store.sessions.charge([usage], session_id=session.id)
        return facts_in(answer.text)

    async def _keep(self, key: SessionKey, facts: Sequence[str]) -> int:
        scrubber = self._scrubber.for_chat(str(key))
        for count, fact in enumerate(facts):
            try:
                await self._memory.remember(key, scrubber.scrub(fact), origin=Origin.GATHERED)
            except MemoryFull:
                _log.info("memory.full", owner=str(key.owner))
                return count
        return len(facts)
