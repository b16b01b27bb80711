"""Where the spans of this process go: to the collector that the settings name, or nowhere. OpenTelemetry is loaded only
for the first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Final, Protocol, cast

from gateway.config.telemetry import Telemetry
from gateway.contracts.errors import ConfigError
from gateway.contracts.ports import NoSpans, SpanSink

_MODULE: Final = "gateway.telemetry.otlp"
_PACKAGE: Final = "opentelemetry-exporter-otlp-proto-http"


class _Open(SpanSink, Protocol):
    def close(self) -> None: ...


class _Otlp(Protocol):
    """What the module offers."""

    def OtlpSpans(self, endpoint: str, headers: Mapping[str, str], *, role: str) -> _Open: ...  # noqa: N802 - a class


@contextmanager
def open_spans(settings: Telemetry, *, role: str) -> Iterator[SpanSink]:
    """As long as the block lasts. Raises `ConfigError`."""
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


def check_exporter(settings: Telemetry, package: str = _PACKAGE) -> None:
    """Raises `ConfigError` when a collector is configured and `package`, of the extra `otel`, is not installed."""
    if not settings.otlp_endpoint:
        return
    try:
        version(package)
    except PackageNotFoundError as error:
        raise ConfigError(
            "telemetry.otlp_endpoint is set, but the extra `otel` is not installed: run "
            "`.venv/bin/pip install -e '.[otel]'` in the folder of Trivet, or leave telemetry.otlp_endpoint empty"
        ) from error
