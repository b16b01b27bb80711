"""Counts how calls of models end and how long they take, and tells the bus which models do not answer for want of a key
or of credit.

Calls are seen when they are not tried again any more, and before another model is asked instead: a fall-back that
answers hides nothing from the operator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import structlog

from agent.limits import MODEL_REPORTS_EVERY_S
from gateway.bus.operator import Operator
from gateway.clock import SystemClock
from gateway.contracts.errors import (
    BusError,
    ContextTooLong,
    KeyRejected,
    ModelError,
    ModelRejected,
    ModelTooSlow,
    ModelUnavailable,
    QuotaSpent,
)
from gateway.contracts.ports import Clock, ModelFault, ModelTrouble
from gateway.telemetry.tally import MODEL_OUTCOMES, MODEL_SECONDS, Tally

_log = structlog.get_logger(__name__)
_ANSWERED: Final = "answered"
_OUTCOMES: Final[Mapping[type[ModelError], str]] = {
    KeyRejected: "key",
    QuotaSpent: "quota",
    ModelRejected: "rejected",
    ModelUnavailable: "unavailable",
    ModelTooSlow: "too_slow",
    ContextTooLong: "too_long",
}
_OTHER: Final = "other"
"""Stands for models that no setting names, and for failures without a name."""


class ModelHealth:
    """What became of the calls of this process since it last told the bus. `tally` is told with it, whoever counts."""

    def __init__(
        self, provider_of: Callable[[str], str] = str, known: Collection[str] = (), clock: Clock | None = None
    ) -> None:
        """`provider_of` says whose model has that name; those `known` are counted by name, all others together."""
        self.tally = Tally()
        self._provider_of = provider_of
        self._known = frozenset(known)
        self._clock = clock or SystemClock()
        self._news: dict[str, ModelTrouble | None] = {}

    def now_s(self) -> float:
        """A time to begin at, for `answered`."""
        return self._clock.monotonic_s()

    def answered(self, model: str, began_s: float) -> None:
        """Note that a model gave an answer."""
        self._news[model] = None
        name = self._counted(model)
        self.tally.add(MODEL_OUTCOMES, name, _ANSWERED)
        self.tally.time(MODEL_SECONDS, (self.now_s() - began_s) * 1000, name)

    def failed(self, model: str, error: ModelError) -> None:
        """Note that a model gave none. What may pass by itself says nothing about its key."""
        self.tally.add(MODEL_OUTCOMES, self._counted(model), _OUTCOMES.get(type(error), _OTHER))
        if error.needs_operator:
            fault = ModelFault.QUOTA if isinstance(error, QuotaSpent) else ModelFault.KEY
            self._news[model] = ModelTrouble(model, self._provider_of(model), fault, self._clock.now_ms())

    @contextmanager
    def watching(self, model: str) -> Iterator[None]:
        """Note how the call ends that is made inside."""
        began_s = self.now_s()
        try:
            yield
        except ModelError as error:
            self.failed(model, error)
            raise
        self.answered(model, began_s)

    async def report(self, bus: Operator) -> None:
        """Tell the bus what is new. What it does not take is told the next time."""
        news, self._news = self._news, {}
        counts = self.tally.take()
        try:
            if news:
                await bus.report_models(news)
                news = {}
            if counts:
                await bus.add_counts(counts)
        except BusError as error:
            self._news = news | self._news
            self.tally.give_back(counts)
            _log.warning("models.not_reported", reason=str(error))

    async def run(self, bus: Operator) -> None:
        """Report every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(MODEL_REPORTS_EVERY_S)
            await self.report(bus)

    def _counted(self, model: str) -> str:
        return model if model in self._known else _OTHER
