"""Tells of each model call when it is over: which model, how long, how many tokens. Never a word of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from agent.model.around import AroundClient
from agent.model.client import ModelAnswer, ModelClient, ModelEvent, ModelRequest
from gateway.contracts.errors import ModelError
from gateway.contracts.ports import Clock, SpanSink, TraceSpan
from gateway.telemetry.spans import under

_CUT_OFF: Final = "cut_off"


class TracedClient(AroundClient):
    """A `ModelClient` that records a span for each call of a turn, by OpenTelemetry's conventions for generative AI:
    https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/"""

    def __init__(self, inner: ModelClient, spans: SpanSink, clock: Clock) -> None:
        super().__init__(inner)
        self._spans = spans
        self._clock = clock

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The inner stream."""
        began_ms, failure = self._clock.now_ms(), _CUT_OFF
        is_told = not request.turn_id
        try:
            async for event in self._inner.stream(request):
                if isinstance(event, ModelAnswer) and not is_told:  # told before it is handed on: then nobody listens
                    is_told = True
                    self._tell(request, began_ms, answer=event)
                yield event
        except ModelError as error:
            failure = type(error).__name__
            raise
        finally:
            if not is_told:
                self._tell(request, began_ms, failure=failure)

    def _tell(
        self, request: ModelRequest, began_ms: int, *, answer: ModelAnswer | None = None, failure: str = ""
    ) -> None:
        attributes: dict[str, str | int] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._inner.facts(request.model).api,
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
        self._spans.record(
            TraceSpan(
                request.turn_id,
                f"chat:{self._clock.new_id()}",
                under(request.task_id),
                "chat",
                began_ms,
                self._clock.now_ms(),
                subject=request.model,
                failure=failure,
                is_call=True,
                attributes=attributes,
            )
        )
