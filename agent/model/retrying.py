"""The one place where model calls are begun, and tried again. litellm's own retries are off."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

import structlog

from agent.limits import (
    EMBEDDING_PAUSE_S,
    EMBEDDING_TIMEOUT_S,
    EMBEDDING_TRIES_MAX,
    MODEL_RETRY_AFTER_MAX_S,
    TRANSCRIPTION_TRIES_MAX,
)
from agent.model.around import AroundClient
from agent.model.client import ModelClient, ModelEvent, ModelRequest, StreamRestarted
from agent.model.embedding import EmbeddingAnswer, EmbeddingModel, EmbeddingRequest
from agent.model.transcription import TranscriptionAnswer, TranscriptionModel, TranscriptionRequest
from gateway.contracts.errors import ModelUnavailable

_log = structlog.get_logger(__name__)
_Answer = TypeVar("_Answer")


class RetryingClient(AroundClient):
    """A `ModelClient` that outlives rate limits, overload and dropped connections.

    One attempt more than the request has pauses in its `backoff_s`, with jitter, all within the time that the
    request allows; `Retry-After` is honoured. When a stream breaks midway a `StreamRestarted` voids what was shown.
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
        super().__init__(inner)
        self._sleep = sleep
        self._monotonic_s = monotonic_s

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The inner stream, begun again as often as the limits allow."""
        end_s = self._monotonic_s() + request.timeout_s
        for attempt, pause_s in enumerate((*request.backoff_s, None), 1):
            has_begun = False
            await request.permit()
            try:
                async for event in self._inner.stream(replace(request, timeout_s=end_s - self._monotonic_s())):
                    has_begun = True
                    yield event
                return
            except ModelUnavailable as error:
                if pause_s is None:
                    raise
                wait_s = _wait_s(pause_s, error.retry_after_s)
                has_said_no = (error.retry_after_s or 0.0) > MODEL_RETRY_AFTER_MAX_S
                if has_said_no or wait_s >= end_s - self._monotonic_s():
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
        return await _twice(lambda: self._inner.embed(request), self._sleep, tries_max=EMBEDDING_TRIES_MAX)


class RetryingTranscriptions:
    """The same for a `TranscriptionModel`. No attempt begins without the permit of its request."""

    def __init__(self, inner: TranscriptionModel, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._inner = inner
        self._sleep = sleep

    async def transcribe(self, request: TranscriptionRequest) -> TranscriptionAnswer:
        """The inner answer, asked for `TRANSCRIPTION_TRIES_MAX` times at most."""

        async def ask() -> TranscriptionAnswer:
            await request.permit()
            return await self._inner.transcribe(request)

        return await _twice(ask, self._sleep, tries_max=TRANSCRIPTION_TRIES_MAX)


async def _twice(
    ask: Callable[[], Awaitable[_Answer]], sleep: Callable[[float], Awaitable[None]], *, tries_max: int
) -> _Answer:
    attempt = 1
    while True:
        try:
            return await ask()
        except ModelUnavailable as error:
            wait_s = _wait_s(EMBEDDING_PAUSE_S, error.retry_after_s)
            if attempt == tries_max or wait_s > EMBEDDING_TIMEOUT_S:
                raise
            _log.warning("model.retry", attempt=attempt, reason=str(error))
            await sleep(wait_s)
            attempt += 1


def _wait_s(pause_s: float, retry_after_s: float | None) -> float:
    """Never less than the provider asked for, and not the same for all who were refused at once."""
    if retry_after_s is not None:
        return retry_after_s * random.uniform(1.0, 1.1)
    return pause_s * random.uniform(0.8, 1.2)
