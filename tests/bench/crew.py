"""Agent processes on one bus and one database, without supervisor and platforms: hired, watched, killed one by one."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import psutil
from redis.asyncio import Redis

from gateway.bus.bus import open_bus
from gateway.bus.embedded import EmbeddedValkey
from gateway.bus.keys import ShardKeys
from gateway.store import open_store
from tests.bench.databases import DATABASES, Database
from tests.bench.desk import Desk
from tests.bench.processes import BenchFailed, running, tail
from tests.bench.product import settings
from tests.bench.watching import until

HIRE_TIMEOUT_S: Final = 30.0
PLENTY: Final = 1_000_000


class Floor:
    """What can be seen of the lanes from above. Only reads."""

    def __init__(self, url: str) -> None:
        self._redis = Redis.from_url(url)
        self._keys = ShardKeys(0)

    async def workers(self) -> set[int]:
        """Process ids of the workers with a lease."""
        workers: Any = await self._redis.zrange(self._keys.workers, 0, -1)
        return {_pid(worker) for worker in workers}

    async def owners(self) -> dict[str, int]:
        """The process that works on each lane."""
        owned: Any = await self._redis.hgetall(self._keys.own)
        return {lane.decode(): _pid(owner) for lane, owner in owned.items()}

    async def close(self) -> None:
        await self._redis.aclose()


def _pid(worker: bytes) -> int:
    """A worker is called installation:host:process id:something random."""
    return int(worker.split(b":")[-2])


@dataclass(slots=True)
class Crew:
    """`agents` are those alive, oldest first; `desk` is whom they work for."""

    desk: Desk
    floor: Floor
    database: Database
    valkey: psutil.Process
    bus_url: str
    agents: list[Process]
    _environment: Mapping[str, str]
    _log: IO[bytes]
    _exits: contextlib.AsyncExitStack

    async def hire(self, count: int) -> None:
        """Have `count` agents in all. Raises `BenchFailed`."""
        while len(self.agents) < count:
            agent = running((sys.executable, "-m", "agent"), self._environment, log=self._log)
            self.agents.append(await self._exits.enter_async_context(agent))
        wanted = {agent.pid for agent in self.agents}

        async def are_registered() -> bool:
            return wanted <= await self.floor.workers()

        try:
            await until(are_registered, within_s=HIRE_TIMEOUT_S)
        except TimeoutError:
            raise BenchFailed(f"an agent did not start:\n{tail(self._log)}") from None

    def kill(self) -> int:
        """SIGKILL the oldest agent; its process id."""
        agent = self.agents.pop(0)
        agent.kill()
        return agent.pid

    async def dismiss(self) -> None:
        """Everybody finishes what is running and goes, all at once."""
        for agent in self.agents:
            with contextlib.suppress(ProcessLookupError):
                agent.terminate()
        await asyncio.gather(*(agent.wait() for agent in self.agents))
        self.agents.clear()

    def staff(self) -> dict[str, Sequence[psutil.Process]]:
        """Every process by what it does."""
        agents = {f"agent {number}": [psutil.Process(agent.pid)] for number, agent in enumerate(self.agents, 1)}
        return {**agents, "valkey": [self.valkey], "database": self.database.processes(), "feeder": [psutil.Process()]}


@contextlib.asynccontextmanager
async def open_crew(kind: str, **agent: Any) -> AsyncIterator[Crew]:
    """A bus, a database of `kind` and nobody at work yet. `agent` are values of the settings' section of that name."""
    async with contextlib.AsyncExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="trivet-bench-", ignore_cleanup_errors=True))
        folder = Path(name)
        database = await stack.enter_async_context(DATABASES[kind]())
        server = EmbeddedValkey(folder / "data")
        url = await server.start()
        stack.push_async_callback(server.stop)
        assert server.pid is not None
        async with open_store(database.url) as store:
            installation = await store.installation()
        bus = await open_bus(url, installation=installation, queue_messages_max=PLENTY)
        stack.push_async_callback(bus.close)
        floor = Floor(url)
        stack.push_async_callback(floor.close)
        log = stack.enter_context((folder / "log").open("w+b"))
        own = {"TRIVET_REDIS__URL": url, "TRIVET_DATABASE__URL": database.url}
        chosen = {f"TRIVET_AGENT__{key.upper()}": str(value) for key, value in agent.items()}
        environment = settings(folder, {}, {**own, **chosen})
        desk = await stack.enter_async_context(Desk(bus))
        exits = await stack.enter_async_context(contextlib.AsyncExitStack())
        crew = Crew(desk, floor, database, psutil.Process(server.pid), url, [], environment, log, exits)
        yield crew
        await crew.dismiss()
