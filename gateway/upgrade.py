"""The state of an installation before a role works on it: the database of this version, and a bus that knows whose it
is."""

from __future__ import annotations

import contextlib

from gateway.bus.bus import open_bus
from gateway.bus.embedded import embedded_url
from gateway.config import Settings, database_url
from gateway.contracts.errors import BusUnavailable, ConfigError, SchemaMismatch
from gateway.limits import BUS_WAIT_S
from gateway.store import open_store
from gateway.tasks import RetryPolicy, retry_until_available


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
    async with open_store(url) as store:
        try:
            await store.check_schema()
        except SchemaMismatch:
            if await store.create_schema():
                return
            from gateway.store.migrations import migrate  # noqa: PLC0415 - as above

            try:
                await migrate(url)
            except SchemaMismatch as error:
                raise ConfigError(str(error)) from error


async def _name_bus(settings: Settings) -> None:
    async with open_store(database_url(settings)) as store:
        await store.check_schema()
        own = await store.installation()
    bus = await open_bus(settings.redis.url or embedded_url(settings.data_dir), installation=own)
    await bus.close()
