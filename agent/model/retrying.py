"""The one place where model calls are begun, and tried again. litellm's own retries are off."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import structlog

from agent.limits import (
    EMBEDDING_TIMEOUT_S,
    EMBEDDING_TRIES_MAX,
    MODEL_BACKOFF_S,
    MODEL_RETRY_AFTER_MAX_S,
    MODEL_TRIES_MAX,
)
from agent.model.client import ModelClient, ModelEvent, ModelFacts, ModelRequest, StreamRestarted
from agent.model.embedding import EmbeddingAnswer, EmbeddingModel, EmbeddingRequest
from gateway.contracts.errors import ModelUnavailable

_log = structlog.get_logger(__name__)


class RetryingClient:
    """A `ModelClient` that outlives rate limits, overload and dropped connections.

    Up to `MODEL_TRIES_MAX` attempts with exponential back-off and jitter, all within the time that the request
    allows; `Retry-After` is honoured. When a stream breaks midway a `StreamRestarted` voids what was shown.
    Anything that is not `ModelUnavailable` passes through at once, and so does a call that took all its time.
    No attempt begins without the permit of its request.
    """

    def __init__(
        self,
        inner: ModelClient,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inner = inner
        self._sleep = sleep
        self._monotonic_s = monotonic_s

    def facts(self, model: str) -> ModelFacts:
        """As the inner client knows them."""
        return self._inner.facts(model)

    def check_name(self, model: str) -> None:
        """As the inner client judges it."""
        self._inner.check_name(model)

    async def close(self) -> None:
        """Close the inner client."""
        await self._inner.close()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The inner stream, begun again as often as the limits allow."""
        end_s = self._monotonic_s() + request.timeout_s
        for attempt in range(1, MODEL_TRIES_MAX + 1):
            has_begun = False
            await request.permit()
            try:
                async for event in self._inner.stream(replace(request, timeout_s=end_s - self._monotonic_s())):
                    has_begun = True
                    yield event
                return
            except ModelUnavailable as error:
                wait_s = _wait_s(attempt, error.retry_after_s)
                has_said_no = (error.retry_after_s or 0.0) > MODEL_RETRY_AFTER_MAX_S
                if attempt == MODEL_TRIES_MAX or has_said_no or wait_s >= end_s - self._monotonic_s():
                    raise
                _log.warning("model.retry", attempt=attempt, wait_s=round(wait_s, 2), reason=str(error))
                if has_begun:
                    yield StreamRestarted()
                await self._sleep(wait_s)


class RetryingEmbeddings:
    """An `EmbeddingModel` that outlives one bad moment; a person waits for it, so not more."""

    def __init__(self, inner: EmbeddingModel, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._inner = inner
        self._sleep = sleep

    async def embed(self, request: EmbeddingRequest) -> EmbeddingAnswer:
        """The inner answer, asked for `EMBEDDING_TRIES_MAX` times at most."""
        attempt = 1
        while True:
            try:
                return await self._inner.embed(request)
            except ModelUnavailable as error:
                wait_s = _wait_s(attempt, error.retry_after_s)
                if attempt == EMBEDDING_TRIES_MAX or wait_s > EMBEDDING_TIMEOUT_S:
                    raise
                _log.warning("embedding.retry", attempt=attempt, reason=str(error))
                await self._sleep(wait_s)
                attempt += 1


def _wait_s(attempt: int, retry_after_s: float | None) -> float:
    """Never less than the provider asked for, and not the same for all who were refused at once."""
    if retry_after_s is not None:
        return retry_after_s * random.uniform(1.0, 1.1)
    return MODEL_BACKOFF_S[min(attempt, len(MODEL_BACKOFF_S)) - 1] * random.uniform(0.8, 1.2)
