"""How a command reaches what a running Trivet keeps: the database itself, and the bus."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from gateway.clock import SystemClock
from gateway.config import Loaded, Settings, database_url
from gateway.contracts.errors import BusUnavailable
from gateway.doorkeeper import Doorkeeper
from gateway.scrub import Scrubber

if TYPE_CHECKING:
    from gateway.store import Store  # its SQLAlchemy would make the start slow

if TYPE_CHECKING:
    from gateway.bus.operator import Operator


@contextlib.asynccontextmanager
async def operator_bus(settings: Settings) -> AsyncIterator[Operator]:
    """The bus, as operators use it."""
    from gateway.bus.bus import open_bus  # noqa: PLC0415 - start-up
    from gateway.bus.embedded import embedded_url  # noqa: PLC0415 - start-up

    bus = await open_bus(settings.redis.url or embedded_url(settings.data_dir))
    try:
        yield bus.operator
    finally:
        await bus.close()


@contextlib.asynccontextmanager
async def checked_store(settings: Settings) -> AsyncIterator[Store]:
    """The database. Raises `SchemaMismatch` for one that is not ours."""
    from gateway.store import open_store  # noqa: PLC0415 - start-up

    store = open_store(database_url(settings), SystemClock())
    try:
        await store.check_schema()
        yield store
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def doorkeeper(loaded: Loaded) -> AsyncIterator[Doorkeeper]:
    """Who decides about people and places. Raises `BusUnavailable` while nothing runs."""
    from gateway.bus.bus import open_bus  # noqa: PLC0415 - start-up
    from gateway.bus.embedded import embedded_url  # noqa: PLC0415 - start-up

    settings, clock = loaded.settings, SystemClock()
    clean = Scrubber(loaded.secrets).scrub
    async with checked_store(settings) as store:
        try:
            installation = await store.installation()
            bus = await open_bus(settings.redis.url or embedded_url(settings.data_dir), installation=installation)
        except BusUnavailable as error:
            raise BusUnavailable(f"{error}; who is let in is told to the bus, so `trivet up` has to run") from error
        try:
            yield Doorkeeper(store.access, bus.access, bus.deliveries, settings.access.policy, clean, clock)
        finally:
            await bus.close()
