"""Notes of each model whether it answers, and tells the bus which do not for want of a key or of credit.

Calls are seen when they are not tried again any more, and before another model is asked instead: a fall-back that
answers hides nothing from the operator.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import structlog

from agent.limits import MODEL_REPORTS_EVERY_S
from agent.model.around import AroundClient
from agent.model.client import ModelAnswer, ModelClient, ModelEvent, ModelRequest
from agent.model.embedding import EmbeddingAnswer, EmbeddingModel, EmbeddingRequest
from agent.model.transcription import TranscriptionAnswer, TranscriptionModel, TranscriptionRequest
from gateway.clock import SystemClock
from gateway.contracts.errors import BusError, ModelError, QuotaSpent
from gateway.contracts.ports import Clock, ModelFault, ModelTrouble, OperatorBus

_log = structlog.get_logger(__name__)


class ModelHealth:
    """What became of the calls of this process since it last told the bus."""

    def __init__(self, provider_of: Callable[[str], str] = str, clock: Clock | None = None) -> None:
        """`provider_of` says whose model has that name."""
        self._provider_of = provider_of
        self._clock = clock or SystemClock()
        self._news: dict[str, ModelTrouble | None] = {}

    def answered(self, model: str) -> None:
        """Note that a model gave an answer."""
        self._news[model] = None

    def failed(self, model: str, error: ModelError) -> None:
        """Note that a model gave none. What may pass by itself says nothing about its key."""
        if error.needs_operator:
            fault = ModelFault.QUOTA if isinstance(error, QuotaSpent) else ModelFault.KEY
            self._news[model] = ModelTrouble(model, self._provider_of(model), fault, self._clock.now_ms())

    @contextmanager
    def watching(self, model: str) -> Iterator[None]:
        """Note how the call ends that is made inside."""
        try:
            yield
        except ModelError as error:
            self.failed(model, error)
            raise
        self.answered(model)

    async def report(self, bus: OperatorBus) -> None:
        """Tell the bus what is new. What it does not take is told the next time."""
        news, self._news = self._news, {}
        if not news:
            return
        try:
            await bus.report_models(news)
        except BusError as error:
            self._news = news | self._news
            _log.warning("models.not_reported", reason=str(error))

    async def run(self, bus: OperatorBus) -> None:
        """Report every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(MODEL_REPORTS_EVERY_S)
            await self.report(bus)


class ObservedClient(AroundClient):
    """A `ModelClient` whose calls are noted."""

    def __init__(self, inner: ModelClient, health: ModelHealth) -> None:
        super().__init__(inner)
        self._health = health

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The inner stream."""
        try:
            async for event in self._inner.stream(request):
                if isinstance(event, ModelAnswer):  # noted before it is handed on: then nobody listens
                    self._health.answered(request.model)
                yield event
        except ModelError as error:
            self._health.failed(request.model, error)
            raise


class ObservedEmbeddings:
    """An `EmbeddingModel`, likewise."""

    def __init__(self, inner: EmbeddingModel, health: ModelHealth) -> None:
        self._inner = inner
        self._health = health

    async def embed(self, request: EmbeddingRequest) -> EmbeddingAnswer:
        """The inner answer."""
        with self._health.watching(request.model):
            return await self._inner.embed(request)


class ObservedTranscriptions:
    """A `TranscriptionModel`, likewise."""

    def __init__(self, inner: TranscriptionModel, health: ModelHealth) -> None:
        self._inner = inner
        self._health = health

    async def transcribe(self, request: TranscriptionRequest) -> TranscriptionAnswer:
        """The inner answer."""
        with self._health.watching(request.model):
            return await self._inner.transcribe(request)
