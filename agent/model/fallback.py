"""What answers when a model does not: the fall-back models, in order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import structlog

from agent.model.around import AroundClient
from agent.model.client import ModelClient, ModelEvent, ModelRequest, StreamRestarted
from gateway.contracts.entries import UsagePurpose
from gateway.contracts.errors import ContextTooLong, ModelError

_log = structlog.get_logger(__name__)


class FallbackClient(AroundClient):
    """A `ModelClient` that asks other models when the one of the request has failed for good.

    The model that was asked for always comes first, whoever chose it. A prompt that is too long is no reason to
    ask another: it has to become shorter. Small work (titles, summaries, …) never leaves its provider.
    """

    def __init__(self, inner: ModelClient, fallbacks: Sequence[str]) -> None:
        super().__init__(inner)
        self._fallbacks = tuple(fallbacks)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The first stream that ends with an answer; the first model's failure if there is none."""
        failure: ModelError | None = None
        for model in (request.model, *self._substitutes(request)):
            has_begun = False
            try:
                async for event in self._inner.stream(replace(request, model=model)):
                    has_begun = True
                    yield event
                return
            except ModelError as error:
                if failure is None and isinstance(error, ContextTooLong):
                    raise
                failure = failure or error
                _log.warning("model.failed", model=model, reason=f"{type(error).__name__}: {error}")
            if has_begun:
                yield StreamRestarted()
        if failure is not None:
            raise failure

    def _substitutes(self, request: ModelRequest) -> Sequence[str]:
        others = tuple(model for model in dict.fromkeys(self._fallbacks) if model != request.model)
        if request.purpose is UsagePurpose.TURN:
            return others
        provider = self.facts(request.model).provider
        return tuple(model for model in others if provider and self.facts(model).provider == provider)
