"""Checks of the servers behind us: Redis and the database."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from gateway.bus.embedded import embedded_url, find_server
from gateway.bus.inspection import ServerFacts, inspect_bus, refuse_foreign
from gateway.config import Settings, database_url, masked_url
from gateway.config.derived import is_readable_by_others
from gateway.config.kept import REDIS_PASSWORD_FILE
from gateway.contracts.errors import ConfigError, SchemaMismatch, TrivetError
from gateway.doctor.findings import Finding, ok, warning, wrong
from gateway.store import open_store
from gateway.store.foreign import ForeignDatabases

_LOSSES: Final = {
    "everysec": "a power cut, or a crash of the server while its disk is slow, loses up to 2 s of messages that"
    " platforms were told were received (appendfsync everysec)",
    "no": "a power cut loses what the system had not written yet, often 30 s (appendfsync no)",
}
_SQLITE: Final = "sqlite+aiosqlite:///"


async def check_redis(settings: Settings) -> list[Finding]:
    """Does Redis answer, is it new enough, and does it keep what it is given?"""
    if not settings.redis.url:
        return [_check_embedded(settings)]
    try:
        facts = await inspect_bus(settings.redis.url)
    except TrivetError as error:
        return [wrong("redis", str(error), "start it or correct redis.url")]
    found = [ok("redis", f"{facts.arrangement.value} at {masked_url(settings.redis.url)}")]
    for server in facts.servers:
        found += _judge(server, settings.redis.wait_replicas)
    if settings.redis.wait_replicas == 0 and any(server.replicas for server in facts.servers):
        found.append(
            warning("redis", "a failover loses messages that no replica had yet", "set redis.wait_replicas to 1")
        )
    if facts.needs_full_coverage:
        found.append(
            warning("redis", "one lost primary stops the whole Cluster", "set `cluster-require-full-coverage no`")
        )
    return found


def _judge(server: ServerFacts, wait_replicas: int) -> list[Finding]:
    """What one server that holds keys of ours would lose, and when."""
    replicas = f", replicas: {server.replicas}" if server.replicas else ""
    found = [ok("redis", f"{server.product} {server.version} at {server.where}{replicas}")]
    if not server.is_primary:
        found.append(wrong("redis", f"{server.where} is a replica, which takes no writes", "name its primary"))
    if not server.is_durable:
        found.append(warning("redis", "forgets waiting messages when it ends", "switch on `appendonly yes`"))
    elif server.appendfsync not in ("always", ""):
        found.append(warning("redis", _LOSSES.get(server.appendfsync, server.appendfsync), "set `appendfsync always`"))
    if server.is_write_failing:
        found.append(wrong("redis", "cannot write its append-only file", "make room on its disk"))
    if server.may_evict:
        found.append(wrong("redis", f"may drop messages ({server.eviction})", "set `maxmemory-policy noeviction`"))
    if server.replicas < wait_replicas:
        found.append(
            wrong(
                "redis",
                f"{server.replicas} of {wait_replicas} replicas are connected",
                "add some, or lower redis.wait_replicas",
            )
        )
    return found


def _check_embedded(settings: Settings) -> Finding:
    try:
        server = find_server()
    except TrivetError as error:
        return wrong("redis", "no server for redis.url", str(error))
    path = settings.data_dir / REDIS_PASSWORD_FILE
    if path.exists() and is_readable_by_others(path):
        return warning(
            "redis", f"others may read the password of Trivet's own Valkey, {path}", f"run `chmod 600 {path}`"
        )
    kept = f"with its password in {path}" if path.exists() else "which gets a password at its first start"
    return ok("redis", f"Trivet's own Valkey, {server}, {kept}; {settings.redis.memory_mb} MB at most, nothing dropped")


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


async def check_installation(settings: Settings) -> list[Finding]:
    """Do database and bus belong to the same Trivet? Of one that cannot be asked another check tells."""
    own: str | None = None
    if _absent_file(database_url(settings)) is None:
        store = open_store(database_url(settings))
        try:
            own = await store.known_installation()
        except TrivetError:
            return []
        finally:
            await store.close()
    url, named = settings.redis.url or embedded_url(settings.data_dir), ""
    with contextlib.suppress(TrivetError):
        named = (await inspect_bus(url)).installation
    if not named:
        return [
            ok("installation", f"{own}, which Redis is told at the next start" if own else "named at the first start")
        ]
    try:
        refuse_foreign(named, masked_url(url), own or "nobody yet")
    except ConfigError as error:
        seen, _, remedy = str(error).partition(": ")
        return [wrong("installation", seen, remedy)]
    return [ok("installation", named)]


async def check_foreign(settings: Settings) -> list[Finding]:
    """May the users of the databases for db_query only read?"""
    found: list[Finding] = []
    for name, url in settings.tools.database_urls.items():
        try:
            await ForeignDatabases({name: url}).check()
        except ConfigError as error:
            seen, _, remedy = str(error).rpartition(": ")
            found.append(wrong("tools.databases", seen, remedy))
        else:
            found.append(ok("tools.databases", name))
    return found


def _absent_file(url: str) -> Path | None:
    """The SQLite file of the URL, if it is not there yet."""
    path = Path(url.removeprefix(_SQLITE)).expanduser()
    return path if url.startswith(_SQLITE) and not path.exists() else None
