"""How long a process needs until it is of use, and how much CPU."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
from starlette.types import ASGIApp, Receive, Scope, Send

from channels.emulators.serving import listening
from channels.emulators.telegram import TelegramEmulator
from gateway.bus.bus import open_bus
from gateway.bus.embedded import EmbeddedValkey
from gateway.contracts.access import Projection
from tests.bench.processes import BenchFailed, running
from tests.bench.product import settings
from tests.parts.databases import INSTALLATION

TOKEN: Final = "4242001:AAbenchbenchbenchbenchbenchbenchben"
FIRST_POLL_TIMEOUT_S: Final = 30.0


class PollWatch:
    """An ASGI application that notes when it is first asked for updates, and passes everything on."""

    def __init__(self, app: ASGIApp) -> None:
        self.polled = asyncio.Event()
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if str(scope.get("path", "")).endswith("/getUpdates"):
            self.polled.set()
        await self._app(scope, receive, send)


@dataclass(frozen=True, slots=True)
class Start:
    """How long a start took. The CPU time does not depend on what else the machine does."""

    elapsed_s: float
    cpu_s: float


async def first_poll(others: Mapping[str, Mapping[str, str]]) -> Start:
    """From the start of a channels process to its first getUpdates; `others` are connected at the same time."""
    async with _bus() as (folder, bus_url):
        emulator = TelegramEmulator(token=TOKEN)
        watch = PollWatch(emulator.app)
        async with listening(watch) as port:
            access = {**others, "telegram": {"api_base": f"http://127.0.0.1:{port}", "token": TOKEN}}
            environment = settings(folder, access, {"TRIVET_REDIS__URL": bus_url})
            began_s = asyncio.get_running_loop().time()
            with (folder / "log").open("w+b") as log:
                async with running((sys.executable, "-m", "channels"), environment, folder=folder, log=log) as channels:
                    try:
                        await asyncio.wait_for(watch.polled.wait(), FIRST_POLL_TIMEOUT_S)
                    except TimeoutError:
                        raise BenchFailed(f"channels never polled:\n{(folder / 'log').read_text()}") from None
                    elapsed_s = asyncio.get_running_loop().time() - began_s
                    spent = psutil.Process(channels.pid).cpu_times()
                    await emulator.cut_connections()
                    return Start(elapsed_s, spent.user + spent.system)


@contextlib.asynccontextmanager
async def _bus() -> AsyncIterator[tuple[Path, str]]:
    """A bus that knows whose it is and who may speak, as an agent leaves it; and the directory in which it lives."""
    with tempfile.TemporaryDirectory(prefix="trivet-bench-", ignore_cleanup_errors=True) as name:
        server = EmbeddedValkey(Path(name) / "data")
        url = await server.start()
        bus = await open_bus(url, installation=INSTALLATION)
        await bus.access.project(Projection())
        await bus.close()
        try:
            yield Path(name), url
        finally:
            await server.stop()
