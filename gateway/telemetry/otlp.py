"""Spans on their way to a collector, by OTLP over HTTP. The only importer of the OpenTelemetry SDK; loaded where the
settings name a collector (`gateway.telemetry.spans`).

The SDK's batches leave in a thread of their own, out of a queue that has an end: a collector that is slow, away or
silent costs spans, never time. No provider is made global, so what libraries would tell of themselves, which may be
content, goes nowhere."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from gateway.contracts.ports import TraceSpan
from gateway.telemetry.spans import plain, span_number, trace_number

SPANS_WAITING_MAX: Final = 4_096  # a few megabytes: several hundred turns; then the oldest are dropped
BATCH_SPANS_MAX: Final = 512  # what collectors take at once without a word
BATCH_EVERY_MS: Final = 1_000  # an operator who looks for a turn that has just ended finds it
EXPORT_TIMEOUT_S: Final = 10.0  # for one batch, all its tries together
CLOSE_S: Final = 2.0  # for what still waits when the process ends; the supervisor gives eight for all of that

_NS_PER_MS: Final = 1_000_000
_PATH: Final = "/v1/traces"
_SCOPE: Final = "trivet"


class OtlpSpans:
    """`gateway.contracts.ports.SpanSink` that sends to a collector."""

    def __init__(self, endpoint: str, headers: Mapping[str, str], *, role: str) -> None:
        """Connect to a collector at `endpoint`, an address without a path; `role` names this process."""
        exporter = OTLPSpanExporter(endpoint + _PATH, headers=dict(headers), timeout=EXPORT_TIMEOUT_S)
        batches = BatchSpanProcessor(
            exporter,
            max_queue_size=SPANS_WAITING_MAX,
            max_export_batch_size=BATCH_SPANS_MAX,
            schedule_delay_millis=BATCH_EVERY_MS,
        )
        resource = Resource({"service.name": "trivet", "service.version": version("trivet"), "trivet.role": role})
        self._ids = _GivenIds()
        self._provider = TracerProvider(
            sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False, id_generator=self._ids
        )
        self._provider.add_span_processor(batches)
        self._tracer = self._provider.get_tracer(_SCOPE)

    def record(self, span: TraceSpan) -> None:
        """Put the span into the queue."""
        told = plain(span)
        self._ids.next_trace, self._ids.next_span = trace_number(told.turn_id), span_number(told.turn_id, told.id)
        recorded = self._tracer.start_span(
            f"{told.operation} {told.subject}".rstrip(),
            context=_parent(told),
            kind=SpanKind.CLIENT if told.is_call else SpanKind.INTERNAL,
            attributes=dict(told.attributes),
            start_time=told.began_ms * _NS_PER_MS,
        )
        if told.failure:
            recorded.set_attribute("error.type", told.failure)
            recorded.set_status(Status(StatusCode.ERROR))
        recorded.end(told.ended_ms * _NS_PER_MS)

    def close(self) -> None:
        """Let what waits leave, for `CLOSE_S` at most."""
        closing = threading.Thread(target=self._provider.shutdown, name="otlp-close", daemon=True)
        closing.start()
        closing.join(CLOSE_S)


class _GivenIds(IdGenerator):
    """Gives the ids that follow from the turn. Spans are recorded in the event loop, one at a time."""

    def __init__(self) -> None:
        self.next_trace = 0
        self.next_span = 0

    def generate_trace_id(self) -> int:
        return self.next_trace

    def generate_span_id(self) -> int:
        return self.next_span


def _parent(span: TraceSpan) -> Context:
    if not span.parent:
        return Context()
    number = span_number(span.turn_id, span.parent)
    known = SpanContext(trace_number(span.turn_id), number, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return set_span_in_context(NonRecordingSpan(known), Context())
