"""A collector of traces on loopback that speaks OTLP over HTTP, decoded with the standard's own protobuf."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from channels.emulators.serving import LOOPBACK, listening


async def at_once() -> None:
    """The default pace of a collector."""


@dataclass(slots=True)
class Collector:
    """What came in, as it came and decoded."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    spans: list[Span] = field(default_factory=list)
    pace: Callable[[], Awaitable[None]] = at_once
    called: asyncio.Event = field(default_factory=asyncio.Event)

    def named(self, name: str) -> list[Span]:
        """The spans of this name, in the order in which they came."""
        return [span for span in self.spans if span.name == name]

    async def take(self, request: Request) -> Response:
        """POST /v1/traces."""
        self.called.set()
        body = await request.body()
        await self.pace()
        self.bodies.append(body)
        self.tokens.add(request.headers.get("authorization", ""))
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for of_scope in of_resource.scope_spans:
                self.spans.extend(of_scope.spans)
        return Response(media_type="application/x-protobuf")


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    """A collector that listens."""
    collector = Collector()
    app = Starlette(routes=[Route("/v1/traces", collector.take, methods=["POST"])])
    async with listening(app) as port:
        collector.url = f"http://{LOOPBACK}:{port}"
        yield collector


def attributes_of(span: Span) -> dict[str, str | int]:
    """By name."""
    return {
        each.key: each.value.int_value if each.value.HasField("int_value") else each.value.string_value
        for each in span.attributes
    }
