"""What leaves for a collector is plain, and a collector in trouble troubles nobody."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.engine import reply_id_of, turn_of_reply
from gateway.config.features import TelemetrySettings
from gateway.contracts.errors import ConfigError
from gateway.contracts.ports import TraceSpan
from gateway.telemetry import otlp
from gateway.telemetry.otlp import SPANS_WAITING_MAX
from gateway.telemetry.spans import NoSpans, check_exporter, open_spans, plain, span_number, trace_number
from tests.parts.collector import collecting
from tests.parts.ports import LOOPBACK, free_port
from tests.parts.waiting import until

_PLAIN = re.compile(r"(?!.*://)([A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127})?")


def a_span(number: int = 0, **changes: str) -> TraceSpan:
    return TraceSpan("t_1", f"chat:{number}", "turn", "chat", 1_000, 2_000, **changes)  # type: ignore[arg-type]


@given(st.text(), st.text(), st.text(), st.text(), st.integers(0, 10), st.integers(0, 10))
def test_only_plain_names_leave(
    operation: str, subject: str, failure: str, value: str, began_ms: int, ended_ms: int
) -> None:
    """Whatever was recorded: no text has a space or another letter in it, and no time runs backwards."""
    span = plain(TraceSpan("t", "x", "", operation, began_ms, ended_ms, subject, failure, attributes={"some": value}))
    assert all(_PLAIN.fullmatch(text) for text in (span.operation, span.subject, span.failure))
    assert all(_PLAIN.fullmatch(str(text)) for text in span.attributes.values())
    assert span.ended_ms >= span.began_ms


def test_an_address_is_no_plain_name() -> None:
    """Where a model is reached is nobody's business."""
    assert plain(a_span(subject="http://10.0.0.5:8080/v1")).subject == "other"
    assert plain(a_span(subject="ollama/llama3:8b")).subject == "ollama/llama3:8b"


@given(st.text(), st.text(), st.text())
def test_ids_follow_from_the_turn(turn_id: str, one: str, other: str) -> None:
    """In every process alike, and never the number that means none."""
    assert trace_number(turn_id) == trace_number(turn_id) != 0
    assert (span_number(turn_id, one) == span_number(turn_id, other)) == (one == other)


def test_a_reply_leads_to_its_turn_and_nothing_else_does() -> None:
    assert turn_of_reply(reply_id_of("t_1")) == "t_1"
    assert [turn_of_reply(other) for other in ("status:t_1", "title:t_1", "status:t_1:1", "01J", "t_1:2")] == [""] * 5


def test_nothing_is_loaded_where_no_collector_is_configured() -> None:
    """What other libraries load of OpenTelemetry, where it is installed, is theirs."""
    program = (
        "import sys, agent.assembly\n"
        "from gateway.config.features import TelemetrySettings\n"
        "from gateway.telemetry.spans import open_spans\n"
        "with open_spans(TelemetrySettings(), role='agent') as spans:\n"
        "    print(type(spans).__name__, 'gateway.telemetry.otlp' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [NoSpans.__name__, "False"]


def test_a_collector_without_the_extra_is_refused() -> None:
    """Before anything starts, and with the word that says what to install."""
    check_exporter(TelemetrySettings(), package="no-such-package")
    with pytest.raises(ConfigError, match=r"install -e '\.\[otel\]'"):
        check_exporter(TelemetrySettings(otlp_endpoint=f"http://{LOOPBACK}:4318"), package="no-such-package")


async def test_what_waits_leaves_at_the_end() -> None:
    async with collecting() as collector:

        def work() -> None:
            with open_spans(TelemetrySettings(otlp_endpoint=f"{collector.url}/"), role="agent") as spans:
                spans.record(a_span(failure="RateLimited"))

        await asyncio.to_thread(work)
    (span,) = collector.spans
    assert (span.name, span.end_time_unix_nano - span.start_time_unix_nano) == ("chat", 1_000_000_000)


async def test_a_collector_that_hangs_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than its queue takes is recorded while a batch hangs; the end does not wait for it, else this never ends."""
    monkeypatch.setattr(otlp, "EXPORT_TIMEOUT_S", 3_600.0)
    hanging = asyncio.Event()
    async with collecting() as collector:
        collector.pace = lambda: _until(hanging)

        def work() -> None:
            with open_spans(TelemetrySettings(otlp_endpoint=collector.url), role="agent") as spans:
                for number in range(2 * SPANS_WAITING_MAX):
                    spans.record(a_span(number))

        await asyncio.to_thread(work)
        await collector.called.wait()
        assert not collector.spans
        hanging.set()
        await _no_thread_is_left()


async def test_a_collector_that_is_away_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "EXPORT_TIMEOUT_S", 0.1)
    with open_spans(TelemetrySettings(otlp_endpoint=f"http://{LOOPBACK}:{free_port()}"), role="agent") as spans:
        spans.record(a_span())
    await _no_thread_is_left()


async def _until(event: asyncio.Event) -> None:
    await event.wait()


async def _no_thread_is_left() -> None:
    """A thread that went on trying would draw random numbers in the middle of the next test's examples."""
    await until(lambda: not any(thread.name.startswith(("Otel", "otlp")) for thread in threading.enumerate()))
