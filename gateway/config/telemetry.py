"""The settings of traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from gateway.config.section import HTTP_SCHEMES, HeaderLine, Section, bare, expecting, headers_of, url_with


class Telemetry(Section):
    """Traces for a collector."""

    otlp_endpoint: Annotated[str, url_with(*HTTP_SCHEMES), AfterValidator(bare)] = Field(
        default="",
        description="Collector that gets one trace for each turn, by OTLP over HTTP, such as http://127.0.0.1:4318; "
        "/v1/traces is appended. Ids, names, counts and times, never a text. Needs the extra `otel`. Empty: off.",
        json_schema_extra=expecting("empty or an http(s) URL"),
    )
    otlp_headers: tuple[HeaderLine, ...] = Field(
        default=(),
        description="Headers of each call of the collector: a name, =, a value.",
        json_schema_extra=expecting('a list of lines such as ["Authorization=Bearer …"]'),
    )

    @property
    def headers(self) -> Mapping[str, str]:
        """`otlp_headers` by name."""
        return headers_of(self.otlp_headers)
