"""Checks of the servers behind us: Redis and the database."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.bus.embedded import find_server
from gateway.bus.inspection import inspect_server
from gateway.config import Settings, database_url, masked_url
from gateway.contracts.errors import SchemaMismatch, TrivetError
from gateway.doctor.findings import Finding, ok, warning, wrong
from gateway.store import open_store

_SQLITE: Final = "sqlite+aiosqlite:///"


async def check_redis(settings: Settings) -> list[Finding]:
    """Does Redis answer, is it new enough, and does it keep what it is given?"""
    if not settings.redis.url:
        return [_check_embedded()]
    try:
        facts = await inspect_server(settings.redis.url)
    except TrivetError as error:
        return [wrong("redis", str(error), "start it or correct redis.url")]
    found = [ok("redis", f"{facts.product} {facts.version} at {masked_url(settings.redis.url)}")]
    if not facts.is_durable:
        found.append(warning("redis", "forgets waiting messages when it ends", "switch on `appendonly yes`"))
    if facts.may_evict:
        found.append(wrong("redis", f"may drop messages ({facts.eviction})", "set `maxmemory-policy noeviction`"))
    return found


def _check_embedded() -> Finding:
    try:
        return ok("redis", f"Trivet's own Valkey, {find_server()}")
    except TrivetError as error:
        return wrong("redis", "no server for redis.url", str(error))


async def check_database(settings: Settings) -> Finding:
    """Does the database answer, and is its schema ours? A file that is not there yet is not made."""
    url = database_url(settings)
    if (path := _absent_file(url)) is not None:
        return ok("database", f"{path}, made at the first start")
    try:
        store = open_store(url)
        try:
            await store.check_schema()
        finally:
            await store.close()
    except SchemaMismatch as error:
        return wrong("database", str(error), "run `trivet migrate`, or use the Trivet that made it")
    except TrivetError as error:
        return wrong("database", str(error), "start it or correct database.url")
    return ok("database", masked_url(url))


def _absent_file(url: str) -> Path | None:
    """The SQLite file of the URL, if it is not there yet."""
    path = Path(url.removeprefix(_SQLITE)).expanduser()
    return path if url.startswith(_SQLITE) and not path.exists() else None
