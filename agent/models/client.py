"""Counts how calls of models end and how long they take, and tells the bus which models fail for want of a key
or of credit.

A call is counted when it is not tried again any more, and before another model is asked instead: a fall-back
that answers hides nothing from the operator."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

import structlog

from agent import limits
from agent.models import metering, requests
from gateway.bus.operator import Operator
from gateway.clock import SystemClock
from gateway.contracts import errors
from gateway.contracts.budgets import Amounts, nano_of
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import Clock, ModelFault, ModelTrouble, SpanSink, TraceSpan
from gateway.telemetry.metrics import MODEL_OUTCOMES, MODEL_SECONDS, Tally
from gateway.telemetry.spans import under

_log = structlog.get_logger(__name__)
_ANSWERED: Final = "answered"
_OUTCOMES: Final[Mapping[type[errors.ModelError], str]] = {
    errors.KeyRejected: "key",
    errors.QuotaSpent: "quota",
    errors.ModelRejected: "rejected",
    errors.ModelUnavailable: "unavailable",
    errors.ModelTooSlow: "too_slow",
    errors.ContextTooLong: "too_long",
}
_OTHER: Final = "other"
"""Stands for models that no setting names, and for failures without a name."""


class ModelHealth:
    """The outcomes of this process's calls since it last reported to the bus. `tally` is reported along with them."""

    def __init__(
        self, provider_of: Callable[[str], str] = str, known: Collection[str] = (), clock: Clock | None = None
    ) -> None:
        """Start with no faults. `provider_of` returns the provider of a model name; the models in `known` are counted
        by name, all others together."""
        self.tally = Tally()
        self._provider_of = provider_of
        self._known = frozenset(known)
        self.clock = clock or SystemClock()
        self._news: dict[str, ModelTrouble | None] = {}

    def answered(self, model: str, began_s: float) -> None:
        """Note that a model gave an answer."""
        self._news[model] = None
        name = self._counted(model)
        self.tally.add(MODEL_OUTCOMES, name, _ANSWERED)
        self.tally.time(MODEL_SECONDS, (self.clock.monotonic_s() - began_s) * 1000, name)

    def failed(self, model: str, error: errors.ModelError) -> None:
        """Note that a model gave none. What may pass by itself says nothing about its key."""
        self.tally.add(MODEL_OUTCOMES, self._counted(model), _OUTCOMES.get(type(error), _OTHER))
        if error.needs_operator:
            fault = ModelFault.QUOTA if isinstance(error, errors.QuotaSpent) else ModelFault.KEY
            self._news[model] = ModelTrouble(model, self._provider_of(model), fault, self.clock.now_ms())

    @contextmanager
    def watching(self, model: str) -> Iterator[None]:
        """Note how the call ends that is made inside."""
        began_s = self.clock.monotonic_s()
        try:
            yield
        except errors.ModelError as error:
            self.failed(model, error)
            raise
        self.answered(model, began_s)

    async def report(self, bus: Operator) -> None:
        """Tell the bus what is new. What it does not take is told the next time."""
        news, self._news = self._news, {}
        try:
            if news:
                await bus.report_models(news)
                news = {}
            await self.tally.hand_over(bus.add_counts)
        except errors.BusError as error:
            self._news = news | self._news
            _log.warning("models.not_reported", reason=str(error))

    async def report_forever(self, bus: Operator) -> None:
        """Report every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(limits.MODEL_REPORTS_EVERY_S)
            await self.report(bus)

    def _counted(self, model: str) -> str:
        return model if model in self._known else _OTHER


# The one client through which every model is asked: charged, tried again, fallen back from, counted and traced.
#
# One call passes, from the outside in:
#
#     charge        the gate reserves what it may cost at most, and is told what it did cost
#     fall back     another model answers when the one of the request has failed for good
#     try again     rate limits, overload and dropped connections are outlived
#     show images   to models that see, and to no others
#
# litellm's own retries are off.


_CUT_OFF: Final = "cut_off"
_Answer = TypeVar("_Answer")


@dataclass(eq=False, repr=False)
class ModelClient:
    """Ask models on behalf of people.

    `fallbacks` answer, in order, when the model of a request has failed for good; `gate` allows what its owner can
    afford (None: nothing is charged); `spans` records each call of a turn (None: nothing is recorded)."""

    provider: requests.ModelProvider
    _: KW_ONLY
    embeddings: requests.EmbeddingModel | None = None
    transcriptions: requests.TranscriptionModel | None = None
    speech: requests.SpeechModel | None = None
    fallbacks: Sequence[str] = ()
    gate: metering.Gate | None = None
    health: ModelHealth = field(default_factory=ModelHealth)
    spans: SpanSink | None = None
    clock: Clock = field(default_factory=SystemClock)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    monotonic_s: Callable[[], float] = time.monotonic

    def facts(self, model: str) -> requests.ModelFacts:
        """Return what is known of a model without asking it."""
        return self.provider.facts(model)

    def check_name(self, model: str) -> None:
        """Raise `ConfigError` for a name that nobody can call."""
        self.provider.check_name(model)

    async def close(self) -> None:
        """Close the provider's connections."""
        await self.provider.close()

    async def stream(self, request: requests.ModelRequest) -> AsyncIterator[requests.ModelEvent]:
        """Yield deltas, then exactly one `ModelAnswer`. Raises the `ModelError` tree and `BudgetSpent`."""
        facts = self.facts(request.model)
        ticket = (
            await self.gate.admit(request.key.owner, partial(metering.request_plan, request, facts))
            if self.gate
            else None
        )
        call = metering.MeteredCall(request, ticket, facts.prices_usd)
        request.cost.unanswered = lambda: call.unanswered
        began_ms, failure, is_recorded = self.clock.now_ms(), _CUT_OFF, False
        try:
            async for event in self._with_fallbacks(replace(request, permit=call.permit)):
                call.hear(event)
                if isinstance(
                    event, requests.ModelAnswer
                ):  # settled before it is handed on: nobody has to read on after that
                    self._record(request, began_ms, answer=event)
                    is_recorded = True
                    if ticket is not None:
                        await ticket.settle(call.cost_so_far, is_last=not event.calls)
                    call.hand_on()
                yield event
        except errors.ModelError as error:
            failure = type(error).__name__
            call.refuse()
            raise
        finally:
            if not is_recorded:
                self._record(request, began_ms, failure=failure)
            if ticket is not None:
                ticket.settle_soon(call.cost_so_far)

    async def embed(self, request: requests.EmbeddingRequest) -> requests.EmbeddingAnswer:
        """Return a vector for each text. A person waits for it, so it outlives one bad moment and no more. Raises
        `ModelError`."""
        if self.embeddings is None:
            raise errors.ModelError("no embedding model is configured")
        return await self._charged(
            request.key,
            metering.embedding_plan(request, self.facts(request.model)),
            partial(self.embeddings.embed, request),
            lambda answer: Amounts(answer.tokens, nano_of(answer.cost_usd)),
            tries_max=limits.EMBEDDING_TRIES_MAX,
        )

    async def transcribe(self, request: requests.TranscriptionRequest) -> requests.TranscriptionAnswer:
        """Return what is said in a recording. No attempt begins without the permit of its request. Raises
        `ModelError`."""
        if self.transcriptions is None:
            raise errors.ModelError("no transcription model is configured")
        return await self._charged(
            request.key,
            metering.transcription_plan(request, self.facts(request.model)),
            partial(self.transcriptions.transcribe, request),
            lambda answer: Amounts(answer.tokens.prompt + answer.tokens.completion, nano_of(answer.cost_usd)),
            tries_max=limits.TRANSCRIPTION_TRIES_MAX,
            permit=request.permit,
        )

    async def speak(self, request: requests.SpeechRequest) -> requests.SpeechAnswer:
        """Return a recording of the text. No attempt begins without the permit of its request. Raises `ModelError` and
        `BudgetSpent`."""
        if self.speech is None:
            raise errors.ModelError("no speech model is configured")
        return await self._charged(
            request.key,
            metering.speech_plan(request, self.facts(request.model)),
            partial(self.speech.speak, request),
            lambda answer: Amounts(0, nano_of(answer.cost_usd)),
            tries_max=limits.SPEECH_TRIES_MAX,
            permit=request.permit,
        )

    async def _with_fallbacks(self, request: requests.ModelRequest) -> AsyncIterator[requests.ModelEvent]:
        """Yield the first stream that ends with an answer; raise the first model's failure if there is none.

        The model that was asked for always comes first. A prompt that is too long is no reason to
        ask another: it has to become shorter."""
        failure: errors.ModelError | None = None
        for model in (request.model, *self._substitutes(request)):
            has_begun, began_s = False, self.health.clock.monotonic_s()
            try:
                async for event in self._with_retries(replace(request, model=model)):
                    has_begun = True
                    if isinstance(event, requests.ModelAnswer):
                        self.health.answered(model, began_s)
                    yield event
                return
            except errors.ModelError as error:
                self.health.failed(model, error)
                if failure is None and isinstance(error, errors.ContextTooLong):
                    raise
                failure = failure or error
                _log.warning("model.failed", model=model, reason=f"{type(error).__name__}: {error}")
            if has_begun:
                yield requests.StreamRestarted()
        if failure is not None:
            raise failure

    def _substitutes(self, request: requests.ModelRequest) -> Sequence[str]:
        """Return who may answer instead. Small work (titles, summaries, …) never leaves its provider."""
        candidates = dict.fromkeys((request.otherwise, *self.fallbacks))
        others = tuple(model for model in candidates if model and model != request.model)
        if request.purpose in requests.LONG_WORK:
            return others
        provider = self.facts(request.model).provider
        return tuple(model for model in others if provider and self.facts(model).provider == provider)

    async def _with_retries(self, request: requests.ModelRequest) -> AsyncIterator[requests.ModelEvent]:
        """Yield the stream of one model, begun again as often as the request has pauses, within its time.

        `Retry-After` is honoured. When a stream breaks midway a `StreamRestarted` voids what was shown. What is not
        `ModelUnavailable` is raised at once, and so is a call that took all its time."""
        end_s = self.monotonic_s() + request.timeout_s
        for attempt, pause_s in enumerate((*request.backoff_s, None), 1):
            has_begun = False
            await request.permit()
            try:
                async for event in self._with_images(replace(request, timeout_s=end_s - self.monotonic_s())):
                    has_begun = True
                    yield event
                return
            except errors.ModelUnavailable as error:
                if pause_s is None:
                    raise
                wait_s = _wait_s(pause_s, error.retry_after_s)
                has_said_no = (error.retry_after_s or 0.0) > limits.MODEL_RETRY_AFTER_MAX_S
                if has_said_no or wait_s >= end_s - self.monotonic_s():
                    raise
                _log.warning("model.retry", attempt=attempt, wait_s=round(wait_s, 2), reason=str(error))
                if has_begun:
                    yield requests.StreamRestarted()
                await self.sleep(wait_s)

    async def _with_images(self, request: requests.ModelRequest) -> AsyncIterator[requests.ModelEvent]:
        """Yield the provider's stream, without images for a model that sees none.

        A provider that refuses a prompt with images is asked once more without them: an image that it does not like
        would otherwise cost its author the whole conversation, for it is in every prompt that follows."""
        if request.has_images and self.facts(request.model).sees:
            has_begun = False
            try:
                async for event in self.provider.stream(request):
                    has_begun = True
                    yield event
                return
            except errors.ModelRejected as error:
                if has_begun or error.needs_operator:
                    raise
                _log.warning("model.images_refused", model=request.model, reason=str(error))
            await request.permit()
        async for event in self.provider.stream(_without_images(request)):
            yield event

    async def _charged(
        self,
        key: SessionKey,
        planned: metering.Planned,
        ask: Callable[[], Awaitable[_Answer]],
        cost_of: Callable[[_Answer], Amounts],
        *,
        tries_max: int,
        permit: requests.Permit = requests.always,
    ) -> _Answer:
        """Return an answer that comes all at once, reserved before and settled after. Also raises `BudgetSpent`."""
        ticket = await self.gate.admit(key.owner, lambda: planned) if self.gate else None
        if ticket is None:
            return await self._watched(planned.model, ask, tries_max, permit)
        cost = planned.most
        try:
            answer = await self._watched(planned.model, ask, tries_max, permit)
            cost = cost_of(answer)
            await ticket.settle(cost)
            return answer
        except errors.ModelError:
            cost = Amounts()
            raise
        finally:
            ticket.settle_soon(cost)

    async def _watched(
        self, model: str, ask: Callable[[], Awaitable[_Answer]], tries_max: int, permit: requests.Permit
    ) -> _Answer:
        """Return what a model answers, asked for `tries_max` times at most; count how it ends."""
        with self.health.watching(model):
            attempt = 1
            while True:
                try:
                    await permit()
                    return await ask()
                except errors.ModelUnavailable as error:
                    wait_s = _wait_s(limits.EMBEDDING_PAUSE_S, error.retry_after_s)
                    if attempt == tries_max or wait_s > limits.EMBEDDING_TIMEOUT_S:
                        raise
                    _log.warning("model.retry", attempt=attempt, reason=str(error))
                    await self.sleep(wait_s)
                    attempt += 1

    def _record(
        self,
        request: requests.ModelRequest,
        began_ms: int,
        *,
        answer: requests.ModelAnswer | None = None,
        failure: str = "",
    ) -> None:
        """Record a span for a call of a turn: which model, how long, how many tokens; never a word of it.

        Names are OpenTelemetry's: https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/"""
        if self.spans is None or not request.turn_id:
            return
        attributes: dict[str, str | int] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self.facts(request.model).api,
            "gen_ai.request.model": request.model,
            "trivet.purpose": request.purpose.value,
        }
        if answer is not None:
            attributes |= {
                "gen_ai.response.model": answer.model,
                "gen_ai.usage.input_tokens": answer.tokens.prompt,
                "gen_ai.usage.output_tokens": answer.tokens.completion,
                "gen_ai.usage.cache_read.input_tokens": answer.tokens.cached,
            }
        self.spans.record(
            TraceSpan(
                request.turn_id,
                f"chat:{self.clock.new_id()}",
                under(request.task_id),
                "chat",
                began_ms,
                self.clock.now_ms(),
                subject=request.model,
                failure=failure,
                is_call=True,
                attributes=attributes,
            )
        )


def _without_images(request: requests.ModelRequest) -> requests.ModelRequest:
    if not request.has_images:
        return request
    return replace(request, messages=tuple(replace(message, images=()) for message in request.messages))


def _wait_s(pause_s: float, retry_after_s: float | None) -> float:
    """Return a pause: never less than the provider asked for, and not the same for all who were refused at once."""
    if retry_after_s is not None:
        return retry_after_s * random.uniform(1.0, 1.1)
    return pause_s * random.uniform(0.8, 1.2)
