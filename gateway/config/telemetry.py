"""The settings of traces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, Field, SecretStr

from gateway.config.section import HTTP_SCHEMES, Section, bare, expecting, url_with

_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,64}=[\x20-\x7e]+")


def _header(line: SecretStr) -> SecretStr:
    if not _HEADER.fullmatch(line.get_secret_value()):
        raise ValueError("not such a line")
    return line


class Telemetry(Section):
    """Traces for a collector."""

    otlp_endpoint: Annotated[str, url_with(*HTTP_SCHEMES), AfterValidator(bare)] = Field(
        default="",
        description="Collector that gets one trace for each turn, by OTLP over HTTP, such as http://127.0.0.1:4318; "
        "/v1/traces is appended. Ids, names, counts and times, never a text. Needs the extra `otel`. Empty: off.",
        json_schema_extra=expecting("empty or an http(s) URL"),
    )
    otlp_headers: tuple[Annotated[SecretStr, AfterValidator(_header)], ...] = Field(
        default=(),
        description="Headers of each call of the collector: a name, =, a value.",
        json_schema_extra=expecting('a list of lines such as ["Authorization=Bearer …"]'),
    )

    @property
    def headers(self) -> Mapping[str, str]:
        """`otlp_headers` by name."""
        return dict(line.get_secret_value().split("=", 1) for line in self.otlp_headers)
