"""The one place where model calls are begun, and tried again. litellm's own retries are off."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import structlog

from agent.limits import MODEL_RETRY_AFTER_MAX_S
from agent.model.client import ModelClient, ModelEvent, ModelFacts, ModelRequest, StreamRestarted
from gateway.contracts.errors import ModelUnavailable

_log = structlog.get_logger(__name__)


class RetryingClient:
    """A `ModelClient` that outlives rate limits, overload and dropped connections.

    One attempt more than the request has pauses in its `backoff_s`, with jitter; `Retry-After` is honoured.
    When a stream breaks midway a `StreamRestarted` voids what was shown. Anything that is not
    `ModelUnavailable` passes through at once. No attempt begins without the permit of its request.
    """

    def __init__(self, inner: ModelClient, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._inner = inner
        self._sleep = sleep

    def facts(self, model: str) -> ModelFacts:
        """As the inner client knows them."""
        return self._inner.facts(model)

    async def close(self) -> None:
        """Close the inner client."""
        await self._inner.close()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The inner stream, begun again as often as the limits allow."""
        for attempt, pause_s in enumerate((*request.backoff_s, None), 1):
            has_begun = False
            await request.permit()
            try:
                async for event in self._inner.stream(request):
                    has_begun = True
                    yield event
                return
            except ModelUnavailable as error:
                if pause_s is None:
                    raise
                wait_s = _wait_s(pause_s, error.retry_after_s)
                if wait_s > MODEL_RETRY_AFTER_MAX_S:
                    raise
                _log.warning("model.retry", attempt=attempt, wait_s=round(wait_s, 2), reason=str(error))
                if has_begun:
                    yield StreamRestarted()
                await self._sleep(wait_s)


def _wait_s(pause_s: float, retry_after_s: float | None) -> float:
    return retry_after_s if retry_after_s is not None else pause_s * random.uniform(0.8, 1.2)
