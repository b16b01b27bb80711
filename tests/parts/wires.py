"""A wire between two processes that a test may cut, stop up, half open or slow down.

    async with wire_to(("127.0.0.1", 6379)) as wire:
        wire.port          # connect here
        await wire.cut()   # open connections are reset, new ones refused
        await wire.mend()

It runs in the test's own event loop and knows nothing of what travels on it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

Upstream: TypeAlias = tuple[str, int] | Path
"""Host and port, or the path of a unix socket."""

_LOOPBACK: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 65_536


class Fault(StrEnum):
    """What may be wrong with a wire."""

    NONE = "none"
    CUT = "cut"  # reset, and refused from then on
    STOPPED = "stopped"  # nothing passes; all of it arrives when the wire is mended, as after lost packets
    HALF_OPEN = "half_open"  # what is sent disappears and nobody says so; reset when the wire is mended


class Wire:
    """One listening port in front of one server."""

    def __init__(self, upstream: Upstream, host: str) -> None:
        self._upstream = upstream
        self._host = host
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self.port = 0
        self.fault = Fault.NONE
        self.delay_s = 0.0

    async def open(self) -> None:
        """Listen; after a cut on the same port as before."""
        if self._server is None:
            self._server = await asyncio.start_server(self._connect, self._host, self.port, reuse_address=True)
            self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Reset every connection and refuse new ones."""
        self.fault = Fault.CUT
        await self._stop_listening()
        self._reset()

    def stop(self) -> None:
        """Hold back every byte from now on."""
        self.fault = Fault.STOPPED
        self._flows.clear()

    def half_open(self) -> None:
        """Swallow every byte from now on."""
        self.fault = Fault.HALF_OPEN

    def blink(self) -> None:
        """Reset every connection; new ones pass."""
        self._reset()

    async def mend(self) -> None:
        """As good as new."""
        if self.fault is Fault.HALF_OPEN:
            self._reset()
        self.fault, self.delay_s = Fault.NONE, 0.0
        self._flows.set()
        await self.open()

    async def close(self) -> None:
        """End everything."""
        await self._stop_listening()
        self._reset()
        for pump in list(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _reset(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await self._reach()
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        pumps = [asyncio.create_task(self._pump(*ends)) for ends in ((reader, far_writer), (far_reader, writer))]
        self._pumps.update(pumps)
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in (writer, far_writer):
                end.transport.abort() if self.fault is Fault.CUT else end.close()
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self._pumps -= set(pumps)
            self._writers -= {writer, far_writer}

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._upstream, Path):
            return await asyncio.open_unix_connection(str(self._upstream))
        return await asyncio.open_connection(*self._upstream)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                await self._flows.wait()
                if self.fault is not Fault.HALF_OPEN:
                    writer.write(data)
                    await writer.drain()
        await self._flows.wait()  # the end of a connection travels on the wire, too


@contextlib.asynccontextmanager
async def wire_to(upstream: Upstream, *, host: str = _LOOPBACK) -> AsyncIterator[Wire]:
    """A wire that is open as long as the block, and listens at an address of this machine."""
    wire = Wire(upstream, host)
    await wire.open()
    try:
        yield wire
    finally:
        await wire.close()
