"""The state of an installation before a role works on it: the database of this version, and a bus that knows whose it
is."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE
from typing import Final

from gateway.bus.bus import open_bus
from gateway.bus.embedded import embedded_url
from gateway.config import Settings, database_url, process_environment
from gateway.contracts.errors import BusUnavailable, ConfigError, SchemaMismatch, StoreUnavailable
from gateway.limits import BUS_WAIT_S
from gateway.process import EXIT_CONFIG, EXIT_OK
from gateway.retry import RetryPolicy, retry_until_available
from gateway.store import open_store

_MIGRATING: Final = "from gateway.store.migrations import main; main()"
_HANDED_ON: Final = ("HOME", "PATH", "PYTHON", "PG", "SSL_", "LD_")
"""How variables begin that Python, asyncpg and TLS read; all others may be keys."""


async def bring_up_to_date(settings: Settings) -> None:
    """Bring the database up to date and tell the bus whose it is; wait for both, BUS_WAIT_S at most. Several processes
    may do so at once. Raises `ConfigError` when the bus is another's, or the database is of a version that cannot be
    brought to ours, so that nobody starts the role again; else as `migrate` does."""
    policy = RetryPolicy(for_s=BUS_WAIT_S)
    await retry_until_available(lambda: _migrate_if_behind(database_url(settings)), policy)
    await retry_until_available(lambda: _name_bus(settings), policy)


async def migrate_and_name(settings: Settings) -> list[str]:
    """Migrate the database and tell a bus that answers whose it is; return the revisions applied, oldest first. A bus
    that does not answer is told by the first agent."""
    from gateway.store.migrations import migrate  # noqa: PLC0415 - start-up: Alembic is needed once in a version

    applied = await migrate(database_url(settings))
    with contextlib.suppress(BusUnavailable):
        await _name_bus(settings)
    return applied


async def _migrate_if_behind(url: str) -> None:
    store = open_store(url)
    try:
        await store.check_schema()
    except SchemaMismatch:
        await _migrate_apart(url)
    finally:
        await store.close()


async def _migrate_apart(url: str) -> None:
    """Migrate in a process of its own: Alembic, and what it loads of every dialect, would stay in this one for good.
    Raises `ConfigError` or `StoreUnavailable` with the sentence in which it ended."""
    environment = {name: value for name, value in process_environment().items() if name.startswith(_HANDED_ON)}
    migrating = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _MIGRATING, stdin=PIPE, stderr=PIPE, env=environment
    )
    _, errors = await migrating.communicate(url.encode())  # no argument: it has a password in it
    if migrating.returncode != EXIT_OK:
        last = errors.decode(errors="replace").rstrip().rpartition("\n")[2].removeprefix("trivet: ")
        last = last or f"the database was not brought up to date: that process ended with {migrating.returncode}"
        raise (ConfigError if migrating.returncode == EXIT_CONFIG else StoreUnavailable)(last)


async def _name_bus(settings: Settings) -> None:
    store = open_store(database_url(settings))
    try:
        await store.check_schema()
        own = await store.installation()
    finally:
        await store.close()
    bus = await open_bus(settings.redis.url or embedded_url(settings.data_dir), installation=own)
    await bus.close()
