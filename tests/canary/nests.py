"""Where a secret could settle: everything that a running Trivet holds, has sent and shows, as text by place."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from typing import Any, Final

import httpx
from redis import Redis

from gateway.bus.embedded import embedded_url
from tests.canary.flights import RAW_FILE
from tests.parts.model_server import ModelServer
from tests.parts.product import Product, clean_environment

_CONVERSATIONS_MAX: Final = 500
_OPEN: Final = ("/healthz", "/readyz")
_PAGES: Final = (
    *(
        "/metrics",
        "/api/v1/docs",
        "/api/v1/openapi.json",
        "/api/v1/deliveries?limit=500",
        "/api/v1/dead-letters?limit=500",
    ),
    *(
        "/api/v1/usage",
        "/api/v1/sessions?limit=500",
        "/api/v1/people?limit=500",
        "/api/v1/schedules?limit=500",
        "/api/v1/overview",
    ),
    *("/api/v1/models", "/api/v1/settings", "/api/v1/logs?limit=5000", "/api/v1/audit?limit=500"),
    *("/", "/sessions", "/people", "/queue", "/models", "/settings", "/logs", "/audit"),
)
_COMMANDS: Final = (("doctor",), ("config", "show"), ("dead", "list"))


async def held(product: Product, model: ModelServer) -> dict[str, str]:
    """All of it, while everything runs."""
    with closing(product.database()) as database:
        rows = "\n".join(database.iterdump())
    places = {
        "redis": "\n".join(_redis(product)),
        "database": rows,
        "model requests": json.dumps(model.requests, ensure_ascii=False),
        "shown to people": "\n".join(_shown(product)),
    }
    places |= {name: text async for name, text in _operators_pages(product)}
    for command in _COMMANDS:
        places[f"trivet {' '.join(command)}"] = await printed(product, *command)
    return places


def left(product: Product) -> dict[str, str]:
    """What stays when it has ended: its logs, and every file, append-only and write-ahead logs included."""
    files = {
        f"file {path.relative_to(product.data_dir)}": path.read_bytes().decode("utf-8", "replace")
        for path in product.data_dir.rglob("*")
        if path.is_file() and path.name != RAW_FILE
    }
    return {"logs": product.log, **files}


async def printed(product: Product, *command: str) -> str:
    """What `trivet COMMAND` prints, on both of its outputs."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", *command),
        env=clean_environment() | dict(product.settings),
        stdout=PIPE,
        stderr=STDOUT,
    )
    output, _ = await process.communicate()
    return output.decode("utf-8", "replace")


def _shown(product: Product) -> Iterator[str]:
    """Every message of ours as the platforms show it, with the files that came along."""
    for stage in product.stages.values():
        for place in stage.places():
            for said in stage.said(place.id):
                if said.author.is_bot:
                    yield f"{said.text}\n{said.html}"
                    for number in range(len(said.files)):
                        file = stage.file(said.id, place.id, number)
                        yield f"{file.name} {file.media_type} {file.content.decode('utf-8', 'replace')}"


async def _operators_pages(product: Product) -> AsyncIterator[tuple[str, str]]:
    """What the operator sees, and what anybody does."""
    headers = {"Authorization": f"Bearer {product.admin_token}"}
    base = f"http://127.0.0.1:{product.port}"
    async with httpx.AsyncClient(base_url=base, headers=headers, timeout=60) as client:
        for page in (*_OPEN, *_PAGES):
            yield page, (await client.get(page)).raise_for_status().text
        sessions: list[dict[str, Any]] = (await client.get("/api/v1/sessions?limit=500")).json()
        transcripts = [await client.get(f"/api/v1/sessions/{each['id']}/messages?limit=500") for each in sessions]
        yield "transcripts", "\n".join(answer.raise_for_status().text for answer in transcripts)
        turns = {row["turn_id"] for answer in transcripts for row in answer.json() if row["turn_id"]}
        traces = [await client.get(f"/api/v1/trace/{turn}") for turn in sorted(turns)]
        yield "traces", "\n".join(answer.text for answer in traces)
        owners = sorted({each["key"].partition("/")[0] for each in sessions})[:_CONVERSATIONS_MAX]
        exports = [await client.get(f"/api/v1/users/{owner}/export") for owner in owners]
        yield "exports", "\n".join(answer.raise_for_status().text for answer in exports)


def _redis(product: Product) -> Iterator[str]:
    """Every key and value, read past the bus."""
    url = embedded_url(product.data_dir)
    with closing(Redis.from_url(url, protocol=2, decode_responses=True, encoding_errors="replace")) as client:
        yield from rows(client)


def rows(client: Any) -> Iterator[str]:
    """Every key and value of a server."""
    readers = {
        "string": client.get,
        "list": lambda key: client.lrange(key, 0, -1),
        "set": client.smembers,
        "zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        "hash": client.hgetall,
        "stream": client.xrange,
    }
    for key in client.scan_iter(count=1000):
        kind = client.type(key)
        kind = kind.decode() if isinstance(kind, bytes) else kind
        yield f"{key}: {readers[kind](key) if kind in readers else ''}"
