"""The answer cache: a question that was answered before, in the same circumstances, needs no model.

`CachedEngine` looks before the steps of a turn; what may be kept is put there once the turn is committed. An
answer belongs to the session key it was given under: nobody else finds it, nor does the same user elsewhere.
A cache that fails is a miss; it never fails a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import structlog

from agent.cache.cacheable import question, recalled_besides
from agent.engine import Engine, Room, Turn
from agent.limits import (
    CACHE_ANSWERS_MAX,
    CACHE_CANDIDATES_MAX,
    CACHE_LIKENESS_MIN,
    CACHE_OWNER_ANSWERS_MAX,
)
from agent.model.client import PromptMessage, ToolSpec
from agent.model.embedding import Embedder
from agent.tools.tool import ToolContext
from gateway.contracts.answers import KeptAnswer, Question
from gateway.contracts.entries import Entry, Role
from gateway.contracts.errors import ModelError, StoreError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Clock
from gateway.contracts.vectors import Embedding, cosine
from gateway.store.answers import AnswerStore

_log = structlog.get_logger(__name__)


class AnswerCache:
    """Finds answers by the words of their question, and by its meaning where there is an embedding model."""

    def __init__(self, shelf: AnswerStore, clock: Clock, *, ttl_s: int, embedder: Embedder | None = None) -> None:
        self._shelf = shelf
        self._clock = clock
        self._ttl_s = ttl_s
        self._embedder = embedder

    async def find(self, asked: Question) -> CleanText | None:
        """The answer to this question, word for word, or to one that means the same."""
        now_ms = self._clock.now_ms()
        try:
            same = await self._shelf.find(asked, now_ms=now_ms)
            kept = same if same is not None and _still_holds(asked, same) else await self._like(asked, now_ms)
            if kept is not None:
                await self._shelf.use(asked, kept.id, now_ms=now_ms)
            return kept.text if kept is not None else None
        except StoreError as error:
            _log.warning("cache.not_asked", reason=str(error))
            return None

    async def put(self, asked: Question, answer: CleanText) -> None:
        """Keep an answer. Raises `StoreUnavailable`."""
        await self._shelf.put(
            asked,
            answer,
            recalled=recalled_besides(asked, answer),
            now_ms=self._clock.now_ms(),
            ttl_s=self._ttl_s,
            owner_max=CACHE_OWNER_ANSWERS_MAX,
            all_max=CACHE_ANSWERS_MAX,
        )

    async def forget(self, key: SessionKey) -> None:
        """Delete all that is kept of the owner of `key`, wherever he asked. Raises `StoreUnavailable`."""
        await self._shelf.forget(key.owner)

    async def embedded(self, asked: Question, said: CleanText) -> Question:
        """The question with its meaning, as far as there is a model that tells it."""
        if self._embedder is None:
            return asked
        try:
            (vector,) = await self._embedder.embed(asked.key, [said])
        except (ModelError, StoreError) as error:
            _log.warning("cache.not_embedded", reason=str(error))
            return asked
        return replace(asked, embedding=Embedding(self._embedder.model, tuple(vector)))

    async def _like(self, asked: Question, now_ms: int) -> KeptAnswer | None:
        if asked.embedding is None:
            return None
        found = await self._shelf.like(asked, now_ms=now_ms, limit=CACHE_CANDIDATES_MAX)
        near = [kept for kept in found if _likeness(asked, kept) >= CACHE_LIKENESS_MIN and _still_holds(asked, kept)]
        return max(near, key=partial(_likeness, asked), default=None)


def _still_holds(asked: Question, kept: KeptAnswer) -> bool:
    return recalled_besides(asked, kept.text) == kept.recalled


def _likeness(asked: Question, kept: KeptAnswer) -> float:
    if asked.embedding is None or kept.embedding is None:
        return 0.0
    return cosine(asked.embedding.vector, kept.embedding.vector)


class CachedEngine:
    """An `Engine` that answers from the cache what the one inside need not be asked."""

    def __init__(
        self,
        inner: Engine,
        cache: AnswerCache,
        tools_of: Callable[[ToolContext], Sequence[ToolSpec]],
        clock: Clock,
    ) -> None:
        self._inner = inner
        self._cache = cache
        self._tools_of = tools_of
        self._clock = clock

    async def run(
        self,
        turn: Turn,
        context: ToolContext,
        *,
        model: str,
        system: CleanText,
        prompt: Sequence[PromptMessage],
        room: Room,
    ) -> None:
        """Fill `turn` until it has an answer; from the cache without a round and without a cost."""
        asked = self._asked(turn, context, model, system, prompt)
        answer = None
        if asked is not None and turn.said is not None:
            answer = await self._cache.find(asked)
            if answer is None:
                asked = await self._cache.embedded(asked, turn.said)
                answer = await self._cache.find(asked) if asked.embedding is not None else None
        if answer is None:
            turn.asked = asked
            await self._inner.run(turn, context, model=model, system=system, prompt=prompt, room=room)
            return
        _log.info("turn.from_cache")
        turn.answer = answer
        now_ms = self._clock.now_ms()
        turn.entries.append(Entry(Role.ASSISTANT, answer, turn_id=context.turn_id, created_at_ms=now_ms))

    def _asked(
        self,
        turn: Turn,
        context: ToolContext,
        model: str,
        system: CleanText,
        prompt: Sequence[PromptMessage],
    ) -> Question | None:
        """None for what may not be kept, and for a turn that has been under way already."""
        if not turn.is_plain or turn.said is None or any(entry.role is Role.ASSISTANT for entry in turn.entries):
            return None
        return question(
            context.key,
            turn.said,
            circumstances=(model, context.role.value, str(context.asked_by)),
            system=system,
            tools=self._tools_of(context),
            prompt=prompt,
        )


def is_worth_keeping(turn: Turn) -> bool:
    """One whole answer to one message, from a model that used no tool."""
    spoken = [entry for entry in turn.entries if entry.role is not Role.USER]
    return (
        len(spoken) == 1
        and not spoken[0].tool_calls
        and turn.finish_reason == "stop"
        and not turn.joined
        and bool((turn.answer or "").strip())
    )
