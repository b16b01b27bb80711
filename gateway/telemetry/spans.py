"""One trace for each turn: from what we know of a message, a call, a sub-agent or a delivery to its spans. Pure.

    message ─┬─ wait             from its arrival to the turn
             ├─ turn ─┬─ chat …  a model call, by OpenTelemetry's conventions for generative AI
             │        ├─ execute_tool …
             │        └─ invoke_agent … ── chat …, execute_tool …
             └─ deliver ── send

Ids, names, counts, times and codes, never a text: `plain` is the last thing before a span leaves, and what does not
look like one of these does not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Final, Protocol, cast

from gateway.config.features import TelemetrySettings
from gateway.contracts.errors import ConfigError
from gateway.contracts.messages import DeliveryState, InboundMessage, Receipt
from gateway.contracts.ports import SpanSink, TraceSpan
from gateway.contracts.sessions import TurnCommit, TurnState
from gateway.contracts.subagents import SubTask, TaskState

MESSAGE: Final = "message"
TURN: Final = "turn"
OTHER: Final = "other"
"""Stands for what is no plain name."""

_DELIVER: Final = "deliver"
_PLAIN: Final = re.compile(r"(?!.*://)[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}")
_TRACE_ID_BYTES: Final = 16  # https://www.w3.org/TR/trace-context/#traceparent-header-field-values
_SPAN_ID_BYTES: Final = 8


def trace_number(turn_id: str) -> int:
    """Return the trace that belongs to a turn, the same in every process."""
    return _number(turn_id, _TRACE_ID_BYTES)


def span_number(turn_id: str, id_: str) -> int:
    """Return the number of one span of a turn, the same in every process."""
    return _number(f"{turn_id} {id_}", _SPAN_ID_BYTES)


def plain(span: TraceSpan) -> TraceSpan:
    """Return the span as it may leave: every text in it a plain name, and its end not before its beginning."""
    attributes = {
        name: value if isinstance(value, int) else _plain(value)
        for name, value in span.attributes.items()
        if value != ""
    }
    return replace(
        span,
        operation=_plain(span.operation),
        subject=_plain(span.subject) if span.subject else "",
        failure=_plain(span.failure) if span.failure else "",
        ended_ms=max(span.began_ms, span.ended_ms),
        attributes=attributes,
    )


def under(task_id: str) -> str:
    """Return the id of the span that a call belongs to: that of the sub-agent which makes it, or ("") the turn's."""
    return f"agent:{task_id}" if task_id else TURN


def turn_spans(
    commit: TurnCommit, messages: tuple[InboundMessage, ...], *, began_ms: int, fence: int
) -> Iterator[TraceSpan]:
    """Yield the spans of a committed turn that began at `began_ms`: its messages, their waiting, and itself."""
    turn_id, received_ms = commit.turn_id, min(message.received_at_ms for message in messages)
    shared: Mapping[str, str | int] = {
        "trivet.turn_id": turn_id,
        "trivet.platform": commit.key.platform,
        "trivet.messages": len(commit.consumed),
    }
    yield TraceSpan(turn_id, MESSAGE, "", MESSAGE, received_ms, commit.finished_at_ms, attributes=shared)
    yield TraceSpan(turn_id, "wait", MESSAGE, "wait", received_ms, began_ms)
    failure = commit.state.value if commit.state is TurnState.FAILED else ""
    attributes = {
        "trivet.turn_id": turn_id,
        "trivet.turn.state": commit.state.value,
        "trivet.turn.fence": fence,
        "trivet.error_reference": commit.error_reference,
    }
    yield TraceSpan(
        turn_id, TURN, MESSAGE, TURN, began_ms, commit.finished_at_ms, failure=failure, attributes=attributes
    )


def subagent_span(task: SubTask) -> TraceSpan:
    """Return the span of a sub-agent that is over."""
    attributes: Mapping[str, str | int] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": task.sub_type,
        "gen_ai.agent.id": task.id,
        "gen_ai.usage.input_tokens": task.tokens_in,
        "gen_ai.usage.output_tokens": task.tokens_out,
        "trivet.subagent.state": task.state.value,
        "trivet.subagent.mode": task.mode.value,
    }
    return TraceSpan(
        task.turn_id,
        under(task.id),
        under(task.parent_task_id),
        "invoke_agent",
        task.started_at_ms or task.created_at_ms,
        task.finished_at_ms,
        subject=task.sub_type,
        failure="" if task.state is TaskState.COMPLETED else task.reason or task.state.value,
        attributes=attributes,
    )


def delivery_spans(turn_id: str, receipt: Receipt) -> Iterator[TraceSpan]:
    """Yield the spans of a turn's reply: from the bus to its end, and the part of that in which the platform was
    called."""
    record = receipt.record
    failure = "" if record.state is DeliveryState.SENT else record.state.value
    attributes: Mapping[str, str | int] = {
        "trivet.platform": receipt.key.platform,
        "trivet.delivery.state": record.state.value,
        "trivet.delivery.messages": record.next_chunk,
        "trivet.delivery.attempts": record.attempt + 1,
    }
    published_ms = record.published_at_ms or record.begun_at_ms or record.updated_at_ms
    yield TraceSpan(
        turn_id, _DELIVER, MESSAGE, _DELIVER, published_ms, record.updated_at_ms, failure=failure, attributes=attributes
    )
    if record.begun_at_ms:
        yield TraceSpan(
            turn_id, "send", _DELIVER, "send", record.begun_at_ms, record.updated_at_ms, failure=failure, is_call=True
        )


def _plain(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else OTHER


def _number(text: str, size: int) -> int:
    """Return a number that is never 0, which means that there is none."""
    return int.from_bytes(blake2b(text.encode(), digest_size=size).digest()) or 1


# Where the spans of this process go: to the collector that the settings name, or nowhere. OpenTelemetry is loaded
# only for the first.


_MODULE: Final = "gateway.telemetry.otlp"
_PACKAGE: Final = "opentelemetry-exporter-otlp-proto-http"


class _Open(SpanSink, Protocol):
    def close(self) -> None: ...


class _Otlp(Protocol):
    """The functions that the module offers."""

    def OtlpSpans(self, endpoint: str, headers: Mapping[str, str], *, role: str) -> _Open: ...  # noqa: N802 - a class


class NoSpans:
    """The sink of spans where nobody collects traces."""

    def record(self, _span: TraceSpan) -> None:
        """Do nothing."""


@contextmanager
def open_spans(settings: TelemetrySettings, *, role: str) -> Iterator[SpanSink]:
    """Open the exporter of spans for as long as the block lasts. Raises `ConfigError`."""
    check_exporter(settings)
    if not settings.otlp_endpoint:
        yield NoSpans()
        return
    otlp = cast(_Otlp, import_module(_MODULE))
    spans = otlp.OtlpSpans(settings.otlp_endpoint, settings.headers, role=role)
    try:
        yield spans
    finally:
        spans.close()


def check_exporter(settings: TelemetrySettings, package: str = _PACKAGE) -> None:
    """Raise `ConfigError` when a collector is configured and `package`, of the extra `otel`, is not installed."""
    if not settings.otlp_endpoint:
        return
    try:
        version(package)
    except PackageNotFoundError as error:
        raise ConfigError(
            "telemetry.otlp_endpoint is set, but the extra `otel` is not installed: run "
            "`.venv/bin/pip install -e '.[otel]'` in the folder of Trivet, or leave telemetry.otlp_endpoint empty"
        ) from error
